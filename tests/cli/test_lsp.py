"""`clinker lsp`, driven as an editor does: a process that is spoken to over its standard input and output."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
PIPELINE = """\
pipeline: {name: p}
nodes:
  - type: source
    name: orders
    config: {type: csv, path: in.csv, schema: {id: int, n: int, price: float}}
  - type: transform
    name: priced
    input: orders
    config:
      cxl: |
        # 🙂 keeps its place
        let gross = n*price
        emit net = gross * 0.8
  - {type: output, name: out, input: priced, config: {type: csv, path: out.csv}}
"""


class Editor:
    """An editor with one file open.

    Args:
        file: the file, which need not exist.
    """

    def __init__(self, file: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "CLINKER_KEEP_WARM": "off"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", "import sys; from spark_jobs.cli import clinker; sys.exit(clinker.main(['lsp']))"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            cwd=file.parent,
        )
        self.uri = file.as_uri()
        self.text = ""
        self.version = 0
        self._answers: queue.Queue[dict[str, Any]] = queue.Queue()
        self._told: list[dict[str, Any]] = []
        self._number = 0
        threading.Thread(target=self._listen, daemon=True).start()
        self.abilities = self.ask("initialize", processId=None, rootUri=None, capabilities={})["capabilities"]
        self._send(method="initialized", params={})

    def _listen(self) -> None:
        stream: Any = self.process.stdout
        while header := stream.readline():
            size = int(header.split(b":")[1])
            while stream.readline().strip():
                pass
            self._answers.put(json.loads(stream.read(size)))

    def _send(self, **message: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        stream: Any = self.process.stdin
        stream.write(f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        stream.flush()

    def ask(self, method: str, **params: Any) -> Any:
        """The answer to a request."""
        answer = self._answered(method, params)
        assert "error" not in answer, answer
        return answer["result"]

    def refused(self, method: str, **params: Any) -> str:
        """The reason for which a request is refused."""
        return str(self._answered(method, params)["error"]["message"])

    def _answered(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        self._send(id=self._number, method=method, params=params)
        while True:
            answer = self._answers.get(timeout=60)
            if answer.get("id") == self._number and "method" not in answer:
                return answer
            self._told.append(answer)

    def write(self, text: str) -> list[dict[str, Any]]:
        """Write a text, and wait for what is wrong with it."""
        document = {"uri": self.uri, "version": self.version}
        if self.version == 0:
            self._send(
                method="textDocument/didOpen", params={"textDocument": {**document, "languageId": "yaml", "text": text}}
            )
        else:
            changes = [{"text": text}]
            self._send(method="textDocument/didChange", params={"textDocument": document, "contentChanges": changes})
        self.text = text
        wanted, self.version = self.version, self.version + 1
        while True:
            told = self._told.pop(0) if self._told else self._answers.get(timeout=60)
            if told.get("method") == "textDocument/publishDiagnostics" and told["params"].get("version") == wanted:
                found: list[dict[str, Any]] = told["params"]["diagnostics"]
                return found

    def write_without_looking(self, text: str) -> None:
        """Write a text that is not finished yet."""
        document = {"uri": self.uri, "version": self.version}
        self._send(
            method="textDocument/didChange", params={"textDocument": document, "contentChanges": [{"text": text}]}
        )
        self.text, self.version = text, self.version + 1

    def at(self, words: str, further: int = 0) -> dict[str, Any]:
        """The place where some words begin, or so many characters further on."""
        offset = self.text.index(words) + further
        return {"textDocument": {"uri": self.uri}, "position": position(self.text, offset)}

    def proposed(self, words: str) -> list[str]:
        """What may be written after some words."""
        return [one["label"] for one in self.ask("textDocument/completion", **self.at(words, len(words)))]

    def applied(self, edits: list[dict[str, Any]]) -> str:
        """The text with edits made."""
        text = self.text
        for edit in sorted(edits, key=lambda one: (one["range"]["start"]["line"], one["range"]["start"]["character"]))[
            ::-1
        ]:
            start, end = (offset(text, edit["range"][side]) for side in ("start", "end"))
            text = text[:start] + edit["newText"] + text[end:]
        return text


def position(text: str, at: int) -> dict[str, int]:
    line = text.count("\n", 0, at)
    before = text[text.rfind("\n", 0, at) + 1 : at]
    return {"line": line, "character": len(before.encode("utf-16-le")) // 2}


def offset(text: str, place: dict[str, int]) -> int:
    lines = text.split("\n")
    before = lines[place["line"]].encode("utf-16-le")[: 2 * place["character"]].decode("utf-16-le")
    return sum(len(line) + 1 for line in lines[: place["line"]]) + len(before)


@pytest.fixture
def editor(tmp_path: Path) -> Iterator[Editor]:
    pytest.importorskip("pygls")
    found = Editor(tmp_path / "a pipeline.yaml")
    yield found
    found.ask("shutdown")
    found._send(method="exit", params={})
    assert found.process.wait(timeout=60) == 0


def test_problems_are_shown_while_the_text_is_written_and_mended_by_a_quick_fix(editor: Editor) -> None:
    assert editor.write(PIPELINE) == []
    (_, found) = editor.write(PIPELINE.replace("net = gross", "net = gros"))
    assert (found["code"], found["severity"]) == ("E200", 1)
    assert "unknown field 'gros'" in found["message"]
    assert found["range"]["start"] == editor.at("gros * 0.8")["position"]
    (action,) = editor.ask(
        "textDocument/codeAction",
        textDocument={"uri": editor.uri},
        range=found["range"],
        context={"diagnostics": [found]},
    )
    assert action["title"] == "Change to `gross`"
    assert editor.applied(action["edit"]["changes"][editor.uri]) == PIPELINE
    assert editor.write(PIPELINE) == []


def test_a_pipeline_is_written_with_what_is_proposed(editor: Editor) -> None:
    editor.write(PIPELINE)
    started = PIPELINE.replace("input: priced", "input: ")
    editor.write_without_looking(started)
    assert editor.proposed("name: out, input: ") == ["orders", "priced"]
    editor.write_without_looking(PIPELINE.replace("- {type: output", "- type: \n  - {type: output"))
    assert {"source", "transform", "output"} <= set(editor.proposed(["- type: ", "  - {"][0]))
    unfinished = PIPELINE.replace("gross * 0.8", "gross * 0.8\n        emit more = ")
    editor.write_without_looking(unfinished)
    assert editor.proposed("emit more = ")[:5] == ["id", "n", "price", "gross", "net"]
    editor.write_without_looking(unfinished.replace("emit more = ", "emit more = n."))
    methods = editor.proposed("emit more = n.")
    assert {"abs", "round_to", "to_string"} <= set(methods)
    assert "price" not in methods


def test_columns_of_a_combine_are_proposed_by_their_inputs(editor: Editor) -> None:
    text = """\
pipeline: {name: p}
nodes:
  - {type: source, name: a, config: {type: csv, path: a.csv, schema: {k: int, x: int}}}
  - {type: source, name: b, config: {type: csv, path: b.csv, schema: {k: int, y: int}}}
  - type: combine
    name: c
    input: {l: a, r: b}
    config:
      where: l.k == r.k
      cxl: |
        emit x = l.x
        emit y = r.y
  - {type: output, name: out, input: c, config: {type: csv, path: out.csv}}
"""
    assert editor.write(text) == []
    assert (
        editor.ask("textDocument/definition", **editor.at("r.y", 2))["range"]["start"]
        == editor.at("y: int")["position"]
    )
    editor.write_without_looking(text.replace("emit y = r.y", "emit y = r."))
    assert editor.proposed("emit y = r.") == ["k", "y"]


def test_names_are_explained_and_lead_to_where_they_are_made(editor: Editor) -> None:
    editor.write(PIPELINE)

    def told(words: str, further: int = 0) -> str:
        found = editor.ask("textDocument/hover", **editor.at(words, further))
        return str(found["contents"]["value"]) if found else ""

    assert told("price\n").startswith("`price` — column, Nullable(Float)")
    assert "`orders.price`" in told("price\n")
    assert "| `net` | Nullable(Float) |" in told("input: priced", 8)
    assert told("keeps its place") == ""
    places = {
        "gross * 0.8": "gross = n",
        "price\n": "price: float",
        "priced, config": "priced\n    input",
    }
    for words, made in places.items():
        found = editor.ask("textDocument/definition", **editor.at(words))
        assert found["range"]["start"] == editor.at(made)["position"], words


def test_a_node_is_renamed_wherever_it_is_read(editor: Editor) -> None:
    editor.write(PIPELINE)
    place = editor.at("input: orders", 9)
    assert len(editor.ask("textDocument/references", **place, context={"includeDeclaration": True})) == 2
    assert editor.ask("textDocument/prepareRename", **place)["start"] == editor.at("input: orders", 7)["position"]
    edits = editor.ask("textDocument/rename", **place, newName="sales")["changes"][editor.uri]
    renamed = editor.applied(edits)
    assert renamed == PIPELINE.replace("name: orders", "name: sales").replace("input: orders", "input: sales")
    assert editor.write(renamed) == []
    assert editor.ask("textDocument/prepareRename", **editor.at("csv, path: out")) is None


WIDE = """\
pipeline: {name: p}
nodes:
  - {type: source, name: s, config: {type: csv, path: s.csv, schema: {id: int, n: int, price: float}}}
  - {type: transform, name: t, input: s, config: {cxl: "emit twice = n + n"}}
  - {type: route, name: r, input: t, config: {conditions: {big: n > 2}, default: small}}
  - {type: output, name: small, input: r.small, config: {type: csv, path: n.csv, exclude: [n], sort_order: [id]}}
  - type: aggregate
    name: a
    input: r.big
    config: {group_by: [n], cxl: "emit all = sum(twice)"}
  - type: combine
    name: c
    input: {left: a, right: s}
    config: {where: left.n == right.n, cxl: "emit n = left.n\\nemit p = right.price"}
  - {type: transform, name: u, input: c, config: {cxl: "emit n = n + 1\\nemit m = n"}}
  - {type: output, name: out, input: u, config: {type: csv, path: out.csv}}
"""


def test_a_column_is_renamed_across_nodes_until_new_records_are_made(editor: Editor) -> None:
    assert editor.write(WIDE) == []
    edits = editor.ask("textDocument/rename", **editor.at("n + n"), newName="number")["changes"][editor.uri]
    renamed = editor.applied(edits)
    assert renamed == (
        WIDE.replace("n: int, price", "number: int, price")
        .replace("n + n", "number + number")
        .replace("n > 2", "number > 2")
        .replace("exclude: [n]", "exclude: [number]")
        .replace("group_by: [n]", "group_by: [number]")
        .replace("left.n == right.n", "left.number == right.number")
        .replace("emit n = left.n", "emit n = left.number")
    )
    assert editor.write(renamed) == []
    editor.write(WIDE)
    edits = editor.ask("textDocument/rename", **editor.at("n = left.n"), newName="number")["changes"][editor.uri]
    renamed = editor.applied(edits)
    assert renamed == (
        WIDE.replace("emit n = left.n", "emit number = left.n").replace(
            "emit n = n + 1\\nemit m = n", "emit number = number + 1\\nemit m = number"
        )
    )
    assert editor.write(renamed) == []


SETTINGS = """\
pipeline: {name: p}
error_handling: {strategy: continue, dlq: {path: dead.csv}}
nodes:
  - type: source
    name: s
    config: {type: csv, path: s.csv, schema: {id: int, n: int, k: string}, correlation_key: [n], sort_order: [n]}
  - type: source
    name: again
    config: {type: csv, path: t.csv, schema: {id: int, n: int, k: string}, correlation_key: n}
  - {type: merge, name: both, inputs: [s, again]}
  - type: transform
    name: t
    input: both
    config:
      cxl: |
        distinct by `n`
        let m = {n: n}
        emit each i in k.split(",") {
          emit n = n + m.n
          emit part = i
        }
      validations:
        - {field: n, check: not_null}
        - {check: n > 1 and k != "n"}
        - {check: n > k, args: {k: 2}}
      log:
        - {level: info, when: per_record, message: "n is {n}", fields: [n], condition: n > 2}
  - {type: route, name: r, input: t, config: {routes: {n: n > 1}, default: rest}}
  - type: output
    name: sorted
    input: r.n
    config: {type: csv, path: a.csv, mapping: {N: n, n: part}, columns: [N, n], sort_order: [{field: N}]}
  - type: output
    name: rest
    input: r.rest
    config: {type: csv, path: b.csv, sort_order: [{field: n, order: desc}], split: {max_records: 3, group_key: n}}
"""


RULES = """\
pipeline: {name: p}
nodes:
  - type: source
    name: known
    config: {type: csv, path: k.csv, schema: {id: int}}
  - type: source
    name: s
    config:
      type: csv
      path: s.csv
      schema: {n: int, k: int}
      validations:
        - unique: n
        - sum: {column: n, min: 0}
  - type: output
    name: o
    input: s
    config:
      type: csv
      path: o.csv
      validations:
        - {references: {columns: [n], source: known, to: id}}
        - {max: {column: n, max: 5}}
"""


def test_rules_are_proposed_explained_and_renamed(editor: Editor) -> None:
    assert [one for one in editor.write(RULES) if one["severity"] == 1] == []

    def explained(words: str) -> str:
        return str(editor.ask("textDocument/hover", **editor.at(words))["contents"])

    def renamed(words: str, name: str) -> str:
        edits = editor.ask("textDocument/rename", **editor.at(words), newName=name)["changes"][editor.uri]
        return editor.applied(edits)

    assert "No two records" in explained("unique: n")
    assert "SQL's foreign keys" in explained("references: {")
    assert "The largest value" in explained("max: {column")
    assert editor.ask("textDocument/hover", **editor.at("max: 5")) is None
    wanted = RULES.replace("{n: int", "{x: int").replace("unique: n", "unique: x").replace("column: n", "column: x")
    assert renamed("n: int", "x") == wanted.replace("columns: [n]", "columns: [x]")
    assert renamed("id: int", "key") == RULES.replace("id: int", "key: int").replace("to: id", "to: key")
    wanted = RULES.replace("name: known", "name: there")
    assert renamed("known\n", "there") == wanted.replace("source: known", "source: there")
    editor.write_without_looking(RULES.replace("unique: n", "un"))
    assert {"unique", "row_count", "freshness"} <= {*editor.proposed("- un")}


def test_a_column_is_renamed_in_settings_in_blocks_and_in_merged_inputs(editor: Editor) -> None:
    assert [one for one in editor.write(SETTINGS) if one["severity"] == 1] == []
    wanted = (
        SETTINGS.replace("n: int", "x: int")
        .replace("correlation_key: [n], sort_order: [n]", "correlation_key: [x], sort_order: [x]")
        .replace("correlation_key: n", "correlation_key: x")
        .replace("distinct by `n`", "distinct by x")
        .replace("{n: n}", "{n: x}")
        .replace("emit n = n +", "emit x = x +")
        .replace("field: n,", "field: x,")
        .replace("check: n >", "check: x >")
        .replace("is {n}", "is {x}")
        .replace("fields: [n], condition: n", "fields: [x], condition: x")
        .replace("{n: n > 1}", "{n: x > 1}")
        .replace("N: n", "N: x")
        .replace("group_key: n", "group_key: x")
    )
    for words in ("n: int", "n + m.n", "n > 2"):
        edits = editor.ask("textDocument/rename", **editor.at(words), newName="x")["changes"][editor.uri]
        assert editor.applied(edits) == wanted, words


@pytest.mark.parametrize(
    ("setting", "word"),
    [
        ("analytic_window: {group_by: [k], sort_by: [{field: desc, order: desc}]}", "desc"),
        ("log: [{level: info, when: per_record, message: info}]", "info"),
        ("phase: runtime", "runtime"),
    ],
)
def test_words_of_settings_are_no_columns(editor: Editor, setting: str, word: str) -> None:
    text = (
        "pipeline: {name: p}\nnodes:\n"
        f"  - {{type: source, name: s, config: {{type: csv, path: s.csv, schema: {{k: string, {word}: int}}}}}}\n"
        f"  - {{type: transform, name: t, input: s, config: {{cxl: emit y = {word}, {setting}}}}}\n"
        "  - {type: output, name: out, input: t, config: {type: csv, path: out.csv}}\n"
    )
    assert editor.write(text) == []
    edits = editor.ask("textDocument/rename", **editor.at(f"{word}: int"), newName="x")["changes"][editor.uri]
    wanted = text.replace(f"{word}: int", "x: int").replace(f"= {word}", "= x").replace(f"field: {word}", "field: x")
    assert editor.applied(edits) == wanted


def test_a_node_is_renamed_where_a_window_reads_it(editor: Editor) -> None:
    text = """\
pipeline: {name: p}
nodes:
  - {type: source, name: s, config: {type: csv, path: s.csv, schema: {k: string}}}
  - {type: source, name: w, config: {type: csv, path: w.csv, schema: {k: string, n: int}}}
  - type: transform
    name: t
    input: s
    config: {analytic_window: {source: w, on: k, group_by: [k]}, cxl: emit total = $window.sum(n)}
  - {type: output, name: out, input: t, config: {type: csv, path: out.csv}}
"""
    assert editor.write(text) == []
    edits = editor.ask("textDocument/rename", **editor.at("w, config"), newName="all")["changes"][editor.uri]
    assert editor.applied(edits) == text.replace("name: w", "name: all").replace("source: w", "source: all")


@pytest.mark.parametrize(
    ("program", "new"),
    [
        ("let x = 3\\nemit y = n + x", "x"),
        ("emit each x in k.split(',') { emit y = x + n.to_string() }", "x"),
        ("emit y = k.split(',').map(it => it + n.to_string())", "it"),
    ],
)
def test_a_new_name_that_something_else_has_in_a_program_is_refused(editor: Editor, program: str, new: str) -> None:
    text = (
        "pipeline: {name: p}\nnodes:\n"
        "  - {type: source, name: s, config: {type: csv, path: s.csv, schema: {k: string, n: int}}}\n"
        f'  - {{type: transform, name: t, input: s, config: {{cxl: "{program}"}}}}\n'
        "  - {type: output, name: out, input: t, config: {type: csv, path: out.csv}}\n"
    )
    assert [one for one in editor.write(text) if one["severity"] == 1] == []
    refused = editor.refused("textDocument/rename", **editor.at("n: int"), newName=new)
    assert refused == f"'{new}' would mean something else in node 't'"


def test_nothing_is_renamed_in_a_pipeline_with_errors(editor: Editor) -> None:
    editor.write(WIDE.replace("emit twice = n + n", "emit twice = n + unknown"))
    refused = editor.refused("textDocument/rename", **editor.at("n: int"), newName="number")
    assert "not every place of 'n' is known: " in refused
    assert "unknown field 'unknown'" in refused
    editor.write(WIDE.replace('cxl: "emit twice = n + n"', "phase: runtime"))
    assert editor.ask("textDocument/hover", **editor.at("name: r", 6)) is not None


def test_what_cannot_be_renamed_is_refused_with_the_reason(editor: Editor) -> None:
    editor.write(WIDE)
    for new, reason in (
        ("price", "node 's' has a column 'price' already"),
        ("a b", "is no name"),
        ("emit", "a word of"),
    ):
        assert reason in editor.refused("textDocument/rename", **editor.at("n + n"), newName=new)
    refused = editor.refused("textDocument/rename", **editor.at("name: t", 6), newName="u")
    assert "there is a node 'u' already" in refused
    for words in ("type: csv", "+ n", "sum("):
        assert editor.ask("textDocument/prepareRename", **editor.at(words)) is None


def test_nodes_that_lack_an_input_or_a_key_end_nothing(editor: Editor) -> None:
    for missing in (
        "    input: orders\n",
        ", input: priced",
        "path: in.csv, ",
        "name: priced\n",
        "type: csv, path: out.csv",
    ):
        assert editor.write(PIPELINE.replace(missing, "", 1)) != []
        for words in ("n*price", "name: out"):
            editor.ask("textDocument/hover", **editor.at(words, 1))
            editor.ask("textDocument/completion", **editor.at(words, 1))
            editor.ask("textDocument/prepareRename", **editor.at(words, 1))


def test_programs_get_their_canonical_layout(editor: Editor) -> None:
    editor.write(PIPELINE)
    edits = editor.ask(
        "textDocument/formatting",
        textDocument={"uri": editor.uri},
        options={"tabSize": 2, "insertSpaces": True},
    )
    formatted = editor.applied(edits)
    assert formatted == PIPELINE.replace("n*price", "n * price")
    assert editor.write(formatted) == []
    again = editor.ask(
        "textDocument/formatting", textDocument={"uri": editor.uri}, options={"tabSize": 2, "insertSpaces": True}
    )
    assert again == []


def test_other_files_are_left_alone(editor: Editor) -> None:
    for text in ("a: 1\n", "", "_compose: {name: x}\nnodes: []\n", "cases: []\npipeline: p.yaml\n"):
        assert editor.write(text) == []
    assert editor.write("pipeline: {name: p}\n") != []


def test_texts_that_are_no_pipeline_end_nothing(editor: Editor) -> None:
    for text in ("", "a: [", "nodes: 3", "- x", "\t", "pipeline: {name: p}\nnodes:\n  - ", "🙂", "a: &a [*a]"):
        editor.write(text)
        for method in ("hover", "definition", "completion"):
            editor.ask(f"textDocument/{method}", textDocument={"uri": editor.uri}, position={"line": 0, "character": 0})
        assert isinstance(editor.ask("textDocument/documentSymbol", textDocument={"uri": editor.uri}), list)
    editor.write(PIPELINE)
    symbols = editor.ask("textDocument/documentSymbol", textDocument={"uri": editor.uri})
    assert [(one["name"], one["detail"]) for one in symbols] == [
        ("orders", "source"),
        ("priced", "transform"),
        ("out", "output"),
    ]


REFERRING = """\
pipeline: {name: p}
nodes:
  - type: source
    name: s
    config:
      type: csv
      path: s.csv
      schema: {n: int}
      validations:
        - {references: {columns: n, source: cut.large, to: id}}
  - {type: source, name: known, config: {type: csv, path: k.csv, schema: {id: int}}}
  - {type: route, name: cut, input: known, config: {conditions: {large: id > 2}, default: small}}
  - {type: output, name: o, input: s, config: {type: csv, path: o.csv}}
"""


def test_a_branch_that_a_rule_refers_to_is_found_and_renamed(editor: Editor) -> None:
    assert [one for one in editor.write(REFERRING) if one["severity"] == 1] == []
    found = editor.ask("textDocument/definition", **editor.at("cut.large"))
    assert found["range"]["start"] == editor.at("cut, input")["position"]
    edits = editor.ask("textDocument/rename", **editor.at("cut.large"), newName="split")["changes"][editor.uri]
    assert editor.applied(edits) == REFERRING.replace("cut.large", "split.large").replace("name: cut", "name: split")
    edits = editor.ask("textDocument/rename", **editor.at("id: int"), newName="key")["changes"][editor.uri]
    wanted = REFERRING.replace("id: int", "key: int").replace("to: id", "to: key").replace("id > 2", "key > 2")
    assert editor.applied(edits) == wanted
