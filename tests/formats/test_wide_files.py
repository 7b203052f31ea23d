"""Files of very many columns, most of which most records do not have."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.cxl import types
from spark_jobs.formats import registry, splits
from spark_jobs.formats.columns import OnUnmapped
from spark_jobs.formats.format import BLOCK_BYTES, Reading
from spark_jobs.formats.json.options import JsonLayout
from spark_jobs.formats.reading import SplitOutcome
from spark_jobs.limits import FILE_COLUMNS
from spark_jobs.scan import files
from spark_jobs.scan.files import FormatError
from tests.formats.csv.files import Result, source_columns

if TYPE_CHECKING:
    from pathlib import Path

DECLARED = source_columns({"c0": types.STRING})
ARRAY = {"format": JsonLayout.ARRAY}
DOCUMENT = {"record_path": "rows"}
ELEMENTS = {"record_path": "r/o"}


def members(names: range) -> str:
    return json.dumps({f"c{number}": "v" for number in names})


def element(names: range) -> str:
    return f"<o>{''.join(f'<c{number}>v</c{number}>' for number in names)}</o>"


def attributes(names: range) -> str:
    written = " ".join(f"c{number}='v'" for number in names)
    return f"<o {written}/>"


def csv(count: int) -> str:
    return ",".join(f"c{number}" for number in range(count)) + "\n"


WIDE: list[tuple[str, str, dict[str, Any], str]] = [
    ("csv", "a header", {}, csv(FILE_COLUMNS + 1)),
    ("json", "a line", {}, members(range(FILE_COLUMNS + 2))),
    ("json", "lines", {}, "\n".join(members(range(at, at + 1)) for at in range(FILE_COLUMNS + 2))),
    ("json", "an array", ARRAY, f"[{','.join(members(range(at, at + 1)) for at in range(FILE_COLUMNS + 2))}]"),
    ("json", "a document", DOCUMENT, f'{{"rows":[{members(range(FILE_COLUMNS + 2))}]}}'),
    ("xml", "an element", ELEMENTS, f"<r>{element(range(FILE_COLUMNS + 2))}</r>"),
    ("xml", "elements", ELEMENTS, f"<r>{''.join(element(range(at, at + 1)) for at in range(FILE_COLUMNS + 2))}</r>"),
    ("xml", "attributes", ELEMENTS, f"<r>{attributes(range(FILE_COLUMNS + 2))}</r>"),
]


@pytest.mark.parametrize(("name", "what", "options", "text"), WIDE, ids=[f"{one[0]} {one[1]}" for one in WIDE])
def test_a_file_of_too_many_columns_is_refused(
    tmp_path: Path, name: str, what: str, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(FormatError, match="more than 16,384 columns") as refused:
        plan(tmp_path, name, options, text)
    assert (refused.value.path, refused.value.code) == ("in", "E217")


def test_delimiters_in_quotes_make_no_columns(tmp_path: Path) -> None:
    text = 'c0,"' + "," * FILE_COLUMNS + '"\n1,2\n'
    assert plan(tmp_path, "csv", {}, text)[1].undeclared == ("," * FILE_COLUMNS,)


def test_a_record_of_too_many_fields_names_no_columns(tmp_path: Path) -> None:
    text = "," * FILE_COLUMNS + "\n1,2\n"
    reader, scan = plan(tmp_path, "csv", {"has_header": False}, text)
    assert scan.undeclared == ("col_1",)
    result = read(reader, scan, BLOCK_BYTES)
    assert [row["c0"] for row in result.records] == ["1"]
    assert [failed[3] for failed in result.failures] == ["malformed_record"]


#: Four records of five have one column of many, the others all of them.
MANY = 60
SPARSE = [range(at, at + 1) if at % 5 else range(MANY) for at in range(MANY)]
NARROW: list[tuple[str, dict[str, Any], str]] = [
    ("json", {}, "\n".join(members(names) for names in SPARSE)),
    ("json", ARRAY, f"[{','.join(members(names) for names in SPARSE)}]"),
    (
        "json",
        ARRAY,
        "[" + " ,\n".join(members(names) + ("" if at % 3 else " ") for at, names in enumerate(SPARSE)) + "]",
    ),
    ("json", DOCUMENT, f'{{"rows":[{",".join(members(names) for names in SPARSE)}]}}'),
    ("xml", ELEMENTS, f"<r>{''.join(element(names) for names in SPARSE)}</r>"),
]


@pytest.mark.parametrize(("name", "options", "text"), NARROW)
def test_records_without_most_columns_come_in_blocks_of_few(
    tmp_path: Path, name: str, options: dict[str, Any], text: str
) -> None:
    reader, scan = plan(tmp_path, name, options, text)
    assert scan.undeclared == tuple(f"c{number}" for number in range(1, MANY))
    expected = [{key: values.get(key) for key in columns()} for values in map(values_of, SPARSE)]
    for size in (BLOCK_BYTES, 1600):
        result = read(reader, scan, size)
        assert [plain(row) for row in result.records] == expected
        assert not result.failures
        if size < BLOCK_BYTES:
            assert result.blocks >= 4


def columns() -> list[str]:
    return ["c0", *(f"$widened.c{number}" for number in range(1, MANY))]


def values_of(names: range) -> dict[str, str]:
    return {f"$widened.c{number}" if number else "c0": "v" for number in names}


def plain(row: dict[str, Any]) -> dict[str, Any]:
    return {key: "v" if value is not None and "v" in value else value for key, value in row.items()}


def plan(tmp_path: Path, name: str, options: dict[str, Any], text: str) -> Any:
    (tmp_path / "in").write_text(text)
    known = registry.named(name)
    reader = known.reader(known.read_options(**options))
    file = files.describe(str(tmp_path / "in"), "in")
    return reader, reader.plan([column.key for column in DECLARED], [file], OnUnmapped.AUTO_WIDEN)


def read(reader: Any, scan: Any, block_bytes: int) -> Result:
    wanted = Reading(DECLARED, scan.undeclared, block_bytes=block_bytes)
    result = Result()
    for split in splits.plan(scan.files, 1 << 30):
        for block in reader.read(split, scan.files[split.file], wanted, SplitOutcome()):
            assert block.count * len(columns()) <= max(block_bytes, 4096) * 60
            result.add(block, 0)
    return result
