"""Kernels with direct loads compute the right numbers, in every layout, for both matrix shapes, at several depths."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("torch")

from tkgen import api
from tkgen.emulate import interleavings
from tkgen.execute.launch import run

LAYOUTS = {"ABt": ("M, K", "N, K"), "AB": ("M, K", "K, N"), "AtB": ("K, M", "K, N"), "AtBt": ("K, M", "N, K")}
Small = Callable[..., api.Spec]


def right(spec: api.Spec, orders: int = 2) -> bool:
    build = spec.check().build().check()
    return all(run(build, order=order).ok for order in interleavings(orders))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(small: Small, layout: str) -> None:
    a, b = LAYOUTS[layout]
    assert right(small(a=a, b=b))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_with_32_x_32_matrices_and_fp16(small: Small, layout: str) -> None:
    a, b = LAYOUTS[layout]
    assert right(small(a=a, b=b, dtype="fp16", mfma="mfma 32 x 32"))


@pytest.mark.parametrize("buffers", [1, 3, 4])
def test_buffers(small: Small, buffers: int) -> None:
    """One to four LDS buffers: none to two steps in flight across a barrier."""
    assert right(small(buffers=buffers, k=384), orders=4)


def test_rings_of_three_and_two_buffers(small: Small) -> None:
    """The address of a ring of three, which clang 22 counts in vector registers here, reaches M0 all the same."""
    spec = small(m=128, a="M, K", b="K, N", k=384, dtype="f16", tile="32 x 16")
    text = spec.path.read_text()
    spec.path.write_text(text.replace("shared A, B buffers 2", "shared A buffers 3 via direct\n  shared B buffers 2"))
    assert right(api.load(spec.path))


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_few_steps(small: Small, steps: int) -> None:
    """Fewer K-steps than buffers: prologue and epilogue are all there is."""
    assert right(small(buffers=3, k=64 * steps))


def test_runs_of_one_and_two_boxes(small: Small) -> None:
    """Shares that do not divide by four: 3 boxes of A, 6 of B for each of two waves."""
    assert right(small(m=48, n=96, k=128, block="48 x 96 step 64", waves="waves 1 x 2", tile="48 x 48"))


def test_several_blocks_and_register_buffers(small: Small) -> None:
    assert right(small(m=128, n=128, registers=2, rest="  remap group(rows = 2)\n"))


def test_persistent_blocks(small: Small) -> None:
    """A block goes on to its next tile while stores of the last may still be on their way."""
    assert right(small(m=128, n=128, buffers=3, rest="  grid persistent(2)\n"), orders=4)


def test_dynamic_sizes(small: Small) -> None:
    spec = api.load(small().path, {"M": None, "N": None, "K": None})
    build = spec.check().build().check()
    for k in (64, 256):
        assert run(build, extents={"M": 128, "N": 64, "K": k}).ok


def test_one_operand_direct_the_other_collective(small: Small) -> None:
    path = small().path
    text = path.read_text()
    for via in ("collective", "registers"):
        path.write_text(
            text.replace(
                "  shared A, B buffers 2 via direct", f"  shared A buffers 2 via direct\n  shared B buffers 2 via {via}"
            )
        )
        assert right(api.load(path))
