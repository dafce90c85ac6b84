"""On a Hopper GPU: numbers of all layouts, types and shapes, and `tkgen run`; in processes with a time limit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIMIT = 300  # seconds
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests" / "loops")])}


def has_gpu() -> bool:
    import torch

    return torch.cuda.is_available() and torch.version.cuda is not None


pytestmark = pytest.mark.skipif(not has_gpu(), reason="needs a Hopper GPU")


@pytest.mark.parametrize(
    "script, least",
    [
        ("on_gpu.py", 80),
        ("rows_on_gpu.py", 360),
        ("loops_on_gpu.py", 70),
        ("products_on_gpu.py", 16),
        ("short_sums_on_gpu.py", 31),
        ("ops_on_gpu.py", 17),
        ("maxima_on_gpu.py", 11),
    ],
)
def test_the_numbers_are_right_and_the_same_at_every_launch(script: str, least: int) -> None:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name(script))],
        cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=LIMIT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert not [line for line in lines if line.startswith("WRONG")], done.stdout
    assert lines[-1].endswith("launches compared") and int(lines[-1].split()[0]) > least


@pytest.mark.parametrize("spec", ["h100_lcf", "h100_lcf_abt", "h100_double_buffer"])
def test_run_compares_with_torch(spec: str) -> None:
    sizes = "M=512 N=768 K=320" if spec == "h100_double_buffer" else "M=520 N=712 K=328"
    done = subprocess.run(
        [sys.executable, "-m", "tkgen", "run", f"specs/hopper/{spec}.tk", "--device", "gpu", "-D", sizes, "--json"],
        cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=LIMIT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = json.loads(done.stdout)
    assert row["ok"] and row["tflops"] > 0


@pytest.mark.parametrize("spec, sizes", [("h100_softmax", "ROWS=37 D=1000"), ("h100_rotary", "LENGTH=9 HEADS=5")])
def test_run_compares_rows_with_their_equations(spec: str, sizes: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tkgen", "run", f"specs/hopper/{spec}.tk", "--device", "gpu", "-D", sizes, "--json"],
        cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=LIMIT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = json.loads(done.stdout)
    assert row["ok"] and row["gbps"] > 0


@pytest.mark.parametrize("spec", ["h100_lcf", "h100_norm_gradient", "h100_attention_causal"])
def test_the_regression_run_passes(spec: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tkgen", "test", f"specs/hopper/{spec}.tk", "--device", "gpu", "--json"],
        cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=LIMIT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(json.loads(done.stdout)) >= 5


def test_tune_measures(tmp_path: Path) -> None:
    words = ["specs/hopper/h100_long_softmax.tk", "--device", "gpu", "-D", "ROWS=512 D=32768", "--range", "WARPS=4,8",
             "-o", str(tmp_path), "--json"]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "tkgen", "tune", *words],
        cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=LIMIT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert all(t["verified"] and t["gpu_seconds"] > 0 for t in found["trials"]) and len(found["trials"]) == 2


OPERATOR = """
import tkgen, torch
from gemms import gemm
op = tkgen.operator(tkgen.load(gemm(layouts="NT", dims=(200, 328, 136), output="f32")).check().build(), "of_hopper")
a, b = (torch.randint(-4, 5, shape, device="cuda").bfloat16() for shape in ((200, 136), (328, 136)))
for call in (op, torch.compile(op)):
    assert torch.equal(call(a, b), a.float() @ b.float().T)
    assert torch.equal(call(a.T.contiguous().T, b), a.float() @ b.float().T)
assert torch.equal(op(a.cpu(), b.cpu()), (a.float() @ b.float().T).cpu())
print("right")
"""


def test_an_operator_takes_tensors_of_the_gpu() -> None:
    done = subprocess.run(
        [sys.executable, "-c", OPERATOR], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT, check=False,
        env={**ENVIRONMENT, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests' / 'hopper'}"},
    )  # fmt: skip
    assert done.returncode == 0 and "right" in done.stdout, done.stdout + done.stderr
