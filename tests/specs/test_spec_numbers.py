"""Every spec computes the right numbers: on the emulator against torch, two tiles each way, three K-steps.

The referee watches every byte, so a race, an access out of bounds or a read of something never written fails as well.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from sampling import sample
from spec_builds import NAMES, SPECS

pytest.importorskip("torch")

from tkgen import api
from tkgen.diagnostics import SpecError
from tkgen.emulate import interleavings
from tkgen.execute.launch import Run, run

STEPS = 3
FEWER = {"BATCH": 2, "HEADS": 4, "KV_HEADS": 2}  # matrices of a batch
CONVOLUTIONS = {  # two tiles each way and three K-steps, of flattened dimensions
    "conv1d": {"BATCH": 2, "LENGTH": 243, "OUT": 243, "CHANNELS": 64, "TAPS": 3},
    "conv2d": {"BATCH": 2, "HEIGHT": 11, "WIDTH": 11, "FILTERS": 243, "CHANNELS": 64, "KH": 3, "KW": 1},
}


def sizes(path: Path) -> dict[str, int]:
    """Two tiles of output each way and three K-steps, or two for each part of K, in whole passes of an unrolled loop;
    under a tail clause a little less. One tile where a block reduces whole rows."""
    if path.stem in CONVOLUTIONS:
        return CONVOLUTIONS[path.stem]
    program = api.load(path).program
    rows, cols, step = program.block
    steps = 2 * program.grid.count if program.grid.name == "split_k" else STEPS
    unroll = program.unroll or 1
    steps = -(-steps // unroll) * unroll
    whole = program.equations.rounds and program.equations.cols.is_one_tile
    across = cols if whole else 2 * cols
    wanted = {program.m.name: 2 * rows, program.n.name: across, program.k.name: steps * step}
    wanted |= {d.name: FEWER[d.name] for d in program.dims if d.name in FEWER and d.name not in wanted}
    cut = {"masked": list(wanted), "clamped": [program.m.name, program.n.name]}.get(program.tail or "", [])
    return {name: size - 13 if name in cut else size for name, size in wanted.items()}


def emulated(path: Path, extents: dict[str, int], orders: int, scalars: dict[str, float] | None = None) -> list[Run]:
    defines = extents if all(d.size is not None for d in api.load(path).program.dims) else None
    build = api.load(path, defines).build()
    values = {s.name: 0.75 for s in build.spec.program.scalars} | (scalars or {})
    return [run(build, extents=extents, scalars=values, order=o) for o in interleavings(orders)]


@pytest.mark.parametrize("name", sample(NAMES, 2))
def test_numbers(name: str) -> None:
    path = SPECS / f"{name}.tk"
    for result in emulated(path, sizes(path), orders=2):
        assert result.findings == ()
        assert result.comparison.right, result.comparison


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_numbers_in_many_orders(name: str) -> None:
    path = SPECS / f"{name}.tk"
    assert all(result.ok for result in emulated(path, sizes(path), orders=8))


@pytest.mark.parametrize("k", [64, 128, 320])
@pytest.mark.parametrize(
    "name", sample(["eight_wave", "register_double_buffer", "staged", "producer_consumer_4p4c"], 2)
)
def test_few_steps(name: str, k: int) -> None:
    """One K-step, where prologue and epilogue are all there is, and an odd number of them."""
    assert all(r.ok for r in emulated(SPECS / f"{name}.tk", {"M": 128, "N": 128, "K": k}, orders=1))


def test_an_epilogue_of_zero_and_one() -> None:
    path = SPECS / "alpha_beta.tk"
    for scalars in ({"alpha": 0.0, "beta": 1.0}, {"alpha": 1.0, "beta": 0.0}):
        assert all(r.ok for r in emulated(path, sizes(path), 1, scalars))


def test_dynamic_sizes_are_what_the_launch_says() -> None:
    path = SPECS / "dynamic_sizes.tk"
    for extents in ({"M": 128, "N": 384, "K": 64}, {"M": 256, "N": 128, "K": 320}):
        assert all(r.ok for r in emulated(path, extents, 1))
    with pytest.raises(ValueError, match="M must be a multiple of 128"):
        emulated(path, {"M": 100, "N": 128, "K": 64}, 1)


@pytest.mark.parametrize(
    "extents", [{"M": 3, "N": 5, "K": 7}, {"M": 129, "N": 250, "K": 131}, {"M": 255, "N": 257, "K": 64}]
)
def test_tails(extents: dict[str, int]) -> None:
    assert all(r.ok for r in emulated(SPECS / "tail.tk", extents, 2))


def test_without_the_tail_clause_such_sizes_are_an_error() -> None:
    with pytest.raises(SpecError, match="multiple of"):
        api.load(SPECS / "four_wave.tk", {"M": 8100}).check()
