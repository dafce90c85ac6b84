"""Every epilogue step there is has its C++, its meaning in torch and its place in both harnesses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tkgen.api import load
from tkgen.execute.launch import run
from tkgen.ir.resolve.clauses import EPILOGUES
from tkgen.lower import harness_cpp, harness_python

SPEC = """kernel steps
  dims M = 64, N = 64, K = 32
  global A : bf16[M, K]
  global B : bf16[N, K]
  global D : f32[M, N]
  global v : f32[N]
  global C : f32[M, N]
  block 64 x 64 step 32
  waves 1 x 1
  shared A, B buffers 1
  accumulate C : f32 tile 32 x 32
{epilogue}  store C
"""
ARGUMENTS = {"scale": "(0.5)", "add": "(D, 2.0)", "bias": "(v)"}


@pytest.mark.parametrize("step", EPILOGUES)
def test_a_step_is_computed_and_judged(step: str, tmp_path: Path) -> None:
    plain, path = tmp_path / "plain.tk", tmp_path / "steps.tk"
    plain.write_text(SPEC.format(epilogue=""))
    path.write_text(SPEC.format(epilogue=f"  epilogue {step}{ARGUMENTS.get(step, '')}\n"))
    spec = load(path).check()
    assert run(spec.build()).ok
    for harness, assignment in ((harness_cpp, " = apply("), (harness_python, " = apply(")):
        texts = [harness(s.plan, s.target.name) for s in (load(plain), spec)]
        assert len({text.count(assignment) for text in texts}) == 2, f"{step} is missing in a harness"
