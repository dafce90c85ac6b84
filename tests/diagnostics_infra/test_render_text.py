"""Diagnostics as text: exact output."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tkgen.diagnostics import Diagnostic, Edit, Fix, Label
from tkgen.diagnostics.render import render_text
from tkgen.source import SourceFile, Span


def at(file: SourceFile, text: str, start: int = 0) -> Span:
    offset = file.text.index(text, start)
    return Span(file, offset, offset + len(text))


SPEC = SourceFile(
    "a.tk",
    """\
kernel a
  dims M = 8192, N = 8192
  block 128 x 128 step 64

  shared A, B buffers 1
  waves 4 x 2
  store C
""",
)


def rendered(found: Diagnostic, width: int = 100) -> str:
    return render_text([found], color=False, width=width)


def test_everything_at_once() -> None:
    found = Diagnostic(
        "E301",
        "a wave overwrites what another still reads",
        Label(at(SPEC, "buffers 1"), "one buffer"),
        (Label(at(SPEC, "block 128 x 128 step 64"), "one step"), Label(at(SPEC, "store C"))),
        ("wave 2 still reads A of step k\nwhile wave 0 writes step k+1", "short"),
        Fix("use two buffers", (Edit(at(SPEC, "1", SPEC.text.index("buffers")), "2"),)),
    )
    assert (
        rendered(found)
        == """\
error[E301]: a wave overwrites what another still reads
 --> a.tk:5:15
  |
3 |   block 128 x 128 step 64
  |   ----------------------- one step
4 |
5 |   shared A, B buffers 1
  |               ^^^^^^^^^ one buffer
6 |   waves 4 x 2
7 |   store C
  |   -------
  |
  = note: wave 2 still reads A of step k
          while wave 0 writes step k+1
  = note: short
  |
help: use two buffers
  |
5 -   shared A, B buffers 1
5 +   shared A, B buffers 2
"""
    )


def test_several_labels_in_one_line_hang() -> None:
    found = Diagnostic(
        "W301",
        "three",
        Label(at(SPEC, "M"), "first"),
        (Label(at(SPEC, "8192"), "second"), Label(at(SPEC, "N = 8192"), "third"), Label(at(SPEC, "dims"))),
    )
    assert (
        rendered(found)
        == """\
warning[W301]: three
 --> a.tk:2:8
  |
2 |   dims M = 8192, N = 8192
  |   ---- ^   ----  -------- third
  |        |   |
  |        |   second
  |        first
"""
    )


def test_overlapping_labels() -> None:
    found = Diagnostic("E301", "m", Label(at(SPEC, "M"), "inner"), (Label(at(SPEC, "dims M = 8192"), "outer"),))
    assert (
        rendered(found)
        == """\
error[E301]: m
 --> a.tk:2:8
  |
2 |   dims M = 8192, N = 8192
  |   -----^------- outer
  |        |
  |        inner
"""
    )


def test_distant_lines_are_parted() -> None:
    found = Diagnostic("E301", "m", Label(at(SPEC, "kernel"), "x"), (Label(at(SPEC, "waves"), "y"),))
    assert (
        rendered(found)
        == """\
error[E301]: m
 --> a.tk:1:1
  |
1 | kernel a
  | ^^^^^^ x
...
6 |   waves 4 x 2
  |   ----- y
"""
    )


def test_spans_over_many_lines() -> None:
    start, end = SPEC.text.index("dims"), SPEC.text.index("waves")
    found = Diagnostic("E301", "m", Label(Span(SPEC, start, end + 5), "all this"))
    assert (
        rendered(found)
        == """\
error[E301]: m
 --> a.tk:2:3
  |
2 |   dims M = 8192, N = 8192
  |   ^^^^^^^^^^^^^^^^^^^^^^^
3 |   block 128 x 128 step 64
  |   ^^^^^^^^^^^^^^^^^^^^^^^
...
6 |   waves 4 x 2
  |   ^^^^^ all this
"""
    )


def test_other_files() -> None:
    other = SourceFile("b.tk", "waves 2\nstore D\n")
    found = Diagnostic(
        "E301",
        "m",
        Label(at(SPEC, "store C"), "here"),
        (Label(at(other, "D"), "there"),),
        fix=Fix("change both", (Edit(at(SPEC, "C"), "D"), Edit(at(other, "waves 2\n"), ""))),
    )
    assert (
        rendered(found)
        == """\
error[E301]: m
 --> a.tk:7:3
  |
7 |   store C
  |   ^^^^^^^ here
 ::: b.tk:2:7
  |
2 | store D
  |       - there
  |
help: change both
  |
7 -   store C
7 +   store D
  |
1 - waves 2
"""
    )


def test_tabs_and_wide_characters() -> None:
    file = SourceFile("a.tk", "a\tb  漢字 e\u0301 x\n")
    found = Diagnostic(
        "E101", "m", Label(at(file, "x"), "x"), (Label(at(file, "漢字"), "wide"), Label(at(file, "b"), "b"))
    )
    assert (
        rendered(found)
        == """\
error[E101]: m
 --> a.tk:1:12
  |
1 | a   b  漢字 e\u0301 x
  |     -  ----   ^ x
  |     |  |
  |     |  wide
  |     b
"""
    )


@pytest.mark.parametrize("hostile", ["\x1b[2J", "\x07", "\u202e", "\u2028", "\x9b1m", "\udc80", "\r"])
def test_nothing_talks_to_the_terminal(hostile: str) -> None:
    file = SourceFile(f"a{hostile}.tk", f"x {hostile} y\nz\n")
    edits = (Edit(at(file, "y"), f"n{hostile}"),)
    found = Diagnostic("E101", f"m{hostile}", Label(at(file, "y"), f"t{hostile}"), notes=(f"n{hostile}",))
    for d in (found, Diagnostic("E101", "m", fix=Fix(f"f{hostile}", edits))):
        out = rendered(d)
        assert hostile not in out and out.isprintable() is False and set(out) <= set(map(chr, [10, *range(32, 127)]))
    line, underline = rendered(found).splitlines()[3:5]
    assert line.index(" y") + 1 == underline.index("^")


def test_long_lines_are_cut_around_the_label() -> None:
    file = SourceFile("a.tk", "a " * 500 + "HERE" + " b" * 5000)
    lines = rendered(Diagnostic("E101", "m", Label(at(file, "HERE"), "far")), width=80).splitlines()
    assert all(len(line) <= 80 for line in lines)
    source, underline = lines[3], lines[4]
    assert source.index("HERE") == underline.index("^^^^")
    assert "…" in source


def test_notes_wrap() -> None:
    out = rendered(Diagnostic("E101", "m", notes=("word " * 40,), fix=Fix("other " * 20)), width=60)
    assert all(len(line) <= 60 for line in out.splitlines())
    assert out.splitlines()[1].startswith("  = note: word") and "  = help: other" in out


def test_no_place_and_no_source() -> None:
    assert rendered(Diagnostic("E100", "cannot read `x`")) == "error[E100]: cannot read `x`\n"
    empty = SourceFile("a.tk", "")
    assert rendered(Diagnostic("E106", "m", Label(Span(empty, 0, 0), "x"))) == "error[E106]: m\n --> a.tk:1:1\n"
    assert render_text([], color=False, width=80) == ""


def test_several_are_parted_by_blank_lines() -> None:
    two = [Diagnostic("E100", "a"), Diagnostic("W100", "b")]
    assert render_text(two, color=False, width=80) == "error[E100]: a\n\nwarning[W100]: b\n"


def test_colours_only_add_escapes() -> None:
    found = Diagnostic(
        "E301",
        "m",
        Label(at(SPEC, "M"), "a"),
        (Label(at(SPEC, "8192"), "b"),),
        ("n",),
        Fix("f", (Edit(at(SPEC, "M"), "L"),)),
    )
    colored = render_text([found], color=True, width=100)
    assert "\x1b[1;31merror[E301]\x1b[0m" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == rendered(found)
    assert colored.count("\x1b[0m") * 2 == colored.count("\x1b[")


@settings(derandomize=True, deadline=None, max_examples=200, database=None)
@given(st.text(alphabet="ab \t\n漢\x1b", max_size=60), st.data())
def test_any_spans(text: str, data: st.DataObject) -> None:
    """Whatever is underlined, nothing breaks and every underline ends within its line."""
    file = SourceFile("a.tk", text)

    def span() -> Span:
        a, b = (data.draw(st.integers(0, len(text))) for _ in range(2))
        return Span(file, min(a, b), max(a, b))

    labels = [Label(span(), data.draw(st.sampled_from(["", "text"]))) for _ in range(data.draw(st.integers(1, 4)))]
    out = rendered(Diagnostic("E101", "m", labels[0], tuple(labels[1:]), fix=Fix("f", (Edit(span(), "x"),))), width=40)
    assert out.startswith("error[E101]: m\n") and "\x1b" not in out and "\t" not in out
    assert "\n\n" not in out
