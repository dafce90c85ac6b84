"""Products of i8 on Hopper: the generated C++ on the CPU and the model of the schedule, beside torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from nvcc import compiles
from sampling import sample

from tkgen.api import load
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.backends.registry import backend_of
from tkgen.diagnostics import SpecError
from tkgen.execute.modelled import in_order

TEXT = """
kernel integers
  target sm_90a
  dims M = {m}, N = {n}, K = {k}
  global A : i8[M, K]
  global B : i8[N, K]
  global C : {output}[M, N]
  {outputs}
  over m in M by {rows}, n in N by 64
  tail masked
  {clauses}
  shared A, B
  each k in K by {step}
    c = c + A[m, k] @ B[n, k].T
  C[m, n] = {value}
  {stored}
"""
PLAIN: dict[str, Any] = {"m": 64, "n": 64, "k": 2048, "rows": 64, "output": "f32", "step": 128}
PLAIN |= {"clauses": "", "value": "c", "outputs": "", "stored": ""}
CASES = {
    "sums that f32 does not hold": PLAIN,
    "stored as integers, which f32 does not hold": PLAIN | {"output": "i32"},
    "steps of half a panel": PLAIN | {"m": 100, "n": 78, "k": 208, "output": "i32", "step": 64},
    "scaled": PLAIN | {"m": 100, "n": 112, "k": 400, "value": "s[m] * c", "outputs": "global s : f32[M]"},
    "consumers take turns": PLAIN | {"m": 200, "k": 400, "rows": 128, "clauses": "schedule ping_pong"},
    "clusters": PLAIN | {"m": 128, "k": 400, "clauses": "clusters 2 along m"},
    "largest of rows": PLAIN | {"k": 400, "outputs": "global L : f32[M]", "stored": "L[m] = rowmax(abs(c))"},
}


def made(name: str) -> HopperSpec:
    spec = load(TEXT.format(**CASES[name])).check()
    assert isinstance(spec, HopperSpec)
    return spec


@pytest.mark.parametrize("name", sample(CASES, 5))
def test_integers_are_summed_as_torch_does(name: str) -> None:
    spec = made(name)
    launch = spec.launch()
    generator = torch.Generator().manual_seed(0)
    inputs = {
        t.name: torch.randint(90, 128, launch.shape(t), generator=generator).to(
            torch.int8 if t.dtype.spelling == "i8" else torch.float32
        )
        for t in spec.program.reads
    }
    inputs["A"][::2] *= -1
    sums = inputs["A"].long() @ inputs["B"].long().T
    assert "f32 does not hold" not in name or (sums.abs() > 2**24).any()
    exact = CASES[name]["output"] == "i32"
    wanted = sums.int() if exact else sums.float() * (inputs["s"][:, None] if "s" in inputs else 1)
    for executor in backend_of("sm_90a").executors.values():
        for order in executor.orders(2):
            found = in_order(executor, spec, launch, inputs, {}, order)
            assert not found.findings
            assert torch.equal(found.outputs["C"], wanted)
            if "L" in found.outputs:
                assert torch.equal(found.outputs["L"], wanted.abs().amax(1))


@compiles
@pytest.mark.parametrize("name", sample(["steps of half a panel", "scaled"], 2))
def test_integers_compile_without_spills(name: str) -> None:
    build = made(name).build()
    assert build.check() and build.figures.spill_bytes == 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"C : f32": "C : i32", "= c\n": "= 2 * c\n"}, "stores integer sums as i32 only unchanged"),
        ({"C : f32": "C : i8"}, "cannot store products as i8"),
        ({"A : i8[M, K]": "A : i8[K, M]", "A[m, k]": "A[k, m].T"}, "is stored with `K` first"),
        ({"K by 128": "K by 320"}, "a K-step of 320 is not a multiple of 64"),
    ],
)
def test_what_no_instruction_has_is_refused(changes: dict[str, str], said: str) -> None:
    text = TEXT.format(**PLAIN)
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    with pytest.raises(SpecError) as caught:
        load(text).check()
    assert said in str([d.message for d in caught.value.diagnostics])
