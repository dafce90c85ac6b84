"""From our data to the protocol's types: positions in the client's encoding, files as URIs."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from lsprotocol import types as lsp
from pygls import uris

from tkgen.diagnostics import Diagnostic, Edit, Severity
from tkgen.lsp.completion import Completion
from tkgen.lsp.symbols import Coloured, Symbol
from tkgen.source import SourceFile, Span
from tkgen.syntax.loader import identity

_SEVERITIES = {
    Severity.ERROR: lsp.DiagnosticSeverity.Error,
    Severity.WARNING: lsp.DiagnosticSeverity.Warning,
}
_SYMBOLS = {
    "kernel": lsp.SymbolKind.Function,
    "function": lsp.SymbolKind.Function,
    "dimension": lsp.SymbolKind.Constant,
    "parameter": lsp.SymbolKind.Constant,
    "tensor": lsp.SymbolKind.Array,
    "scalar": lsp.SymbolKind.Number,
    "role": lsp.SymbolKind.Namespace,
    "schedule": lsp.SymbolKind.Event,
    "cluster": lsp.SymbolKind.Operator,
    "axis": lsp.SymbolKind.Key,
    "value": lsp.SymbolKind.Variable,
    "store": lsp.SymbolKind.Operator,
    "condition": lsp.SymbolKind.Boolean,
}
_COMPLETIONS = {
    "keyword": lsp.CompletionItemKind.Keyword,
    "dimension": lsp.CompletionItemKind.Constant,
    "parameter": lsp.CompletionItemKind.Constant,
    "tensor": lsp.CompletionItemKind.Variable,
    "scalar": lsp.CompletionItemKind.Value,
    "keyword parameter": lsp.CompletionItemKind.Property,
    "remap": lsp.CompletionItemKind.Function,
    "epilogue": lsp.CompletionItemKind.Function,
    "function": lsp.CompletionItemKind.Function,
    "formula": lsp.CompletionItemKind.Function,
    "fast": lsp.CompletionItemKind.Function,
    "argument": lsp.CompletionItemKind.Variable,
    "axis": lsp.CompletionItemKind.Variable,
    "value": lsp.CompletionItemKind.Variable,
    "dtype": lsp.CompletionItemKind.TypeParameter,
}
_COLOURS = {
    "keyword": "keyword",
    "number": "number",
    "string": "string",
    "kernel": "function",
    "dimension": "variable",
    "parameter": "variable",
    "tensor": "variable",
    "scalar": "parameter",
    "function": "function",
    "argument": "parameter",
    "role": "namespace",
    "axis": "variable",
    "value": "variable",
    "word": "enumMember",
}
_READ_ONLY = frozenset({"dimension", "parameter"})
TOKEN_TYPES = sorted(set(_COLOURS.values()))
LEGEND = lsp.SemanticTokensLegend(TOKEN_TYPES, ["declaration", "readonly"])


@lru_cache(maxsize=64)
def _positions(text: str, encoding: str) -> Positions:
    """Remembered with its line starts, because every range of an answer asks for them."""
    return Positions(text, encoding)


@dataclass(frozen=True)
class Places:
    """Spans as ranges and locations; `open_uris` are the client's own URIs of open files, by real path."""

    encoding: str
    open_uris: Mapping[Path, str]

    def positions(self, file: SourceFile) -> Positions:
        """The positions of a file's text."""
        return _positions(file.text, self.encoding)

    def uri(self, file: SourceFile) -> str:
        """The URI of a file, as the client spells it where it has it open."""
        known = self.open_uris.get(identity(file.name))
        if known is not None or not os.path.isabs(file.name):
            return known or file.name
        return uris.from_fs_path(os.path.normpath(file.name)) or file.name

    def range(self, file: SourceFile, start: int, end: int) -> lsp.Range:
        """Characters `start`..`end` of a file."""
        positions = self.positions(file)
        return lsp.Range(lsp.Position(*positions.at(start)), lsp.Position(*positions.at(end)))

    def span(self, span: Span) -> lsp.Range:
        """A span as a range."""
        return self.range(span.file, span.start, span.end)

    def location(self, span: Span) -> lsp.Location:
        """A span with its file."""
        return lsp.Location(self.uri(span.file), self.span(span))

    def text_edits(self, edits: Iterable[Edit]) -> list[lsp.TextEdit]:
        """Edits of one file."""
        return [lsp.TextEdit(self.span(e.span), e.text) for e in edits]

    def workspace_edit(self, edits: Iterable[Edit]) -> lsp.WorkspaceEdit:
        """Edits of several files."""
        by_uri: dict[str, list[Edit]] = {}
        for edit in edits:
            by_uri.setdefault(self.uri(edit.span.file), []).append(edit)
        return lsp.WorkspaceEdit(changes={uri: self.text_edits(mine) for uri, mine in by_uri.items()})

    def diagnostic(self, found: Diagnostic, file: SourceFile, related: bool) -> lsp.Diagnostic:
        """A finding; one without a place stands at the start of `file`. `related`: the client shows other places."""
        primary = self.span(found.primary.span) if found.primary else self.range(file, 0, 0)
        lines = [found.message, *([found.primary.text] if found.primary and found.primary.text else [])]
        lines += [f"note: {note}" for note in found.notes]
        others = [
            lsp.DiagnosticRelatedInformation(self.location(s.span), s.text or "see here") for s in found.secondary
        ]
        if found.fix:
            lines.append(f"help: {found.fix.text}")
        return lsp.Diagnostic(
            range=primary,
            message="\n".join(lines),
            severity=_SEVERITIES[found.severity],
            code=found.code,
            source="tkgen",
            related_information=others if related and others else None,
        )

    def symbol(self, file: SourceFile, found: Symbol) -> lsp.DocumentSymbol:
        """An entry of the outline."""
        return lsp.DocumentSymbol(
            name=found.name,
            detail=found.detail,
            kind=_SYMBOLS[found.kind],
            range=self.range(file, found.start, found.end),
            selection_range=self.range(file, found.name_start, found.name_end),
            children=[self.symbol(file, child) for child in found.children],
        )

    def completion(self, file: SourceFile, found: Completion, rank: int) -> lsp.CompletionItem:
        """A completion; `rank` keeps our order."""
        text = found.documentation
        return lsp.CompletionItem(
            label=found.label,
            kind=_COMPLETIONS.get(found.kind, lsp.CompletionItemKind.EnumMember),
            detail=found.detail or None,
            documentation=lsp.MarkupContent(lsp.MarkupKind.PlainText, text) if text else None,
            sort_text=f"{rank:04}",
            text_edit=lsp.TextEdit(self.range(file, found.start, found.end), found.insert),
        )

    def semantic_tokens(self, file: SourceFile, found: Iterable[Coloured]) -> lsp.SemanticTokens:
        """Colours in the protocol's relative numbers: line, start, length, type, modifiers."""
        positions = self.positions(file)
        data: list[int] = []
        last_line = last_unit = 0
        for token in found:
            (line, unit), (_, end) = positions.at(token.start), positions.at(token.end)
            modifiers = int(token.declares) | (token.kind in _READ_ONLY) << 1
            start = unit - last_unit if line == last_line else unit
            data += (line - last_line, start, end - unit, TOKEN_TYPES.index(_COLOURS[token.kind]), modifiers)
            last_line, last_unit = line, unit
        return lsp.SemanticTokens(data)


_LINE_END = re.compile(r"\r\n|\n|\r")  # the protocol's line ends, and no others


@dataclass(frozen=True)
class Positions:
    """The lines of a text. `encoding` is utf-8, utf-16 (the protocol's default) or utf-32."""

    text: str
    encoding: str = "utf-16"

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(match.end() for match in _LINE_END.finditer(self.text))]

    def at(self, offset: int) -> tuple[int, int]:
        """The 0-based (line, code unit) of a character offset."""
        offset = min(max(offset, 0), len(self.text))
        line = bisect_right(self._starts, offset) - 1
        return line, self._units(self.text[self._starts[line] : offset])

    def offset(self, line: int, unit: int) -> int:
        """The character offset of a position; past the end of its line or of the text it is that end."""
        if line >= len(self._starts):
            return len(self.text)
        start = self._starts[line]
        end = self._starts[line + 1] if line + 1 < len(self._starts) else len(self.text)
        content = self.text[start:end].rstrip("\r\n")
        if content.isascii():
            return start + min(unit, len(content))
        for i, character in enumerate(content):
            unit -= self._units(character)
            if unit < 0:
                return start + i
        return start + len(content)

    def _units(self, text: str) -> int:
        if text.isascii() or self.encoding == "utf-32":
            return len(text)
        if self.encoding == "utf-8":
            return len(text.encode(errors="surrogatepass"))
        return len(text) + sum(c > "\uffff" for c in text)
