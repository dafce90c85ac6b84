"""Predictions by line in an editor: a lens above the spec asks for them, hints and hovers show them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lsp_editor import Editor
from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException

from tkgen.lsp.analysis import Request
from tkgen.lsp.hot import predict_lines
from tkgen.source import SourceFile

SPEC = """# a comment
kernel activated
  dims ROWS = 1024, D = 1024
  global X : bf16[ROWS, D]
  global Y : bf16[ROWS, D]
  over r in ROWS by 4
  x = X[r]
  b = gelu(gelu(x))  # hot
  Y[r] = b + x
"""


def lenses(editor: Editor, uri: str) -> list[lsp.CodeLens]:
    params = lsp.CodeLensParams(lsp.TextDocumentIdentifier(uri))
    return list(editor.run(editor.client.text_document_code_lens_async(params)) or ())


def titles(editor: Editor, uri: str) -> list[str]:
    return [lens.command.title for lens in lenses(editor, uri) if lens.command]


def hints(editor: Editor, uri: str) -> dict[int, Any]:
    """The hints of predictions, by line."""
    everything = lsp.Range(lsp.Position(0, 0), lsp.Position(99, 0))
    params = lsp.InlayHintParams(lsp.TextDocumentIdentifier(uri), everything)
    found = editor.run(editor.client.text_document_inlay_hint_async(params)) or ()
    return {h.position.line: h for h in found if " of vector, " in str(h.label)}


def command(editor: Editor, lens: lsp.CodeLens) -> Any:
    assert lens.command is not None
    params = lsp.ExecuteCommandParams(lens.command.command, lens.command.arguments)
    return editor.run(editor.client.workspace_execute_command_async(params))


def test_a_lens_predicts_the_lines_of_a_buffer(editor: Editor) -> None:
    uri = editor.open("activated.tk", SPEC)
    assert editor.diagnostics(uri) == []
    (lens,) = lenses(editor, uri)
    assert lens.range.start.line == 1 and titles(editor, uri) == ["predict by line"]
    assert 7 not in hints(editor, uri) and "Predicted" not in editor.hover(uri, 7, 2)
    (sentence,) = command(editor, lens)
    assert sentence.startswith("`gelu` in line 8 is ") and "; as `fast gelu` the kernel " in sentence
    assert titles(editor, uri) == [sentence]
    hint = hints(editor, uri)[7]
    assert hint.position.character == len("  b = gelu(gelu(x))")
    assert "% of vector, " in str(hint.label) and "registers" in str(hint.label)
    assert "Predicted: " in editor.hover(uri, 7, 2) and "% of the vector instructions" in editor.hover(uri, 7, 2)
    editor.change(uri, SPEC.replace("gelu(gelu(x))", "x * 2"))
    assert titles(editor, uri) == ["predict by line"] and 7 not in hints(editor, uri)


def test_a_wrong_spec_has_a_reason(editor: Editor) -> None:
    uri = editor.open("wrong.tk", SPEC.replace("b + x", "c + x"))
    with pytest.raises(JsonRpcException, match="the name `c` is not defined here"):
        command(editor, lenses(editor, uri)[0])
    assert lenses(editor, uri)[0].command.title != "predict by line"  # type: ignore[union-attr]
    fragment = editor.open("fragment.tk", "dims M = 4\n")
    assert lenses(editor, fragment) == []


def test_each_kernel_of_a_sequence_has_a_sentence_and_lines() -> None:
    path = Path(__file__).parents[2] / "specs" / "sequences" / "split_k_gelu.tk"
    found = predict_lines(Request(SourceFile(str(path), path.read_text())))
    assert not found.reason and [s.partition(":")[0] for s in found.sentences] == ["sums", "finish"]
    text = found.text.split("\n")
    (gelu,) = [x for x in found.lines if "gelu(" in text[x.line - 1]]
    assert "of the vector instructions of finish" in gelu.long
