"""Writes the generated pages of the reference from the code; `--check` says which ones are stale instead.

    python -m docs.generate
    python -m docs.generate --check

A page is a function that gives its text; `PAGES` names the file it goes to.
"""

from __future__ import annotations

import argparse
import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from docs import generate_formats, generate_topics
from docs.generate_cxl import cxl
from docs.generate_nodes import in_table, nodes
from spark_jobs.cli import clinker
from spark_jobs.cli.cxl import command as cxl_command
from spark_jobs.diagnostics import codes as codes_module
from spark_jobs.diagnostics import pages
from spark_jobs.formats import registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).resolve().parent

_CLI = """# Command line reference

<!-- Written by docs/generate.py from the parsers in spark_jobs/cli; change those. -->

`clinker` runs, checks and explains pipelines; `cxl` does the same for programs of the expression language alone.
`python -m spark_jobs` is `clinker` where the console scripts are not installed.

Exit codes of `clinker`: 0 success, 1 the pipeline or the command line is wrong, 2 finished with dead letters, 3
a record ended the run or there were too many dead letters, 4 a file could not be read or written or Spark failed,
130 interrupted. Of `cxl`: 0 success, 1 the program or the command line is wrong or the record failed, 2 something
cannot be read. Warnings never change them.
"""


def _argument(action: argparse.Action) -> str:
    names = ", ".join(f"`{name}`" for name in action.option_strings)
    shown = action.metavar if isinstance(action.metavar, str) else None
    if shown is None and action.choices is not None:
        shown = "{" + ",".join(map(str, action.choices)) + "}"
    if shown is None and action.nargs != 0:
        shown = action.dest.upper()
    value = f"`[{shown}]`" if shown and action.nargs == "?" else f"`{shown}`" if shown else ""
    if action.nargs == "+":
        value += " …"
    return f"| {in_table(' '.join(filter(None, (names, value))))} | {in_table(action.help or '')} |"


def _commands(parser: argparse.ArgumentParser, name: str) -> Iterator[str]:
    """A section for every command of a parser, those below it included."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, command in action.choices.items():
                yield from _commands(command, f"{name} {word}")
            return
    shown = [action for action in parser._actions if action.help != argparse.SUPPRESS and action.dest != "help"]
    rows = "\n".join(["| argument | meaning |", "|---|---|", *map(_argument, shown)])
    yield f"## {name}\n\n{parser.description}\n\n{rows}"


def cli() -> str:
    """The commands with their arguments."""
    sections = [*_commands(clinker._parser(), "clinker"), *_commands(cxl_command._parser(), "cxl")]
    return "\n\n".join([_CLI.strip(), *sections]) + "\n"


_DIAGNOSTICS = """# Diagnostics reference

<!-- Written by docs/generate.py from spark_jobs/diagnostics/codes.py; change that. -->

Every problem has a code, and every code a page with its meaning, an example that has the problem, and one that has
not: `clinker explain --code E303` prints it. Errors end the work with exit code 1 (3 or 4 for those that only a run can
find), warnings (W) never change it.
"""


def diagnostics() -> str:
    """All codes, in the groups of `codes.py`."""
    lines = [_DIAGNOSTICS.rstrip()]
    declared = {code.id: code for code in codes_module.by_id().values()}
    for line in Path(codes_module.__file__).read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            lines.append(f"\n## {line[2:]}\n\n| code | problem | meaning |\n|---|---|---|")
        elif found := re.match(r'\w+ = Code\("([^"]+)"', line):
            code = declared.pop(found.group(1))
            page = f"../../spark_jobs/diagnostics/explain/{code.id}.md"
            lines.append(f"| [{code.id}]({page}) | {code.title} | {_first_sentence(code.id)} |")
    assert not declared, f"declared elsewhere: {declared}"
    return "\n".join(lines) + "\n"


def _first_sentence(code: str) -> str:
    text = (pages.page(code) or "").split("## What it means", 1)[1].split("##", 1)[0]
    text = " ".join(text.split("```", 1)[0].split())
    found = re.match(r".*?[.!?](?= |$)", text)
    return (found.group(0) if found else text).rstrip(":").replace("|", "\\|")


PAGES: dict[str, Callable[[], str]] = {
    "reference/cxl.md": cxl,
    "reference/nodes.md": nodes,
    **{f"reference/formats/{name}.md": partial(generate_formats.page, name) for name in registry.formats()},
    "reference/cli.md": cli,
    "reference/diagnostics.md": diagnostics,
    **{
        f"../spark_jobs/cli/topic_pages/{name}.txt": partial(generate_topics.page, name)
        for name in generate_topics.NAMES
    },
}


def main(arguments: list[str]) -> int:
    """Write all pages, or report the stale ones; the exit status."""
    stale = []
    for name, page in PAGES.items():
        path, text = HERE / name, page()
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
    if "--check" in arguments and stale:
        print("stale, run `make docs`: " + ", ".join(stale))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
