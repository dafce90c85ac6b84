"""Kernels that take nearly all registers of a consumer's thread: what ptxas does with them, and what is said of it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from nvcc import compiles

import tkgen
from tkgen.backends.hopper.checks import check_figures
from tkgen.backends.hopper.toolchain import read_figures
from tkgen.backends.registry import backend_of
from tkgen.diagnostics import SpecError
from tkgen.proof.execution import Order
from tkgen.source import SourceFile, Span

WINDOW = """
kernel window
  dims H = 1, LENGTH = 200, D = 64
  global Q : bf16[H, LENGTH, D]
  global K : bf16[H, LENGTH, D]
  global V : bf16[H, LENGTH, D]
  global O : bf16[H, LENGTH, D]
  scalar scale : f32 = 0.18
  over h in H, q in LENGTH by {rows}
  waves {waves} along q
  shared K, V buffers 2 via direct
  carry m : f32[q] = -1e30, l : f32[q] = 0, o : f32[q, D] = 0
  each j in LENGTH by 128 from q - 99
    s = scale * Q[h, q] @ K[h, j].T
    s = where(q >= j, s, -inf)
    s = where(q - j < 100, s, -inf)
    n = max(m, rowmax(s))
    p = exp2(s - n)
    r = exp2(m - n)
    l = l * r + rowsum(p)
    o = o * r + bf16(p) @ V[h, j]
    m = n
  O[h, q] = o / l
"""
FIGURES = """ptxas info    : Compiling entry function '_ZN4gemm6kernelENS_7globalsE' for 'sm_90a'
    {stack} bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 128 registers, used 16 barriers, 64 bytes smem
"""
SERIALIZED = (
    "ptxas info : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient "
    "register resources for the wgmma pipeline in the function 'kernel'\n"
)
OTHERWISE = (
    "ptxas info : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
    "non wgmma instructions defining accumulator registers of a wgmma in the function 'kernel'\n"
)


@compiles
def test_the_products_of_a_window_of_two_iterations_run_beside_each_other() -> None:
    """The compiler made no loop of the second one, and ptxas serialised its products with registers to spare."""
    tkgen.load(WINDOW.format(rows=128, waves=8), target="sm_90a").check().build()


@compiles
def test_a_window_that_takes_all_registers_has_them_or_is_refused_for_that() -> None:
    """Some versions of ptxas spill; it was E240, and "report this"."""
    spec = tkgen.load(WINDOW.format(rows=192, waves=12), target="sm_90a").check()
    try:
        spec.build()
    except SpecError as refused:
        (found,) = refused.diagnostics
        assert found.code == "E405" and found.primary and found.fix
        assert found.primary.text == "a consumer's thread has 160 registers; its tiles take about 160"
        assert "fewer consumers" in found.fix.text


def test_a_window_of_two_iterations_is_right() -> None:
    """The generated C++ on the CPU, beside softmax as it is written."""
    spec = tkgen.load(WINDOW.format(rows=128, waves=8), target="sm_90a").check()
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 200, 64, generator=generator).bfloat16() for _ in range(3))
    host = backend_of("sm_90a").executors["host"]
    made = host.run(spec, spec.launch(), {"Q": q, "K": k, "V": v}, {"scale": 0.18}, Order())
    assert not made.findings, made.findings
    behind = torch.arange(200)[:, None] - torch.arange(200)
    scores = 0.18 * math.log(2) * (q.double() @ k.double().mT)
    meant = scores.where((behind >= 0) & (behind < 100), -torch.inf).softmax(-1) @ v.double()
    torch.testing.assert_close(made.outputs["O"].double(), meant, rtol=0.02, atol=0.02)


@pytest.mark.parametrize(
    ("remarks", "stack", "allow", "codes"),
    [
        ("", 0, (), []),
        ("", 16, (), ["E405"]),
        (SERIALIZED, 0, (), ["E405"]),
        (SERIALIZED, 16, (), ["E405"]),
        (SERIALIZED, 0, ("spills",), []),
        (OTHERWISE, 0, (), ["E240"]),
        (OTHERWISE, 0, ("spills",), ["E240"]),
        (SERIALIZED + OTHERWISE, 0, (), ["E405", "E240"]),
    ],
)
def test_too_few_registers_are_named_as_the_reason(
    remarks: str, stack: int, allow: tuple[str, ...], codes: list[str]
) -> None:
    at = Span(SourceFile(Path("x.tk"), "kernel x\n"), 0, 6)
    room = "a consumer's thread has 160 registers; its tiles take about 160"
    figures = read_figures(FIGURES.format(stack=stack), "")
    found = check_figures(at, allow, figures, remarks, room, "use fewer consumers")
    assert [d.code for d in found] == codes
    for d in found:
        if d.code == "E405":
            assert d.primary and d.primary.text == room and d.fix and d.fix.text == "use fewer consumers"
