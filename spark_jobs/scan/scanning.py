"""How files of each format are planned, read and counted, by the format's name in pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_jobs.formats.format import Reading
from spark_jobs.formats.json.members import ArrayPath
from spark_jobs.formats.options import JsonLayout
from spark_jobs.scan import columns, json_columns, reading, splits
from spark_jobs.scan.columns import OnUnmapped
from spark_jobs.scan.reading import SplitOutcome

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from spark_jobs.formats.format import Block
    from spark_jobs.scan.columns import FilePlan, ScanPlan
    from spark_jobs.scan.files import InputFile
    from spark_jobs.scan.json_columns import Search
    from spark_jobs.scan.splits import Split

#: An entry of `array_paths` in plain form: the path, whether it is exploded, the separator of joined elements.
PlainArrayPath = tuple[str, bool, str]


def plan(
    name: str,
    declared: Sequence[str],
    inputs: Iterable[InputFile],
    options: Any,
    on_unmapped: OnUnmapped = OnUnmapped.AUTO_WIDEN,
    arrays: Sequence[PlainArrayPath] = (),
    search: Search = json_columns.search_here,
    renamed: Collection[str] = (),
) -> ScanPlan:
    """Match the columns of a source's files with the declared ones.

    Args:
        name: the format.
        declared: what the declared columns are called in the files, in order.
        inputs: the files in reading order.
        options: the format's option dataclass from `formats/options.py`.
        on_unmapped: what becomes of undeclared columns.
        arrays: arrays to explode or join, in formats that have them.
        search: looks for the names that only records tell.
        renamed: declared columns that have another name in the files, which no undeclared one may have.

    Raises:
        FormatError: a file cannot be read, or its columns are refused.
        KeyError: the format is not read.
    """
    match name:
        case "csv":
            found = columns.plan_csv(declared, inputs, options, on_unmapped)
        case "json":
            found = json_columns.plan_json(declared, inputs, options, on_unmapped, _array_paths(arrays), search)
        case _:
            raise KeyError(name)
    columns.refuse_taken(found, renamed)
    return found


def read(
    name: str,
    split: Split,
    file_plan: FilePlan,
    options: Any,
    wanted: Reading,
    outcome: SplitOutcome,
    arrays: Sequence[PlainArrayPath] = (),
) -> Iterator[Block]:
    """The blocks of a split of a file; `outcome` is complete once all blocks were taken.

    Raises:
        FormatError: the file cannot be opened, or its container is broken.
        KeyError: the format is not read.
    """
    match name:
        case "csv":
            blocks = reading.read_csv(split, file_plan, options, wanted, outcome)
        case "json":
            blocks = reading.read_json(split, file_plan, options, wanted, outcome, _array_paths(arrays))
        case _:
            raise KeyError(name)
    most = file_plan.file.most_records
    return blocks if most is None else _first(blocks, most, outcome)


def _first(blocks: Iterator[Block], most: int, outcome: SplitOutcome) -> Iterator[Block]:
    """The first records of a file that counts for no more of them."""
    for block in blocks:
        is_last = block.first_row + block.count >= most
        outcome.records = min(outcome.records, most)
        yield block.until(most)
        if is_last:
            return


def count(
    name: str,
    split: Split,
    file_plan: FilePlan,
    options: Any,
    outcome: SplitOutcome,
    arrays: Sequence[PlainArrayPath] = (),
) -> None:
    """Count the records of a split without converting them; only `outcome` is filled in.

    Raises:
        FormatError: the file cannot be opened, or its container is broken.
        KeyError: the format is not read.
    """
    if name == "csv" or (file_plan.layout is JsonLayout.NDJSON and not arrays):
        count_here = reading.count_csv if name == "csv" else reading.count_lines
        count_here(split, file_plan, options, outcome)
        if file_plan.file.most_records is not None:
            outcome.records = min(outcome.records, file_plan.file.most_records)
        return
    for _ in read(name, split, file_plan, options, Reading(()), outcome, arrays):
        # The blocks themselves are not wanted: reading them on counts the records.
        continue


def records_of(name: str, file: InputFile, options: Any, arrays: Sequence[PlainArrayPath] = ()) -> int:
    """How many records a file has, good and bad.

    Raises:
        FormatError: the file cannot be opened, or its container is broken.
        KeyError: the format is not read.
    """
    scan = plan(name, (), [file], options, OnUnmapped.DROP, arrays)
    found = 0
    for split in splits.plan(scan.files, max(file.size, 1)):
        outcome = SplitOutcome()
        count(name, split, scan.files[split.file], options, outcome, arrays)
        found += outcome.records
    return found


def _array_paths(arrays: Sequence[PlainArrayPath]) -> tuple[ArrayPath, ...]:
    return tuple(ArrayPath(*entry) for entry in arrays)
