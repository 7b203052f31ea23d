"""`clinker lsp`: the Language Server Protocol over standard input and output."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from spark_jobs import __version__
from spark_jobs.cli.lsp import analysis, renaming
from spark_jobs.cli.lsp.analysis import Analysis
from spark_jobs.contract import ExitCode
from spark_jobs.diagnostics import pages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_jobs.cli.lsp.analysis import Edit
    from spark_jobs.diagnostics.diagnostic import Diagnostic
    from spark_jobs.diagnostics.source import Span
    from spark_jobs.plan.options import PlanOptions

#: The pause after the last key before a text is checked, in seconds.
_PAUSE_S = 0.15
_KINDS = {
    "column": lsp.CompletionItemKind.Field,
    "method": lsp.CompletionItemKind.Method,
    "function": lsp.CompletionItemKind.Function,
    "node": lsp.CompletionItemKind.Module,
    "type": lsp.CompletionItemKind.Class,
    "key": lsp.CompletionItemKind.Property,
    "variable": lsp.CompletionItemKind.Variable,
    "keyword": lsp.CompletionItemKind.Keyword,
}


@dataclass
class _Open:
    """A text that is open in the editor.

    Args:
        now: its present state.
        last: the last state that could be read as a pipeline.
        version: the editor's number of the present state.
    """

    now: Analysis
    last: Analysis
    version: int | None


class _Server(LanguageServer):
    """The state of a session: the texts that are open."""

    def __init__(self, planning: PlanOptions) -> None:
        super().__init__("clinker", __version__)
        self.planning = planning
        self.open: dict[str, _Open] = {}
        self.checks: dict[str, asyncio.Task[None]] = {}

    def keep(self, uri: str) -> _Open:
        """The present state of a text."""
        text = self.workspace.get_text_document(uri)
        known = self.open.get(uri)
        if known is None or known.now.text != text.source:
            now = Analysis(_path(uri), text.source, self.planning)
            last = known.last if known is not None and not now.is_readable else now
            known = self.open[uri] = _Open(now, last, text.version)
        return known

    def check(self, uri: str) -> None:
        """Send the diagnostics of a text to the editor."""
        known = self.keep(uri)
        found = [_diagnostic(one, known.now) for one in known.now.diagnostics if _is_of(one, known.now)]
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, found, known.version))

    def check_soon(self, uri: str) -> None:
        """Check a text when nothing has been written for a moment."""

        async def later() -> None:
            await asyncio.sleep(_PAUSE_S)
            self.check(uri)

        self.forget_check(uri)
        self.checks[uri] = asyncio.ensure_future(later())

    def forget_check(self, uri: str) -> None:
        """Do not check a text that was to be checked soon."""
        if (waiting := self.checks.pop(uri, None)) is not None:
            waiting.cancel()

    def offset(self, uri: str, position: lsp.Position) -> int:
        """The character offset of a place in a text."""
        return self.workspace.get_text_document(uri).offset_at_position(position)


def main(planning: PlanOptions) -> int:
    """Serve an editor until it says that it ends."""
    server = _server(planning)
    # The server closes its streams at the end, and prints of libraries must not get between its messages.
    with (
        os.fdopen(os.dup(sys.stdin.fileno()), "rb") as requests,
        os.fdopen(os.dup(sys.stdout.fileno()), "wb") as replies,
    ):
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        server.start_io(requests, replies)
    return ExitCode.SUCCESS


def _server(planning: PlanOptions) -> _Server:
    server = _Server(planning)

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: lsp.DidOpenTextDocumentParams) -> None:
        server.check(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(params: lsp.DidChangeTextDocumentParams) -> None:
        server.keep(params.text_document.uri)
        server.check_soon(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    def saved(params: lsp.DidSaveTextDocumentParams) -> None:
        # Other files may be part of a pipeline.
        for uri in list(server.open):
            server.forget_check(uri)
            server.open.pop(uri)
            server.check(uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: lsp.DidCloseTextDocumentParams) -> None:
        uri = params.text_document.uri
        server.forget_check(uri)
        server.open.pop(uri, None)
        server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))

    @server.feature(lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=[".", ":", " "]))
    def complete(params: lsp.CompletionParams) -> list[lsp.CompletionItem]:
        uri = params.text_document.uri
        known = server.keep(uri)
        found = analysis.completions(known.now, known.last, server.offset(uri, params.position))
        return [
            lsp.CompletionItem(
                one.text,
                kind=_KINDS[one.kind],
                detail=one.detail or None,
                documentation=_markdown(one.documentation) if one.documentation else None,
                sort_text=f"{number:05}",
            )
            for number, one in enumerate(found)
        ]

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    def hover(params: lsp.HoverParams) -> lsp.Hover | None:
        uri = params.text_document.uri
        said = server.keep(uri).now.hover(server.offset(uri, params.position))
        return lsp.Hover(_markdown(said)) if said else None

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def define(params: lsp.DefinitionParams) -> lsp.Location | None:
        uri = params.text_document.uri
        found = server.keep(uri).now.definition(server.offset(uri, params.position))
        return lsp.Location(uri, _range(found)) if found is not None else None

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    def refer(params: lsp.ReferenceParams) -> list[lsp.Location]:
        uri = params.text_document.uri
        known = server.keep(uri)
        found = renaming.named_at(known.now, server.offset(uri, params.position))
        return [lsp.Location(uri, _stretch(known.now, *span)) for span in found.spans] if found is not None else []

    @server.feature(lsp.TEXT_DOCUMENT_PREPARE_RENAME)
    def may_rename(params: lsp.PrepareRenameParams) -> lsp.Range | None:
        uri = params.text_document.uri
        known = server.keep(uri)
        place = server.offset(uri, params.position)
        found = renaming.named_at(known.now, place)
        spans = found.spans if found is not None else ()
        return next((_stretch(known.now, *span) for span in spans if span[0] <= place <= span[1]), None)

    @server.feature(lsp.TEXT_DOCUMENT_RENAME, lsp.RenameOptions(prepare_provider=True))
    def rename(params: lsp.RenameParams) -> lsp.WorkspaceEdit | None:
        uri = params.text_document.uri
        known = server.keep(uri)
        found = renaming.named_at(known.now, server.offset(uri, params.position))
        if found is None:
            return None
        try:
            edits = renaming.renamed(known.now, found, params.new_name)
        except renaming.NotRenamed as problem:
            raise JsonRpcException(str(problem), lsp.LSPErrorCodes.RequestFailed.value) from None
        return lsp.WorkspaceEdit({uri: [_of_edit(known.now, edit) for edit in edits]})

    @server.feature(lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def outline(params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
        known = server.keep(params.text_document.uri)
        return [
            lsp.DocumentSymbol(
                node.name or node.kind, lsp.SymbolKind.Class, _range(whole), _range(name), detail=node.kind
            )
            for node, whole, name in known.now.symbols()
        ]

    @server.feature(
        lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix])
    )
    def remedy(params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        uri = params.text_document.uri
        known = server.keep(uri)
        found = []
        for one in known.now.diagnostics:
            if not _is_of(one, known.now) or not _overlap(_diagnostic(one, known.now).range, params.range):
                continue
            for each in known.now.remedies(one):
                edit = lsp.WorkspaceEdit({uri: [_of_edit(known.now, each.edit)]})
                shown = [_diagnostic(one, known.now)]
                kind = lsp.CodeActionKind.QuickFix
                found.append(lsp.CodeAction(each.title, kind=kind, diagnostics=shown, edit=edit))
        return found

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def tidy(params: lsp.DocumentFormattingParams) -> Sequence[lsp.TextEdit]:
        known = server.keep(params.text_document.uri)
        return [_of_edit(known.now, edit) for edit in known.now.formatted()]

    return server


def _path(uri: str) -> Path:
    parts = urlsplit(uri)
    return Path(unquote(parts.path)) if parts.scheme == "file" else Path.cwd() / "untitled.yaml"


def _is_of(one: Diagnostic, text: Analysis) -> bool:
    """Whether a problem belongs to this text. Problems of other files are shown when these files are open."""
    return one.span is None or one.span.file.name == str(text.path)


def _diagnostic(one: Diagnostic, text: Analysis) -> lsp.Diagnostic:
    message = one.message + (f"\n{one.help}" if one.help else "")
    nowhere = lsp.Range(lsp.Position(0, 0), lsp.Position(0, 0))
    related = [
        lsp.DiagnosticRelatedInformation(lsp.Location(text.path.as_uri(), _range(label.span)), label.text)
        for label in one.labels
        if label.span.file.name == str(text.path)
    ]
    return lsp.Diagnostic(
        _range(one.span) if one.span is not None else nowhere,
        message,
        severity=lsp.DiagnosticSeverity.Error if one.is_error else lsp.DiagnosticSeverity.Warning,
        code=one.code.id if one.code.id in _explained() else None,
        source="clinker",
        related_information=related or None,
    )


@cache
def _explained() -> frozenset[str]:
    """The codes that `clinker explain` explains."""
    return frozenset(pages.known())


def _range(span: Span) -> lsp.Range:
    return lsp.Range(_position(span.file.text, span.start), _position(span.file.text, span.end))


def _of_edit(text: Analysis, edit: Edit) -> lsp.TextEdit:
    return lsp.TextEdit(_stretch(text, edit.start, edit.end), edit.text)


def _stretch(text: Analysis, start: int, end: int) -> lsp.Range:
    return lsp.Range(_position(text.text, start), _position(text.text, end))


def _position(text: str, offset: int) -> lsp.Position:
    """A place as the protocol counts: characters of UTF-16 in a line."""
    line_start = text.rfind("\n", 0, offset) + 1
    units = sum(2 if ord(sign) > 0xFFFF else 1 for sign in text[line_start:offset])
    return lsp.Position(text.count("\n", 0, line_start), units)


def _overlap(one: lsp.Range, other: lsp.Range) -> bool:
    def place(position: lsp.Position) -> tuple[int, int]:
        return position.line, position.character

    return place(one.start) <= place(other.end) and place(other.start) <= place(one.end)


def _markdown(text: str) -> Any:
    return lsp.MarkupContent(lsp.MarkupKind.Markdown, text)
