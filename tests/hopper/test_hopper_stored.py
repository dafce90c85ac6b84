"""Blocks for Hopper store what their equations say, on terms: of each spec, and not of one that is changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from gemms import FUSED, GROUPED, gemm

from tkgen.api import load
from tkgen.backends.hopper import chain_lowering, chained, lowering, streamed
from tkgen.backends.hopper.meant import wrong_chain, wrong_product
from tkgen.backends.hopper.spec import HopperSpec

SPECS = Path(__file__).parents[2] / "specs" / "hopper"


def products(text: str | Path) -> HopperSpec:
    spec = load(text)
    assert isinstance(spec, HopperSpec)
    return spec


@pytest.mark.parametrize("layouts", ["NN", "NT", "TN", "TT"])
def test_all_layouts_are_multiplied_as_they_lie(layouts: str) -> None:
    spec = products(gemm(layouts))
    assert wrong_product(spec.layout, lowering.tile_code(spec.program, spec.target)) is None


@pytest.mark.parametrize("text", [*FUSED.values(), *GROUPED.values()][::8])
def test_fused_and_grouped_products_store_what_they_say(text: str) -> None:
    spec = products(text)
    assert wrong_product(spec.layout, lowering.tile_code(spec.program, spec.target)) is None


def operand(number: int, old: str, new: str) -> Callable[[streamed.Code], streamed.Code]:
    def changed(code: streamed.Code) -> streamed.Code:
        each = code.operands[number]
        assert old in each.coord
        operands = [replace(o, coord=each.coord.replace(old, new)) if o is each else o for o in code.operands]
        return replace(code, operands=tuple(operands))

    return changed


def first(kind: str, **new: object) -> Callable[[streamed.Code], streamed.Code]:
    def changed(code: streamed.Code) -> streamed.Code:
        one, *others = getattr(code, kind)
        return replace(code, **{kind: (replace(one, **new), *others)})  # type: ignore[arg-type]

    return changed


def rights_exchanged(code: streamed.Code) -> streamed.Code:
    one, two = code.products
    return replace(code, products=(replace(one, right=two.right), replace(two, right=one.right)))


WRONG: dict[str, tuple[str, Callable[[streamed.Code], streamed.Code], str]] = {
    "another step's tile": ("h100_lcf", operand(1, "k", "k + 1"), "is not the value"),
    "another block's rows": ("h100_lcf", operand(0, "tile_row", "tile_col"), "is not the value"),
    "rows of one consumer for all": ("h100_lcf", operand(0, "+ i", "+ 0"), "is not the value"),
    "an operand that is transposed": ("h100_lcf", first("products", layouts="ABt"), "is not the value"),
    "an operand that is not transposed": ("h100_lcf_abt", first("products", layouts="AB"), "is not the value"),
    "operands exchanged": ("h100_swiglu", rights_exchanged, "is not the value"),
    "one panel for all": ("h100_lcf", first("outputs", coord="{0, 0, tile_row * CONSUMERS + consumer, 0}"), "0 times"),
    "another tensor": ("h100_lcf", first("outputs", tensor="A"), "0 times"),
    "rows of the other part": ("h100_ping_pong", operand(0, "FRAGMENTS + i", "FRAGMENTS + 1 - i"), "is not the value"),
    "from the first step on in each part": ("h100_split_k", operand(0, "first + k", "k"), "is not the value"),
    "rows behind a group's": ("h100_grouped", operand(0, "walk.first", "walk.end"), "is not the value"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_stored_otherwise_is_found(name: str) -> None:
    spec, change, said = WRONG[name]
    made = products(SPECS / f"{spec}.tk")
    code = lowering.tile_code(made.program, made.target)
    assert wrong_product(made.layout, code) is None
    assert said in str(wrong_product(made.layout, change(code)))


OTHER_LOOPS = {
    "keys for values": ("right", {"name": "K"}, "is not the value"),
    "the first keys in each iteration": ("left", {"coord": "{b_i, h_i / 2, 0, 0}"}, "is not the value"),
    "another consumer's rows": ("held", {"coord": "{b_i, h_i, q_i * CONSUMERS, 0}"}, "is not the value"),
    "rows of one consumer alone": ("out", {"coord": "{b_i, h_i, q_i * CONSUMERS, 0}"}, "is stored 2 times"),
}


@pytest.mark.parametrize("name", OTHER_LOOPS)
def test_another_loop_is_found(name: str) -> None:
    spec = load(SPECS / "h100_attention.tk")
    assert isinstance(spec, HopperSpec)
    code = chain_lowering.tile_code(spec.layout)
    assert wrong_chain(spec.layout, code) is None
    which, new, said = OTHER_LOOPS[name]
    moved: chained.Moved = getattr(code, which)
    assert said in str(wrong_chain(spec.layout, replace(code, **{which: replace(moved, **new)})))
