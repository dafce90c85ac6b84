"""The AMD path of `tkgen.ops`: the built modules launch on the emulated GPU, with a torch that knows none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from sampling import only

from tkgen.emulate.program import emulated
from tkgen.emulate.session import Launch, Result
from tkgen.targets import load_target
from tkgen.toolchain.discover import find_compiler
from tkgen.toolchain.hip import find_hip
from tkgen.toolchain.module import missing_for_module

PROGRAM = Path(__file__).parent / "operators.py"
# Each operator with the number of its results and gradients.
RESULTS = {
    "linear": 3, "matmul": 3, "rmsnorm": 3, "rotary": 2, "swiglu": 4, "attention": 4, "grouped_linear": 3,
    "quantise": 3,
}  # fmt: skip


@pytest.mark.parametrize("name", only(RESULTS, ("rotary",)))
def test_an_operator(ended, name):
    if missing := missing_for_module(find_compiler(load_target("gfx942")), find_hip()):
        pytest.skip("; ".join(f"{m.what} is missing: {m.install}" for m in missing))
    launches: list[Launch] = []
    run = emulated()

    def counted(what: Launch) -> Result:
        launches.append(what)
        return run(what)

    got = ended(sys.executable, str(PROGRAM), name, target="gfx942", launcher=counted)
    assert got.status == 0 and got.out.splitlines() == ["right"] * RESULTS[name], got
    assert launches
