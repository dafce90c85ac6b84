"""Fused matmuls on AMD GPUs whose blocks go from tile to tile: right, and watched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sampling import only

from tkgen.api import load
from tkgen.backends.cdna.spec import Spec
from tkgen.diagnostics import SpecError
from tkgen.emulate import interleavings
from tkgen.execute.launch import run
from tkgen.predict import PredictError
from tkgen.predict.iterations import Iterations
from tkgen.schedule.loop_steps import steps, unproven
from tkgen.tile.program import ops

SPECS = Path(__file__).parents[2] / "specs" / "attention"
SMALL = {"BATCH": 1, "HEADS": 3, "KV_HEADS": 1, "LENGTH": 192, "KEYS": 192, "D": 64}
NAMES = [
    "attention", "attention_causal", "attention_direct", "attention_interleaved", "attention_lazy", "attention_mqa",
    "attention_ping_pong", "attention_ping_pong_direct", "attention_window", "attention_written",
]  # fmt: skip


def persistent(name: str, blocks: int, clauses: str = "") -> Spec:
    """A shipped spec with a persistent grid, at small sizes."""
    text = (SPECS / f"{name}.tk").read_text(encoding="utf-8")
    head, shared, rest = text.partition("  shared")
    assert shared
    dims = {d.name for d in load(text).program.dims if d.size is not None}
    spec = load(
        f"{head}  grid persistent({blocks})\n{clauses}{shared}{rest}",
        {n: size for n, size in SMALL.items() if n in dims},
    )
    assert isinstance(spec, Spec)
    return spec


@pytest.mark.parametrize("name", only(NAMES, ["attention_causal", "attention_ping_pong_direct", "attention_lazy"]))
def test_blocks_go_from_tile_to_tile(name: str) -> None:
    spec = persistent(name, 2).check()
    build = spec.build()
    assert build.machine_check.outcome == "right" and build.resources.vgpr_spills == 0
    for seed, order in enumerate(interleavings(3)):
        found = run(build, seed=seed, order=order)
        assert found.ok, found.failure


BARRIER_FIRST = """  schedule
    cluster fetch K[k+1] V[k+1]
    group multiply s  compute s n p r l o
    group multiply o  write K[k+1] V[k+1]
"""


def barrier_first(blocks: int) -> Spec:
    """A schedule whose waves meet early in an iteration: at its end they may still read what the next tile writes."""
    text = (SPECS / "attention_written.tk").read_text(encoding="utf-8")
    head, rest = text[: text.index("  schedule")], text[text.index("  carry") :]
    grid = f"  grid persistent({blocks})\n" if blocks else ""
    spec = load(f"{head}{grid}{BARRIER_FIRST}{rest}", {n: SMALL[n] for n in ("BATCH", "HEADS", "LENGTH", "D")})
    assert isinstance(spec, Spec)
    return spec.check()


def test_waves_meet_between_tiles_where_the_proof_asks_for_it() -> None:
    spec = barrier_first(2)
    machine = spec.target.synchronisation
    made = steps(spec.layout, machine)
    assert len(made.behind) == 1 and unproven(spec.layout, made, machine) is None
    assert unproven(spec.layout, replace(made, behind=()), machine) == "write after read of `ring 0`, from tile to tile"
    barriers = [s.source.text.count("tk::turn();") for s in (spec, barrier_first(0))]
    assert barriers[0] == barriers[1] + 1
    build = spec.build()
    assert build.machine_check.outcome == "right"
    for seed, order in enumerate(interleavings(3)):
        found = run(build, seed=seed, order=order)
        assert found.ok, found.failure


@pytest.mark.parametrize("name", NAMES)
def test_a_barrier_that_ends_an_iteration_ends_the_tile(name: str) -> None:
    spec = persistent(name, 2).check()
    made = steps(spec.layout, spec.target.synchronisation)
    assert all(op.when for op in ops(made.behind)) and unproven(spec.layout, made, spec.target.synchronisation) is None


def test_the_longest_tiles_come_first() -> None:
    """Of a causal kernel the last rows have most keys: blocks take those of all heads first."""
    spec = persistent("attention_causal", 2, "  remap reversed | column_major\n").check()
    launch = spec.launch()
    lengths = [[len(box.places["j"]) for box in launch.boxes(block)] for block in range(2)]
    assert min(map(min, lengths)) < max(map(max, lengths))
    assert all(own == sorted(own, reverse=True) for own in lengths)
    assert run(spec.build()).ok


def test_nothing_is_predicted_of_blocks_that_go_from_tile_to_tile() -> None:
    with pytest.raises(PredictError, match="are not modelled"):
        Iterations.of(persistent("attention", 2).check().build())


def test_groups_have_a_block_for_each_tile() -> None:
    with pytest.raises(SpecError) as caught:
        persistent("attention_packed", 2).check()
    assert "E230" in [d.code for d in caught.value.diagnostics]
