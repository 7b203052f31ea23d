"""Why records died, as a run's summary and a scheduler's log say it. Standard library only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spark_jobs.result import RunResult


def lines(record: RunResult) -> list[str]:
    """The lines for people: each reason with its first record, the commonest first; none where there is no reason."""
    return [text for text, _ in lines_with_figures(record)]


def lines_with_figures(record: RunResult) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The lines with the figures of each, which are empty for lines that only continue the one before."""
    if not record.dlq_reasons and not record.dlq_reasons_more:
        return
    yield "  reasons:", {}
    # A record of another version of the engine may lack keys.
    width = 2 + max((len(str(each.get("count", 0))) for each in record.dlq_reasons), default=1)
    for each in record.dlq_reasons:
        field = f", field '{each['field']}'" if each.get("field") else ""
        category = f", {each['category']}" if each.get("category") else ""
        text = f"  {each.get('count', 0):>{width}}  {each.get('stage', '')}{field}{category}"
        yield text, {"event": "reason", **each}
        if each.get("example"):
            yield f"  {'':>{width}}  {_example(each['example'])}", {}
    if record.dlq_reasons_more:
        more = "1 more reason" if record.dlq_reasons_more == 1 else f"{record.dlq_reasons_more} more reasons"
        facts = {"reasons": record.dlq_reasons_more, "count": record.dlq_reasons_more_count}
        yield f"  {record.dlq_reasons_more_count:>{width}}  {more}", {"event": "more_reasons", **facts}


def _example(example: Mapping[str, Any]) -> str:
    """An example of a reason: the place of a record, and its problem."""
    made = "an aggregated row that begins with " if example.get("is_aggregated") and example.get("row") else ""
    row = f", row {example['row']}" if example.get("row") else ""
    value, detail = example.get("value"), str(example.get("detail", ""))
    shown = f" (value '{value}')" if value is not None and str(value) not in detail else ""
    return f"{made}{example.get('file', '')}{row}: {detail}{shown}"
