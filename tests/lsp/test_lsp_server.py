"""The server over its protocol: a real process, every feature, broken texts, awkward encodings."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from lsp_editor import SPEC, Editor, edited
from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException

ROOT = Path(__file__).parents[2]


def line_of(text: str, start: str) -> int:
    return next(i for i, line in enumerate(text.splitlines()) if line.lstrip().startswith(start))


# ---------------------------------------------------------------- diagnostics


def test_a_correct_spec_has_no_diagnostics(editor: Editor) -> None:
    assert editor.codes(editor.open("correct.tk", SPEC)) == []


def test_every_stage_reports(editor: Editor) -> None:
    uri = editor.open("stages.tk", SPEC.replace("store C", "stroe C"))
    assert editor.codes(uri) == ["E103"]
    editor.change(uri, SPEC.replace("bf16[N, K]", "bf16[N, L]"))
    assert editor.codes(uri) == ["E209"]
    editor.change(uri, SPEC.replace("buffers DEPTH", "buffers 9"))
    assert editor.codes(uri) == ["E501"]  # LDS, known to the checks only
    editor.change(uri, SPEC.replace("param DEPTH = 2", "target gfx999\n  param DEPTH = 2"))
    assert editor.codes(uri) == ["E219"]
    editor.change(uri, SPEC)
    assert editor.codes(uri) == []


def test_a_diagnostic_says_all_it_knows(editor: Editor) -> None:
    text = SPEC.replace("param DEPTH = 2", "param DEPTH = 2, N = 3")
    uri = editor.open("twice.tk", text)
    (found,) = editor.diagnostics(uri)
    line = line_of(text, "param")
    assert (found.code, found.source, found.severity) == ("E202", "tkgen", lsp.DiagnosticSeverity.Error)
    assert (found.range.start.line, found.range.start.character, found.range.end.character) == (line, 19, 20)
    assert "help: rename or remove one of them" in found.message
    (other,) = found.related_information or ()
    assert other.message == "first declared here" and other.location.uri == uri
    assert other.location.range.start == lsp.Position(line_of(text, "dims"), 17)


def test_the_last_of_many_quick_changes_counts(editor: Editor) -> None:
    uri = editor.open("typing.tk", "")
    for end in range(0, len(SPEC), 7):
        editor.change(uri, SPEC[:end])
    editor.change(uri, SPEC)
    assert editor.codes(uri) == []


def test_a_fragment_is_no_broken_spec(editor: Editor) -> None:
    uri = editor.open("fragment.tk", "dims M = 64\nglobal A : bf16[M]\n")
    assert editor.codes(uri) == []
    editor.change(uri, "dims M = 64\nglobal A : bf16[\n")
    assert editor.codes(uri) == ["E101"]


def test_unsaved_includes_count_before_they_are_saved(editor: Editor) -> None:
    parts = SPEC.splitlines(keepends=True)
    shapes = "".join(line[2:] for line in parts[2:7])
    (editor.folder / "shapes.tk").write_text("dims M = 64\n")
    spec = editor.open("including.tk", 'kernel sample\n  include "shapes.tk"\n' + "".join(parts[8:]))
    assert "E200" in editor.codes(spec) or "E201" in editor.codes(spec)
    fragment = editor.open("shapes.tk", shapes)
    editor.wait(lambda: editor.published[spec][1] == [])
    editor.change(fragment, shapes.replace("bf16[N, K]", "bf16[N, L]"))
    editor.wait(
        lambda: [d.code for d in editor.published.get(fragment, (0, []))[1]] == ["E209"]
    )  # in the file where it is
    assert editor.published[spec][1] == []
    editor.change(fragment, shapes)
    editor.wait(lambda: editor.published[fragment][1] == [])
    editor.close(fragment)
    editor.wait(lambda: editor.published[spec][1] != [])  # what is on disk counts again


def test_an_include_that_is_not_saved_at_all(editor: Editor) -> None:
    editor.open("new_shapes.tk", "param DEPTH = 2\n")
    text = SPEC.replace("  param DEPTH = 2", '  include "new_shapes.tk"')
    assert editor.codes(editor.open("new_including.tk", text)) == []


def test_closing_a_buffer_clears_its_diagnostics(editor: Editor) -> None:
    uri = editor.open("closing.tk", "kernel")
    assert editor.codes(uri) != []
    editor.close(uri)
    editor.wait(lambda: uri in editor.published)
    assert editor.published[uri] == (None, [])


def test_a_buffer_without_a_file(editor: Editor) -> None:
    uri = editor.open_uri("untitled:Untitled-1", SPEC)
    assert editor.codes(uri) == []
    assert "4,096" in editor.hover(uri, 2, 8)
    editor.change(uri, 'kernel a\n  include "b.tk"\n')
    assert "E104" in editor.codes(uri)


BROKEN = [
    "",
    "\0",
    "\ufeff",
    "kernel",
    "kernel \n\t\tdims",
    "x" * 40_000,
    "kernel a\n  block " + "(" * 5000,
    "kernel a\n  block " + "1 + " * 3000 + "1",
    "\r\r\r",
    'kernel a\n  include ""\n',
    'kernel a\n  include "../../../etc/passwd"\n',
    "\U0001f600" * 50,
    "kernel a\n  dims \u2028 M = 1\u000b\n",
    "}{)(][;;;" * 100,
    "schedule\n  cluster\n    cluster\n cluster",
    "kernel a\nkernel a\nkernel a",
]


def test_broken_texts_break_nothing(editor: Editor) -> None:
    uri = editor.open("broken.tk", SPEC)
    document = lsp.TextDocumentIdentifier(uri)
    for text in BROKEN:
        editor.change(uri, text)
        editor.diagnostics(uri)
        last = text.count("\n")
        for line, character in ((0, 0), (last, 0), (last, 20), (last + 5, 99)):
            editor.hover(uri, line, character)
            editor.complete(uri, line, character)
            at = editor.at(uri, line, character)
            editor.run(editor.client.text_document_definition_async(lsp.DefinitionParams(**at)))
            editor.run(editor.client.text_document_prepare_rename_async(lsp.PrepareRenameParams(**at)))
        editor.run(editor.client.text_document_document_symbol_async(lsp.DocumentSymbolParams(document)))
        editor.run(editor.client.text_document_semantic_tokens_full_async(lsp.SemanticTokensParams(document)))
        editor.actions(uri)
    editor.change(uri, SPEC)
    assert editor.codes(uri) == []


HUGE = SPEC + "  schedule\n" + "    group load A B  read A B  multiply\n" * 12_000


def test_a_spec_that_would_take_minutes_costs_the_deadline(tmp_path: Path) -> None:
    editor = Editor(tmp_path, deadline=0.5)
    uri = editor.open("huge.tk", HUGE)
    (found,) = editor.diagnostics(uri)
    assert "not analysed within 0.5 s" in found.message and found.severity == lsp.DiagnosticSeverity.Warning
    settings = {"tkgen": {"deadline": 20}}
    editor.client.workspace_did_change_configuration(lsp.DidChangeConfigurationParams(settings))
    editor.change(uri, SPEC)
    assert editor.codes(uri) == []
    editor.change(uri, HUGE)
    leave(editor, hang_up)


def hang_up(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    process.stdin.close()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_killed_server_leaves_nothing_running(tmp_path: Path) -> None:
    editor = Editor(tmp_path, deadline=600)
    uri = editor.open("huge.tk", SPEC)
    assert editor.codes(uri) == []
    editor.change(uri, HUGE)
    leave(editor, lambda process: process.kill())


def leave(editor: Editor, end: Callable[[asyncio.subprocess.Process], None]) -> None:
    """End the server while its worker is busy; nothing of it may stay."""
    time.sleep(0.2)
    process = editor.client._server
    assert process is not None
    children = processes_under(process.pid)
    end(process)
    editor.run(process.wait())
    for _ in range(400):
        if not any(Path(f"/proc/{child}").exists() for child in children):
            break
        time.sleep(0.02)
    assert not any(Path(f"/proc/{child}").exists() for child in children)
    editor.run(editor.client.stop())


def processes_under(pid: int) -> set[int]:
    """The process ids below one, where there is a /proc."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = {pid}
    while more := {p for p, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


# ---------------------------------------------------------------- fixes, formatting


def test_a_fix_can_be_applied(editor: Editor) -> None:
    text = SPEC.replace("store C", "stroe C").replace("registers A", "regsiters A")
    uri = editor.open("fixes.tk", text)
    assert editor.codes(uri) == ["E103", "E103"]
    actions = editor.actions(uri)
    assert [a.title for a in actions] == ["Write `registers`", "Write `store`", "Apply all fixes of tkgen"]
    first = actions[0]
    assert first.kind == lsp.CodeActionKind.QuickFix and first.is_preferred
    assert first.diagnostics and first.diagnostics[0] in editor.diagnostics(uri)
    assert first.edit and first.edit.changes
    assert edited(text, list(first.edit.changes[uri])) == SPEC.replace("store C", "stroe C")
    everything = editor.actions(uri, [lsp.CodeActionKind.SourceFixAll])
    assert len(everything) == 1 and everything[0].edit and everything[0].edit.changes
    assert edited(text, list(everything[0].edit.changes[uri])) == SPEC


def test_a_guess_is_offered_and_not_applied_with_the_rest(editor: Editor) -> None:
    text = SPEC.replace("shared A, B", "shared A, b")
    uri = editor.open("guess.tk", text)
    (action,) = editor.actions(uri)
    assert action.title == "Write `B`" and not action.is_preferred
    assert action.edit and action.edit.changes
    assert edited(text, list(action.edit.changes[uri])) == SPEC


def test_formatting(editor: Editor) -> None:
    text = SPEC.replace("waves 2 x 2", "waves   2   x 2").replace("# both", "#both")
    uri = editor.open("formatting.tk", text)
    params = lsp.DocumentFormattingParams(lsp.TextDocumentIdentifier(uri), lsp.FormattingOptions(2, True))
    edits = list(editor.run(editor.client.text_document_formatting_async(params)) or ())
    formatted = edited(text, edits)
    assert "\n  waves 2 x 2\n" in formatted
    editor.change(uri, formatted)
    assert not editor.run(editor.client.text_document_formatting_async(params))
    editor.change(uri, text + "  stroe")
    assert not editor.run(editor.client.text_document_formatting_async(params))  # what does not parse stays


def test_files_with_windows_line_ends(editor: Editor) -> None:
    text = SPEC.replace("waves 2 x 2", "waves  2 x 2").replace("\n", "\r\n")
    uri = editor.open("windows.tk", text)
    assert editor.codes(uri) == []
    assert "128 threads" not in editor.hover(uri, 10, 3) and "256 threads" in editor.hover(uri, 10, 3)
    params = lsp.DocumentFormattingParams(lsp.TextDocumentIdentifier(uri), lsp.FormattingOptions(2, True))
    edits = list(editor.run(editor.client.text_document_formatting_async(params)) or ())
    formatted = edited(text, edits)
    assert formatted.count("\r\n") == formatted.count("\n") and "  waves 2 x 2\r\n" in formatted
    editor.change(uri, text.replace("store C", "stroe C"))
    (found,) = editor.diagnostics(uri)
    assert found.range == lsp.Range(lsp.Position(14, 2), lsp.Position(14, 7))


# ---------------------------------------------------------------- looking


def test_hover_shows_what_was_derived(editor: Editor) -> None:
    uri = editor.open("hover.tk", SPEC)
    dim = editor.hover(uri, 2, 7)
    assert "dims M = 4096" in dim and "M = 4,096" in dim and "32 blocks" in dim
    tensor = editor.hover(uri, 4, 9)
    assert "4,194,304 elements" in tensor and "8 MiB" in tensor and "16,384 B x 2 buffers = 32,768 B" in tensor
    assert "tile.row \\* 128, k \\* 64" in tensor
    assert "16 K-steps of 64" in editor.hover(uri, 8, 3)
    accumulate = editor.hover(uri, 13, 3)
    assert "2 x 2 fragments of 32 x 32 per wave, 64 VGPRs" in accumulate
    assert "C\\[tile.row \\* 128 + (r + 2 i) \\* 32" in accumulate
    assert "each K-step takes every wave" in editor.hover(uri, 1, 1)
    assert "Chunk" not in editor.hover(uri, 9, 9) and "chunk" in editor.hover(uri, 9, 9)
    assert editor.hover(uri, 0, 3) == ""


def test_hover_in_a_schedule_shows_epochs(editor: Editor) -> None:
    text = (ROOT / "specs" / "ping_pong.tk").read_text()
    uri = editor.open("ping_pong.tk", text)
    line = line_of(text, "cluster read A(*; 2..3)")
    assert "epoch 4 of 8" in editor.hover(uri, line, 6)
    assert "LDS to register tiles" in editor.hover(uri, line, 13)
    assert "1 barrier behind" in editor.hover(uri, line_of(text, "phase"), 4)


def test_inlay_hints(editor: Editor) -> None:
    uri = editor.open("hints.tk", SPEC)
    everything = lsp.Range(lsp.Position(0, 0), lsp.Position(99, 0))
    params = lsp.InlayHintParams(lsp.TextDocumentIdentifier(uri), everything)
    hints = editor.run(editor.client.text_document_inlay_hint_async(params)) or ()
    shown = {h.position.line: (h.position.character, h.label) for h in hints}
    assert shown[8] == (25, "16 K-steps")
    assert shown[10] == (13, "256 threads")
    assert shown[11] == (27, "65,536 B LDS")  # behind the code, before the comment
    assert shown[13][1] == "2 x 2 fragments per wave, 64 VGPRs"
    assert "barrier" in str(shown[1][1])
    one_line = lsp.Range(lsp.Position(8, 0), lsp.Position(9, 0))
    params = lsp.InlayHintParams(lsp.TextDocumentIdentifier(uri), one_line)
    assert len(editor.run(editor.client.text_document_inlay_hint_async(params)) or ()) == 1


def test_completion(editor: Editor) -> None:
    text = SPEC.replace("  store C\n", "  \n  shared A, B \n  store \n  block 128 x \n")
    uri = editor.open("completion.tk", text)
    line = line_of(SPEC, "store")
    start = editor.complete(uri, line, 2)
    assert {"waves", "shared", "schedule"} <= set(start) and "cluster" not in start
    assert editor.complete(uri, line + 1, 14) == ["buffers", "via"]
    assert editor.complete(uri, line + 2, 8) == ["A", "B", "C"]
    assert editor.complete(uri, line + 3, 14)[:4] == ["M", "N", "K", "DEPTH"]
    assert editor.complete(uri, 0, 4) == []


def test_symbols(editor: Editor) -> None:
    text = (ROOT / "specs" / "producer_consumer_4p8c.tk").read_text()
    uri = editor.open("symbols.tk", text)
    params = lsp.DocumentSymbolParams(lsp.TextDocumentIdentifier(uri))
    (kernel,) = editor.run(editor.client.text_document_document_symbol_async(params)) or ()
    assert kernel.name == "producer_consumer_4p8c"
    assert isinstance(kernel, lsp.DocumentSymbol)
    assert [c.name for c in kernel.children or ()] == ["M", "N", "K", "A", "B", "C", "producer", "consumer"]
    consumer = (kernel.children or ())[-1]
    assert consumer.range.end.line == line_of(text, "store C") and kernel.range.end == consumer.range.end


def test_semantic_tokens_know_a_tensor_from_a_keyword(editor: Editor) -> None:
    text = "kernel a\n  dims x = 64\n  global step : bf16[x]\n  shared step buffers 2\n"
    uri = editor.open("tokens.tk", text)
    params = lsp.SemanticTokensParams(lsp.TextDocumentIdentifier(uri))
    found = editor.run(editor.client.text_document_semantic_tokens_full_async(params))
    provider = editor.initialized.capabilities.semantic_tokens_provider
    assert found is not None and provider is not None
    legend = provider.legend.token_types
    line = character = 0
    decoded = {}
    for i in range(0, len(found.data), 5):
        down, right, length, kind, _ = found.data[i : i + 5]
        line, character = line + down, right if down else character + right
        decoded[line, text.splitlines()[line][character : character + length]] = legend[kind]
    assert decoded[2, "global"] == "keyword" and decoded[2, "step"] == "variable"
    assert decoded[3, "step"] == "variable" and decoded[3, "buffers"] == "keyword"
    assert decoded[2, "bf16"] == "enumMember" and decoded[3, "2"] == "number"


# ---------------------------------------------------------------- names


@pytest.fixture
def included(editor: Editor, request: pytest.FixtureRequest) -> tuple[str, str]:
    """A fragment on disk and a spec in a buffer that includes it; their URIs."""
    folder = editor.folder / request.node.name
    folder.mkdir()
    lines = SPEC.splitlines(keepends=True)
    (folder / "shapes.tk").write_text("".join(line[2:] for line in lines[2:7]))
    uri = editor.open(f"{folder.name}/spec.tk", 'kernel sample\n  include "shapes.tk"\n' + "".join(lines[8:]))
    return uri, (folder / "shapes.tk").as_uri()


def test_definition_through_an_include(editor: Editor, included: tuple[str, str]) -> None:
    spec, shapes = included
    found = editor.run(editor.client.text_document_definition_async(lsp.DefinitionParams(**editor.at(spec, 8, 9))))
    assert found == [lsp.Location(shapes, lsp.Range(lsp.Position(4, 7), lsp.Position(4, 8)))]
    found = editor.run(editor.client.text_document_definition_async(lsp.DefinitionParams(**editor.at(spec, 1, 15))))
    assert found == [lsp.Location(shapes, lsp.Range(lsp.Position(0, 0), lsp.Position(0, 0)))]


def test_references_through_an_include(editor: Editor, included: tuple[str, str]) -> None:
    spec, shapes = included
    params = lsp.ReferenceParams(lsp.ReferenceContext(False), **editor.at(spec, 5, 9))
    found = editor.run(editor.client.text_document_references_async(params)) or ()
    assert [(loc.uri, loc.range.start.line) for loc in found] == [(spec, 5), (spec, 6)]
    params = lsp.ReferenceParams(lsp.ReferenceContext(True), **editor.at(spec, 5, 9))
    found = editor.run(editor.client.text_document_references_async(params)) or ()
    assert {(loc.uri, loc.range.start.line) for loc in found} == {(spec, 5), (spec, 6), (shapes, 2)}
    highlights = editor.run(
        editor.client.text_document_document_highlight_async(lsp.DocumentHighlightParams(**editor.at(spec, 5, 9)))
    )
    assert [h.range.start.line for h in highlights or ()] == [5, 6]


def test_rename_everywhere(editor: Editor, included: tuple[str, str]) -> None:
    spec, shapes = included
    ready = editor.run(
        editor.client.text_document_prepare_rename_async(lsp.PrepareRenameParams(**editor.at(spec, 5, 9)))
    )
    assert isinstance(ready, lsp.PrepareRenamePlaceholder) and ready.placeholder == "A"
    found = editor.run(
        editor.client.text_document_rename_async(lsp.RenameParams(new_name="Left", **editor.at(spec, 5, 9)))
    )
    assert found is not None and found.changes is not None
    assert set(found.changes) == {spec, shapes}
    fragment = edited("".join(line[2:] for line in SPEC.splitlines(keepends=True)[2:7]), list(found.changes[shapes]))
    assert "global Left : bf16[M, K]" in fragment and "global A" not in fragment
    assert len(found.changes[spec]) == 2


def test_rename_is_refused_with_a_reason(editor: Editor, included: tuple[str, str]) -> None:
    spec, _ = included

    def refusal(new: str, line: int = 5, character: int = 9) -> str:
        at = editor.at(spec, line, character)
        with pytest.raises(JsonRpcException) as caught:
            editor.run(editor.client.text_document_rename_async(lsp.RenameParams(new_name=new, **at)))
        return str(caught.value)

    assert "`B` already has a meaning, see shapes.tk:4" in refusal("B")
    assert "no name" in refusal("2x") and "no name" in refusal("a b") and "no name" in refusal("")
    assert "reserved word" in refusal("fetch")
    assert "no name here" in refusal("X", 5, 3)


# ---------------------------------------------------------------- encodings, sizes, life


def test_a_refusal_is_an_answer_and_no_line_of_the_log(tmp_path: Path) -> None:
    """Clients need not read the server's standard error: a pipe that fills up would stop it."""
    editor = Editor(tmp_path)
    uri = editor.open("quiet.tk", SPEC)
    params = lsp.RenameParams(position=lsp.Position(0, 0), text_document=lsp.TextDocumentIdentifier(uri), new_name="Q")
    for _ in range(3):
        with pytest.raises(JsonRpcException, match="no name here"):
            editor.run(editor.client.text_document_rename_async(params))
    process = editor.client._server
    assert editor.stop() == 0
    assert process.stderr._buffer == b""  # type: ignore[union-attr]


def test_the_server_ends_while_its_first_analysis_begins(tmp_path: Path) -> None:
    editor = Editor(tmp_path)
    editor.open("brief.tk", SPEC)
    assert editor.stop() == 0


def test_columns_are_counted_as_the_client_counts(tmp_path: Path) -> None:
    encoding, width = lsp.PositionEncodingKind.Utf8, 4
    general = lsp.GeneralClientCapabilities(position_encodings=[encoding])
    editor = Editor(tmp_path, lsp.ClientCapabilities(general=general))
    assert editor.initialized.capabilities.position_encoding == encoding
    uri = editor.open("wide.tk", "# \U0001f600\nkernel a  # \U0001f600\U0001f600 \U0001f600\n  \U0001f600 x\n")
    found = editor.diagnostics(uri)[0]
    assert (found.range.start.line, found.range.start.character) == (2, 2)
    assert found.range.end.character == 2 + width
    assert editor.stop() == 0


def test_positions_behind_wide_characters(editor: Editor) -> None:
    assert editor.initialized.capabilities.position_encoding == lsp.PositionEncodingKind.Utf16
    text = SPEC.replace("group(rows = 4)", "group(rows = 4) # \U0001f600\U0001f600\n    # \U0001f600\n")
    uri = editor.open("astral.tk", text)
    assert editor.codes(uri) == []
    assert "4,096" in editor.hover(uri, 2, 7)
    text = 'kernel a\n  include "\U0001f600.tk" \U0001f600 dims\n'
    editor.change(uri, text)
    found = editor.diagnostics(uri)
    assert any(d.range.start.character == 18 and d.range.end.character == 20 for d in found), found


def test_a_big_file(editor: Editor) -> None:
    params = "".join(f"  param P{i} = {i + 1}, Q{i} = P{i} * 2   # a comment\n" for i in range(1200))
    head, tail = SPEC.split("\n\n", 1)
    text = f"{head}\n{params}\n{tail}"
    uri = editor.open("big.tk", text)
    assert editor.codes(uri) == []
    assert "P1000" in editor.hover(uri, 7 + 1000, 9)
    begin = time.monotonic()
    editor.change(uri, text.replace("P17 = 18", "P17 = 19"))
    assert "param P17 = 19" in editor.hover(uri, 7 + 17, 9)
    assert time.monotonic() - begin < 10
    editor.close(uri)


def test_options_change_while_it_runs(tmp_path: Path) -> None:
    folder = tmp_path / "specs"
    (tmp_path / "shared").mkdir()
    folder.mkdir()
    (tmp_path / "shared" / "depth.tk").write_text("param DEPTH = 2\n")
    editor = Editor(folder)
    uri = editor.open("a.tk", SPEC.replace("param DEPTH = 2", 'include "../shared/depth.tk"'))
    assert editor.codes(uri) == ["E104"]
    settings = {"tkgen": {"includeRoots": ["../shared"], "target": "gfx950"}}
    editor.client.workspace_did_change_configuration(lsp.DidChangeConfigurationParams(settings))
    editor.wait(lambda: editor.published[uri][1] == [])
    assert "163,840 B" in editor.hover(uri, 1, 2)  # gfx950 has 160 KiB of LDS
    assert editor.stop() == 0


def test_a_file_changed_on_disk(editor: Editor, included: tuple[str, str]) -> None:
    spec, shapes = included
    assert editor.codes(spec) == []
    path = Path(shapes.removeprefix("file://"))
    path.write_text(path.read_text().replace("bf16[N, K]", "bf16[N, L]"))
    change = lsp.FileEvent(shapes, lsp.FileChangeType.Changed)
    editor.client.workspace_did_change_watched_files(lsp.DidChangeWatchedFilesParams([change]))
    editor.wait(lambda: [d.code for d in editor.published.get(shapes, (None, []))[1]] == ["E209"])


def connected(port: int, process: subprocess.Popen[bytes]) -> socket.socket:
    """A connection to a server that may still be starting, which takes many seconds on a busy machine."""
    end = time.monotonic() + 120
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=60)
        except ConnectionRefusedError:
            assert process.poll() is None and time.monotonic() < end, "the server does not listen"
            time.sleep(0.05)


def test_over_tcp(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    code = f"from tkgen.lsp.server import main; main(tcp=True, port={port})"
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    try:
        with connected(port, process) as connection:
            body = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}'
            connection.sendall(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
            answer = b""
            while b'"serverInfo"' not in answer:
                part = connection.recv(65536)
                assert part, answer
                answer += part
            assert b'"hoverProvider"' in answer
    finally:
        process.kill()
        process.wait()
