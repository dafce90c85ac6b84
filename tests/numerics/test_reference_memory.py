"""The memory that `tkgen run` asks for before it starts: enough for the reference and its comparison."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from sampling import slow

ROOT = Path(__file__).parents[2]

# The peak is that of a process of its own: a test before this one may have had more. `getrusage` would not do, since
# a process starts with the peak of the one that started it.
MEASURED = r"""
import re, sys
from pathlib import Path
from tkgen import load
from tkgen.execute import launch as execution
from tkgen.execute.compare import compared, random_inputs, references
from tkgen.execute.arguments import SizeError, scalar_values

def peak():
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) * 1024

name, sizes = sys.argv[1], dict(eval(sys.argv[2]))
spec = load(Path(name).read_text(), sizes).check()
launch, before = spec.launch({}), peak()
inputs = random_inputs(launch)
meant = references(launch, inputs, scalar_values(spec.program, {}))
compared(execution.outputs(launch, inputs), meant, launch.written)
taken = peak() - before
for free in (taken // 2, taken * 3):
    execution._free_memory = lambda: free
    try:
        execution.check_memory(launch)
        print("starts")
    except SizeError as refused:
        print("refused" if "GiB are free here" in str(refused) else refused)
"""


@pytest.mark.parametrize(
    "name, sizes", [("eight_wave", {"M": 2048, "N": 4096, "K": 64}), slow("rows/layernorm", {"TOKENS": 1024})]
)
def test_a_run_whose_reference_does_not_fit_is_refused(name, sizes):
    """With half of what the reference takes it does not start; with three times as much it does."""
    command = [sys.executable, "-c", MEASURED, str(ROOT / "specs" / f"{name}.tk"), repr(sizes)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.split() == ["refused", "starts"], done
