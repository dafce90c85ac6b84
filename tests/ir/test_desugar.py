"""The equations that clauses stand for."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tkgen.api import load
from tkgen.execute.compare import random_inputs
from tkgen.ir.equation_text import to_text
from tkgen.ir.launch import Launch
from tkgen.ir.meaning import evaluate
from tkgen.ir.verifier import verify

SPECS = Path(__file__).parents[2] / "specs"

SPEC = """kernel layer
  dims M = 64, N = 96, K = 64
  global A : bf16[{a}]
  global B : bf16[{b}]
  global D : f32[M, N]
  global v : f32[{v}]
  global C : bf16[M, N]
  scalar beta : f32 = 1.0
  block 32 x 32 step 32
  waves 1 x 1
  shared A, B buffers 1
  accumulate C : f32 tile 32 x 32
  epilogue scale(0.5) | add(D, beta) | bias(v) | silu
  store C
"""
TEXT = """kernel layer
  tensor A : bf16[M, K]
  tensor B : bf16[N, K]
  tensor D : f32[M, N]
  tensor v : f32[N]
  tensor C : bf16[M, N]
  scalar beta : f32
  axis over m in M by 32
  axis over n in N by 32
  axis each k in K by 32
  %0 : f32[] = 0.0
  each k
    carry %1.C : f32[m, n] = %0
    %2.A : bf16[m, k] = load A[m, k]
    %3.B : bf16[n, k] = load B[n, k]
    %4 : f32[m, n] = product over k of %2.A, %3.B
    %5.C : f32[m, n] = add %1.C, %4
    next %1.C = %5.C -> %6.C
  %7 : f32[] = 0.5
  %8 : f32[m, n] = mul %7, %6.C
  %9.beta : f32[] = argument beta
  %10.D : f32[m, n] = load D[m, n]
  %11 : f32[m, n] = mul %9.beta, %10.D
  %12 : f32[m, n] = add %8, %11
  %13 : f32[] = 0.0
  %14 : predicate[] = ne %9.beta, %13
  %15 : f32[m, n] = where %14, %12, %8
  %16.v : f32[n] = load v[n]
  %17 : f32[m, n] = add %15, %16.v
  %18 : f32[m, n] = silu %17
  store C[m, n] = %18
"""


def test_equations_of_clauses(tmp_path: Path) -> None:
    path = tmp_path / "layer.tk"
    path.write_text(SPEC.format(a="M, K", b="N, K", v="N"))
    assert to_text(load(path).program.kernel) == TEXT


@pytest.mark.parametrize("v", ["M", "N"])
@pytest.mark.parametrize(("a", "b"), [("M, K", "K, N"), ("K, M", "N, K"), ("K, M", "K, N")])
def test_layouts(a: str, b: str, v: str, tmp_path: Path) -> None:
    path = tmp_path / "layer.tk"
    path.write_text(SPEC.format(a=a, b=b, v=v))
    program = load(path).program
    inputs = random_inputs(Launch(program, {"M": 64, "N": 96, "K": 64}))
    left, right = inputs["A"].double(), inputs["B"].double()
    left, right = left.T if a == "K, M" else left, right.T if b == "N, K" else right
    added = inputs["v"].double()[:, None] if v == "M" else inputs["v"].double()
    for beta in (0.0, 0.25):
        found = evaluate(program.kernel, inputs, {"beta": beta})["C"].value
        expected = torch.nn.functional.silu(0.5 * (left @ right) + beta * inputs["D"].double() + added)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("path", sorted(SPECS.glob("*.tk")), ids=lambda p: p.stem)
def test_every_spec_has_sound_equations(path: Path) -> None:
    program = load(path).program
    kernel = verify(program.kernel, "test")
    assert kernel.outputs == program.outputs and kernel.inputs == program.reads
    assert all(store.adds == program.grid.shares_tiles for store in kernel.stores)
