"""`clinker dlq show`: the dead letters of a file by reason, with samples of their records."""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from spark_jobs import credentials
from spark_jobs.cli import clinker_toml
from spark_jobs.cli.dlq import opening
from spark_jobs.contract import ExitCode
from spark_jobs.diagnostics.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spark_jobs.execute.dlq.work_list import Entry, EntryFilter, WorkList

#: The categories of records whose text is all that is known of them.
_UNREAD = "malformed_record"
_MOST_CELL = 60


def main(file: str, wanted: EntryFilter, *, samples: int, as_json: bool) -> int:
    """Show a file; exit 1 when it is no dead-letter file, 4 when it cannot be read.

    Args:
        file: the dead-letter file.
        wanted: which of its entries.
        samples: how many records for each reason.
        as_json: how they are shown.
    """
    found = opening.opened("show", file, clinker_toml.stores())
    if isinstance(found, int):
        return found
    entries = [entry for entry in found.entries if wanted.takes(entry)]
    if as_json:
        sys.stdout.write(json.dumps(_document(found, entries, samples), ensure_ascii=False, indent=2) + "\n")
    else:
        sys.stdout.write("".join(f"{line}\n" for line in _lines(found, entries, samples)))
    return ExitCode.SUCCESS


def _groups(entries: list[Entry]) -> list[tuple[tuple[str, str, str], list[Entry]]]:
    """The entries by reason, the most frequent first."""
    groups: dict[tuple[str, str, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.reason, []).append(entry)
    return sorted(groups.items(), key=lambda group: -len(group[1]))


def _lines(found: WorkList, entries: list[Entry], samples: int) -> Iterator[str]:
    groups, joined = _groups(entries), _joined(found, entries)
    joined_ids = {entry.id for mine in joined.values() for entry in mine}
    counted = f"{opening.letters(len(entries))}, {len(groups)} {'reason' if len(groups) == 1 else 'reasons'}"
    yield f"{printable(str(found.path))}: {counted}"
    for (stage, field, category), mine in groups:
        named = [stage, f"field '{field}'" if field else "", category]
        yield ""
        causes = [entry for entry in mine if entry.id not in joined_ids]
        if len(causes) < len(mine):
            named.append(f"{_records(len(causes))} and {_records(len(mine) - len(causes))} joined to them")
        yield f"{len(mine):>7}  {printable(', '.join(part for part in named if part))}"
        for entry in causes[:samples]:
            yield from (f"         {line}" for line in _sample(entry))
            yield from (f"           {line}" for line in _with(joined.get(entry.id, ()), samples))
        if len(causes) > samples:
            yield f"         and {len(causes) - samples} more"
    if found.events:
        yield ""
        events = ", ".join(f"{count} {name}" for name, count in sorted(found.events.items()))
        yield f"done so far: {events} (see {printable(str(found.ledger))})"
    yield from opening.left_out(found)
    if entries:
        path = printable(str(found.path))
        yield ""
        yield f"next: mend cells in {path} or the pipeline, then `clinker dlq replay PIPELINE {path}`"
        yield "      (mend the record's own columns: those that begin with `_cxl_` only say what was wrong);"
        yield f"      or give up: `clinker dlq discard {path} --reason TEXT --id ID`"


def _joined(found: WorkList, entries: list[Entry]) -> dict[str, list[Entry]]:
    """The entries of build records that a combine refused with a driver's record, by the id of that one's entry."""
    drivers, shown = found.drivers(), {entry.id for entry in entries}
    joined: dict[str, list[Entry]] = {}
    for entry in entries:
        driver = drivers.get(entry.id)
        if driver is not None and driver.id in shown:
            joined.setdefault(driver.id, []).append(entry)
    return joined


def _with(joined: Sequence[Entry], samples: int) -> Iterator[str]:
    """The records that a combine had joined to one."""
    for entry in joined[:samples]:
        cells = "  ".join(f"{printable(name)}={printable(_cut(cell))}" for name, cell in _record(entry).items() if cell)
        yield printable(f"joined to it: {entry.file}, row {entry.row}") + (f": {cells}" if cells else "")
    if len(joined) > samples:
        yield f"and {len(joined) - samples} more joined to it"


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count} records"


def _sample(entry: Entry) -> Iterator[str]:
    """The place of a record, the reason of its failure, and the record as it was read."""
    row = f", row {entry.row}" if entry.row else ""
    tries = f" (failed {entry.tries} times)" if entry.tries > 1 else ""
    yield printable(f"{entry.file}{row}: {_detail(entry)}{tries}")
    yield f"  id {printable(entry.id)}"
    record = _record(entry)
    if any(record.values()):
        yield "  " + "  ".join(f"{printable(name)}={printable(_cut(cell))}" for name, cell in record.items() if cell)
    elif entry.category == _UNREAD and entry.value:
        yield f"  {printable(_cut(_value(entry), 200))}"


def _detail(entry: Entry) -> str:
    """The reason of a failure without secrets, and without the place, which is shown already."""
    text = entry.detail.removeprefix(f"row {entry.row}: ")
    if credentials.is_secret(entry.field) and entry.value:
        return text.replace(entry.value, credentials.HIDDEN)
    return text


def _value(entry: Entry) -> str:
    hidden = credentials.is_secret(entry.field) or (
        entry.category == _UNREAD and any(map(credentials.is_secret, entry.record))
    )
    return credentials.HIDDEN if hidden and entry.value else entry.value


def _record(entry: Entry) -> dict[str, str]:
    return {
        name: credentials.HIDDEN if cell and credentials.is_secret(name) else cell
        for name, cell in entry.record.items()
    }


def _cut(text: str, most: int = _MOST_CELL) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _document(found: WorkList, entries: list[Entry], samples: int) -> Mapping[str, Any]:
    joined = _joined(found, entries)
    joined_ids = {entry.id for mine in joined.values() for entry in mine}
    return {
        "file": str(found.path),
        "count": len(entries),
        "tries": dict(sorted(Counter(str(entry.tries) for entry in entries).items())),
        "reasons": [
            {
                "stage": stage,
                "field": field,
                "category": category,
                "count": len(mine),
                "samples": [
                    _sampled(entry) | {"joined": [_sampled(each) for each in joined.get(entry.id, ())[:samples]]}
                    for entry in [each for each in mine if each.id not in joined_ids][:samples]
                ],
            }
            for (stage, field, category), mine in _groups(entries)
        ],
        "ledger": dict(sorted(found.events.items())),
    }


def _sampled(entry: Entry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "source": entry.source,
        "file": entry.file,
        "row": int(entry.row) if entry.row.isdigit() else None,
        "value": _value(entry),
        "detail": _detail(entry),
        "tries": entry.tries,
        "record": _record(entry),
    }
