"""Whatever is in a file, planning ends in a plan or in diagnostics (bounded; seeds make failures repeatable)."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from spark_jobs import plan
from spark_jobs.plan import pending
from spark_jobs.plan.explain import explain
from tests.plan.pipelines import options

ROOT = Path(__file__).resolve().parents[2]
SEEDS = [
    path.read_bytes()
    for path in sorted([*ROOT.glob("examples/**/*.yaml"), *ROOT.glob("spark_jobs/diagnostics/explain/*.md")])
]
PIECES = [
    *(b"{ } [ ] : ' \" | > ~ \t & * << null true -1 1e999 0x .. $$ {{ %".split(b" ")),
    b"&a ",
    b"*a",
    b"<<: *a",
    b"${GONE}",
    b"\x00",
    b"\xff",
    b"\xe2\x80\xa8",
    b"!!python/object",
    b"---\n",
    b"9" * 40,
    b"type: state",
    b"config:",
    b"$window.lag(1)",
    b"emit each x in y {",
]


def yaml_of(seed: bytes) -> bytes:
    """The pipeline of an explain page, or the file itself."""
    blocks = re.findall(rb"^```yaml\n(.*?)^```$", seed, re.MULTILINE | re.DOTALL)
    return blocks[0] if blocks else seed


def mutate(chance: random.Random, text: bytes) -> bytes:
    """The text with a few changes: pieces put in, stretches cut out, lines swapped and doubled, words exchanged."""
    for _ in range(chance.randint(1, 5)):
        at = chance.randrange(len(text) + 1)
        lines = text.split(b"\n")
        match chance.randrange(5):
            case 0:
                text = text[:at] + chance.choice(PIECES) + text[at:]
            case 1:
                text = text[:at] + text[at + chance.randint(1, 20) :]
            case 2:
                first, second = chance.randrange(len(lines)), chance.randrange(len(lines))
                lines[first], lines[second] = lines[second], lines[first]
                text = b"\n".join(lines)
            case 3:
                lines.insert(chance.randrange(len(lines) + 1), chance.choice(lines))
                text = b"\n".join(lines)
            case _:
                words = list(re.finditer(rb"\w+", text)) or [re.match(rb"", text)]
                one, other = chance.choice(words), chance.choice(words)
                assert one is not None
                assert other is not None
                text = text[: one.start()] + other.group() + text[one.end() :]
    return text


@pytest.mark.parametrize("number", range(8))
def test_mutated_files_end_in_diagnostics(number: int, tmp_path: Path) -> None:
    chance = random.Random(number)
    path = tmp_path / "pipeline.yaml"
    for _ in range(40):
        path.write_bytes(mutate(chance, yaml_of(chance.choice(SEEDS))))
        items = plan.validate(path, options=options())
        assert all(str(item) for item in items)
        if not any(item.is_error for item in items):
            read = plan.load(path, options())
            assert explain.text(read)
            assert explain.as_json(read)
            assert explain.dot(read)
            pending.pending(read)
