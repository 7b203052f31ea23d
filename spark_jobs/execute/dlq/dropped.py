"""Dead letters without a file: the first are named in the log, the others are counted by reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_jobs.contract import MERGED
from spark_jobs.execute import logs
from spark_jobs.execute.dlq import buffer, merge

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from spark_jobs.execute.dlq.buffer import ReasonKey
    from spark_jobs.execute.dlq.writer import DlqWriter
    from spark_jobs.execute.report import DlqReport

    #: Stage, category and field.
    Reason = tuple[str, str, str]

#: So many entries are named whose file is not published.
UNPUBLISHED = 20


def log(rows: DlqWriter, reports: Sequence[DlqReport]) -> None:
    """Write the warnings about records that a run has dropped, in the order of the records."""
    left: dict[Reason, int] = {}
    for report in reports:
        for stage, category, field, count in report.dropped:
            key = (stage, category, field)
            left[key] = left.get(key, 0) + count
    for line, reason in _named(rows, reports):
        logs.LOG.warning("%s", line)
        left[reason] -= 1
    for (stage, category, field), count in left.items():
        if count:
            place = f"field '{field}', " if field else ""
            records = "1 more record is" if count == 1 else f"{count} more records are"
            logs.LOG.warning("%s", f"{records} dropped: {place}{stage}, {category}")


def log_unpublished(rows: DlqWriter, reports: Sequence[DlqReport], dead: int) -> None:
    """Write warnings about the first dead letters of a run that has more than it may: it publishes no file of them.

    `dead` is the number of all.
    """
    filed = [each for each in reports if each.path]
    if not filed:
        return  # dead letters without a file are reported anyway
    splits = (min(each.splits[0] for each in filed), max(each.splits[1] for each in filed))
    merged = merge.of_reports(filed, splits)
    left = dead - sum(count for each in reports for *_, count in each.dropped)
    logged = 0
    for part in merged.parts():
        for line, _ in _lines(rows, part.slice(0, UNPUBLISHED - logged), merged.whys):
            logs.LOG.warning("dead letter: %s", line)
            logged += 1
        if logged >= UNPUBLISHED:
            break
    if left > logged:
        more = "1 more dead letter" if left - logged == 1 else f"{left - logged} more dead letters"
        logs.LOG.warning("%s; a run that fails writes no file of them", more)


def _named(rows: DlqWriter, reports: Sequence[DlqReport]) -> list[tuple[str, Reason]]:
    """The first records with their places and what was wrong with them."""
    # Each file has an entry of its first split: what comes after a hundred files comes after a hundred entries.
    first = sorted((entry for entry in reports if entry.dropped_path), key=lambda entry: entry.dropped_splits)
    files = [entry.dropped_path for entry in first[: buffer.NAMED] if entry.dropped_path]
    if not files:
        return []
    found: list[tuple[str, Reason]] = []
    merged = merge.Merged(files, (-1, max(entry.dropped_splits[1] for entry in first)))
    for part in merged.parts():
        some = part.slice(0, buffer.NAMED - len(found))
        found += [(f"dropped {line}", reason) for line, reason in _lines(rows, some, merged.whys)]
        if len(found) >= buffer.NAMED:
            break
    return found


def _lines(rows: DlqWriter, part: pa.Table, whys: Sequence[ReasonKey]) -> Iterator[tuple[str, Reason]]:
    """The log lines about some entries."""
    shown = rows.shown(part, whys)
    texts = (shown.sources, shown.files, shown.details(with_places=True))
    reasons = map(shown.each, ("stage", "category", "field"))
    columns = (column.to_pylist() for column in (*texts, *reasons))
    for source, file, detail, stage, category, field in zip(*columns, strict=True):
        what = "an aggregated row that begins with " if source == MERGED != file else ""
        yield f"{what}{file}, {detail} ({stage}, {category})", (stage, category, field or "")
