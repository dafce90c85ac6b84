"""A client that drives `python -m tkgen.lsp.server` over standard input and output."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types as lsp
from pygls.lsp.client import LanguageClient

T = TypeVar("T")

CAPABILITIES = lsp.ClientCapabilities(
    text_document=lsp.TextDocumentClientCapabilities(
        publish_diagnostics=lsp.PublishDiagnosticsClientCapabilities(related_information=True)
    )
)


class Editor:
    """An editor with open buffers; every method waits for the server's answer."""

    def __init__(self, folder: Path, capabilities: lsp.ClientCapabilities = CAPABILITIES, **options: object) -> None:
        self.folder = folder
        self.loop = asyncio.new_event_loop()
        self.client = LanguageClient("test", "1")
        self.published: dict[str, tuple[int | None, list[lsp.Diagnostic]]] = {}
        self.messages: list[str] = []
        self.versions: dict[str, int] = {}
        self.client.feature(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(lambda params: self._receive(params))
        self.client.feature(lsp.WINDOW_SHOW_MESSAGE)(lambda params: self.messages.append(params.message))
        self.client.feature(lsp.WORKSPACE_INLAY_HINT_REFRESH)(lambda *params: None)
        self.run(self.client.start_io(sys.executable, "-m", "tkgen.lsp.server"))
        self.initialized = self.run(
            self.client.initialize_async(
                lsp.InitializeParams(
                    capabilities=capabilities,
                    workspace_folders=[lsp.WorkspaceFolder(folder.as_uri(), folder.name)],
                    initialization_options={"debounce": 0.02, **options},
                )
            )
        )
        self.client.initialized(lsp.InitializedParams())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(asyncio.wait_for(work, 30))

    def _receive(self, params: lsp.PublishDiagnosticsParams) -> None:
        self.published[params.uri] = (params.version, list(params.diagnostics))

    def open(self, name: str, text: str) -> str:
        uri = (self.folder / name).as_uri()
        return self.open_uri(uri, text)

    def open_uri(self, uri: str, text: str) -> str:
        self.versions[uri] = 1
        item = lsp.TextDocumentItem(uri, "tk", 1, text)
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        return uri

    def change(self, uri: str, text: str) -> None:
        self.versions[uri] += 1
        change = lsp.TextDocumentContentChangeWholeDocument(text)
        document = lsp.VersionedTextDocumentIdentifier(self.versions[uri], uri)
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(document, [change]))

    def close(self, uri: str) -> None:
        del self.versions[uri]
        self.published.pop(uri, None)
        self.client.text_document_did_close(lsp.DidCloseTextDocumentParams(lsp.TextDocumentIdentifier(uri)))

    def wait(self, condition: Callable[[], bool]) -> None:
        async def until() -> None:
            while not condition():
                await asyncio.sleep(0.005)

        self.run(until())

    def diagnostics(self, uri: str) -> list[lsp.Diagnostic]:
        """Diagnostics published for the buffer's current version."""
        self.wait(lambda: uri in self.published and self.published[uri][0] == self.versions.get(uri))
        return self.published[uri][1]

    def codes(self, uri: str) -> list[str]:
        return [str(d.code) for d in self.diagnostics(uri)]

    def at(self, uri: str, line: int, character: int) -> dict[str, Any]:
        return {"text_document": lsp.TextDocumentIdentifier(uri), "position": lsp.Position(line, character)}

    def hover(self, uri: str, line: int, character: int) -> str:
        found = self.run(self.client.text_document_hover_async(lsp.HoverParams(**self.at(uri, line, character))))
        return "" if found is None else str(found.contents.value)  # type: ignore[union-attr]

    def complete(self, uri: str, line: int, character: int) -> list[str]:
        params = lsp.CompletionParams(**self.at(uri, line, character))
        found = self.run(self.client.text_document_completion_async(params))
        return [item.label for item in found or ()]  # type: ignore[union-attr]

    def actions(self, uri: str, only: list[lsp.CodeActionKind] | None = None) -> list[lsp.CodeAction]:
        everything = lsp.Range(lsp.Position(0, 0), lsp.Position(10_000, 0))
        params = lsp.CodeActionParams(lsp.TextDocumentIdentifier(uri), everything, lsp.CodeActionContext([], only))
        return list(self.run(self.client.text_document_code_action_async(params)) or ())  # type: ignore[arg-type]

    def stop(self) -> int | None:
        """Shut the server down as the protocol wants it; its exit code."""
        process = self.client._server
        self.run(self.client.shutdown_async(None))
        self.client.exit(None)
        self.run(process.wait())
        self.run(self.client.stop())
        self.loop.close()
        return process.returncode


def edited(text: str, edits: list[lsp.TextEdit]) -> str:
    """ASCII text with the protocol's edits made."""
    lines = text.splitlines(keepends=True)
    starts = [sum(map(len, lines[:i])) for i in range(len(lines) + 1)]

    def offset(position: lsp.Position) -> int:
        return starts[min(position.line, len(lines))] + position.character

    for edit in sorted(edits, key=lambda e: (e.range.start.line, e.range.start.character), reverse=True):
        text = text[: offset(edit.range.start)] + edit.new_text + text[offset(edit.range.end) :]
    return text


SPEC = """\
# A spec.
kernel sample
  dims M = 4096, N = 2048, K = 1024
  param DEPTH = 2
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]

  block 128 x 128 step 64
  remap xcd(8, chunk = 16) | group(rows = 4)
  waves 2 x 2
  shared A, B buffers DEPTH   # both
  registers A, B slice 32
  accumulate C : f32 tile 32 x 32 interleaved
  store C
"""
