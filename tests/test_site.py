"""The documentation as a site: every page is in it, and every link and anchor leads somewhere."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site; building it fails where a link or an anchor leads nowhere."""
    pytest.importorskip("material")
    from mkdocs.commands import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    logging.getLogger("mkdocs").setLevel(logging.WARNING)
    build.build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder)))
    return folder


def test_every_page_is_in_the_site_and_nothing_else_of_the_folder(site: Path) -> None:
    written = {
        page.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for page in (ROOT / "docs").rglob("*.md")
    }
    written = {page.replace("semantics/README.html", "semantics/index.html") for page in written}
    made = {page.relative_to(site).as_posix() for page in site.rglob("*.html")}
    assert written <= made
    assert {"index.html", "changelog.html", "messages/E303.html", "contributing.html"} <= made
    assert not [file for file in site.rglob("*") if file.suffix in (".py", ".pyc", ".yaml")]


def test_pages_that_people_look_for_are_in_the_menu() -> None:
    from docs import site_hooks

    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    missing = [page.name for page in sorted((ROOT / "docs").glob("*.md")) if f" {page.name}" not in menu]
    assert missing == []
    assert all((ROOT / path).is_file() for path in site_hooks.ADDED)


def test_links_to_messages_and_to_code_are_rewritten(site: Path) -> None:
    page = (site / "trouble_shooting.html").read_text(encoding="utf-8")
    assert 'href="messages/E310.html"' in page
    for file in site.rglob("*.html"):
        assert not re.search(r'href="[^":]*\.(md|py)[#"]', file.read_text(encoding="utf-8")), file


def test_words_can_be_searched(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {
        entry["location"].partition("#")[0] for entry in index["docs"] if "correlation" in entry["text"].casefold()
    }
    assert {"correlation.html", "semantics/correlation.html"} <= found


def test_blocks_that_are_files_show_their_names(site: Path) -> None:
    text = (site / "recipes" / "history.html").read_text(encoding="utf-8")
    assert '<span class="filename">out/addresses.csv</span>' in text
    assert "```" not in text
