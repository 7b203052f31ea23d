"""The documentation is true: what it names is there, what is generated is fresh (`test_shown.py`: what it shows)."""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from typing import TYPE_CHECKING

import pytest

import clinker_provider
import spark_jobs
from clinker_provider.get_provider_info import get_provider_info
from docs import generate, generate_nodes, strict_yaml
from tests.pages import PAGES, ROOT, WRITTEN, shown

if TYPE_CHECKING:
    from pathlib import Path

NAMED = re.compile(r"`([\w./]+\.py):([\w.]+)`")
FILES = re.compile(
    r"`((?:spark_jobs|clinker_provider|tests|docs|benchmarks|examples|dags|scripts|docker|\.ci)/[\w./*-]*)`"
)
LINK = re.compile(r"\]\(([^)\s]+)\)")
#: Paths and words of the place where this was written have no meaning anywhere else.
FOREIGN = re.compile(r"/work/|/tmp/|\b(?:claude|anthropic|llm|ai|subagent|this machine|issue \d+)\b", re.IGNORECASE)


# ---- what is named is there ----------------------------------------------------------------------------------------


def members(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """The names that a module or class defines."""
    found: dict[str, ast.stmt] = {}
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found[name] = node
            case ast.Assign(targets=targets):
                found |= {target.id: node for target in targets if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                found[name] = node
    return found


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def problem_with(file: str, dotted: str) -> str | None:
    path = ROOT / file
    if not path.is_file():
        return f"{file} is gone"
    body = tree_of(path).body
    for name in dotted.split("."):
        node = members(body).get(name)
        if node is None:
            return f"{file} has no {dotted}"
        body = getattr(node, "body", [])
    return None


def exists(name: str) -> bool:
    return any(ROOT.glob(name)) if "*" in name else (ROOT / name).exists()


@pytest.mark.parametrize("page", WRITTEN, ids=shown)
def test_what_a_page_names_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    gone = [problem for file, name in NAMED.findall(text) if (problem := problem_with(file, name))]
    gone += [f"{name} is gone" for name in FILES.findall(text) if not exists(name)]
    assert gone == []


def test_a_name_that_is_gone_is_found() -> None:
    assert problem_with("spark_jobs/execute/tasks/task.py", "Task.read") is None
    assert (
        problem_with("spark_jobs/execute/tasks/task.py", "Task.nothing")
        == "spark_jobs/execute/tasks/task.py has no Task.nothing"
    )
    assert problem_with("spark_jobs/nothing.py", "read") == "spark_jobs/nothing.py is gone"


def table_rows(page: str, heading: str) -> list[list[str]]:
    """The rows of the first table below a heading, without its head."""
    text = (ROOT / page).read_text(encoding="utf-8")
    below = text[re.search(rf"^#+ {re.escape(heading)}$", text, re.MULTILINE).end() :]  # type: ignore[union-attr]
    table = re.search(r"(?:^\|.*\n)+", below, re.MULTILINE)
    assert table is not None
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[0].splitlines()[2:]]


def test_the_glossary_is_short_and_has_words_of_the_code() -> None:
    rows = table_rows("docs/design.md", "The words")
    assert 10 < len(rows) <= 30
    for word, meaning, reason, where in rows:
        assert len(meaning) > 10, word
        assert len(reason) > 10, word
        named = NAMED.fullmatch(where)
        assert named is not None, word
        code = re.sub(r"[\s_]", "", (ROOT / named[1]).read_text(encoding="utf-8")).lower()
        assert word.replace(" ", "").lower() in code, f"{named[1]} does not have the word '{word}'"
    words = [word for word, *_ in rows]
    assert sorted(set(words)) == sorted(words)


def test_questions_of_newcomers_are_answered_by_names() -> None:
    rows = table_rows("docs/where_is.md", "Where is …?")
    assert len({question for question, _ in rows}) == len(rows) >= 26
    assert all(question.endswith("?") and NAMED.search(answer) for question, answer in rows)


def test_limits_are_those_of_the_code() -> None:
    text = (ROOT / "docs/semantics/limits.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^|]+ \| ([\d,]+)( MiB)? \| `([\w/]+)\.py:(\w+)` \|$", text, re.MULTILINE)
    assert len(rows) == len(re.findall(r"^\| [^|]+ \| [\d,]+ ?(?:MiB)? \|", text, re.MULTILINE)) > 10
    for number, unit, module, name in rows:
        value = getattr(importlib.import_module(module.replace("/", ".")), name)
        assert value == int(number.replace(",", "")) << (20 if unit else 0), name


def test_no_rule_of_meaning_stands_twice() -> None:
    pages = (ROOT / "docs/semantics").glob("*.md")
    rules = [
        rule for page in pages for rule in re.findall(r"^##+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert len(rules) > 100
    assert sorted(set(rules)) == sorted(rules)


def test_the_changelog_says_nothing_twice() -> None:
    lines = [line for line in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines() if line.startswith("- ")]
    assert len(lines) > 20
    assert sorted(set(lines)) == sorted(lines)


def test_the_changelog_has_the_form_that_tools_read() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert releases[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\](?: - \d{4}-\d\d-\d\d)?", release) for release in releases[1:])
    kinds = re.findall(r"^### (.*)$", text, re.MULTILINE)
    assert set(kinds) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    version = spark_jobs.__version__
    assert releases[1].startswith(f"[{version}]")
    assert get_provider_info()["versions"][0] == version == clinker_provider.__version__


def test_the_tour_goes_through_every_package() -> None:
    named = {file for file, _ in NAMED.findall((ROOT / "docs/tour.md").read_text(encoding="utf-8"))}
    packages = {path.parent.name for path in (ROOT / "spark_jobs").glob("*/__init__.py")}
    assert {file.split("/")[1] for file in named if file.startswith("spark_jobs/")} >= packages


def anchors(path: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in titles}


def uneven_rows(text: str) -> list[str]:
    """The rows that have more or fewer cells than the head of their table: a bar ends a cell, in code too."""
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    tables = [table.splitlines() for table in re.findall(r"(?:^\|.*\n?)+", outside, re.MULTILINE)]
    bars = re.compile(r"(?<!\\)\|")
    return [row for rows in tables for row in rows if len(bars.findall(row)) != len(bars.findall(rows[0]))]


@pytest.mark.parametrize("page", [*PAGES, *sorted((ROOT / "docs/reference/formats").glob("*.md"))], ids=shown)
def test_rows_of_tables_have_as_many_cells_as_their_heads(page: Path) -> None:
    assert uneven_rows(page.read_text(encoding="utf-8")) == []


def test_a_bar_that_splits_a_cell_is_found() -> None:
    head = "| sign | key |\n|---|---|\n"
    assert uneven_rows(head + "| `\\|\\|` | `delimiter` |\n") == []
    assert uneven_rows(head + "| `||` | `delimiter` |\n") == ["| `||` | `delimiter` |"]


@pytest.mark.parametrize("page", PAGES, ids=shown)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in link or link.startswith("mailto:"):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=shown)
def test_pages_know_nothing_of_where_they_were_written(page: Path) -> None:
    assert FOREIGN.findall(page.read_text(encoding="utf-8")) == []


# ---- what is generated is fresh ------------------------------------------------------------------------------------


def test_a_key_that_is_documented_twice_is_refused(tmp_path: Path) -> None:
    twice = tmp_path / "keys.yaml"
    twice.write_text("A:\n  a: first\n  b: x\n  a: second\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"line 4.*'a' stands twice"):
        strict_yaml.load(twice)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(generate.PAGES))
def test_generated_pages_are_fresh(name: str) -> None:
    stale = (ROOT / "docs" / name).read_text(encoding="utf-8") != generate.PAGES[name]()
    assert not stale, f"docs/{name} is stale: run `make docs`"


def test_every_key_of_pipelines_is_explained_and_nothing_else() -> None:
    explained = {name: set(keys) for name, keys in generate_nodes.meanings().items()}
    assert explained == generate_nodes.documented()


def test_the_map_names_every_folder_of_the_engine_and_the_provider() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `([\w./]+/)` \|", text, re.MULTILINE))
    packages = {
        shown(path) + "/"
        for top in ("spark_jobs", "clinker_provider")
        for path in (init.parent for init in (ROOT / top).glob("*/**/__init__.py"))
        # Of node types and formats there is one row, for their recipe.
        if not {"nodes", "formats"} & {above.name for above in path.parents}
    }
    assert {row for row in rows if row.startswith(("spark_jobs/", "clinker_provider/"))} >= packages


# ---- what does not run yet -----------------------------------------------------------------------------------------


def _phrase(node: ast.expr) -> str:
    """A text of the code, with `…` for what it fills in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_phrase(part) for part in node.values)
    return str(node.value) if isinstance(node, ast.Constant) else "…"


def refused() -> set[str]:
    """What plans can say and execution refuses, in the words of its message."""
    found = set()
    for path in (ROOT / "spark_jobs").glob("**/*.py"):
        text = path.read_text(encoding="utf-8")
        if "pending" not in text and "_unready" not in text:
            continue
        for node in ast.walk(tree_of(path)):
            match node:
                case ast.FunctionDef(name="_unready"):
                    # What a type says of its steps (`Description.unready`).
                    yields = (part for part in ast.walk(node) if isinstance(part, ast.Yield))
                    found |= {_phrase(part.value) for part in yields if part.value is not None}
                case ast.Call(func=ast.Attribute(attr="pending"), args=[ast.expr() as what, *_]) if not isinstance(
                    what, ast.Name
                ):
                    found.add(_phrase(what))
                case ast.Yield(value=ast.expr() as what) if path.name == "pending.py":
                    found.add(_phrase(what))
    return found


def test_the_roadmap_lists_what_does_not_run_yet_and_nothing_else() -> None:
    text = (ROOT / "docs/roadmap.md").read_text(encoding="utf-8")
    table = text.split("## Refused features", 1)[1].split("\n## ", 1)[0]
    listed = {row.strip() for row in re.findall(r"^\| ([^|]+) \| ", table, re.MULTILINE)} - {"feature", "---"}
    assert listed == refused()
