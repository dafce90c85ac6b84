"""Formulas printed, read and typed again; no text, however broken, ends in anything but a kernel or diagnostics."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tkgen.diagnostics import SpecError
from tkgen.diagnostics.render import render_text
from tkgen.ir.equation_text import to_text
from tkgen.ir.program import program
from tkgen.ir.typing import typed
from tkgen.ir.verifier import verify
from tkgen.source import SourceFile
from tkgen.syntax import ast
from tkgen.syntax.dump import dump
from tkgen.syntax.format import format_source
from tkgen.syntax.parser import parse_text

TEXTS = [path.read_text() for path in sorted(Path(__file__).parent.glob("*.tk"))]
SECONDS = 2.0  # a tenth on an idle machine

# ---------------------------------------------------------------- formulas

# How tightly operators bind, loosest first; those of one line from left to right.
LEVELS = [("or",), ("and",), ("<", "<=", ">", ">=", "==", "!="), ("+", "-"), ("*", "/"), ("@",)]
LEVEL = {op: level for level, ops in enumerate(LEVELS) for op in ops}
SPAN = parse_text("kernel a\n  waves 1\n").span


def node(kind: type[ast.Node], *fields: object) -> ast.Expr:
    built: ast.Expr = kind(SPAN, *fields)  # type: ignore[assignment, call-arg]
    return built


def name(text: str) -> ast.Name:
    return ast.Name(SPAN, text)


names = st.sampled_from(["x", "step", "tile", "over", "K", "inf", "T", "_1", "e1", "android", "nota"]).map(name)
numbers = st.integers(0, 2**31 - 1).map(lambda n: node(ast.Number, n)) | st.floats(
    0, 1e30, allow_nan=False, allow_infinity=False
).map(lambda n: node(ast.Number, n))
parts = st.builds(lambda n, i: node(ast.Access, n, tuple(i)), names, st.lists(names | numbers, min_size=1, max_size=4))
formulas = st.recursive(
    names | numbers | parts,
    lambda inner: (
        st.builds(lambda op, a, b: node(ast.Binary, op, a, b), st.sampled_from(list(LEVEL)), inner, inner)
        | st.builds(lambda op, a: node(ast.Unary, op, a), st.sampled_from(["-", "not"]), inner)
        | inner.map(lambda a: node(ast.Transposed, a))
        | st.builds(lambda f, a: node(ast.Call, f, tuple(a)), names, st.lists(inner, min_size=1, max_size=3))
    ),
    max_leaves=20,
)


def written(expr: ast.Expr, level: int = 0) -> str:
    """The formula as text, with parentheses only where they are needed; `level` is what stands around it."""
    match expr:
        case ast.Number(value=value):
            return repr(value)
        case ast.Name(id=id_):
            return id_
        case ast.Access(name=tensor, indices=indices):
            return f"{tensor.id}[{', '.join(map(written, indices))}]"
        case ast.Call(name=function, args=args):
            return f"{function.id}({', '.join(map(written, args))})"
        case ast.Transposed(operand=operand):
            return f"{written(operand, 8)}.T"
        case ast.Unary(op="not", operand=operand):
            mine, text = 2, f"not {written(operand, 2)}"
        case ast.Unary(operand=operand):
            mine, text = 7, f"-{written(operand, 7)}"
        case ast.Binary(op=op, left=left, right=right):
            mine = LEVEL[op]
            chains = op not in LEVELS[2]  # a comparison of comparisons needs parentheses on both sides
            text = f"{written(left, mine if chains else mine + 1)} {op} {written(right, mine + 1)}"
    return f"({text})" if mine < level else text


def body_of(text: str) -> str:
    return dump(parse_text(text)).split("\n", 1)[1]


@settings(derandomize=True, deadline=None, max_examples=300, database=None)
@given(formulas)
def test_a_formula_is_read_as_it_was_written(formula: ast.Expr) -> None:
    text = f"kernel a\n  y = {written(formula)}\n"
    equation = ast.Equation(SPAN, name("y"), formula)
    assert body_of(text) == dump(ast.Kernel(SPAN, name("a"), (equation,), "")).split("\n", 1)[1]
    formatted = format_source(SourceFile("a.tk", text))
    assert body_of(formatted) == body_of(text)
    assert format_source(SourceFile("a.tk", formatted)) == formatted


# ---------------------------------------------------------------- kernels

HEAD = """kernel drawn
  dims M = 64, N = 128, L = 256, D = 32
  global X : bf16[M, D]
  global W : f32[D]
  global A : bf16[M, L]
  global B : bf16[D, L]
  global P : f32[M, D]
  global Y : bf16[M, D]
  scalar s : f32 = 0.5
  over m in M by 16
  waves 4
"""
LEAVES = ("X[m]", "W", "X[m, 3]", "x", "s", "m", "coordinate(D)", "2", "inf", "D", "x + P[m]", "(m >= coordinate(D))")
WRAPPED = (
    "exp2({})", "rowmax({})", "-{}", "bf16({})", "{} * x", "where({} > 0, x, 1)", "max({}, W)", "{} / s", "abs({})",
    "clamp({}, -1, s)", "x + {}", "({}).T", "not {}",
)  # fmt: skip
STEPS = ("c = c + A[m, j] @ B[D, j].T", "c = max(c, rowmax(A[m, j]))", "c = c * s + x", "x = x + s")
STORED = ("x", "x", "v0", "x + v0")


def drawn(rng: random.Random) -> str:
    """A kernel of which most lines are right."""
    lines = ["x = X[m] * s"]
    for i in range(rng.randint(1, 3)):
        formula = rng.choice(LEAVES)
        for _ in range(rng.randint(0, 2)):
            formula = rng.choice(WRAPPED).format(formula)
            if rng.random() < 0.3:
                formula = f"{formula} {rng.choice('+-*/@<')} {rng.choice(LEAVES)}"
        lines.append(f"{'x' if rng.random() < 0.1 else f'v{i}'} = {formula}")
    stored = rng.choice(STORED)
    if rng.random() < 0.5:
        lines += rng.choice([[], ["carry c : f32[m, D] = 0"], ["carry c : f32[m] = -inf"]])
        lines.append(f"each j in L by {rng.choice([16, 64])}\n    {rng.choice(STEPS)}")
        stored = rng.choice([stored, "c", "x + c"])
    return HEAD + "".join(f"  {line}\n" for line in [*lines, f"Y[m] = {stored}"])


def survives(text: str) -> str:
    """A kernel that the verifier passes, in text form, or the codes of diagnostics that can be shown; soon."""
    start = time.process_time()
    try:
        parsed = parse_text(text)
        found = to_text(verify(typed(parsed).kernel, "test"))
        assert to_text(typed(parsed).kernel) == found
        program(parsed)
    except SpecError as error:
        assert error.diagnostics and render_text(error.diagnostics)
        for d in error.diagnostics:
            # Of registers (E403) resolution says only that no wave has so many.
            assert re.fullmatch(r"E[126]\d\d|E403", d.code), d.code
            assert d.primary is None or 0 <= d.primary.span.start <= d.primary.span.end <= len(text)
        found = " ".join(d.code for d in error.diagnostics)
    assert time.process_time() - start < SECONDS
    return found


@pytest.mark.parametrize("seed", range(10))
def test_drawn_kernels(seed: int) -> None:
    rng = random.Random(seed)
    found = [survives(drawn(rng)) for _ in range(30)]
    assert sum(text.startswith("kernel") for text in found) >= 5
    assert len({text for text in found if text.startswith("E")}) >= 2


def mutant(text: str, rng: random.Random) -> str:
    tokens = re.findall(r"[A-Za-z_]\w*|\d+|[ ]+|.", text, re.DOTALL)
    for _ in range(rng.randint(1, 3)):
        i, j = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        tokens[i] = rng.choice(
            ["", tokens[j], tokens[i] * 2, "[", "(", ".T", "@", "not", "\n    ", "each", "carry", "-1"]
        )
    return "".join(tokens)


@pytest.mark.parametrize("seed", range(10))
def test_mutants(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(30):
        survives(mutant(rng.choice(TEXTS), rng))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_more_of_them(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(200):
        survives(mutant(rng.choice(TEXTS), rng))
        survives(drawn(rng))


DEEP = "".join(f"{'  ' * i}  each {'ijkl'[i]} in {'MNLD'[i]} by 1\n" for i in range(4))


@pytest.mark.parametrize(
    "lines",
    [
        "  y = " + "-" * 5000 + "1",
        "  y = " + "(" * 5000 + "1" + ")" * 5000,
        "  y = " + "1 + " * 3000 + "1",
        "  y = X" + "[m]" * 3000,
        "  y = X" + ".T" * 5000,
        "  y = X[" + "m, " * 5000 + "m]",
        "  carry " + ", ".join(f"c{i} : f32[m] = 0" for i in range(500)),
        "\n".join(f"  v{i} = x{i}" for i in range(5000)),
        "\n".join(f"  Y[{i}] = 1" for i in range(3000)),
        DEEP + "".join(f"          g{i} = g{i} + 1\n" for i in range(500)),
        "".join(f"{'  ' * i}  each j{i} in M by 1\n" for i in range(500)) + "  " * 501 + "y = 1",
    ],
)
def test_hostile_lines_take_no_time(lines: str) -> None:
    survives(HEAD + lines + "\n")
