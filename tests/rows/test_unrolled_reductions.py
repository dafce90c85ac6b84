"""Reductions along a dimension that lies further out than the lanes': each lane has all of it, and chains it."""

from __future__ import annotations

import pytest
import torch
from sampling import sample

import tkgen
from tkgen.api import load
from tkgen.backends.cdna.spec import Spec
from tkgen.execute.compare import Inputs
from tkgen.execute.launch import run
from tkgen.ir.equations import Reduce, walk

KERNEL = """kernel sums
  dims PLACES = {places}, ROWS = 20, D = 136
  global X : {dtype}[PLACES, ROWS, D]
  global G : f32[PLACES, D]
  global Y : f32[ROWS, D]
  over r in ROWS by 8, d in D by 128
  waves 2
  {equations}
"""
OUTSIDE = {
    "sum": "Y[r, d] = colsum(X[PLACES, r, d])",
    "largest": "Y[r, d] = colmax(X[PLACES, r, d]) - colmin(X[PLACES, r, d])",
    "mean": "Y[r, d] = colmean(X[PLACES, r, d] * G[PLACES, d])",
    "weighted by place": "Y[r, d] = colsum(X[PLACES, r, d] * coordinate(PLACES))",
    "softmax": """x = X[PLACES, r, d]
  e = exp2(x - colmax(x))
  Y[r, d] = colsum(e * x) / colsum(e)""",
}


def spec_of(equations: str, places: int, dtype: str = "f32") -> Spec:
    spec = load(KERNEL.format(places=places, dtype=dtype, equations=equations))
    assert isinstance(spec, Spec)
    return spec.check()


@pytest.mark.parametrize("equations", OUTSIDE.values(), ids=OUTSIDE)
@pytest.mark.parametrize(("places", "dtype"), sample([(1, "f32"), (2, "bf16"), (5, "f32")], 3, several=True))
def test_numbers(equations: str, places: int, dtype: str) -> None:
    spec = spec_of(equations, places, dtype)
    assert not any(isinstance(op, Reduce) for op in walk(spec.layout.kernel.body))
    assert spec.layout.fast.name == "d"
    build = spec.build().check()
    assert build.resources.clean
    for kind in Inputs:
        tried = run(build, kind=kind)
        assert tried.ok, tried.failure


@pytest.mark.parametrize("places", [1, 3])
def test_columns_of_nan_alone(places: int) -> None:
    """Maxima and minima ignore NaN: -inf and inf of nothing else, as where lanes exchange what they reduce."""
    equations = "Y[r, d] = where(r < 10, colmax(X[PLACES, r, d]), colmin(X[PLACES, r, d])) * G[0, d]"
    x = torch.ones(places, 20, 136)
    x[:, :, 7] = torch.nan
    x[0, :, 9] = torch.nan
    found = tkgen.run(spec_of(equations, places).build(), x, torch.ones(places, 136))
    assert isinstance(found, torch.Tensor)
    assert (found[:10, 7] == -torch.inf).all() and (found[10:, 7] == torch.inf).all()
    assert (found[:, 9].abs() == (1.0 if places > 1 else torch.inf)).all()


def test_as_many_places_as_registers_hold() -> None:
    for places, unrolled in ((32, True), (33, False)):
        spec = spec_of(OUTSIDE["sum"], places)
        assert (spec.layout.fast.name == "d") is unrolled
        build = spec.build().check()
        assert build.resources.clean
        tried = run(build, kind=Inputs.NORMAL)
        assert tried.ok, tried.failure


@pytest.mark.parametrize(
    "equations",
    ["Y[r, d] = rowsum(X[0, r]) * G[0, d]", "x = X[0, ROWS, d]\n  Y[ROWS, d] = x - colmax(x)"],
    ids=["innermost", "what is stored has it"],
)
def test_other_reductions_stay(equations: str) -> None:
    text = KERNEL.format(places=3, dtype="f32", equations=equations)
    spec = load(text if "Y[r" in equations else text.replace("over r in ROWS by 8, ", "over "))
    assert isinstance(spec, Spec)
    assert any(isinstance(op, Reduce) for op in walk(spec.layout.kernel.body))
    tried = run(spec.check().build().check())
    assert tried.ok, tried.failure
