"""Completion against the specs themselves: whatever someone wrote must have been on offer."""

from __future__ import annotations

from pathlib import Path

import pytest
from lark.lexer import PatternStr
from lsp_editor import SPEC
from sampling import sample

from tkgen.lsp import words
from tkgen.lsp.completion import complete
from tkgen.lsp.context import stands_for
from tkgen.lsp.outline import outline
from tkgen.lsp.project import Project
from tkgen.source import SourceFile
from tkgen.syntax.grammar import parser

ROOT = Path(__file__).parents[2]
SPECS = [*sorted((ROOT / "specs").glob("*.tk")), *sorted((ROOT / "tests/syntax/corpus").glob("p*.tk"))]
SPECS += sorted((ROOT / "tests/equations").glob("*.tk"))
NEW = ("kernel", "dims", "param", "global", "scalar", "role", "over", "each", "carry")
EMPTY = Project({})


def labels(text: str, offset: int | None = None) -> list[str]:
    return [c.label for c in complete(EMPTY, SourceFile("/a.tk", text), len(text) if offset is None else offset)]


@pytest.mark.parametrize("path", sample(SPECS, 4), ids=lambda p: p.stem)
def test_every_word_of_a_spec_was_on_offer(path: Path) -> None:
    file = SourceFile(str(path), path.read_text())
    declared = set()
    for statement in outline(file).statements:
        for before, piece in zip((None, *statement.pieces), statement.pieces, strict=False):
            if not piece.text[0].isalpha() or piece.type == "INT":
                continue
            first = statement.pieces[0]
            lists = before is not None and before.text == "," and first.text in (*NEW[1:3], "over", "carry")
            introduced = piece.type == "NAME" and (
                (before is not None and before.text in NEW)
                or (lists and stands_for(statement.pieces[: statement.pieces.index(piece)]) == "new")
                or (piece is first and piece.text not in declared)
                or (first.text == "reference" and before is not None and before.text in ("reference", "(", ","))
            )
            if introduced:
                declared.add(piece.text)
                continue
            found = [c for c in complete(EMPTY, file, piece.start) if c.label == piece.text]
            assert found, f"{piece.text} in {file.text[statement.start : statement.end]}"
            assert (found[0].kind == "keyword") == (piece.type != "NAME") or piece.text in declared
            typed = complete(EMPTY, file, piece.end)
            assert any((c.label, c.start, c.end) == (piece.text, piece.start, piece.end) for c in typed)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["kernel", "dims", "param", "global", "scalar"]),
        ("kernel a\n  ", ["dims", "param", "global"]),
        ("kernel a\n  sch", ["dims"]),
        ("schedule\n  ", ["cluster", "group"]),
        ("schedule ", ["auto", "simple", "ping_pong", "interleave", "barriers", "waits"]),
        ("schedule barriers ", ["auto", "manual"]),
        ("shared A ", ["buffers", "via"]),
        ("shared A via ", ["collective", "registers", "direct"]),
        ("global A : ", ["bf16", "f16", "f32"]),
        ("target gfx942, ", ["gfx90a", "gfx942", "gfx950"]),
        ("remap xcd(8, ", ["n", "chunk"]),
        ("remap xcd(8) | ", ["column_major", "group", "row_major"]),
        ("grid ", ["linear", "persistent"]),
        ("epilogue ", ["scale", "add", "bias", "relu"]),
        ("tail ", ["masked", "clamped"]),
        ("allow ", ["spills", "slow_reads", "low_occupancy"]),
        ("occupancy 2 ", ["waves", "wave"]),
        ("occupancy 2 waves per ", ["simd"]),
        ("accumulate C : f32 ", ["tile"]),
        ("accumulate C : f32 tile 32 ", ["x"]),
        ("accumulate C : f32 tile 32 x 32 ", ["interleaved", "blocked", "mfma"]),
        ("schedule\n  cluster wait ", ["vm", "lds"]),
        ("schedule\n  cluster priority ", ["low", "high"]),
        ("schedule\n  cluster fetch A[", ["k"]),
        ("schedule\n  cluster multiply ", ["slice"]),
        ("role a waves 0..3 ", ["as"]),
        ("phase waves 0..3 by 1 ", ["clusters", "cluster"]),
        ("clusters 2 ", ["along"]),
        ("kernel a\n  clu", ["clusters"]),
        ("over q in Q ", ["by"]),
        ("each j in J by 64 ", ["to"]),
        ("waves 4 ", ["x", "along"]),
        ("carry m : ", ["bf16", "f16", "f32"]),
        ("x = ", ["where", "max", "min"]),
        ("x = rowm", ["where", "max", "min"]),
        ("x = q > 0 ", ["and", "or"]),
        ("kernel a\n  each j in J by 64\n    ", ["each", "carry"]),
        ("tune BM ", ["in"]),
        ("dims M = ", ["dynamic"]),
    ],
)
def test_what_is_offered(text: str, expected: list[str]) -> None:
    found = labels(text)
    assert [w for w in found if w in expected] == expected


@pytest.mark.parametrize("text", ["# ", "block 12", "block 128 x 64 # st", "kernel ", "global ", "block 128 ) ", "}} "])
def test_nothing_is_offered(text: str) -> None:
    assert labels(text) == []


def test_hash_in_a_path_is_no_comment() -> None:
    assert labels('include "#" ') == []
    assert labels("dims M = 1\nblock ") == ["M", "min", "max", "ceil_div"]


def test_only_names_that_fit_are_offered() -> None:
    at = SPEC.index("store C") + 6
    assert labels(SPEC, at) == ["A", "B", "C"]
    scaled = SPEC.replace("store C", "scalar alpha : f32\n  epilogue scale( ")
    found = labels(scaled, scaled.index("scale( ") + 7)
    assert "alpha" in found and "M" not in found
    assert labels(SPEC, SPEC.index("bf16[M") + 5) == ["M", "N", "K"]  # no parameter shapes a tensor


def test_a_remaps_parameters_are_described() -> None:
    text = "remap xcd(8, chunk = 16) | group("
    (rows,) = [c for c in complete(EMPTY, SourceFile("/a.tk", text), len(text)) if c.label == "rows"]
    assert rows.insert == "rows = " and rows.detail == "group(rows)" and "height of a band" in rows.documentation
    given = labels("remap xcd(8, chunk = 16, ")
    assert "chunk" not in given


def test_every_word_is_explained() -> None:
    keywords = {t.pattern.value for t in parser().terminals if isinstance(t.pattern, PatternStr)}
    for keyword in sorted(k for k in keywords if k.isalpha()):
        found = words.keyword(keyword, "")
        assert found is not None and found.meaning, keyword
        assert keyword in found.form.split() or keyword == "in"
    for role, choices in words.CHOICES.items():
        for choice in choices:
            meaning = words.word(role, choice)
            assert meaning is not None and meaning.meaning, (role, choice)
    assert words.word("tail", "masks") is None and words.keyword("masked", "tail") is None
