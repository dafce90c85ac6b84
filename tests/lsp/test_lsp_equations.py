"""Editors over kernels of equations: types and axes on hover, values that are renamed, loops in the outline."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from tkgen.diagnostics.fixes import edited
from tkgen.lsp.analysis import Analysis, Request, analyze
from tkgen.lsp.completion import complete
from tkgen.lsp.edits import formatting
from tkgen.lsp.hover import hover
from tkgen.lsp.names import RenameError, definition, references, rename
from tkgen.lsp.outline import outline
from tkgen.lsp.project import Project
from tkgen.lsp.symbols import Symbol, colours, hints, symbols
from tkgen.source import SourceFile

SPECS = sorted((Path(__file__).parents[1] / "equations").glob("*.tk"))
EMPTY = Project({})


def file_of(name: str) -> SourceFile:
    path = next(p for p in SPECS if p.stem == name)
    return SourceFile(str(path), path.read_text())


def shown(file: SourceFile, piece: str, plus: int = 0) -> str:
    found = hover(EMPTY, file, file.text.index(piece) + plus, analyze(Request(file)))
    return found.markdown if found else ""


def test_hover_tells_types_and_axes() -> None:
    file = file_of("attention")
    assert "- f32\\[q, j\\]" in shown(file, "s = where")
    assert "value" in shown(file, "s = where") and "s = scale" in shown(file, "s = where(q >= j, ", 18)
    assert "- over q in LENGTH by 256: 16 tiles" in shown(file, "q >= j")
    assert "- each j in LENGTH by 64 to q: 64 tiles" in shown(file, "j, s, -inf")
    assert "2 to the power of x." in shown(file, "exp2((s")
    assert "The largest along the last axis" in shown(file, "rowmax(s)")
    assert "Infinity" in shown(file, "inf,")
    assert "to its next iteration" in shown(file, "carry m")


def test_a_value_is_found_and_renamed() -> None:
    file = file_of("attention")
    at = file.text.index("m = n")
    assert [s.line for s in definition(EMPTY, file, at)] == [16, 25]
    assert len(references(EMPTY, file, at)) == 5
    after = edited(file.text, rename(EMPTY, file, at, "largest"))
    assert after == re.sub(r"\bm\b", "largest", file.text)
    with pytest.raises(RenameError, match="already has a meaning"):
        rename(EMPTY, file, at, "l")
    with pytest.raises(RenameError):
        rename(EMPTY, file, at, "carry")


def test_the_outline_has_axes_loops_values_and_stores() -> None:
    (kernel,) = symbols(outline(file_of("swiglu")))
    found = [(s.kind, s.name) for s in kernel.children if s.kind not in ("dimension", "tensor")]
    assert found == [("axis", "m"), ("axis", "n"), ("axis", "k"), ("store", "Y[m, n]")]
    loop = next(s for s in kernel.children if s.name == "k")
    assert [(s.kind, s.name) for s in loop.children] == [("value", "g"), ("value", "u")]
    assert loop.end > loop.children[-1].start


def everything(file: SourceFile, known: Analysis) -> None:
    """Ask whatever an editor may ask."""
    here = outline(file)

    def inside(found: list[Symbol]) -> None:
        for symbol in found:
            assert 0 <= symbol.start <= symbol.name_start <= symbol.name_end <= symbol.end <= len(file.text)
            inside(symbol.children)

    inside(symbols(here))
    assert all(0 <= c.start < c.end <= len(file.text) for c in colours(here))
    hints(here, known)
    formatting(file)
    for offset in range(0, len(file.text), 7):
        hover(EMPTY, file, offset, known)
        complete(EMPTY, file, offset)
        references(EMPTY, file, offset)


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_everything_can_be_asked(path: Path) -> None:
    file = SourceFile(str(path), path.read_text())
    known = analyze(Request(file))
    assert known.equations is not None
    everything(file, known)


@pytest.mark.parametrize("seed", range(6))
def test_and_of_mutilated_texts(seed: int) -> None:
    rng = random.Random(seed)
    words = re.findall(r"\w+|\s+|.", rng.choice(SPECS).read_text())
    for _ in range(rng.randint(1, 6)):
        i, j = rng.randrange(len(words)), rng.randrange(len(words))
        words[i] = rng.choice(["", words[j], "(", "\n    "])
    file = SourceFile("/a.tk", "".join(words))
    everything(file, analyze(Request(file)))


def test_the_target_of_the_settings_is_what_attention_is_checked_for() -> None:
    path = Path(__file__).parents[2] / "specs" / "attention" / "attention_packed.tk"
    file = SourceFile(str(path), path.read_text())
    assert analyze(Request(file)).diagnostics == ()
    waves, registers = analyze(Request(file, target="sm_90a")).diagnostics
    assert waves.code == registers.code == "E230"
    assert "64 rows of `q`" in waves.message and registers.message == "`Q` stays in shared memory on Hopper"


@pytest.mark.parametrize(("target", "code"), [(None, None), ("sm_90a", None), ("gfx1", "E200")])
def test_and_what_a_sequence_is_checked_for(target: str | None, code: str | None) -> None:
    path = Path(__file__).parents[2] / "specs" / "sequences" / "split_k_gelu.tk"
    found = analyze(Request(SourceFile(str(path), path.read_text()), target=target)).diagnostics
    assert [d.code for d in found][:1] == ([code] if code else [])


FUNCTIONS = """function softcap(x, c) = c * fast tanh(x / c)
function twice(x) = 2 * softcap(x, 3)
kernel rows
  dims T = 8, D = 128
  global X : f32[T, D]
  global Y : f32[T, D]
  over t in T by 4
  x = X[t]
  Y[t] = twice(x) + softcap(x, 2)
"""


def test_functions_of_the_spec() -> None:
    file = SourceFile("/own.tk", FUNCTIONS)
    at = file.text.rindex("softcap")
    assert [(s.line, s.text) for s in definition(EMPTY, file, at)] == [(1, "softcap")]
    assert [o.span.line for o in references(EMPTY, file, at)] == [1, 2, 9]
    after = edited(file.text, rename(EMPTY, file, at, "capped"))
    assert after == file.text.replace("softcap", "capped")
    assert "function softcap(x, c) = c" in shown(file, "softcap(x, 2)") and "argument" in shown(file, "c) = ")
    assert "The hyperbolic tangent" in shown(file, "tanh(") and "fast tanh(a)" in shown(file, "tanh(")
    assert "cheaper form" in shown(file, "fast")
    assert [(s.name, s.kind) for s in symbols(outline(file))][:3] == [
        ("softcap", "function"), ("twice", "function"), ("rows", "kernel"),
    ]  # fmt: skip


def test_parameters_are_those_of_their_function() -> None:
    file = SourceFile("/own.tk", FUNCTIONS)
    at = file.text.index("x, c")
    assert [s.line for s in definition(EMPTY, file, at)] == [1]
    after = edited(file.text, rename(EMPTY, file, at, "score"))
    assert after == FUNCTIONS.replace("(x, c) = c * fast tanh(x / c)", "(score, c) = c * fast tanh(score / c)")
    value = file.text.index("x = X[t]")
    assert edited(file.text, rename(EMPTY, file, value, "row")).splitlines()[:2] == FUNCTIONS.splitlines()[:2]
    kinds = {c.kind for c in colours(outline(file)) if file.text[c.start : c.end] == "x"}
    assert kinds == {"argument", "value"}


def test_completion_knows_functions() -> None:
    file = SourceFile("/own.tk", FUNCTIONS)
    words = {c.label for c in complete(EMPTY, file, file.text.rindex("twice"))}
    assert {"softcap", "twice", "x", "exp"} <= words
    words = {c.label for c in complete(EMPTY, file, file.text.index("softcap(x, 3"))}
    assert {"softcap", "x", "exp"} <= words and not {"X", "D", "t"} & words
    words = {c.label for c in complete(EMPTY, file, file.text.index("tanh("))}
    assert {"tanh", "gelu"} <= words and "exp" not in words
