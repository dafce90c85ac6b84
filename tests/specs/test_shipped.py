"""The code object of a spec as it is shipped, some blocks at full size: at smaller sizes it is other code."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from spec_builds import NAMES, SPECS

from tkgen.api import Spec, load
from tkgen.execute.arguments import SizeError
from tkgen.execute.launch import run

# One for each kind of grid, tail, layout and division of work; the rest is slow.
SAMPLE = ("at_b", "producer_consumer_4p8c", "stream_k")
STATIC = [name for name in NAMES if name != "dynamic_sizes"]


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in SAMPLE else pytest.mark.slow, id=n) for n in STATIC])
def test_blocks_of_the_shipped_code_are_right(name: str) -> None:
    spec = load(SPECS / f"{name}.tk").check()
    tried = run(spec.build(), spec.launch().sample())
    assert tried.ok, (tried.comparison, tried.findings)
    assert 0 < tried.comparison.elements < tried.output.numel()


def small(*clauses: str, m: int = 384, k: int = 256) -> Spec:
    """A spec of 3 x 2 tiles and 8 K-steps with these clauses."""
    return load(
        f"kernel small\n  dims M = {m}, N = 256, K = {k}\n  global A : bf16[M, K]\n  global B : bf16[N, K]\n"
        "  global C : f32[M, N]\n  block 128 x 128 step 32\n  waves 2 x 2\n  shared A, B buffers 1\n"
        + "".join(f"  {clause}\n" for clause in clauses)
        + "  accumulate C : f32 tile 32 x 32\n  store C\n"
    )


def covered(spec: Spec) -> Counter[tuple[int, int, int]]:
    """The number of times that each K-step of each tile is computed."""
    work = spec.launch().work
    return Counter((p.row, p.col, k) for mine in work for p in mine for k in range(p.first, p.last))


@pytest.mark.parametrize(
    ("clauses", "blocks"),
    [
        ((), 6), (("remap group(rows = 2)",), 6), (("grid persistent(4)",), 4), (("grid split_k(2)",), 12),
        (("grid stream_k(5)",), 5), (("grid stream_k(7)", "remap column_major"), 7), (("tail masked",), 6),
    ],
)  # fmt: skip
def test_the_pieces_of_all_blocks_are_the_product(clauses: tuple[str, ...], blocks: int) -> None:
    spec = small(*clauses, **({"m": 300} if clauses == ("tail masked",) else {})).check()
    every = covered(spec)
    assert set(every.values()) == {1} and len(every) == 3 * 2 * 8
    assert len(spec.launch().work) == spec.launch().blocks == blocks
    build = spec.build()
    for chosen in (range(blocks), (blocks - 1,), spec.launch().sample()):
        tried = run(build, chosen)
        assert tried.ok, (chosen, tried.comparison)


def test_code_that_works_elsewhere_is_wrong() -> None:
    """Blocks that are elsewhere than the spec says find NaNs, and leave those where numbers belong."""
    build = small("remap column_major").build()
    assert run(build, [1]).ok
    other = replace(build, spec=small())
    tried = run(other, [1])
    assert not tried.ok and tried.comparison.nan == 128 * 128


def test_a_block_that_reads_beyond_its_part_is_told() -> None:
    """A loop of another length: it reads the K-steps that another block adds."""
    whole, split = small().build(), small("grid split_k(2)")
    assert not run(replace(whole, spec=replace(split, fixed_plan=whole.spec.plan)), [0]).ok


def test_a_sample_is_short_and_has_the_last_corner() -> None:
    spec = load(SPECS / "persistent.tk")
    launch = spec.launch()
    blocks = launch.sample()
    last = [p for block in blocks for p in launch.work[block]]
    assert len(blocks) == 1 and any((p.row, p.col) == (63, 63) for p in last)
    assert not launch.watched(blocks)  # 14 tiles of 128 K-steps are too much to watch


def test_blocks_that_are_not_there() -> None:
    with pytest.raises(SizeError, match=r"no block 6: the launch has blocks 0\.\.5"):
        run(small().build(), [0, 6])
