"""Tiles of products that reach beyond the last row of a tensor: the copy engine is asked for the rows inside alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from gemms import gemm
from nvcc import compiles
from sampling import slow
from test_host_run import EARLY, LATE, launched, replaced
from test_reductions import ROW_TILES, text_of

import tkgen
from tkgen.api import load
from tkgen.backends.hopper import lowering
from tkgen.backends.hopper.launch import LEAST_ROWS, described
from tkgen.backends.hopper.layout import Layout
from tkgen.backends.hopper.meant import wrong_product
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.ops.products import SPECS

ENDS = gemm(layouts="NT", block=(128, 64, 64), dims=(200, 136, 136))


def spec_of(text: str) -> HopperSpec:
    spec = load(text)
    assert isinstance(spec, HopperSpec)
    return spec


@pytest.mark.parametrize(
    ("case", "ended"),
    [
        ({"layouts": "NT"}, ("A", "B")),
        ({"layouts": "NN"}, ("A",)),  # columns outside cost nothing
        ({"layouts": "TN"}, ()),
        ({"layouts": "TT"}, ("B",)),
        ({"layouts": "NT", "dims": (256, 328, 136)}, ("B",)),
        ({"layouts": "NT", "clusters": "2"}, ("A",)),  # of B each block of a cluster copies half
        ({"layouts": "NT", "consumers": 2, "block": (128, 128, 64)}, ()),
        ({"layouts": "NT", "block": (128, 128, 128)}, ("B",)),  # panels of A's copy are each of two consumers
    ],
)
def test_operands_that_end_within_a_tile(case: dict[str, Any], ended: tuple[str, ...]) -> None:
    found = spec_of(gemm(**{"dims": (200, 328, 136), **case})).layout
    assert set(found.ended) == set(ended)


def test_boxes_at_an_end_have_the_rows_inside() -> None:
    layout, program = spec_of(ENDS).layout, spec_of(ENDS).program
    tensors = {t.name: t for t in program.arguments}
    a = torch.zeros(200, 136, dtype=torch.bfloat16)
    assert described(layout, tensors["A"], a).box == (64, 128)
    assert described(layout, tensors["A"], a, end=True).box == (64, 200 - 128)
    assert described(layout, tensors["A"], torch.zeros(256, 136), end=True).box == (64, LEAST_ROWS)


@pytest.mark.parametrize("order", [EARLY, LATE], ids=str)
@pytest.mark.parametrize("dims", [(200, 136, 136), slow((8, 8, 64)), slow((264, 256, 72))], ids=str)
def test_products_with_ends_are_right(dims: tuple[int, int, int], order: Any) -> None:
    """The C++ runs with what earlier tiles left in shared memory, beyond the last row."""
    inputs, made = launched(gemm(layouts="NT", block=(128, 64, 64), grid="persistent(1)", dims=dims), order=order)
    wanted = inputs["A"].double() @ inputs["B"].double().T
    assert torch.equal(made.outputs["C"], wanted.to(made.outputs["C"].dtype)) and not made.findings


def test_steps_of_several_panels_are_right() -> None:
    """A copy for two consumers would lay the panels of all rows one after the other, each consumer has its own."""
    inputs, made = launched(gemm(layouts="NT", block=(128, 64, 128), dims=(72, 136, 136)))
    wanted = inputs["A"].double() @ inputs["B"].double().T
    assert torch.equal(made.outputs["C"], wanted.to(made.outputs["C"].dtype)) and not made.findings


def test_the_proof_refuses_one_copy_of_several_panels(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = spec_of(gemm(layouts="NT", block=(128, 64, 128), dims=(72, 136, 136))).layout
    monkeypatch.setattr(Layout, "ended", ("A", "B"))
    code = lowering.tile_code(layout.program, layout.machine)
    assert wrong_product(layout, code) is not None


SLIPS = {
    "bytes of the whole tile": ("A_boxes.bytes + B_boxes.bytes", "sizeof(A_s[stage]) + sizeof(B_s[stage])"),
    "boxes of the whole tile": ("A_boxes.tensor,", "g.A,"),
    "boxes of the last tile": ("g.A, g.A_end,", "g.A_end, g.A_end,"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_other_boxes_are_found(slip: str) -> None:
    old, new = SLIPS[slip]
    inputs, made = launched(ENDS, edit=replaced(old, new))
    wanted = inputs["A"].double() @ inputs["B"].double().T
    assert made.findings or not torch.equal(made.outputs["C"], wanted.to(made.outputs["C"].dtype))


def test_a_consumer_has_its_own_rows_of_the_copy() -> None:
    spec = spec_of(ENDS)
    code = lowering.tile_code(spec.program, spec.target)
    assert wrong_product(spec.layout, code) is None
    moved = tuple(_moved(o) for o in code.operands)
    wrong = wrong_product(spec.layout, lowering.replace(code, operands=moved))
    assert wrong is not None and "is not the value" in wrong


def _moved(operand: Any) -> Any:
    """An operand whose copy is of the next tile's rows."""
    return lowering.replace(operand, coord=operand.coord.replace("tile_row", "tile_row + 1"))


def test_reductions_leave_out_what_is_beyond_the_last_row() -> None:
    """A tile's sums there are of what shared memory happens to hold, which is no number before the first copy."""
    equations = "Y[m, n] = s; R[m / 128, n] = colsum(s); t = rowmax(s); T[m, n / 128] = t"
    tensors = f"Y : f32[M, N]; {ROW_TILES}; T : f32[M, COLS]"
    text = text_of(tensors, equations, (200, 104, 136), clauses="tail masked")
    assert set(spec_of(text).layout.ended) == {"A", "B"}
    _, made = launched(text)
    y = made.outputs["Y"]
    assert torch.equal(made.outputs["R"], torch.stack([y[:128].sum(0), y[128:].sum(0)]))
    assert torch.equal(made.outputs["T"][:, 0], y.amax(1))
    _, made = launched(text, edit=replaced("tk::before{200}", "tk::all{}"))
    assert not made.outputs["R"].isfinite().all()


@compiles
@pytest.mark.parametrize("name", ["linear", "linear_weight"])
def test_blocks_of_clusters_keep_nothing_in_memory(name: str) -> None:
    """With 24 registers a producer that chooses boxes, or has four consumers, kept some in memory (E405)."""
    grid = "  grid persistent(132)\n"
    clustered = (SPECS / f"{name}.tk").read_text().replace(grid, f"{grid}  clusters 2 along n\n")
    built = tkgen.load(clustered, {"ROWS": 256, "COLUMNS": 128, "STAGES": 4}).check().build()
    assert built.figures.spill_bytes == built.figures.stack_bytes == 0
