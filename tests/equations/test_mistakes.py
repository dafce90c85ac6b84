"""Mistakes in a kernel of equations are named in one sentence, with their place and code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tkgen.api import load
from tkgen.diagnostics import SpecError
from tkgen.diagnostics.fixes import apply_fixes
from tkgen.diagnostics.render import render_text
from tkgen.ir.program import program
from tkgen.ir.typing import typed
from tkgen.syntax.parser import parse_text

FOLDER = Path(__file__).parent

# (spec, what stands there, what is written instead, code, message, underlined)
MISTAKES = [
    ("attention", "[b, h / GROUP, j].T", "[b, h / GROUP, j]",
     "E224", "`@` sums over the last axis of the left operand and the first of the right one, not `D`",
     "Q[b, h, q] @ K[b, h / GROUP, j]"),
    ("attention", "bf16(p) @", "p @",
     "E204", "one product of f32 and bf16: no matrix instruction accepts both", "p @ V[b, h / GROUP, j]"),
    ("attention", "rowmax(s)", "rowmaxx(s)",
     "E200", "`rowmaxx` is not a function of equations; did you mean `rowmax`?", "rowmaxx"),
    ("attention", "rowmax(s)", "colmax(s)",
     "E226", "`colmax` along `q` would be over only the block's tile of 256", "colmax(s)"),
    ("attention", "    n = max(m, rowmax(s))\n", "", "E200", "the name `n` is not defined here", "n"),
    ("attention", "    m = n\n", "", "E227", "no loop assigns `m` a new value", "m : f32[q] = -inf"),
    ("attention", "o : f32[q, D]", "o : f32[q]", "E225", "`o` is [q] at the start of an iteration, but [q, D] at its "
                                                         "end", "o"),
    ("attention", "h / GROUP, j].T", "h, j].T",
     "E223", "`h` runs over `HEADS`, this dimension of `K` is `KV_HEADS`", "h"),
    ("attention", "h / GROUP, j].T", "h / 4, j].T", "E223", "`h / 4` does not run over `KV_HEADS` of `K`", "h / 4"),
    ("attention", "h / GROUP, j].T", "h / 4 + 1, j].T",
     "E223", "`h / 4 + 1` is no index: `/` takes numbers there, not `h`", "h / 4 + 1"),
    ("rmsnorm", "X[t] + R[t]", "X[t * t] + R[t]", "E223", "`t * t` is no index: it multiplies `t` by `t`", "t * t"),
    ("rmsnorm", "X[t] + R[t]", "X[4 * t % 3] + R[t]",
     "E223", "`4 * t % 3` is no index: `%` takes numbers there, not `t`", "4 * t % 3"),
    ("rmsnorm", "X[t] + R[t]", "X[max(t - 1, 0)] + R[t]",
     "E223", "`max(t - 1, 0)` is no index: `max` takes numbers there, not `t`", "max(t - 1, 0)"),
    ("rmsnorm", "X[t] + R[t]", "X[t + TOKENS] + R[t]",
     "E223", "`X` has no element at any `t + TOKENS`", "t + TOKENS"),
    ("rmsnorm", "X[t] + R[t]", "X[t * 4] + R[t]", "E223", "`t * 4` is no index", "t * 4"),
    ("rmsnorm", "X[t] + R[t]", "X[300000 * t] + R[t]", "E203", "`300000 * t` may be beyond 31 bits", "300000 * t"),
    ("rmsnorm", "X[t] + R[t]", "X[coordinate(Z) - 1] + R[t]", "E200", "`Z` is neither an axis nor a dimension", "Z"),
    ("rmsnorm", "  R[t] = x\n", "  R[t + 1] = x\n",
     "E228", "`R` is read at one place and stored to at another", "R[t + 1]"),
    ("rmsnorm", "  R[t] = x\n", "  distinct R[t] = x\n", "E233", "`distinct` says nothing here", "distinct "),
    ("rmsnorm", "  R[t] = x\n", "  R[t] += x\n", "E226", "`+=` adds a sum of each block over its own tile, but this is "
                                                        "not such a sum", "x"),
    ("rmsnorm", "  R[t] = x\n", "  R[t] max= x\n", "E226", "`max=` combines one value with each element", "x"),
    ("rmsnorm", "  Y[t] = x", "  Y[t - 1] += x", "E204", "`+=` of `Y`, which is bf16", "Y[t - 1]"),
    ("rmsnorm", "X[t] + R[t]", "R[t - 1] + X[t]",
     "E228", "`R` is read at one place and stored to at another", "R[t]"),
    ("rmsnorm", "X[t] + R[t]", "sum(X[t - 1], w in 4) + R[t]",
     "E226", "`sum` along `w`, which the expression does not name", "w in 4"),
    ("rmsnorm", "X[t] + R[t]", "sum(X[t - w], w in 65) + R[t]",
     "E226", "`sum` would have 65 terms, and is written out: at most 64", "sum(X[t - w], w in 65)"),
    ("rmsnorm", "X[t] + R[t]", "sum(X[t - w] + R[t], w in W)", "E200", "`W` is not a dimension or parameter", "W"),
    ("rmsnorm", "X[t] + R[t]", "sum(X[t] * t, t in 3)",
     "E202", "`t` has a meaning already, and would be a number here", "t"),
    ("rmsnorm", "X[t] + R[t]", "exp(X[t - w], w in 3)", "E200", "`exp` goes along no names", "w in 3"),
    ("rmsnorm", "X[t] + R[t]", "sum(X[t - w], R[t], w in 3)",
     "E200", "`sum` along names takes one value, not 2", "sum(X[t - w], R[t], w in 3)"),
    ("rmsnorm", "X[t] + R[t]", "sum(X[t - w], w in 3) + w + R[t]",
     "E200", "the name `w` is not defined here; did you mean `W`?", "w"),
    ("attention", "O[b, h, q] = o / l", "O[b, h] = o / l",
     "E225", "`O[b, h]` has axes [LENGTH, D]; the value stored has axes [q, D]", "O[b, h]"),
    ("attention", "O[b, h, q] = o / l", "O[b, h, q] = o / p",
     "E227", "`p` is a value of the loop over `j`, so it exists only in the loop", "p"),
    ("attention", "O[b, h, q] = o / l", "O[b, h, q] = l",
     "E225", "`O[b, h, q]` has axes [q, D]; the value stored has axis [q]", "O[b, h, q]"),
    ("attention", "LSE[b, h, q] = m + log(l)", "LSE[b, h, j] = m + log(l)",
     "E227", "`j` is not defined outside of its loop", "j"),
    ("attention", "to q", "to k", "E223", "`to k` is not bounded by an axis of `over`", "k"),
    ("attention", "to q", "from 512 - q to q", "E223", "`from 512 - q` is not bounded by an axis of `over`", "512"),
    ("attention", "to q", "from q - X to q", "E200", "`X` is not a dimension or parameter", "X"),
    ("attention", "to q", "from 512", "E223", "`from 512` is not bounded by an axis of `over`", "512"),
    ("attention", "to q", "from q * 2", "E223", "`from q * 2` is not bounded by an axis of `over`", "q * 2"),
    ("attention", "to q", "to q from q - 512", "E101", "expected the end of the line, found `from`", "from"),
    ("attention", "to q", "from q - 512 part h",
     "E101", "expected `to` or the end of the line, found `part`", "part"),
    ("attention", "to q", "to q + 2000000000",
     "E203", "a bound of a loop is at most 536870912 positions from a tile, not 2000000000", "q + 2000000000"),
    ("attention", "q >= j", "q", "E229", "`where` takes a truth, not a coordinate", "q"),
    ("attention", "carry m", "carry mm : f32[q] = 0, m", "E227", "no loop assigns `mm` a new value", "mm : f32[q] = 0"),
    ("attention", "m : f32[q] = -inf", "m : f32[j] = -inf", "E200", "`j` is neither an axis nor a dimension", "j"),
    ("attention", "m : f32[q] = -inf", "m : bf16[q] = -inf", "E204", "a carried value is f32, not bf16", "bf16"),
    ("attention", "m : f32[q] = -inf", "m : f32[h] = -inf",
     "E225", "a tile has no extent along `h`, which is an index", "h"),
    ("attention", "LENGTH = 4096, D = 128", "LENGTH = 4096, D = dynamic",
     "E203", "`D` is dynamic, but the length of a tile must be known at build time", "D"),
    ("attention", "  LSE[b, h, q] = m + log(l)\n", "  LSE[b, h, q] = m + log(l)\n  LSE[b, h, q] = m\n",
     "E602", "`LSE` is stored twice", "LSE[b, h, q]"),
    ("attention", "b in BATCH, h", "b in BATHC, h",
     "E209", "`BATHC` is not a declared dimension; did you mean `BATCH`?", "BATHC"),
    ("rmsnorm", "  waves 4", "  shared Y\n  waves 4", "E200", "`shared` names `Y`, which no equation reads", "Y"),
    ("rmsnorm", "x = X[t] + R[t]", "x = X[t] + R[t] + R[0]",
     "E228", "`R` is read at one place and stored to at another", "R[t]"),
    ("rmsnorm", "Y[t] = x * ", "Y[t] = R[t] * ", "E228", "`R` is read after a store to it", "R[t]"),
    ("rmsnorm", "x = X[t] + R[t]", "x = R[t] + (X[t] > 0) % 2", "E229", "`%` takes a number, not a truth", "X[t] > 0"),
    ("rmsnorm", "x = X[t] + R[t]", "x = R[t] + pow(X[t])", "E200", "`pow` takes 2 arguments, not 1", "pow(X[t])"),
    ("rmsnorm", "x = X[t] + R[t]", "x = R[t] + fast exp(X[t])", "E200", "`exp` has no cheaper form", "exp"),
    ("rmsnorm", "x = X[t] + R[t]", "x = R[t] + fast tahn(X[t])",
     "E200", "`fast` takes a function, not `tahn`; did you mean `tanh`?", "tahn"),
    ("rmsnorm", "rowmean(x * x)", "colmean(x * x)",
     "E226", "`colmean` along `t` would be over only the block's tile of 4", "colmean(x * x)"),
    ("rmsnorm", "eps)", "epps)", "E200", "the name `epps` is not defined here; did you mean `eps`?", "epps"),
    ("rmsnorm", "waves 4 along t", "waves 3 along t",
     "E214", "3 waves cannot divide a tile of 4 along `t`", "waves 3 along t"),
    ("rmsnorm", "waves 4 along t", "waves 4 along D", "E214", "waves cannot be along `D`", "D"),
    ("rmsnorm", "R[t] = x", "X = x", "E202", "`X` is declared already, so no value can have this name", "X"),
    ("rmsnorm", "R[t] = x", "D = x", "E202", "`D` is declared already, so no value can have this name", "D"),
    ("rmsnorm", "x = X[t] + R[t]", "x = X[t] + R[t, t]",
     "E223", "`t` runs over `TOKENS`, this dimension of `R` is `D`", "t"),
    ("rmsnorm", "x = X[t] + R[t]", "x = X[t, 1, 2] + R[t]",
     "E223", "`X[TOKENS, D]` has 2 dimensions, not 3", "X[t, 1, 2]"),
    ("rmsnorm", "x = X[t] + R[t]", "x = X[t] + R[t]\n  x = rowsum(x)",
     "E225", "`x` was [t, D], and would be [t] here", "x"),
    ("rmsnorm", "x = X[t] + R[t]", "x = X[t] + x[t]", "E200", "`x` is not a global tensor; did you mean `X`?", "x"),
    ("rmsnorm", "x = X[t] + R[t]", "z[t] = X[t] + R[t]",
     "E200", "`z` is not a global tensor, and only those are stored to", "z"),
    ("rmsnorm", "  waves 4", "  block 4 x 4 step 4\n  waves 4",
     "E222", "`block` is only for matrix products, but these equations have none", "block 4 x 4 step 4"),
    ("rmsnorm", "  Y[t]", "  each t in TOKENS by 4\n    y = x\n  Y[t]", "E202", "`t` is declared twice", "t"),
    ("softmax", "Y[r] = e / rowsum(e)", "y = e", "E201", "kernel `softmax` stores nothing", "softmax"),
    ("softmax", "rowmax(x)", "rowmax(1)", "E226", "`rowmax` has no axis to reduce: this is a single number", "1"),
    ("softmax", "rowmax(x)", "rowmax(x, x)", "E200", "`rowmax` takes 1 argument, not 2", "rowmax(x, x)"),
    ("softmax", "x = X[r]", "x = X[r].T.T @ X[r]", "E224", "both factors have `r` and `D`", "X[r].T.T @ X[r]"),
    ("softmax", "x = X[r]", "x = X[-1]", "E223", "`X` has no position -1 along `ROWS`", "-1"),
    ("softmax", "x = X[r]", "x = X[9999]", "E223", "`X` has no position 9999 along `ROWS`", "9999"),
    ("softmax", "x = X[r]", "x = not X[r]", "E229", "`not` takes a truth, not a number", "X[r]"),
    ("softmax", "x = X[r]", "x = random(1, 2, r)", "E229", "`random` takes a coordinate, not a number", "2"),
    ("softmax", "x = X[r]", "x = X[r, q]", "E200", "`q` is no axis", "q"),
    ("swiglu", "g = g + X", "g = g * X", "E227", "`g` has no value yet", "g"),
    ("swiglu", "silu(g) * u", "silu(g) * rowmax(u)",
     "E226", "`rowmax` along `n` would be over only the block's tile of 128", "rowmax(u)"),
    ("swiglu", "silu(g) * u", "silu(X[m, k]) * u", "E227", "`k` is not defined outside of its loop", "k"),
    ("swiglu", "g = g + X[m, k] @ G[n, k].T", "g = g + X[m, k] @ G[n, k].T\n    Y[m, n] = g",
     "E602", "every iteration along `k` writes `Y[m, n]`, each with a different value", "Y[m, n]"),
    ("transpose", "Y[c, r] = X[r, c]", "Y[c, r] = X[r]",
     "E225", "`Y[c, r]` has axes [c, r]; the value stored has axes [r, COLS]", "Y[c, r]"),
    ("transpose", "Y[c, r] = X[r, c]", "Y[r, c] = X[r, c]",
     "E223", "`r` runs over `ROWS`, this dimension of `Y` is `COLS`", "r"),
    ("transpose", "Y[c, r] = X[r, c]", "Y[c, 0] = X[0, c]",
     "E602", "every block along `r` writes `Y[c, 0]`, each with a different value", "Y[c, 0]"),
    ("transpose", "Y[c, r] = X[r, c]", "Y[c, r] = r > c", "E229", "a store takes a number, not a truth", "r > c"),
    ("transpose", "Y[c, r] = X[r, c]", "Y[c, r] = X[r, c] if r",
     "E101", "expected the end of the line, found `if`", "if"),
    ("transpose", "over r in ROWS by 64", "over r in ROWS by 64, COLS in COLS",
     "E202", "`COLS` is declared twice", "COLS"),
    ("swiglu", "silu(g) * u", "silu(g) * u / rowsum(X[m])",
     "E230", "`D` is not an axis of the tile of sums, which has m and n", "X[m]"),
    ("grouped", "i32[OFFSETS]", "i32[EXPERTS]",
     "E232", "`FIRST` has 5 offsets for 5 groups: it must have one more", "FIRST"),
    ("grouped", "i32[OFFSETS]", "f32[OFFSETS]", "E232", "`FIRST` holds no offsets", "FIRST"),
    ("grouped", "i32[OFFSETS]", "i32[OFFSETS, N]", "E232", "`FIRST` holds no offsets", "FIRST"),
    ("grouped", "EXPERTS = 5, OFFSETS = EXPERTS + 1", "EXPERTS = dynamic, OFFSETS = 6",
     "E232", "the number of groups must be known at build time, but `EXPERTS` is dynamic", "FIRST"),
    ("grouped", "FIRST[e]", "FRIST[e]", "E200", "`FRIST` is not a global tensor; did you mean `FIRST`?", "FRIST"),
    ("grouped", "FIRST[e]", "FIRST[n]", "E223", "`within FIRST[n]` does not name an index of `over`", "n"),
    ("grouped", "e in EXPERTS, m in TOKENS within FIRST[e] by 128", "m in TOKENS within FIRST[e] by 128, e in EXPERTS",
     "E223", "`within FIRST[e]` does not name an index of `over`", "e"),
    ("grouped", "FIRST[e] by 128", "FIRST[e]",
     "E232", "`m` is over a group of unknown length, so it needs a tile", "m in TOKENS within FIRST[e]"),
    ("grouped", "n in N by 64", "a in EXPERTS, n in N within FIRST[a] by 64",
     "E232", "groups of `a`, and of `e`", "within FIRST[a]"),
    ("grouped", "k in K by 16", "k in K within FIRST[e] by 16 part e",
     "E232", "`k` is over a group of unknown length, which cannot be divided into parts", "e"),
    ("grouped", "Y[m, n] = y", "Y[m / 128, n] = y", "E232", "`m / 128` is the same position in every group", "m / 128"),
    ("grouped", "Y[m, n] = y", "Y[m, n] = y - colmax(y)",
     "E226", "`colmax` along `m` would be over only the block's tile of 128", "colmax(y)"),
    ("grouped", "Y[m, n] = y", "Y[m, n] = y * FIRST[0]",
     "E204", "`FIRST` holds positions, with which equations cannot compute", "FIRST[0]"),
    ("grouped", "Y[m, n] = y", "FIRST[0] = y", "E204", "`FIRST` is an i32 tensor of positions, but equations store "
                                                       "floats", "FIRST"),
    ("gathered", "TOKEN : i32", "TOKEN : f32", "E233", "`TOKEN` holds f32, but positions are i32", "TOKEN"),
    ("gathered", "TOKEN[m]", "TOKENN[m]", "E200", "`TOKENN` is not a global tensor; did you mean `TOKEN`?", "TOKENN"),
    ("gathered", "TOKEN[m]", "TOKEN[0]", "E233", "`TOKEN[0]` does not have one position for each position of one "
                                                 "axis", "TOKEN[0]"),
    ("gathered", "TOKEN[m]", "TOKEN[n]", "E223", "`n` runs over `N`, this dimension of `TOKEN` is `SLOTS`", "n"),
    ("gathered", "X[TOKEN[m], k]", "X[m, k]", "E223", "`m` runs over `SLOTS`, this dimension of `X` is `TOKENS`", "m"),
    ("gathered", "Y[m, n] = y", "Y[TOKEN[m], n] = y",
     "E233", "nothing says that `Y[TOKEN[m], n]` is a different element for each value", "Y[TOKEN[m], n]"),
    ("gathered", "TOKEN[m]", "TOKEN[TOKEN[m]]",
     "E233", "`TOKEN[TOKEN[m]]` does not have one position for each position of one axis", "TOKEN[TOKEN[m]]"),
    ("gathered", "W[e, n, k]", "W[e, TOKEN[n], k]",
     "E223", "`n` runs over `N`, this dimension of `TOKEN` is `SLOTS`", "n"),
    ("grouped", "Y[m, n] = y", "Y[m] = rowsum(y)",
     "E225", "`Y[m]` has axes [m, N]; the value stored has axis [m]", "Y[m]"),
]  # fmt: skip


def text_of(spec: str, right: str, wrong: str) -> str:
    """The spec with a mistake put in."""
    text = (FOLDER / f"{spec}.tk").read_text(encoding="utf-8")
    assert right in text
    return text.replace(right, wrong)


@pytest.mark.parametrize(("spec", "right", "wrong", "code", "message", "underlined"), MISTAKES)
def test_a_mistake(spec: str, right: str, wrong: str, code: str, message: str, underlined: str) -> None:
    with pytest.raises(SpecError) as caught:
        program(parse_text(text_of(spec, right, wrong)))
    first, *others = caught.value.diagnostics
    assert (first.code, first.message) == (code, message)
    assert first.primary is not None and first.primary.span.text == underlined
    assert first.fix is not None or code in ("E101", "E230")
    assert {d.code for d in others} <= {code}
    assert render_text(caught.value.diagnostics)


# Mistakes whose fix is an edit: made, it leaves the kernel as it was meant.
MENDED = [
    ("attention", "[b, h / GROUP, j].T", "[b, h / GROUP, j]"),
    ("attention", "bf16(p) @", "p @"),
    ("attention", "rowmax(s)", "rowmaxx(s)"),
    ("attention", "b in BATCH, h", "b in BATHC, h"),
    ("attention", "m : f32[q] = -inf", "m : bf16[q] = -inf"),
    ("rmsnorm", "eps)", "epps)"),
    ("swiglu", "X[m, k] @ G[n, k].T", "X[m, k].T @ G[n, k].T"),
    ("swiglu", "G[n, k].T", "G[m, k].T"),
]


@pytest.mark.parametrize(("spec", "right", "wrong"), MENDED)
def test_a_fix_mends(spec: str, right: str, wrong: str) -> None:
    text = text_of(spec, right, wrong)
    with pytest.raises(SpecError) as caught:
        typed(parse_text(text))
    mended = apply_fixes(text, caught.value.diagnostics, guesses=True)
    assert typed(parse_text(mended)).kernel == typed(parse_text((FOLDER / f"{spec}.tk").read_text())).kernel


def test_a_reduction_along_the_other_axis_is_offered() -> None:
    """A tile that is swapped has its rows along the axis of blocks."""
    with pytest.raises(SpecError) as caught:
        program(parse_text(text_of("attention", "rowmax(s)", "rowmax(s.T)")))
    (found,) = [d for d in caught.value.diagnostics if d.code == "E226"]
    assert found.fix is not None and found.fix.text.startswith("use `colmax`, which is over `j`: this tile is [j, q]")


def test_a_value_that_no_store_depends_on_is_told() -> None:
    found = typed(parse_text(text_of("rmsnorm", "  R[t] = x\n", "  y = x * 2\n  z = y + W\n")))
    assert [(u.what, u.name) for u in found.unused] == [("value", "y"), ("value", "z")]
    fewer = typed(parse_text(text_of("rmsnorm", "  R[t] = x\n", ""))).kernel
    assert len(found.kernel.body) == len(fewer.body)  # and nothing computes it


def test_every_code_of_equations_is_among_the_mistakes() -> None:
    codes = {code for _, _, _, code, _, _ in MISTAKES}
    assert {f"E{n}" for n in (*range(222, 231), 232, 233)} <= codes


def test_an_index_of_a_table_is_given_tiles_of_one() -> None:
    path = Path(__file__).parents[2] / "benchmarks" / "public" / "helion" / "gather_gemv.tk"
    right = path.read_text(encoding="utf-8")
    wrong = right.replace("over b in B by 1", "over b in B")
    assert wrong != right
    with pytest.raises(SpecError) as caught:
        program(parse_text(wrong))
    fix = caught.value.diagnostics[0].fix
    assert fix is not None and fix.text == "give `b` tiles of 1"
    (edit,) = fix.edits
    assert wrong[: edit.span.start] + edit.text + wrong[edit.span.end :] == right


def test_tiles_of_one_stand_after_the_groups() -> None:
    """The fix of E233 gives an index of groups tiles of 1 where its clause is whole."""
    text = """kernel bag
  dims BAGS = 4, OFFSETS = BAGS + 1, ITEMS = 100, ROWS = 50, D = 256
  global FIRST : i32[OFFSETS]
  global ITEM : i32[ITEMS]
  global TABLE : f32[ROWS, D]
  global Y : f32[BAGS, D]
  over b in BAGS
  carry s : f32[D] = 0
  each i in ITEMS within FIRST[b]
    s = s + TABLE[ITEM[i]]
  Y[b] = s
"""
    with pytest.raises(SpecError) as caught:
        load(text, target="gfx942")
    (found,) = [d for d in caught.value.diagnostics if d.code == "E233"]
    assert found.fix is not None
    (edit,) = found.fix.edits
    assert f"{text[: edit.span.start]}{edit.text}".endswith("each i in ITEMS within FIRST[b] by 1")
