"""The pages of the documentation, and the blocks in them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: What people write; the pages of diagnostics have tests of their own.
WRITTEN = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/recipes").glob("*.md")),
    *sorted((ROOT / "docs/semantics").glob("*.md")),
]
PAGES = [*WRITTEN, *sorted((ROOT / "docs/reference").glob("*.md")), *sorted((ROOT / "examples").glob("**/*.md"))]
#: Language, the name of the file that a block is (```yaml file=pipeline.yaml), text.
FENCE = re.compile(r"^```(\w*)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(path: Path, language: str) -> list[str]:
    """The blocks in a language that are no files of their page's own."""
    found = FENCE.findall(path.read_text(encoding="utf-8"))
    return [text for written, name, text in found if written == language and not name]
