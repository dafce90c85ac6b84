"""The schedule of any kernel on any machine as a table: waits and their causes, budgets, the owners of the output."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from sampling import slow
from typer.testing import CliRunner

from tkgen.api import load
from tkgen.cli import app
from tkgen.schedule.tile_graph import tile_graph

SPECS = Path(__file__).parents[2] / "specs"
KINDS = ["eight_wave", "attention/attention_ping_pong", "rows/layernorm", "hopper/h100_lcf", "hopper/h100_attention",
         "hopper/h100_softmax"]  # fmt: skip
REST = sorted(str(p.relative_to(SPECS).with_suffix("")) for p in SPECS.rglob("*.tk"))


@cache
def kernels(name: str) -> tuple[Any, ...]:
    return tuple(load(SPECS / f"{name}.tk").kernels)


def graph(name: str, *options: str) -> str:
    done = CliRunner().invoke(app, ["graph", str(SPECS / f"{name}.tk"), *options])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("name", [*KINDS, *(slow(name) for name in REST if name not in KINDS)])
def test_every_kernel_has_a_schedule_and_budgets(name: str) -> None:
    """Steps of each role; shared memory as the layout counts it; each cell of the output once."""
    for kernel in kernels(name):
        taken, tiles = kernel.footprint, kernel.tiles
        assert all(list(tiles.steps(role)) for role in tiles.block.roles)
        assert 0 <= taken.used <= taken.capacity and taken.resident > 0
        for counted in ("lds_bytes", "exchange_bytes"):  # of the layout, which the C++ is made of
            assert taken.used == getattr(kernel.layout, counted, taken.used)
        names = {role.name for role in tiles.block.roles}
        assert {r.role for r in taken.registers} == names
        own = taken.ownership
        cells = Counter((f.row, f.col) for f in own.fragments)
        assert cells == {(row, col): 1 for row in range(len(own.rows)) for col in range(len(own.cols))}
        computing = {w for r in tiles.block.roles for w in tiles.agents(r)}
        assert {f.wave for f in own.fragments} <= computing


def test_shared_memory_on_hopper_is_what_the_launch_asks_for() -> None:
    (products,), (fused,) = kernels("hopper/h100_lcf"), kernels("hopper/h100_attention")
    assert products.footprint.used == products.layout.dynamic_bytes + products.layout.barrier_bytes
    assert fused.footprint.used == fused.layout.shared_bytes


def test_who_waits_for_whom() -> None:
    text = graph("hopper/h100_lcf")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "producer 0 loop k from 0 to 128 await empty[stage] consumer: empty" in lines
    assert "consumer 4..11 loop k from 1 to 128 await full[stage] producer: full" in lines
    assert "consumer 4..11 loop k from 1 to 128 wait products 1 itself: products, all except the last 1" in lines
    assert "consumer, loop k from 1 to 128: 2 operations, 0 barriers, 2 waits" in lines
    assert "RAW shared A0 2 -> 7 distance 0 barrier full" in lines
    assert "WAR shared A0 7 -> 2 distance 4 barrier empty" in lines


def test_equations_stand_as_the_spec_has_them() -> None:
    lines = [" ".join(line.split()) for line in graph("attention/attention").splitlines()]
    assert "wave 0..3 loop p = exp2(s - n)" in lines
    assert "wave 0..3 loop barrier, shared accesses complete all waves" in lines
    assert "LDS: 65536 of 65536 bytes: K 2 x 16384, V 2 x 16384" in lines


@pytest.mark.parametrize("name", KINDS)
def test_the_same_as_data(name: str) -> None:
    data = json.loads(graph(name, "--format", "json"))
    (kernel,) = kernels(name)
    assert data["kernel"] == kernel.name and data["operations"]
    assert [step["operation"] for step in data["schedule"]] == [
        step.text for role in kernel.tiles.block.roles for step in kernel.tiles.steps(role)
    ]
    budgets = data["budgets"]
    assert budgets["memory"]["used"] == sum(b["slots"] * b["bytes"] for b in budgets["buffers"])
    assert all(0 < r["budget"] <= 512 for r in budgets["registers"]) and budgets["loops"]


def test_a_target_may_be_said() -> None:
    assert "of 65536 bytes" in graph("rows/softmax", "-t", "gfx942")
    assert "of 232448 bytes" in graph("rows/softmax", "-t", "sm_90a")


@pytest.mark.parametrize("name", ["hopper/h100_lcf", "hopper/h100_attention", "hopper/h100_ping_pong"])
def test_every_pair_that_shares_a_tile_is_ordered(name: str) -> None:
    """Ops that the proof finds ordered have a barrier in the graph that orders them."""
    (kernel,) = kernels(name)
    found = tile_graph(kernel.tiles, kernel.name)
    by = {
        (data["dependency"].kind, data["dependency"].operand, data["barrier"]) for _, _, data in found.edges(data=True)
    }
    assert not [each for each in by if each[2] == "nothing"]
    assert {kind for kind, _, _ in by} == {"RAW", "WAR"}


def test_rows_of_a_warp() -> None:
    """Each lane of 128 has 8 neighbours, the 32 of a warp follow one another: 256 elements, then the next warp's."""
    (kernel,) = kernels("hopper/h100_softmax")
    own = kernel.footprint.ownership
    assert own.block == (1, 4096) and own.cols == tuple(range(0, 4096, 256)) and own.whole
    assert [f.wave for f in own.fragments] == [0, 1, 2, 3] * 4


def test_rows_of_consumers() -> None:
    """A warp of a wgmma has 16 of its 64 rows (PTX ISA, register fragments of wgmma)."""
    (kernel,) = kernels("hopper/h100_lcf")
    own = kernel.footprint.ownership
    assert own.block == (128, 256) and own.rows == tuple(range(0, 128, 16))
    assert [f.wave for f in own.fragments] == [4, 5, 6, 7, 8, 9, 10, 11]
    assert [reads.readers for reads in own.reads] == [((4, 5, 6, 7), (8, 9, 10, 11)), (tuple(range(4, 12)),)]
