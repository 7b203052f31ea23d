"""Measures the commands of a pipeline's author beside the start of PySpark in the same run.

    python benchmarks/workbench.py --runs 5 --page docs/performance.md

Measures the processor time of `clinker validate` and `clinker preview`, of `clinker test` with 200 cases, and of the
answers of the language server on a pipeline of 100 nodes. The yardstick is `python -c 'import pyspark'`. Figures are
medians; with `--page`, the table between the marks of the page is replaced.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

_REPOSITORY = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    # This file is run as a script: its package is found from here.
    sys.path.insert(0, str(_REPOSITORY))

from benchmarks import measure  # noqa: E402 - after the path

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_LIMIT_S = 300.0
_CLINKER = (sys.executable, "-m", "spark_jobs")
YARDSTICK = "python -c 'import pyspark'"
_BEGIN = "<!-- measured by `benchmarks/workbench.py`: begin -->\n"
_END = "<!-- measured by `benchmarks/workbench.py`: end -->\n"


def main() -> int:
    """Measure, and print or write the table."""
    parser = argparse.ArgumentParser(description="Measure what people wait for while they write pipelines.")
    parser.add_argument("--runs", type=int, default=5, help="rounds of which the median counts (default 5)")
    parser.add_argument("--nodes", type=int, default=100, help="nodes of the large pipeline (default 100)")
    parser.add_argument("--cases", type=int, default=200, help="cases of `clinker test` (default 200)")
    parser.add_argument("--page", type=Path, help="the page whose table is replaced")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measured(Path(folder), arguments.runs, arguments.nodes, arguments.cases)
    text = "\n".join(table(found))
    print(text)
    if arguments.page is not None:
        arguments.page.write_text(with_table(arguments.page.read_text(), text))
    return 0


def measured(folder: Path, rounds: int, nodes: int, cases: int) -> dict[str, float]:
    """The processor seconds of everything that is measured, the yardstick first.

    Args:
        folder: an empty folder for files.
        rounds: how often each is measured, in turns; the median counts.
        nodes: the number of nodes of the large pipeline.
        cases: the number of cases of `clinker test`.

    Raises:
        measure.Failed: something that is measured failed.
    """
    write(folder, nodes, cases)
    commands = {
        YARDSTICK: [sys.executable, "-c", "import pyspark"],
        "`clinker validate`, 3 nodes": [*_CLINKER, "validate", "small.yaml"],
        f"`clinker validate`, {nodes} nodes": [*_CLINKER, "validate", "large.yaml"],
        "`clinker preview`, 1,000 records": [*_CLINKER, "preview", "small.yaml", "t"],
        f"`clinker test`, {cases} cases": [*_CLINKER, "test", "small.test.yaml"],
    }
    environment = {"PYTHONPATH": str(_REPOSITORY), "CLINKER_KEEP_WARM": "off"}
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            taken[name].append(measure.run(command, environment, folder, limit_s=_LIMIT_S).cpu_seconds)
    found = {name: statistics.median(each) for name, each in taken.items()}
    answers = _of_language_server(folder / "large.yaml", environment, rounds)
    return found | {f"language server, {name}, {nodes} nodes": each for name, each in answers.items()}


def write(folder: Path, nodes: int, cases: int) -> None:
    """Write the pipelines, their input and the cases."""
    (folder / "in.csv").write_text("id,n\n" + "".join(f"{number},{number % 7}\n" for number in range(1_000)))
    (folder / "small.yaml").write_text(_pipeline(3))
    (folder / "large.yaml").write_text(_pipeline(nodes))
    wanted = [
        {
            "name": f"case {number}",
            "given": {"s": [{"id": number, "n": 2}]},
            "expect": {"t": {"partial": True, "rows": [{"id": number, "a1": 3}]}},
        }
        for number in range(cases)
    ]
    (folder / "small.test.yaml").write_text(json.dumps({"pipeline": "small.yaml", "cases": wanted}))


def _pipeline(nodes: int) -> str:
    """A pipeline of a source, transforms one after the other, and an output; the last transform is `t`."""
    names = ["s", *(f"t{number}" for number in range(1, nodes - 2)), "t"]
    transforms = "".join(
        f"  - {{type: transform, name: {name}, input: {upstream}, config: {{cxl: emit a{number} = n + {number}}}}}\n"
        for number, (upstream, name) in enumerate(itertools.pairwise(names), 1)
    )
    return (
        "pipeline: {name: p}\nnodes:\n"
        "  - {type: source, name: s, config: {type: csv, path: in.csv, schema: {id: int, n: int}}}\n"
        f"{transforms}  - {{type: output, name: o, input: t, config: {{type: csv, path: out/o.csv}}}}\n"
    )


class _Editor:
    """An editor that speaks to `clinker lsp`."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            [*_CLINKER, "lsp"], cwd=folder, env={**os.environ, **environment},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self._asked = 0

    def ask(self, method: str, **params: Any) -> Any:
        """The result of a request."""
        self._asked += 1
        self.tell(method, id=self._asked, **params)
        while True:
            answer = self._read()
            if answer.get("id") == self._asked and "method" not in answer:
                if "error" in answer:
                    raise measure.Failed(f"{method}: {answer['error']}")
                return answer["result"]

    def tell(self, method: str, id: int | None = None, **params: Any) -> None:
        """Send a request or a notice."""
        message = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if id is None else {"id": id})
        body = json.dumps(message).encode()
        stream: Any = self.process.stdin
        stream.write(f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        stream.flush()

    def _read(self) -> dict[str, Any]:
        stream: Any = self.process.stdout
        header = stream.readline()
        if not header:
            raise measure.Failed("the language server ended")
        size = int(header.split(b":")[1])
        while stream.readline().strip():
            pass
        found: dict[str, Any] = json.loads(stream.read(size))
        return found

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


def _of_language_server(file: Path, environment: Mapping[str, str], rounds: int) -> dict[str, float]:
    """The median processor seconds of an answer while a program is being changed, by the kind of request."""
    editor = _Editor(file.parent, environment)
    try:
        editor.ask("initialize", processId=None, rootUri=None, capabilities={})
        editor.tell("initialized")
        text, uri = file.read_text(), file.as_uri()
        document = {"uri": uri, "languageId": "yaml", "version": 0, "text": text}
        editor.tell("textDocument/didOpen", textDocument=document)
        lines = text.splitlines()
        line = next(number for number, each in enumerate(lines) if "name: t," in each)
        at = {"textDocument": {"uri": uri}, "position": {"line": line, "character": lines[line].index(" n +") + 1}}
        requests = {"completion": "textDocument/completion", "hover": "textDocument/hover"}
        found: dict[str, list[float]] = {name: [] for name in requests}
        for version in range(rounds + 1):
            for name, method in requests.items():
                changed = f"{text}# {name} {version}\n"
                editor.tell(
                    "textDocument/didChange",
                    textDocument={"uri": uri, "version": 2 * version + (name == "hover") + 1},
                    contentChanges=[{"text": changed}],
                )
                before = _cpu_seconds(editor.process.pid)
                if not editor.ask(method, **at):
                    raise measure.Failed(f"the language server has no {name} for a column")
                found[name].append(_cpu_seconds(editor.process.pid) - before)
        return {name: statistics.median(each[1:]) for name, each in found.items()}
    finally:
        editor.close()


def _cpu_seconds(pid: int) -> float:
    """The processor time of a process."""
    found = psutil.Process(pid).cpu_times()
    return float(found.user + found.system)


def table(found: Mapping[str, float]) -> Iterable[str]:
    """The lines of a table with ratios to the first entry."""
    yardstick = found[YARDSTICK]
    yield "| what | processor time | beside `import pyspark` |"
    yield "|---|--:|--:|"
    for name, seconds in found.items():
        yield f"| {name} | {seconds:.2f} s | {seconds / yardstick:.2f} |"


def with_table(page: str, text: str) -> str:
    """A page with a table between its marks.

    Raises:
        ValueError: the page does not have both marks.
    """
    found = re.search(re.escape(_BEGIN) + ".*?" + re.escape(_END), page, re.DOTALL)
    if found is None:
        raise ValueError(f"the page has no lines {_BEGIN.strip()} and {_END.strip()}")
    return f"{page[: found.start()]}{_BEGIN}\n{text}\n\n{_END}{page[found.end() :]}"


if __name__ == "__main__":
    sys.exit(main())
