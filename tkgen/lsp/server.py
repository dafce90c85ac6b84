"""`tkgen lsp`: the language server. It keeps track of buffers and speaks the protocol; its neighbours do the rest.

Diagnostics, hover and inlay hints rest on an analysis in a worker process, started a moment after the last keystroke.
Everything else is read from the text at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from lsprotocol import types as lsp
from pygls import uris
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from tkgen import __version__
from tkgen.diagnostics import Diagnostic
from tkgen.lsp import completion, edits, hot, hover, names, symbols
from tkgen.lsp.analysis import Analysis, Request
from tkgen.lsp.outline import outline
from tkgen.lsp.project import Project
from tkgen.lsp.protocol import LEGEND, Places
from tkgen.lsp.worker import AnalysisError, Worker
from tkgen.source import SourceFile
from tkgen.syntax.loader import identity

BUILDING = 120.0  # seconds that a build and its prediction may take


@dataclass(frozen=True)
class Options:
    """The options of a client: the target, the folders that includes may reach, seconds to wait and to work."""

    target: str | None = None
    include_roots: tuple[str, ...] = ()
    debounce: float = 0.2
    deadline: float = 10.0

    @classmethod
    def of(cls, given: object, base: Options) -> Options:
        """`base` with what a client gave as `{"target": ..., "includeRoots": [...], "debounce": s, "deadline": s}`."""
        if not isinstance(given, dict):
            return base
        found: dict[str, Any] = {}
        if isinstance(given.get("target"), str):
            found["target"] = given["target"] or None
        if isinstance(given.get("includeRoots"), list):
            found["include_roots"] = tuple(r for r in given["includeRoots"] if isinstance(r, str))
        for key in ("debounce", "deadline"):
            if isinstance(given.get(key), int | float) and 0 <= given[key] <= 3600:
                found[key] = float(given[key])
        return replace(base, **found)


class TkServer(LanguageServer):
    """The buffers' analyses and what has been published of them."""

    def __init__(self) -> None:
        super().__init__("tkgen", __version__, text_document_sync_kind=lsp.TextDocumentSyncKind.Full)
        self.options = Options()
        self.worker = Worker(self.options.deadline)
        self.builder = Worker(BUILDING)
        self.analyses: dict[str, Analysis] = {}
        self.predictions: dict[str, hot.Predicted] = {}  # of a buffer, as it was
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._thread = ThreadPoolExecutor(1, "tkgen-analysis")
        self._builds = ThreadPoolExecutor(1, "tkgen-prediction")
        self._published: dict[str, dict[str, list[lsp.Diagnostic]]] = {}  # by the analysed buffer, then by file

    # ------------------------------------------------------------ buffers

    def file(self, uri: str) -> SourceFile:
        """A buffer as a source file, named by its path where it has one."""
        path = uris.to_fs_path(uri) if uri.startswith("file:") else None
        return SourceFile(path or uri, self.workspace.get_text_document(uri).source)

    def project(self) -> Project:
        """All open buffers, and the folders around them."""
        files = [self.file(uri) for uri in self.workspace.text_documents]
        opened = list(self.workspace.folders) or [self.workspace.root_uri or ""]
        folders = tuple(f for f in map(uris.to_fs_path, opened) if f)
        roots = tuple(os.path.join(*folders[:1], root) for root in self.options.include_roots)
        return Project({identity(f.name): f for f in files}, folders, roots)

    def places(self) -> Places:
        """Return the way in which this client counts positions and spells URIs."""
        open_uris = {identity(self.file(uri).name): uri for uri in self.workspace.text_documents}
        return Places(str(self.workspace.position_encoding or "utf-16"), open_uris)

    def offset(self, file: SourceFile, position: lsp.Position) -> int:
        """A position as a character offset."""
        return self.places().positions(file).offset(position.line, position.character)

    # ------------------------------------------------------------ analysis

    def changed(self, uri: str, delay: float | None = None) -> None:
        """Analyse a buffer, and those whose includes reach it, once no change has come for a moment."""
        me = identity(self.file(uri).name)
        project = self.project()
        for other in self.workspace.text_documents:
            file = self.file(other)
            if other == uri or any(identity(o.file.name) == me for o in project.closure(file)[1:]):
                self._start(other, self.options.debounce if delay is None else delay)

    def restart(self) -> None:
        """Analyse every buffer again: something that they depend on may have changed."""
        for uri in self.workspace.text_documents:
            self._start(uri, self.options.debounce)

    def _start(self, uri: str, delay: float) -> None:
        if uri in self._tasks:
            self._tasks[uri].cancel()
        self._tasks[uri] = asyncio.ensure_future(self._refresh(uri, delay))

    async def _refresh(self, uri: str, delay: float) -> None:
        await asyncio.sleep(delay)
        file = self.file(uri)
        project = self.project()
        request = Request(file, project.texts, project.include_roots, self.options.target)
        trouble: list[lsp.Diagnostic] = []
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._thread, self.worker.analyze, request)
        except AnalysisError as error:
            found = Analysis(file)
            place = self.places().range(file, 0, len(file.line(1)))
            trouble = [lsp.Diagnostic(place, str(error), severity=lsp.DiagnosticSeverity.Warning, source="tkgen")]
        self.analyses[uri] = found
        self._publish(uri, found, trouble)
        self.show_again()

    def show_again(self) -> None:
        """Ask the client for hints and lenses anew, where it can be asked."""
        workspace = self.client_capabilities.workspace
        if workspace and workspace.inlay_hint and workspace.inlay_hint.refresh_support:
            self.workspace_inlay_hint_refresh(None)
        if workspace and workspace.code_lens and workspace.code_lens.refresh_support:
            self.workspace_code_lens_refresh(None)

    # ------------------------------------------------------------ predictions

    async def predict(self, uri: str) -> hot.Predicted:
        """Build a buffer and predict its lines."""
        project, file = self.project(), self.file(uri)
        request = Request(file, project.texts, project.include_roots, self.options.target)
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(self._builds, self.builder.run, hot.predict_lines, request)
        except AnalysisError as error:
            found = hot.Predicted(file.text, reason=str(error))
        self.predictions[uri] = found
        self.show_again()
        return found

    def predicted(self, uri: str) -> hot.Predicted | None:
        """The prediction of a buffer's current text, where it was asked for."""
        found = self.predictions.get(uri)
        return found if found is not None and found.text == self.file(uri).text else None

    async def known(self, uri: str) -> Analysis:
        """The analysis of a buffer's current text; for a fragment that of an open spec that includes it."""
        while (task := self._tasks.get(uri)) is not None and not task.done():
            await asyncio.wait([task])
        found = self.analyses.get(uri) or Analysis(self.file(uri))
        if found.kernel is not None:
            return found
        me = identity(self.file(uri).name)
        for other, analysis in list(self.analyses.items()):
            if other != uri and me in {identity(o.file.name) for o in self.project().closure(self.file(other))[1:]}:
                return await self.known(other) if analysis.kernel is not None else analysis
        return found

    # ------------------------------------------------------------ diagnostics

    def _publish(self, uri: str, found: Analysis, trouble: list[lsp.Diagnostic]) -> None:
        """Tell the client what one analysis found, in every file it found it in."""
        places = self.places()
        document = self.client_capabilities.text_document
        shows = document.publish_diagnostics if document else None
        related = bool(shows and shows.related_information)
        mine: dict[str, list[lsp.Diagnostic]] = {uri: list(trouble)}
        for d in found.diagnostics:
            where = places.uri(d.primary.span.file) if d.primary else uri
            mine.setdefault(where, []).append(places.diagnostic(d, found.file, related))
        before = self._published.get(uri, {})
        self._published[uri] = mine
        self._send(before.keys() | mine.keys())

    def closed(self, uri: str) -> None:
        """Forget a buffer. Those that include it see the file on disk again."""
        task = self._tasks.pop(uri, None)
        if task is not None:
            task.cancel()
        self.analyses.pop(uri, None)
        self.predictions.pop(uri, None)
        self._send(self._published.pop(uri, {}).keys() | {uri})
        self.restart()

    def _send(self, where: set[str]) -> None:
        for uri in sorted(where):
            all_found: list[lsp.Diagnostic] = []
            for by_file in self._published.values():
                all_found += [d for d in by_file.get(uri, []) if d not in all_found]
            document = self.workspace.text_documents.get(uri)
            version = document.version if document else None
            self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, all_found, version))

    def findings(self, uri: str) -> list[Diagnostic]:
        """The diagnostics that stand in a buffer, whichever analysis found them."""
        me = identity(self.file(uri).name)
        found = (d for analysis in self.analyses.values() for d in analysis.diagnostics if d.primary)
        here = [d for d in found if d.primary and identity(d.primary.span.file.name) == me]
        return list(dict.fromkeys(here))

    def shutdown(self) -> None:
        """Stop the worker too."""
        for worker, thread in ((self.worker, self._thread), (self.builder, self._builds)):
            worker.close()
            thread.shutdown(wait=False, cancel_futures=True)
        super().shutdown()  # type: ignore[no-untyped-call]


# ---------------------------------------------------------------- what clients ask for and tell


def _initialize(ls: TkServer, params: lsp.InitializeParams) -> None:
    _configure(ls, params.initialization_options)


def _configuration(ls: TkServer, params: lsp.DidChangeConfigurationParams) -> None:
    given = params.settings
    _configure(ls, given.get("tkgen", given) if isinstance(given, dict) else given)
    _analyse_all(ls)


def _configure(ls: TkServer, given: object) -> None:
    ls.options = Options.of(given, ls.options)
    ls.worker.deadline = ls.options.deadline


def _opened(ls: TkServer, params: lsp.DidOpenTextDocumentParams) -> None:
    ls.changed(params.text_document.uri, delay=0)


def _changed(ls: TkServer, params: lsp.DidChangeTextDocumentParams) -> None:
    ls.changed(params.text_document.uri)


def _closed(ls: TkServer, params: lsp.DidCloseTextDocumentParams) -> None:
    ls.closed(params.text_document.uri)


def _analyse_all(ls: TkServer, params: object = None) -> None:
    """A file was saved or changed on disk, or the settings did."""
    ls.restart()


async def _hover(ls: TkServer, params: lsp.HoverParams) -> lsp.Hover | None:
    uri = params.text_document.uri
    known = await ls.known(uri)
    file = ls.file(uri)
    found = hover.hover(ls.project(), file, ls.offset(file, params.position), known)
    predicted = ls.predicted(uri)
    here = [x.long for x in predicted.lines if x.line == params.position.line + 1] if predicted else []
    parts = [*([found.markdown] if found else []), *(f"Predicted: {text}" for text in here)]
    if not parts:
        return None
    content = lsp.MarkupContent(lsp.MarkupKind.Markdown, "\n\n".join(parts))
    return lsp.Hover(content, ls.places().range(file, found.start, found.end) if found else None)


def _completion(ls: TkServer, params: lsp.CompletionParams) -> list[lsp.CompletionItem]:
    file = ls.file(params.text_document.uri)
    found = completion.complete(ls.project(), file, ls.offset(file, params.position))
    places = ls.places()
    return [places.completion(file, c, rank) for rank, c in enumerate(found)]


def _definition(ls: TkServer, params: lsp.DefinitionParams) -> list[lsp.Location]:
    file = ls.file(params.text_document.uri)
    places = ls.places()
    return [places.location(s) for s in names.definition(ls.project(), file, ls.offset(file, params.position))]


def _references(ls: TkServer, params: lsp.ReferenceParams) -> list[lsp.Location]:
    file = ls.file(params.text_document.uri)
    places = ls.places()
    found = names.references(ls.project(), file, ls.offset(file, params.position))
    wanted = [o for o in found if params.context.include_declaration or not o.declares]
    return [places.location(o.span) for o in wanted]


def _highlight(ls: TkServer, params: lsp.DocumentHighlightParams) -> list[lsp.DocumentHighlight]:
    file = ls.file(params.text_document.uri)
    here = outline(file)
    at = names.occurrence_at(here, ls.offset(file, params.position))
    places = ls.places()
    return [lsp.DocumentHighlight(places.span(o.span)) for o in names.occurrences(here) if at and o.key == at.key]


def _prepare_rename(ls: TkServer, params: lsp.PrepareRenameParams) -> lsp.PrepareRenamePlaceholder | None:
    file = ls.file(params.text_document.uri)
    at = names.occurrence_at(outline(file), ls.offset(file, params.position))
    return lsp.PrepareRenamePlaceholder(ls.places().span(at.span), at.name) if at else None


def _rename(ls: TkServer, params: lsp.RenameParams) -> lsp.WorkspaceEdit:
    file = ls.file(params.text_document.uri)
    try:
        found = names.rename(ls.project(), file, ls.offset(file, params.position), params.new_name)
    except names.RenameError as error:
        raise JsonRpcException(str(error), lsp.LSPErrorCodes.RequestFailed) from None
    return ls.places().workspace_edit(found)


def _formatting(ls: TkServer, params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit]:
    return ls.places().text_edits(edits.formatting(ls.file(params.text_document.uri)))


async def _code_actions(ls: TkServer, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    uri = params.text_document.uri
    await ls.known(uri)
    file, places = ls.file(uri), ls.places()
    start, end = ls.offset(file, params.range.start), ls.offset(file, params.range.end)
    actions = []
    current = [d for d in ls.findings(uri) if d.primary and d.primary.span.file.text == file.text]
    for found, fix in edits.fixes(current):
        spans = [*([found.primary.span] if found.primary else []), *(e.span for e in fix.edits)]
        if any(s.start <= end and start <= s.end for s in spans if s.file.text == file.text):
            shown = places.diagnostic(found, file, related=True)
            actions.append(
                lsp.CodeAction(
                    title=fix.text[:1].upper() + fix.text[1:],
                    kind=lsp.CodeActionKind.QuickFix,
                    diagnostics=[shown],
                    is_preferred=fix.certain,
                    edit=places.workspace_edit(fix.edits),
                )
            )
    everything = edits.fix_all(file, current)
    if everything:
        kind, edit = lsp.CodeActionKind.SourceFixAll, places.workspace_edit(everything)
        actions.append(lsp.CodeAction("Apply all fixes of tkgen", kind=kind, edit=edit))
    wanted = params.context.only
    return [
        a for a in actions if not wanted or any(f"{_text(a.kind)}.".startswith(f"{k}.") for k in map(_text, wanted))
    ]


def _text(kind: lsp.CodeActionKind | str | None) -> str:
    return kind.value if isinstance(kind, lsp.CodeActionKind) else kind or ""


async def _inlay_hints(ls: TkServer, params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
    known = await ls.known(params.text_document.uri)
    file, places = ls.file(params.text_document.uri), ls.places()
    start, end = ls.offset(file, params.range.start), ls.offset(file, params.range.end)
    positions = places.positions(file)
    predicted, here = ls.predicted(params.text_document.uri), outline(file)
    found = list(symbols.hints(here, known))
    if predicted is not None:
        ends = {file.position(s.start)[0]: s.code_end for s in here.statements}
        found += [symbols.Hint(ends[x.line], x.short, x.long) for x in predicted.lines if x.line in ends]
    return [
        lsp.InlayHint(lsp.Position(*positions.at(h.offset)), h.text, padding_left=True, tooltip=h.tooltip or None)
        for h in found
        if start <= h.offset <= end
    ]


def _code_lenses(ls: TkServer, params: lsp.CodeLensParams) -> list[lsp.CodeLens]:
    """The hottest equation above the spec, where it was predicted; else the command that predicts its lines."""
    uri = params.text_document.uri
    file, predicted = ls.file(uri), ls.predicted(uri)
    first = next((s for s in outline(file).statements if s.pieces[0].text in ("kernel", "sequence")), None)
    if first is None:
        return []
    place = ls.places().range(file, first.start, first.code_end)
    titles = list(predicted.sentences) or [predicted.reason or "no line is hot"] if predicted else ["predict by line"]
    return [lsp.CodeLens(place, lsp.Command(title, hot.COMMAND, arguments=[uri])) for title in titles]


async def _predict(ls: TkServer, uri: str) -> list[str]:
    """Predict the lines of a buffer: a sentence for each kernel."""
    if uri not in ls.workspace.text_documents:
        raise JsonRpcException(f"{uri} is not open", lsp.LSPErrorCodes.RequestFailed)
    found = await ls.predict(uri)
    if found.reason:
        raise JsonRpcException(found.reason, lsp.LSPErrorCodes.RequestFailed)
    return list(found.sentences)


def _symbols(ls: TkServer, params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
    file, places = ls.file(params.text_document.uri), ls.places()
    return [places.symbol(file, s) for s in symbols.symbols(outline(file))]


def _semantic_tokens(ls: TkServer, params: lsp.SemanticTokensParams) -> lsp.SemanticTokens:
    file = ls.file(params.text_document.uri)
    return ls.places().semantic_tokens(file, symbols.colours(outline(file)))


_TRIGGERS = lsp.CompletionOptions(trigger_characters=[" ", "(", "[", ",", "|", ":"])
_ACTIONS = lsp.CodeActionOptions([lsp.CodeActionKind.QuickFix, lsp.CodeActionKind.SourceFixAll])
_FEATURES: tuple[tuple[str, Callable[..., object], object], ...] = (
    (lsp.INITIALIZE, _initialize, None),
    (lsp.WORKSPACE_DID_CHANGE_CONFIGURATION, _configuration, None),
    (lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES, _analyse_all, None),
    (lsp.TEXT_DOCUMENT_DID_OPEN, _opened, None),
    (lsp.TEXT_DOCUMENT_DID_CHANGE, _changed, None),
    (lsp.TEXT_DOCUMENT_DID_SAVE, _analyse_all, None),
    (lsp.TEXT_DOCUMENT_DID_CLOSE, _closed, None),
    (lsp.TEXT_DOCUMENT_HOVER, _hover, None),
    (
        lsp.TEXT_DOCUMENT_COMPLETION,
        _completion,
        _TRIGGERS,
    ),
    (lsp.TEXT_DOCUMENT_DEFINITION, _definition, None),
    (lsp.TEXT_DOCUMENT_REFERENCES, _references, None),
    (lsp.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT, _highlight, None),
    (lsp.TEXT_DOCUMENT_PREPARE_RENAME, _prepare_rename, None),
    (lsp.TEXT_DOCUMENT_RENAME, _rename, lsp.RenameOptions(prepare_provider=True)),
    (lsp.TEXT_DOCUMENT_FORMATTING, _formatting, None),
    (lsp.TEXT_DOCUMENT_CODE_ACTION, _code_actions, _ACTIONS),
    (lsp.TEXT_DOCUMENT_INLAY_HINT, _inlay_hints, None),
    (lsp.TEXT_DOCUMENT_CODE_LENS, _code_lenses, None),
    (lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL, _symbols, None),
    (lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, _semantic_tokens, LEGEND),
)


def create_server() -> TkServer:
    """A server with every feature, not yet connected to anyone."""
    server = TkServer()
    for method, handler, options in _FEATURES:
        server.feature(method, options)(handler)
    server.command(hot.COMMAND)(_predict)
    return server


def _unexpected(record: logging.LogRecord) -> bool:
    """Return True if a message is worth the log: a request refused with a reason is an answer, no failure."""
    return not (record.exc_info and isinstance(record.exc_info[1], JsonRpcException))


def main(tcp: bool = False, host: str = "127.0.0.1", port: int = 2087) -> None:
    """Serve one client: over standard input and output, or over TCP."""
    server = create_server()
    logging.getLogger("pygls.protocol.json_rpc").addFilter(_unexpected)
    if tcp:
        server.start_tcp(host, port)
    else:
        server.start_io()


if __name__ == "__main__":
    main()
