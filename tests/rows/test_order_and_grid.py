"""Kernels of rows whose blocks go from tile to tile, in their own order: right, and without a race in LDS."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tkgen.api import load
from tkgen.backends.cdna.lower.places import BlockPlaces
from tkgen.backends.cdna.spec import Spec
from tkgen.backends.hopper.backend import HopperBackend
from tkgen.diagnostics import SpecError
from tkgen.emulate import interleavings
from tkgen.execute.launch import run
from tkgen.execute.modelled import in_order
from tkgen.schedule.row_verifier import PASSES, unproven_between, wrong

# Four waves share a row, so each reduction goes through LDS: one of them, and the next tile takes the same half.
NORM = """kernel norm
  dims ROWS = 7, D = 5000
  global X : f32[ROWS, D]
  global Y : f32[ROWS, D]
  over r in ROWS by 1
  {clauses}
  waves 4
  Y[r] = X[r] * rsqrt(rowmean(X[r] * X[r]) + 0.001)
"""
# A walk along rows, with a reduction in each iteration.
WALK = """kernel walk
  dims ROWS = 10, D = {size}
  global X : f32[ROWS, D]
  global Y : f32[ROWS]
  over r in ROWS by 2
  {clauses}
  waves 4
  each j in D by 2048
    l = l + rowsum(X[r, j])
  Y[r] = l
"""
COLUMNS = """kernel columns
  dims ROWS = 70, HEADS = 3, D = 200
  global X : f32[ROWS, HEADS, D]
  global Y : f32[HEADS, D]
  over h in HEADS, d in D by 32
  {clauses}
  waves 4
  each r in ROWS by 16
    y = y + colsum(X[r, h, d])
  Y[h, d] = y
"""
CASES = {
    "norm": (NORM.format(clauses="grid persistent(2)"), {}),
    "order": (NORM.format(clauses="grid persistent(3)\n  remap reversed"), {}),
    "walk": (WALK.format(clauses="grid persistent(2)", size="dynamic"), {"D": 5000}),
    "columns": (COLUMNS.format(clauses="remap xcd(2) | column_major"), {}),
    "more blocks than tiles": (NORM.format(clauses="grid persistent(9)"), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_tiles_in_any_order_on_the_emulator(name: str) -> None:
    text, extents = CASES[name]
    spec = load(text).check()
    assert isinstance(spec, Spec)
    build = spec.build()
    assert build.machine_check.outcome == "right" and build.resources.vgpr_spills == 0
    for seed, order in enumerate(interleavings(3)):
        found = run(build, seed=seed, order=order, extents=extents)
        assert found.ok, found.failure


@pytest.mark.parametrize("name", ["norm", "walk"])
def test_waves_that_share_a_row_meet_between_two_tiles(name: str) -> None:
    spec = load(CASES[name][0])
    assert isinstance(spec, Spec)
    assert spec.layout.exchanges and not [*wrong(spec.layout, spec.target)]
    found = unproven_between(spec.layout, spec.target, PASSES, between=())
    assert found == "write after read of `exchange`"


def wanted(name: str, x: Tensor) -> Tensor:
    x = x.double()
    if name == "columns":
        return x.sum(0)
    return x.sum(1) if name == "walk" else x * (x.square().mean(1, True) + 0.001).rsqrt()


@pytest.mark.parametrize("name", CASES)
def test_tiles_in_any_order_on_hopper(name: str) -> None:
    text, extents = CASES[name]
    spec = load(text, target="sm_90a").check()
    launch = spec.launch(extents)
    (tensor,) = spec.program.reads
    x = torch.randint(-8, 9, launch.shape(tensor), generator=torch.Generator().manual_seed(0)).float()
    for executor in HopperBackend().executors.values():
        (order,) = executor.orders(1)
        made = in_order(executor, spec, launch, {"X": x}, {}, order)
        assert not made.findings
        assert torch.allclose(made.outputs["Y"].double(), wanted(name, x), rtol=1e-5, atol=1e-6)


def test_tiles_that_do_not_meet_race(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the barrier between two tiles a wave overwrites what another one still reads of the tile before."""
    whole = BlockPlaces.from_tile_to_tile
    monkeypatch.setattr(BlockPlaces, "from_tile_to_tile", lambda self, body, meeting="": whole(self, body))
    with pytest.raises(SpecError) as caught:
        load(CASES["norm"][0]).check().build()
    assert {d.code for d in caught.value.diagnostics if d.severity.value == "error"} == {"E321"}


def test_an_order_needs_a_number_of_tiles() -> None:
    text = NORM.format(clauses="remap reversed").replace("ROWS = 7", "ROWS = dynamic")
    with pytest.raises(SpecError) as caught:
        load(text).check()
    assert [d.code for d in caught.value.diagnostics] == ["E406"]
