"""Random edits of real specs through the protocol: whatever is typed, every request is answered, the server lives."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from lsp_editor import Editor
from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException

SPECS = [p.read_text() for p in sorted((Path(__file__).parents[2] / "specs").glob("*.tk"))]
WORDS = " ".join(SPECS).split()
CHARACTERS = 'abzAB019 \t\n\r,;:()[]|*#."=+-<>/\\🙂éß\u202e\x00\ufeff'
NAMES = ("Q", "kernel", "9", "é", "", "A")


def mutated(text: str, rng: random.Random) -> str:
    """The text after a few keystrokes, pastes and deletions."""
    for _ in range(rng.choice((1, 1, 2, 5))):
        i = rng.randint(0, len(text))
        j = min(len(text), i + rng.choice((0, 1, 3, 20, 200)))
        new = rng.choice(
            (
                "",
                rng.choice(CHARACTERS),
                f"{rng.choice(WORDS)} ",
                text[i:j] * 2,
                str(rng.choice((0, 1, 3, 64, 2**31, 10**18, -1))),
                f'include "{rng.choice(("a.tk", "self.tk", "../x", "/etc/passwd", "bytes.tk", ""))}"\n',
                f"\n{rng.choice(rng.choice(SPECS).splitlines())}\n",
            )
        )
        text = text[:i] + new + text[j:]
    return text


def requests(editor: Editor, uri: str, text: str, rng: random.Random) -> list[Callable[[], object]]:
    """A request of every kind, at a random position, perhaps outside of the text."""
    lines = text.split("\n")

    def position() -> lsp.Position:
        line = rng.randint(0, len(lines) + 1)
        return lsp.Position(line, rng.randint(0, len(lines[line]) + 3) if line < len(lines) else 3)

    client, document, at = editor.client, lsp.TextDocumentIdentifier(uri), position()
    reach, context = lsp.Range(position(), position()), lsp.ReferenceContext(True)
    layout = lsp.FormattingOptions(2, True)
    rename = lsp.RenameParams(text_document=document, position=at, new_name=rng.choice(NAMES))
    return [
        lambda: editor.run(client.text_document_hover_async(lsp.HoverParams(document, at))),
        lambda: editor.run(client.text_document_completion_async(lsp.CompletionParams(document, at))),
        lambda: editor.run(client.text_document_definition_async(lsp.DefinitionParams(document, at))),
        lambda: editor.run(client.text_document_references_async(lsp.ReferenceParams(context, document, at))),
        lambda: editor.run(client.text_document_document_highlight_async(lsp.DocumentHighlightParams(document, at))),
        lambda: editor.run(client.text_document_prepare_rename_async(lsp.PrepareRenameParams(document, at))),
        lambda: editor.run(client.text_document_rename_async(rename)),
        lambda: editor.run(client.text_document_formatting_async(lsp.DocumentFormattingParams(document, layout))),
        lambda: editor.run(
            client.text_document_code_action_async(lsp.CodeActionParams(document, reach, lsp.CodeActionContext([])))
        ),
        lambda: editor.run(client.text_document_inlay_hint_async(lsp.InlayHintParams(document, reach))),
        lambda: editor.run(client.text_document_document_symbol_async(lsp.DocumentSymbolParams(document))),
        lambda: editor.run(client.text_document_semantic_tokens_full_async(lsp.SemanticTokensParams(document))),
    ]


@pytest.mark.parametrize(
    ("seed", "edits"), [(0, 120), *(pytest.param(s, 1500, marks=pytest.mark.slow) for s in range(1, 4))]
)
def test_random_edits(tmp_path: Path, seed: int, edits: int) -> None:
    rng = random.Random(seed)
    (tmp_path / "self.tk").write_text('include "self.tk"\n')
    (tmp_path / "bytes.tk").write_bytes(b"\xff\xfe")
    editor = Editor(tmp_path, deadline=2)
    texts = {editor.open("a.tk", "global A : bf16[M, K]\n"): "", editor.open_uri("untitled:1", SPECS[0]): SPECS[0]}
    texts |= {editor.open(f"{i}.tk", SPECS[i]): SPECS[i] for i in range(2)}
    refused = 0
    for _ in range(edits):
        uri = rng.choice(list(texts))
        texts[uri] = mutated(texts[uri] if rng.random() > 0.05 else rng.choice(SPECS), rng)
        editor.change(uri, texts[uri])
        try:
            rng.choice(requests(editor, uri, texts[uri], rng))()
        except JsonRpcException as answer:  # only of a rename, and with a reason
            refused += 1
            assert "rename" in str(answer) or "`" in str(answer), answer
    assert refused < edits / 4
    assert editor.messages == []
    assert not [d for uri in texts for d in editor.diagnostics(uri) if "please report it" in d.message]
    assert editor.stop() == 0
