"""Writes `docs/terminal.md`: what long runs, failing runs, replays and tests show on terminals and in pipes.

    python -m docs.captures            # needs tmux and Java; some minutes

Terminals are panes of tmux of 80 and of 200 columns, and one with `TERM=dumb`. Forms that show the same are one block.
`tests/test_captures.py` runs the commands without Spark and without a terminal, and compares all but figures.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parent / "terminal.md"
_ROWS = 4_000_000
#: How long a command may take, and how often its pane is looked at.
_PATIENCE_S, _LOOK_S = 900.0, 0.2
_PROMPT = "$ "
_NUMBERS = itertools.count()
_PERCENT = re.compile(r"\(\d+%\)")

_PIPELINE = """\
pipeline: { name: sales }
nodes:
  - type: source
    name: orders
    config:
      type: csv
      path: orders.csv
      schema: { id: int, day: date, region: string, price: float }
  - type: transform
    name: priced
    input: orders
    config: { cxl: emit gross = (price * 1.2).round(2) }
  - type: output
    name: priced_orders
    input: priced
    config: { type: csv, path: out/priced.csv }
error_handling: { strategy: continue, dlq: { path: out/rejected.csv } }
"""
_CASES = """\
pipeline: pipeline.yaml
cases:
  - name: taxes are added
    given: { orders: [{ id: 1, price: 10.0 }] }
    expect: { priced_orders: { partial: true, rows: [{ id: 1, gross: 12.0 }] } }
  - name: halves are rounded up
    given: { orders: [{ id: 2, price: 0.04 }] }
    expect: { priced_orders: { partial: true, rows: [{ id: 2, gross: 0.04 }] } }
"""
#: Rows that fail, by their numbers.
_BAD = {7: "7,05.03.2026,south,4.50", 12: "12,2026-03-05,north,n/a", 20: "20,2026-03-06,south,12;75"}
#: It fits into 80 columns: a dumb terminal shows no longer line whole.
_MEND = "sed -i 's/05.03.2026/2026-03-05/g' out/rejected.csv"


@dataclass(frozen=True)
class Scene:
    """Something that is shown.

    Args:
        title: what it is called in the page.
        words: what is said of it.
        commands: what is typed.
        is_long: whether it is also shown while it works.
        writes: the folder that its commands make, which is removed before.
    """

    title: str
    words: str
    commands: tuple[str, ...]
    is_long: bool = False
    writes: str = ""


SCENES = (
    Scene(
        "A long run",
        "A terminal shows one line while a run works, and replaces the line with the summary. A dumb terminal or a "
        "pipe gets such a line in the log now and then, if the run takes longer than 15 seconds.",
        ("clinker run pipeline.yaml",),
        is_long=True,
        writes="out",
    ),
    Scene(
        "A run that fails",
        "Under `fail_fast` the first record that fails ends the run, and nothing is published.",
        ("clinker run strict.yaml",),
        writes="strict",
    ),
    Scene(
        "Dead letters, mended and replayed",
        "The first command shows three dead letters. The second mends one of them, and the third replays all; two fail "
        "again.",
        (
            "clinker dlq show out/rejected.csv --samples 1",
            _MEND,
            "clinker dlq replay pipeline.yaml out/rejected.csv",
        ),
    ),
    Scene("Tests of a pipeline", "A failure names the lines of the case and of its assertion.", ("clinker test",)),
)


def prepare(folder: Path, rows: int) -> None:
    """Write the files of all scenes.

    Args:
        folder: an empty folder.
        rows: the records of the source, 20 at least.
    """
    (folder / "pipeline.yaml").write_text(_PIPELINE, encoding="utf-8")
    strict = _PIPELINE.replace("strategy: continue", "strategy: fail_fast").replace("out/", "strict/")
    (folder / "strict.yaml").write_text(strict, encoding="utf-8")
    (folder / "pipeline.test.yaml").write_text(_CASES, encoding="utf-8")
    with (folder / "orders.csv").open("w", encoding="utf-8") as file:
        file.write("id,day,region,price\n")
        for number in range(1, rows + 1):
            row = _BAD.get(number, f"{number},2026-03-{number % 28 + 1:02d},north,{number % 97}.25")
            file.write(row + "\n")


def masked(text: str) -> str:
    r"""A text without figures, ids, lines of progress, and white space.

    Panes wrap lines, and columns are as wide as their figures.

    >>> masked("12 read,\n  3 dlq") == masked("1 read, 2 dlq")
    True
    """
    lines = [line for line in text.splitlines() if not re.search(r"\[\d+ (s|min .*)\]$", line)]
    plain = re.sub(r"\s", "", "".join(lines))
    return re.sub(r"\d[\d.,]*", "N", re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "ID", plain))


def shown(page: str) -> dict[str, list[tuple[str, str]]]:
    """The blocks of the page by the title of their scene, each with the forms that it is for."""
    found: dict[str, list[tuple[str, str]]] = {}
    for section in page.split("\n## ")[1:]:
        title = section.partition("\n")[0]
        found[title] = re.findall(r"^\*\*([^*\n]+)\*\*\n\n```text\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    return found


# ---- terminals -----------------------------------------------------------------------------------


class _Terminal:
    """A pane of tmux with a shell."""

    def __init__(self, folder: Path, columns: int, kind: str) -> None:
        # A server that is ending takes no new session, so each terminal has its own.
        self._socket = f"clinker-captures-{os.getpid()}-{next(_NUMBERS)}"
        settings = folder / ".shell"
        settings.write_text(f"PS1='{_PROMPT}'\n" + (f"export TERM={kind}\n" if kind else ""), encoding="utf-8")
        size = ("-x", str(columns), "-y", "50")
        self._tmux("new-session", "-d", *size, "-c", str(folder), f"bash --noprofile --rcfile {settings} -i")
        self._wait(1)

    def _tmux(self, *words: str) -> str:
        command = ["tmux", "-L", self._socket, "-f", "/dev/null", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def text(self) -> str:
        """What stands in the pane, wrapped as it is there."""
        return self._tmux("capture-pane", "-p", "-S", "-").rstrip("\n ")

    def _wait(self, prompts: int, watched: re.Pattern[str] | None = None) -> str | None:
        """Wait for so many prompts; gives the last text before that in which something was to be seen."""
        seen = None
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            text = self.text()
            lines = text.splitlines()
            if sum(line.startswith(_PROMPT.rstrip()) for line in lines) >= prompts and lines[-1] == _PROMPT.rstrip():
                return seen
            if watched is not None and watched.search(text):
                seen = text
            time.sleep(_LOOK_S)
        raise TimeoutError(self.text())

    def play(self, scene: Scene) -> tuple[str | None, str]:
        """What is shown on the way, where anything is, and in the end."""
        on_the_way = None
        for number, command in enumerate(scene.commands, 1):
            self._tmux("send-keys", "-l", command)
            self._tmux("send-keys", "Enter")
            on_the_way = self._wait(number + 1, _PERCENT if scene.is_long else None) or on_the_way
        return on_the_way, self.text().removesuffix(_PROMPT.rstrip()).rstrip("\n") + "\n"

    def close(self) -> None:
        """End the shell."""
        self._tmux("kill-server")


def _piped(folder: Path, scene: Scene) -> str:
    parts = []
    for command in scene.commands:
        done = subprocess.run(
            command, shell=True, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        parts.append(f"{_PROMPT}{command}\n{done.stdout}")
    return "".join(parts)


def _played(folder: Path, scene: Scene, form: str) -> dict[str, str]:
    """What a scene shows in a form, by what the block is called."""
    if scene.writes:
        shutil.rmtree(folder / scene.writes, ignore_errors=True)
    if form == "a pipe":
        return {form: _piped(folder, scene)}
    columns, kind = {"80 columns": (80, ""), "200 columns": (200, ""), "a dumb terminal": (80, "dumb")}[form]
    terminal = _Terminal(folder, columns, kind)
    try:
        on_the_way, text = terminal.play(scene)
    finally:
        terminal.close()
    return ({f"{form}, on the way": _begun(on_the_way)} if on_the_way else {}) | {form: text}


def _begun(text: str) -> str:
    """A text up to its last line of progress: where lines stay, the end of the run may stand below it."""
    lines = text.splitlines()
    last = max(number for number, line in enumerate(lines) if _PERCENT.search(line))
    return "\n".join(lines[: last + 1]) + "\n"


def _blocks(folder: Path, scene: Scene) -> dict[str, str]:
    """The blocks of a scene by the forms they are for; forms that show the same text share one."""
    blocks: dict[str, list[str]] = {}
    kept = folder / "kept"
    if "dlq" in scene.commands[0]:
        shutil.copytree(folder / "out", kept)
    for form in ("80 columns", "200 columns", "a dumb terminal", "a pipe"):
        if kept.exists():
            shutil.rmtree(folder / "out")
            shutil.copytree(kept, folder / "out")
        for name, text in _played(folder, scene, form).items():
            plain = text.replace(str(folder), "/data")
            known = next((one for one in blocks if masked(one) == masked(plain) and "way" not in name), plain)
            blocks.setdefault(known, []).append(name)
    return {", ".join(names): text for text, names in blocks.items()}


def _page(folder: Path, rows: int) -> str:
    prepare(folder, rows)
    parts = [
        "# Terminal output\n\n<!-- Written by docs/captures.py with tmux; change that. -->\n",
        "This page shows what commands print on a terminal: a long run, a run that fails, a replay and tests. They run "
        f"in a folder with these files and an `orders.csv` of {rows:,} records, three of which fail.\n",
        f"```yaml\n# pipeline.yaml\n{_PIPELINE}```\n",
        f"```yaml\n# pipeline.test.yaml\n{_CASES}```\n",
    ]
    for scene in SCENES:
        parts.append(f"## {scene.title}\n\n{scene.words}\n")
        parts += [f"**{forms}**\n\n```text\n{text}```\n" for forms, text in _blocks(folder, scene).items()]
    return "\n".join(parts)


def main() -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=_ROWS, help=f"records of the source ({_ROWS})")
    asked = parser.parse_args()
    if shutil.which("tmux") is None:
        sys.stderr.write("tmux is missing: install it with the system's packages\n")
        return 1
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory(prefix="clinker-captures-") as name:
        PAGE.write_text(_page(Path(name), asked.rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
