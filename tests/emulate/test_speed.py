"""Speed of the emulator, in processor time: a 128x128 tile of four waves at K = 8192 on one core."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tkgen.emulate import Buffer, Scalar, launch

K = 8192


def tile(path: Path, **options) -> tuple[float, float]:
    """Seconds of processor time and the largest error."""
    rng = np.random.default_rng(0)
    a, b = (
        (rng.standard_normal((128, K)).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) for _ in range(2)
    )
    c = np.zeros((128, 128), dtype=np.float32)
    args = [Buffer(a), Buffer(b), Buffer(c), Scalar("i32", 128), Scalar("i32", K)]
    start = time.process_time()
    outcome = launch(path, grid=(1, 1, 1), block=(256, 1, 1), args=args, **options)
    seconds = time.process_time() - start
    assert outcome.completed and outcome.findings == ()
    wide_a, wide_b = ((x.astype(np.uint32) << 16).view(np.float32) for x in (a, b))
    return seconds, float(np.abs(c - wide_a @ wide_b.T).max())


@pytest.mark.parametrize(("options", "limit"), [({}, 2.0), ({"watch": True, "poison": True}, 10.0)])
def test_a_tile_of_8192(build, options, limit):
    seconds, error = tile(build("gemm.cpp", TILE=128), **options)
    assert seconds < limit
    assert error < 1e-2


def test_memory(build):
    """The peak is the child's own: ru_maxrss would begin with what the process that starts it has."""
    code = (
        f"from tests.emulate.test_speed import tile, Path; tile(Path({str(build('gemm.cpp', TILE=128))!r}), watch=True)"
        "; print(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2], capture_output=True, text=True
    )
    assert int(done.stdout) < 1 << 20  # KiB
