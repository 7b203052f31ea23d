"""What the documentation site has beside `docs/`, and how links out of `docs/` become links within the site.

MkDocs calls these functions (`mkdocs.yml`). Pages of the repository that stand elsewhere get a place in `ADDED`. Links
to code are shown as the names of the files: the site has no code.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
_EXPLAINED = "spark_jobs/diagnostics/explain"
#: Pages from elsewhere in the repository, with their places in the site.
ADDED = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "LICENSE": "license.md",
    **{f"{_EXPLAINED}/{page.name}": f"messages/{page.name}" for page in sorted((ROOT / _EXPLAINED).glob("*.md"))},
    **{
        page.relative_to(ROOT).as_posix(): page.relative_to(ROOT).as_posix()
        for page in sorted((ROOT / "examples").glob("*/README.md"))
    },
}
_HEADING = re.compile(r"^#+ ", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<target>[^()\s]+)\)")
#: A block that is a file of its page: its name becomes the block's title.
_NAMED_FENCE = re.compile(r"^(```\w+) file=(\S+)$", re.MULTILINE)
_FENCE = re.compile(r"^(?:```.*?^```|~~~.*?^~~~)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that stand outside `docs/`, and leave out what is no page."""
    for file in list(files):
        if file.src_uri.endswith((".py", ".pyc", ".yaml")):
            files.remove(file)
    for path, place in ADDED.items():
        files.append(File.generated(config, place, content=_text(path)))
    return files


def _text(path: str) -> str:
    text = (ROOT / path).read_text(encoding="utf-8")
    if path == "LICENSE":
        return f"# License\n\n```text\n{text}```\n"
    if path.startswith(_EXPLAINED) and not _HEADING.match(text):
        return f"# {Path(path).stem}\n\n{text}"
    return text


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turn links between files of the repository into links between pages of the site."""
    place = page.file.src_uri
    here = next((path for path, added in ADDED.items() if added == place), f"docs/{place}")
    fences = [found.span() for found in _FENCE.finditer(markdown)]

    def linked(found: re.Match[str]) -> str:
        if any(start <= found.start() < end for start, end in fences):
            return found[0]
        target, hash_sign, anchor = found["target"].partition("#")
        if not target or "://" in target or target.startswith("mailto:"):
            return found[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(here), target))
        inside = ADDED.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
        if inside is None or files.get_file_from_path(inside) is None:
            return found["text"] if found["text"].startswith("`") else f"{found['text']} (`{path}`)"
        relative = posixpath.relpath(inside, posixpath.dirname(place) or ".")
        return f"[{found['text']}]({relative}{hash_sign}{anchor})"

    return _NAMED_FENCE.sub(r'\1 title="\2"', _LINK.sub(linked, markdown))
