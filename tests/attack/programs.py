"""Generated CXL programs on generated records: both engines agree to the last bit; mutated texts end in diagnostics."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
from hypothesis import strategies as st

from spark_jobs.cxl.syntax import parser
from tests.attack import rounds
from tests.cxl.both_engines import check_agreement, program_of
from tests.cxl.generated_programs import explosions, programs, same_targets
from tests.cxl.generated_records import COLUMNS, EACH_RECORDS, RECORDS

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

_ROOT = Path(__file__).resolve().parents[2]
#: Programs and their records, by what is generated.
_KINDS = {
    "shallow": (programs(1), RECORDS),
    "nested": (programs(2), RECORDS),
    "blocks": (explosions(), EACH_RECORDS),
    "one target": (same_targets(), EACH_RECORDS),
}
#: Programs of a round; generating them one by one would take longer than running them.
_OF_A_ROUND = 20
_EXAMPLES = re.findall(r"^```cxl\n(.*?)^```$", (_ROOT / "docs/cxl.md").read_text(), re.MULTILINE | re.DOTALL)
_PIECES = [
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    '"',
    "=>",
    "::",
    "??",
    "#2024-01-01#",
    "it =>",
    "emit each x in y {",
    "\n",
    "\0",
]


def one(chance: random.Random, folder: Path) -> str:
    """Some programs of one kind, or some mutated texts."""
    kind = chance.choice([*_KINDS, "mutated"])
    if kind == "mutated":
        for _ in range(_OF_A_ROUND):
            _parse(_mutated(chance))
        return kind
    texts, records = _KINDS[kind]

    @hypothesis.seed(chance.getrandbits(64))
    @hypothesis.settings(
        max_examples=_OF_A_ROUND,
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.generate],
    )
    @hypothesis.given(texts, records, st.sampled_from([None, 3]))
    def agree(text: str, found: list[dict[str, Any]], batch_rows: int | None) -> None:
        try:
            program_of(text, COLUMNS)
        except AssertionError as refused:
            hypothesis.assume("CXL type error" not in str(refused))
            raise
        more = {"max_expansion": 3} if kind == "blocks" else {}
        check_agreement(text, COLUMNS, found, batch_rows, **more)

    agree()
    return kind


def _mutated(chance: random.Random) -> str:
    text = chance.choice(_EXAMPLES) if _EXAMPLES else "emit a = 1"
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(text) + 1)
        if chance.random() < 0.5:
            text = text[:at] + chance.choice(_PIECES) + text[at:]
        else:
            text = text[:at] + text[at + chance.randint(1, 12) :]
    return text


def _parse(text: str) -> None:
    parsed = parser.parse(text)
    for problem in parsed.problems:
        start, end = problem.place
        assert 0 <= start <= end <= len(text), (text, problem)
        assert problem.message


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    what = f"{_OF_A_ROUND} programs a round on both engines, or as many mutated texts"
    return rounds.play("programs", what, 500, one, arguments)


if __name__ == "__main__":
    sys.exit(main())
