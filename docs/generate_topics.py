"""The topics of `clinker help` as plain text, from the sections of the pages that describe them."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from spark_jobs.formats import registry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HERE = Path(__file__).resolve().parent
#: The page of each topic, with the sections that are shown.
SECTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "correlation": ("correlation.md", ("Which records leave",)),
    "decimals": ("semantics/values.md", ("Decimals are exact",)),
    "rules": ("data_rules.md", ("The rules", "Broken rules", "Where to put a rule")),
    "stores": ("stores.md", ("URIs", "Credentials and settings")),
    "variables": ("semantics/state.md", ("How variables are declared", "What a reader of a scoped variable sees")),
}
NAMES = (*SECTIONS, "formats")
_WIDTH = 100
#: Where the code is: at the end of a line, or in brackets.
_REFERENCE = re.compile(r"\s*`spark_jobs/[^`]*`\.?$|\s*\(`spark_jobs/[^`]*`\)")


def page(topic: str) -> str:
    """The text of a topic, with a last line that names its page."""
    if topic == "formats":
        return _formats()
    name, headings = SECTIONS[topic]
    sections = dict(_sections((HERE / name).read_text(encoding="utf-8")))
    found = [_titled(heading, "\n".join(_plain(sections[heading]))) for heading in headings]
    return "\n".join([*found, f"The whole page: docs/{name}"]) + "\n"


def _formats() -> str:
    found = ["The formats of sources and outputs: `type:` of their `config`.\n"]
    for name, known in sorted(registry.formats().items()):
        about = yaml.safe_load((HERE / f"formats/{name}.yaml").read_text(encoding="utf-8"))["about"]
        found.append(f"{name} ({known.title})\n{_wrapped(_inline(about), '    ')}\n")
    return "\n".join([*found, "Their options: docs/reference/formats/"]) + "\n"


def _titled(heading: str, text: str) -> str:
    return f"{heading}\n{'-' * len(heading)}\n\n{text.strip()}\n"


def _sections(text: str) -> Iterator[tuple[str, list[str]]]:
    """The sections of a page by their headings of the second level, each with its lines."""
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        yield heading, body.splitlines()


def _plain(lines: Iterable[str]) -> Iterator[str]:
    """Lines of Markdown as plain text: code is indented, a row of a table is a line with what it says below."""
    header: list[str] = []
    is_code = False
    for line in lines:
        if line.startswith("```"):
            is_code = not is_code
        elif is_code:
            yield f"    {line}".rstrip()
        elif line.startswith("|"):
            cells = [_inline(cell.strip()) for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            if not header:
                header = cells
            elif not set(line) <= set("|- :"):
                yield from _row(cells, header)
        else:
            header = []
            yield _inline(_REFERENCE.sub("", line))


def _row(cells: list[str], header: list[str]) -> Iterator[str]:
    yield cells[0]
    for name, cell in zip(header[1:], cells[1:], strict=True):
        yield _wrapped(cell if len(cells) == 2 else f"{name}: {cell}", "    ")


def _inline(text: str) -> str:
    """Text without links, bold letters and escapes."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"\*\*([^*]+)\*\*", r"\1", text).replace("\\|", "|")


def _wrapped(text: str, indent: str) -> str:
    return textwrap.fill(" ".join(text.split()), _WIDTH, initial_indent=indent, subsequent_indent=indent)
