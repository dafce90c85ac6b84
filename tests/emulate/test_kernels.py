"""Whole kernels compiled by clang, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from tkgen.emulate import Buffer, Policy, Scalar, launch

RNG = np.random.default_rng(31)


def bf16(x: np.ndarray) -> np.ndarray:
    return ((x.astype(np.float32).view(np.uint32) + 0x8000) >> 16).astype(np.uint16)


def widen(x: np.ndarray) -> np.ndarray:
    return (x.astype(np.uint32) << 16).view(np.float32)


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950"])
@pytest.mark.parametrize(("grid", "k"), [((1, 1), 32), ((2, 3), 96)])
def test_gemm(build, target, grid, k):
    a, b = bf16(RNG.standard_normal((64 * grid[1], k))), bf16(RNG.standard_normal((64 * grid[0], k)))
    c = np.full((64 * grid[1], 64 * grid[0]), np.nan, dtype=np.float32)
    args = [Buffer(a), Buffer(b), Buffer(c), Scalar("i32", c.shape[1]), Scalar("i32", k)]
    outcome = launch(build("gemm.cpp", target), grid=(*grid, 1), block=(256, 1, 1), args=args, watch=True, workers=2)
    assert outcome.findings == () and outcome.unwritten(args[2]) == []
    np.testing.assert_allclose(c, widen(a) @ widen(b).T, rtol=1e-4, atol=1e-4)
    steps, blocks = k // 32, grid[0] * grid[1]
    mfma = next(n for n in outcome.opcodes if n.startswith("v_mfma"))
    assert outcome.opcodes[mfma] == blocks * 4 * steps * 8
    assert outcome.barriers == (2 * steps,) * (4 * blocks)


def run(build, kernel: str, *args, target: str = "gfx942", blocks: int = 2, **options):
    path = build("arithmetic.cpp", target)
    outcome = launch(
        path, kernel=kernel, grid=(blocks, 1, 1), block=(256, 1, 1), args=list(args), watch=True, **options
    )
    assert outcome.completed and [str(f) for f in outcome.findings] == []
    return outcome


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_64_bit_integers(build, target):
    a, b = (RNG.integers(-(1 << 62), 1 << 62, 512) >> RNG.integers(0, 60, 512) for _ in range(2))
    out = np.zeros(512, dtype=np.int64)
    run(build, "integers", Buffer(a), Buffer(b), Buffer(out), target=target)
    x, y = a.view(np.uint64), b.view(np.uint64) | np.uint64(1)
    with np.errstate(over="ignore"):
        want = (a * b).view(np.uint64) ^ (x // y) ^ (x % y) ^ (a >> (b & 63)).view(np.uint64)
    np.testing.assert_array_equal(out.view(np.uint64), want)


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950"])
def test_scratch(build, target):
    """An array indexed at run time lives in scratch: buffer instructions on gfx90a, scratch instructions later."""
    a, order = RNG.integers(0, 1000, 16, dtype=np.int32), RNG.integers(0, 16, 512, dtype=np.int32)
    out = np.zeros(512, dtype=np.int32)
    run(build, "gather", Buffer(a), Buffer(order), Buffer(out), target=target)
    np.testing.assert_array_equal(out, a[order] * 3)


@pytest.mark.parametrize("which", [0, 7, 15])
def test_register_indexing(build, which):
    a = RNG.integers(0, 1000, 16, dtype=np.int32)
    out = np.zeros(512, dtype=np.int32)
    run(build, "gather_uniform", Buffer(a), Scalar("i32", which), Buffer(out))
    np.testing.assert_array_equal(out, a[which] + np.arange(512) % 256)


@pytest.mark.parametrize("policy", list(Policy))
def test_atomics_of_many_blocks(build, policy):
    a = RNG.integers(0, 1 << 20, 8 * 256, dtype=np.int32)
    counts, total = np.zeros(16, dtype=np.int32), np.zeros(1, dtype=np.float32)
    run(build, "histogram", Buffer(a), Buffer(counts), Buffer(total), blocks=8, policy=policy, workers=3)
    np.testing.assert_array_equal(counts, np.bincount(a & 15, minlength=16))
    assert total[0] == (a & 15).sum()


@pytest.mark.parametrize("policy", list(Policy))
def test_results_do_not_depend_on_the_order_of_waves(build, policy):
    a, b = bf16(RNG.standard_normal((64, 96))), bf16(RNG.standard_normal((64, 96)))
    results = []
    for chosen, seed, poison in ((Policy.BARRIER, 0, False), (policy, 1, True), (policy, 2, False)):
        c = np.zeros((64, 64), dtype=np.float32)
        args = [Buffer(a), Buffer(b), Buffer(c), Scalar("i32", 64), Scalar("i32", 96)]
        launch(build("gemm.cpp"), grid=(1, 1, 1), block=(256, 1, 1), args=args, policy=chosen, seed=seed, poison=poison)
        results.append(c)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
