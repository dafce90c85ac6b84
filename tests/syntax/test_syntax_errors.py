"""Syntax errors: their codes, words, places and fixes; all of a file at once."""

from pathlib import Path

import pytest

from tkgen.diagnostics import Diagnostic, SpecError
from tkgen.diagnostics.fixes import apply_fixes
from tkgen.source import SourceFile
from tkgen.syntax.parser import parse, parse_fragment


def diagnostics(text: str) -> list[Diagnostic]:
    with pytest.raises(SpecError) as caught:
        parse(SourceFile("spec.tk", text))
    return caught.value.diagnostics


def only(text: str) -> Diagnostic:
    (found,) = diagnostics(text)
    return found


def underlined(found: Diagnostic) -> str:
    assert found.primary is not None
    return found.primary.span.text


BLOCK = "a block is `block 128 x 128 step 64`: rows, columns, and elements of K per step"


@pytest.mark.parametrize(
    ("line", "code", "message", "at"),
    [
        ("block 128 x 128 stp 64", "E101", "expected `step`, found `stp`", "stp"),
        ("block 128 x 128", "E101", BLOCK, "128"),
        ("block 128 x 128 step", "E101", "expected a size, found the end of the line", ""),
        ("block 128, 128 step 64", "E101", BLOCK, "128,"),
        ("global A bf16[M]", "E101", "a tensor is declared `global X : bf16[M, K]`", "bf16"),
        ("global A : bf16", "E101", "expected `[`, found the end of the line", ""),
        (
            "shared A, buffers 2",
            "E101",
            "names are separated by commas and followed by their options: `shared A, B buffers 2`",
            "A,",
        ),
        ("waves 4 2", "E101", "expected `x`, `along` or the end of the line, found `2`", "2"),
        ("include x.tk", "E101", "expected a path in double quotes, found `x`", "x"),
        ('include "x.tk', "E101", 'expected a path in double quotes, found `"`', '"'),
        ("tune BM on 64", "E101", "expected `in`, found `on`", "on"),
        ("dims M = 5 € 2", "E101", "expected `,` or the end of the line, found `€`", "€"),
        ("dims M = \x1b", "E101", "expected a size, found the character U+001B", "\x1b"),
        ("unroll (2", "E101", "expected `)`, found the end of the line", ""),
        ("remap a(x = 1, 2)", "E101", "a positional argument follows a keyword argument", "2"),
        ("= 4", "E101", "expected a statement, found `=`", "="),
        ("param M = dynamic", "E101", "a parameter needs a number", "dynamic"),
        ("frobnicate 4", "E103", "unknown statement `frobnicate`", "frobnicate"),
        ("golbal A : bf16[M]", "E103", "unknown statement `golbal`", "golbal"),
        ("Dims M = 4", "E103", "unknown statement `Dims`", "Dims"),
        ("unroll 2147483648", "E105", "this number is out of range", "2147483648"),
        ("unroll " + "9" * 9000, "E105", "this number is out of range", "9" * 9000),
        ("scalar a : f32 = 1e999", "E105", "this number is out of range", "1e999"),
        ("shared A buffers 1 buffers 2", "E107", "`buffers` is given twice", "buffers 2"),
        ("remap xcd(n = 1, n = 2)", "E107", "argument `n` is given twice", "n"),
        ("global copy : f32[M]", "E108", "`copy` is a reserved word", "copy"),
        ("dims dynamic = 2", "E108", "`dynamic` is a reserved word", "dynamic"),
        ("multiply slice 0", "E109", "`multiply` is allowed only in a schedule", "multiply"),
        ("cluster fetch A", "E109", "`cluster` is allowed only in a schedule", "cluster"),
        ("kernel b", "E109", "`kernel` is not allowed inside a body", "kernel"),
        (
            "unroll " + "(" * 9 + "1" + "+1)" * 9 + "+1" * 60,
            "E110",
            "this expression nests more than 64 operations",
            None,
        ),
        ("unroll " + "1 + " * 5000 + "1", "E110", "this statement is longer than 16384 characters", "unroll"),
        ("schedule", "E102", "`schedule` has no lines", "schedule"),
        ("role a waves 0", "E102", "`role` has no body", "role a waves 0"),
    ],
)
def test_a_wrong_statement(line: str, code: str, message: str, at: str | None) -> None:
    found = only(f"kernel a\n  waves 1\n  {line}\n  store C\n")
    assert (found.code, found.message) == (code, message)
    assert found.primary is not None and found.primary.span.line == 3
    assert at is None or underlined(found) == at


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("fetch A", "E109", "`fetch` must be in a line that starts with `cluster` or `group`"),
        ("store C", "E109", "`store` is not a line of a schedule"),
        ("clutser read A", "E103", "unknown schedule line `clutser`"),
        ("cluster", "E101", "expected an operation, found the end of the line"),
        ("cluster reed A", "E101", "expected an operation, found `reed`"),
        ("cluster fetch A[k] 0", "E101", "expected an operation, `(`, a name or the end of the line, found `0`"),
        ("cluster fetch A(0;", "E101", "expected a size, found the end of the line"),
        ("cluster mix multiply 2", "E101", "expected `(`, found `multiply`"),
        ("cluster fetch A[j+1]", "E101", "expected `k`, found `j`"),
        ("cluster fetch A[k+1", "E101", "expected `]`, found the end of the line"),
        ("cluster wait vm", "E101", "expected a size, found the end of the line"),
    ],
)
def test_a_wrong_schedule_line(line: str, code: str, message: str) -> None:
    found = only(f"kernel a\n  schedule\n    cluster barrier\n    {line}\n    group barrier\n  store C\n")
    assert (found.code, found.message) == (code, message)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("block 128 x 128 stp 64", "block 128 x 128 step 64"),
        ("block 128x128 step 64", "block 128 x 128 step 64"),
        ("golbal A : bf16[M]", "global A : bf16[M]"),
        ("WAVES 2", "waves 2"),
        ("phase waves 4..7 by 1 clutser", "phase waves 4..7 by 1 cluster"),
        ("schedule waits auto barrier auto\n    group barrier", "schedule waits auto barriers auto\n    group barrier"),
        ("schedule\n    fetch A[k+1]", "schedule\n    cluster fetch A[k+1]"),
        ("schedule\n    cluster fetch A[K+1]", "schedule\n    cluster fetch A[k+1]"),
    ],
)  # fmt: skip
def test_fixes_mend(wrong: str, right: str) -> None:
    text = f"kernel a\n  {wrong}\n"
    mended = apply_fixes(text, diagnostics(text))
    assert mended == f"kernel a\n  {right}\n"
    parse(SourceFile("spec.tk", mended))


def test_all_errors_of_a_file_are_reported() -> None:
    text = """\
kernal a
  dims M = , N = 4
  waves 2
  rol p waves 0..3
    laod A
  role q waves 4
    store
  shedule
    cluster fetch
    cluster barrier
    multiply
  unroll 99999999999
 grid linear
  tail 4
"""
    found = diagnostics(text)
    places = [(d.code, d.primary.span.line) for d in found if d.primary]
    assert places == [
        ("E103", 1), ("E101", 2), ("E103", 4), ("E103", 5), ("E101", 7), ("E103", 8), ("E101", 9), ("E109", 11),
        ("E105", 12), ("E102", 13), ("E101", 14),
    ]  # fmt: skip


def test_indentation_errors_do_not_cascade() -> None:
    text = "kernel a\n  waves 1\n    block 64 x 64 step 8\n  role p waves 0\n      load A\n     load B\n  store C\n"
    found = diagnostics(text)
    assert [(d.code, d.primary.span.line) for d in found if d.primary] == [("E102", 3), ("E102", 6)]
    assert found[0].secondary[0].span.text == "waves"


@pytest.mark.parametrize(
    ("text", "edits"),
    [
        ("kernel a\n\twaves 1\n\n\trole p waves 0\n\t\tload A\n", 3),
        ("kernel a\n \twaves 1\n", 0),
        ("kernel a\n  waves 1\n\tstore C\n", 0),
    ],
)
def test_tabs(text: str, edits: int) -> None:
    found = diagnostics(text)[0]
    assert found.code == "E102" and "tab" in found.message and found.fix is not None
    assert len(found.fix.edits) == edits
    if edits:
        assert parse(SourceFile("spec.tk", apply_fixes(text, [found]))).name.id == "a"


def test_tabs_elsewhere_are_blanks() -> None:
    text = "kernel\ta\n  waves\t1\t# x\n\t\n\t# y\n  store C\n"
    assert len(parse(SourceFile("spec.tk", text)).body) == 2


def test_the_first_line_must_not_be_indented() -> None:
    assert only("  kernel a\n    waves 1\n").code == "E102"
    with pytest.raises(SpecError) as caught:
        parse_fragment(SourceFile("spec.tk", "# x\n\n  waves 1\n  store C\n"))
    assert [d.code for d in caught.value.diagnostics] == ["E102"]


def test_a_lone_carriage_return_is_no_line_end() -> None:
    for text in ("kernel a\r  waves 1\n", "\rkernel a\n  waves 1\n", "kernel a\n\r  waves 1\n"):
        assert "E101" in [d.code for d in diagnostics(text)]


@pytest.mark.parametrize(
    ("text", "message", "at"),
    [
        ("", "this file has no kernel", ""),
        ("# nothing\n\n", "this file has no kernel", ""),
        ("waves 1\n", "this file has statements but no kernel", "waves 1"),
        ("kernel a\n  waves 1\nstore C\n", "a statement outside the kernel", "store C"),
        ("kernel a\n  waves 1\nkernel b\n  waves 1\n", "a spec has one kernel, but this file has more", "kernel b"),
    ],
)
def test_one_kernel_per_file(text: str, message: str, at: str) -> None:
    found = only(text)
    assert (found.code, found.message, underlined(found)) == ("E106", message, at)


@pytest.mark.parametrize(
    "line",
    [
        "block 8 x 8 step 8",
        "grid linear",
        "clusters 2",
        "tail masked",
        "waves 1",
        "occupancy 1 waves per simd",
        "remap morton",
        "unroll 2",
        "epilogue gelu",
        "schedule auto",
    ],
)
def test_statements_that_stand_once(line: str, tmp_path: Path) -> None:
    found = only(f"kernel a\n  {line}\n  store C\n  {line}\n")
    assert found.code == "E107" and underlined(found) == line
    assert [label.span.line for label in found.secondary] == [2]


def test_each_role_may_have_its_own() -> None:
    body = "  role {} waves {}\n    epilogue gelu\n"
    assert len(parse(SourceFile("a.tk", "kernel a\n" + body.format("a", 0) + body.format("b", 1))).body) == 2
    found = only("kernel a\n  role a waves 0\n    epilogue gelu\n    epilogue relu\n")
    assert found.code == "E107"


def test_misplaced_bodies() -> None:
    found = only("kernel a\n  role p waves 0\n    load A\n    role q waves 1\n      load B\n")
    assert (found.code, underlined(found)) == ("E109", "role q waves 1")
    found = only("kernel a\n  schedule auto\n    cluster barrier\n")
    assert (found.code, underlined(found)) == ("E109", "auto")
    assert only("kernel a\n").code == "E102"


def test_suggestions_are_modest() -> None:
    found = only("kernel a\n  zzz\n")
    assert found.fix is None and "dims, param" in found.notes[0]
