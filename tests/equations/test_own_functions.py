"""Functions of a spec's own are their expressions, wherever equations and epilogues call them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tkgen.api import load, load_equations
from tkgen.diagnostics import SpecError
from tkgen.diagnostics.render import render_text
from tkgen.execute.launch import run
from tkgen.ir.equation_text import to_text
from tkgen.ir.equations import Kernel, Map
from tkgen.ir.meaning import evaluate
from tkgen.ir.rounding import normal
from tkgen.source import SourceFile
from tkgen.syntax.dump import dump
from tkgen.syntax.format import format_source
from tkgen.syntax.parser import parse_spec

ROWS = """{above}kernel rows
  dims T = 8, D = 128
  global X : f32[T, D]
  global W : f32[D]
  global Y : f32[T, D]
  scalar cap : f32 = 2.0
{inside}  over t in T by 4
  waves 4 along t
  x = X[t]
  Y[t] = {formula}
"""
CLAUSES = """{above}kernel product
  dims M = 64, N = 64, K = 32
  global A : bf16[M, K]
  global B : bf16[N, K]
  global v : f32[N]
  global C : f32[M, N]
  scalar cap : f32 = 2.0
  block 64 x 64 step 32
  waves 1 x 1
  shared A, B
  accumulate C : f32 tile 32 x 32
  epilogue {steps}
  store C
"""
PRODUCT = """{above}kernel product
  dims M = 64, N = 64, K = 64
  global A : bf16[M, K]
  global B : bf16[N, K]
  global v : f32[N]
  global C : f32[M, N]
  over m in M by 64, n in N by 64
  shared A, B
  each k in K by 64
    c = c + A[m, k] @ B[n, k].T
  C[m, n] = {formula}
"""
ATTENTION = """{above}kernel attention
  dims H = 2, L = 128, D = 64
  global Q : bf16[H, L, D]
  global K : bf16[H, L, D]
  global V : bf16[H, L, D]
  global O : f32[H, L, D]
  over h in H, q in L by 128
  shared K, V buffers 2
  carry m : f32[q] = -inf, l : f32[q] = 0, o : f32[q, D] = 0
  each j in L by 64
    s = {formula}
    n = max(m, rowmax(s))
    p = exp(s - n)
    r = exp(m - n)
    l = l * r + rowsum(p)
    o = o * r + bf16(p) @ V[h, j]
    m = n
  O[h, q] = o / l
"""
SOFTCAP = "function softcap(x, c) = c * tanh(x / c)\n"
OTHERS = """\
function half(x) = 0.5 * x
function soft(x) = exp(x - rowmax(x)) / rowsum(exp(x - rowmax(x)))
function chosen(x, y, c) = where(y > 0, half(softcap(x, c)), half(soft(x)))
function swish(x) = x * fast sigmoid(x)
"""
WRITTEN_OUT = [
    (ROWS, "softcap(x, 3)", "3 * tanh(x / 3)"),
    (ROWS, "softcap(x + W, cap) - softcap(x, cap) * 2", "cap * tanh((x + W) / cap) - cap * tanh(x / cap) * 2"),
    (ROWS, "chosen(x, W, cap)", "where(W > 0, 0.5 * (cap * tanh(x / cap)), "
     "0.5 * (exp(x - rowmax(x)) / rowsum(exp(x - rowmax(x)))))"),
    (ROWS, "x + half(coordinate(D))", "x + 0.5 * coordinate(D)"),
    (ROWS, "swish(-softcap(half(x), 2))", "-(2 * tanh(0.5 * x / 2)) * fast sigmoid(-(2 * tanh(0.5 * x / 2)))"),
    (PRODUCT, "softcap(c + v[n], 3)", "3 * tanh((c + v[n]) / 3)"),
    (ATTENTION, "softcap(Q[h, q] @ K[h, j].T, 3)", "3 * tanh(Q[h, q] @ K[h, j].T / 3)"),
]  # fmt: skip


def kernel_of(text: str) -> Kernel:
    (found,) = load("own.tk", text=text).check().kernels
    return found.program.kernel


def given(kernel: Kernel) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return {t.name: normal([d.size or 0 for d in t.dims], t.dtype, generator) for t in kernel.inputs}


@pytest.mark.parametrize(("spec", "called", "written"), WRITTEN_OUT)
def test_a_call_is_the_expression(spec: str, called: str, written: str) -> None:
    """The same operations: the same numbers, and the same bounds on their errors."""
    own = kernel_of(spec.format(above=SOFTCAP + OTHERS, inside="", formula=called))
    plain = kernel_of(spec.format(above="", inside="", formula=written))
    inputs = given(own)
    scalars = {s.name: 2.0 for s in own.scalars}
    found, expected = evaluate(own, inputs, scalars), evaluate(plain, inputs, scalars)
    for name, result in expected.items():
        assert torch.equal(found[name].value, result.value) and torch.equal(found[name].bound, result.bound)


@pytest.mark.parametrize("spec", [ROWS, CLAUSES], ids=["rows", "clauses"])
def test_a_kernel_with_a_function_is_right(spec: str) -> None:
    """Beside plain torch."""
    text = spec.format(above=SOFTCAP, inside="", formula="softcap(x + W, cap)", steps="bias(v) | softcap(cap)")
    spec_of = load("own.tk", text=text).check()
    assert run(spec_of.build()).ok
    kernel = spec_of.kernels[0].program.kernel
    inputs = given(kernel)
    x = inputs["X"] + inputs["W"] if spec is ROWS else inputs["A"].float() @ inputs["B"].float().T + inputs["v"]
    (found,) = evaluate(kernel, inputs, {"cap": 2.0}).values()
    torch.testing.assert_close(found.value, 2 * torch.tanh(x.double() / 2), rtol=1e-5, atol=1e-5)


def test_steps_of_an_epilogue_are_functions_of_the_spec() -> None:
    text = CLAUSES.format(above=SOFTCAP + OTHERS, steps="bias(v) | half | softcap(cap) | fast gelu | softcap(0.5)")
    kernel = kernel_of(text)
    functions = [op.function for op in kernel.body if isinstance(op, Map)]
    assert functions == ["add", "mul", "div", "tanh", "mul", "fast_gelu", "div", "tanh", "mul"]


def test_functions_come_from_files_that_are_included(tmp_path: Path) -> None:
    (tmp_path / "caps.tk").write_text(SOFTCAP)
    written = ROWS.format(above="", inside="", formula="3 * tanh(x / 3)")
    for above, inside in (('include "caps.tk"\n', ""), ("", '  include "caps.tk"\n'), ("", f"  {SOFTCAP}")):
        path = tmp_path / "rows.tk"
        path.write_text(ROWS.format(above=above, inside=inside, formula="softcap(x, 3)"))
        (kernel,) = load_equations(path)
        (plain,) = load_equations("rows.tk", text=written)
        assert to_text(kernel) == to_text(plain).replace("plain", "rows")
    (tmp_path / "caps.tk").write_text(SOFTCAP + "dims N = 3\n")
    path.write_text(ROWS.format(above='include "caps.tk"\n', inside="", formula="softcap(x, 3)"))
    with pytest.raises(SpecError) as caught:
        load(path)
    assert [d.code for d in caught.value.diagnostics] == ["E106"]


def test_kernels_of_a_sequence_share_functions() -> None:
    text = """sequence two
dims T = 8, D = 128
global X : f32[T, D]
global Y : f32[T, D]
global Z : f32[T, D]
global x : f32[D]
function half(x) = 0.5 * x
function quarter(x) = half(half(x))
kernel first
  over t in T by 4
  Y[t] = quarter(X[t])
kernel second
  over t in T by 4
  Z[t] = Y[t] + half(x)
"""
    first, second = load("two.tk", text=text).check().kernels
    assert [t.name for t in first.program.arguments] == ["X", "Y"]  # `x` is a parameter there, and no tensor
    assert [t.name for t in second.program.arguments] == ["Y", "Z", "x"]


def test_functions_are_formatted_and_dumped() -> None:
    text = ROWS.format(above="function  f( x,c )=c*  fast tanh( -x/c )  # capped\n", inside="", formula="f(x, 2)")
    formatted = format_source(SourceFile("a.tk", text))
    assert formatted.startswith("function f(x, c) = c * fast tanh(-x / c)  # capped\nkernel rows\n")
    assert "Function name=f parameters=[x, c] value=(c * fast tanh(((- x) / c)))" in dump(parse_spec(formatted))


MISTAKES = [
    (SOFTCAP, "softcap(x)", "E234", "`softcap` takes 2 arguments, not 1", "softcap(x)", ["softcap(x, c) ="]),
    (SOFTCAP, "softcap", "E200", "`softcap` is a function, which needs arguments", "softcap", []),
    (SOFTCAP, "fast softcap(x, 2)", "E200", "`fast` takes a function of the language, not `softcap`", "softcap", []),
    (SOFTCAP, "softcpa(x, 2)", "E200", "`softcpa` is not a function of equations; did you mean "
                                       "`softcap`?", "softcpa", []),
    (SOFTCAP, "softcap(x > 0, 2)", "E229", "`/` takes a number, not a truth", "x", ["softcap(x > 0, 2)"]),
    ("function f(x) = softcap(x > 1, 2)\n" + SOFTCAP, "f(x)", "E229", "`/` takes a number, not a truth", "x",
     ["softcap(x > 1, 2)", "f(x)"]),
    ("function f(x) = x + cap\n", "f(x)", "E234", "`cap` is no parameter of `f`", "cap", ["cap"]),
    ("function f(first) = frist\n", "x", "E234", "`frist` is no parameter of `f`; did you mean `first`?", "frist", []),
    ("function f(x) = x + W[x]\n", "x", "E234", "a function takes values and cannot read a tensor such as "
                                                "`W`", "W[x]", []),
    ("function f(x) = x[0]\n", "x", "E234", "`x` is a parameter, which has no index", "x[0]", []),
    ("function f(x) = x + length(x)\n", "x", "E234", "`length` needs the name of an axis, which `f` cannot use",
     "length(x)", []),
    ("function f(x) = f\n", "x", "E234", "`f` is a function, not a value", "f", []),
    ("function f(x) = x + f(x)\n", "x", "E234", "`f` calls itself", "f", []),
    ("function f(x) = g(x)\nfunction g(x) = 2 * f(x)\n", "x", "E234", "`f` calls itself", "g", ["f"]),
    ("function f(x) = rowmaxx(x)\n", "x", "E200", "`rowmaxx` is not a function of equations; did you mean `rowmax`?",
     "rowmaxx", []),
    ("function tanh(x) = x\n", "x", "E202", "`tanh` is a function of equations, so no function can have this name",
     "tanh", []),
    ("function f(exp) = exp\n", "x", "E202", "`exp` is a function of equations, so no parameter can have this name",
     "exp", []),
    ("function f(inf) = inf\n", "x", "E202", "`inf` is a constant, so no parameter can have this name", "inf", []),
    (SOFTCAP + "function f(softcap) = 1\n", "x", "E202",
     "`softcap` is a function of this spec, so no parameter can have this name", "softcap", ["softcap"]),
    (SOFTCAP + SOFTCAP, "x", "E202", "`softcap` is declared twice", "softcap", ["softcap"]),
    ("function X(x) = x\n", "x", "E202", "`X` is declared twice", "X", ["X"]),
    ("function t(x) = x\n", "x", "E202", "`t` is declared twice", "t", ["t"]),
    ("function f(x, x) = x\n", "x", "E107", "parameter `x` is given twice", "x", ["x"]),
    ("function f() = 1\n", "x", "E101", "expected a name, found `)`", ")", []),
]  # fmt: skip


@pytest.mark.parametrize(("above", "formula", "code", "message", "underlined", "others"), MISTAKES)
def test_a_mistake(above: str, formula: str, code: str, message: str, underlined: str, others: list[str]) -> None:
    with pytest.raises(SpecError) as caught:
        load("own.tk", text=ROWS.format(above=above, inside="", formula=formula))
    first = caught.value.diagnostics[0]
    assert (first.code, first.message) == (code, message)
    assert first.primary is not None and first.primary.span.text == underlined
    places = [label.span.text for label in first.secondary]
    assert len(places) == len(others) and all(o in place for o, place in zip(others, places, strict=True)), places
    assert render_text(caught.value.diagnostics)


@pytest.mark.parametrize("count", [150, 400])
def test_functions_are_not_expanded_without_end(count: int) -> None:
    above = "".join(f"function g{n}(x) = g{n + 1}(x)\n" for n in range(count)) + f"function g{count}(x) = x\n"
    with pytest.raises(SpecError) as caught:
        load("own.tk", text=ROWS.format(above=above, inside="", formula="g0(x)"))
    (found,) = caught.value.diagnostics
    assert (found.code, found.message) == ("E234", "`g0` expands to more than 100 nested operations")


def test_functions_of_functions_do_not_multiply_without_end() -> None:
    above = "".join(f"function g{n}(x) = g{n + 1}(x) + g{n + 1}(x)\n" for n in range(40)) + "function g40(x) = x\n"
    with pytest.raises(SpecError) as caught:
        load("own.tk", text=ROWS.format(above=above, inside="", formula="g0(x)"))
    (found,) = caught.value.diagnostics
    assert found.code == "E234" and found.message.startswith("functions of this kernel expand to more than")
    assert len(found.secondary) < 50
