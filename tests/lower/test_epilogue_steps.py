"""Every epilogue step there is has its C++, its meaning in torch and its place in both harnesses."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tkgen.api import load
from tkgen.backends.cdna.lower.harness import harness_cpp, harness_python
from tkgen.execute.compare import Inputs, Reference, random_inputs, references
from tkgen.execute.launch import run
from tkgen.ir.divided import extents_of
from tkgen.ir.launch import Launch
from tkgen.ir.types import Program
from tkgen.ir.typing.desugar import EPILOGUES

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
ARGUMENTS = {"scale": "(0.5)", "add": "(D, 2.0)", "bias": "(v)", "mul": "(v)", "clamp": "(-2.5, 3)"}


@pytest.mark.parametrize("step", [*EPILOGUES, "fast tanh", "fast gelu"])
def test_a_step_is_computed_and_judged(step: str, tmp_path: Path) -> None:
    plain, path = tmp_path / "plain.tk", tmp_path / "steps.tk"
    plain.write_text(SPEC.format(epilogue=""))
    path.write_text(SPEC.format(epilogue=f"  epilogue {step}{ARGUMENTS.get(step, '')}\n"))
    spec = load(path).check()
    assert run(spec.build()).ok
    for harness, assignment in ((harness_cpp, " = apply("), (harness_python, " = apply(")):
        texts = [harness(s.plan, s.target.name) for s in (load(plain), spec)]
        assert len({text.count(assignment) for text in texts}) == 2, f"{step} is missing in a harness"


TAIL = """kernel steps
  dims M = 61, N = 50, K = 32
  global A : bf16[M, K]
  global B : bf16[N, K]
  global D : bf16[M, N]
  global r : f32[M]
  global v : bf16[N]
  scalar low : f32 = -0.5
  scalar most : f32 = 0.25
  global C : {out}[M, N]
  block 64 x 64 step 32
  tail masked
  waves 1 x 1
  shared A, B buffers 1
  accumulate C : f32 tile 32 x 32
  epilogue {steps}
  store C
"""


@pytest.mark.parametrize(
    ("steps", "out"),
    [
        ("scale(0.5) | mul(r) | clamp(low, 3) | tanh | mul(D)", "bf16"),
        ("bias(v) | clamp(low, most) | add(D, low) | gelu | mul(v)", "f32"),
        ("relu | scale(low) | mul(D) | silu", "f16"),
    ],
)
def test_steps_of_all_kinds_together(steps: str, out: str, tmp_path: Path) -> None:
    path = tmp_path / "steps.tk"
    path.write_text(TAIL.format(steps=steps, out=out))
    build = load(path).check().build()
    for kind in Inputs:
        assert run(build, kind=kind).ok


def reference(program: Program, inputs: dict[str, torch.Tensor], scalars: dict[str, float]) -> Reference:
    """The only output of a kernel in f64, and the bound on each element's error."""
    launch = Launch(program, extents_of(program.kernel, inputs, {}))
    (found,) = references(launch, inputs, scalars).values()
    return found


def test_a_clamp_that_is_forgotten_or_exchanged_shows(tmp_path: Path) -> None:
    path = tmp_path / "steps.tk"
    path.write_text(TAIL.format(steps="clamp(low, most)", out="bf16"))
    program = load(path).program
    inputs = random_inputs(Launch(program, {d.name: d.size or 0 for d in program.dims}))
    value, bound = reference(program, inputs, {"low": -0.5, "most": 0.25})
    summed = inputs["A"].double() @ inputs["B"].double().T
    assert (value == summed.clamp(-0.5, 0.25)).all()
    for wrong in (summed, summed.clamp(0.25, -0.5), summed.clamp(-0.5, 0.5)):
        assert ((wrong - value).abs() > bound).any()
