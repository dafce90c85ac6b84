"""Work of a launch, and the efficiency of a GPU that follows from it."""

from __future__ import annotations

from pathlib import Path

import pytest

import tkgen

SPECS = Path(__file__).parents[2] / "specs/attention"


def flops(name: str, folder: str = "attention", **sizes: int) -> int:
    spec = tkgen.load(SPECS.parent / folder / f"{name}.tk", sizes)
    return spec.launch().flops


def test_all_that_is_multiplied_counts() -> None:
    heads = {"BATCH": 3, "HEADS": 8, "D": 64}
    assert flops("attention", LENGTH=100, **heads) == 4 * 3 * 8 * 100 * 100 * 64
    assert flops("attention_decode", KEYS=100, KV_HEADS=2, PARTS=3, **heads) == 4 * 3 * 8 * 100 * 64
    assert flops("attention_backward", LENGTH=100, **heads) == 7 * 2 * 3 * 8 * 100 * 100 * 64
    assert flops("attention_lazy", LENGTH=100, **heads) == flops("attention", LENGTH=100, **heads)


@pytest.mark.parametrize("name", ["grouped_gemm", "grouped_weights"])
def test_groups_multiply_each_of_their_places_once(name: str) -> None:
    sizes = tkgen.load(SPECS.parent / "groups" / f"{name}.tk").launch().extents
    m, n, k = (sizes[dim] for dim in ("TOKENS", "OUT", "IN"))
    assert flops(name, "groups") == 2 * m * n * k


@pytest.mark.parametrize("length", [1, 64, 100, 128, 129, 300, 2000])
@pytest.mark.parametrize(
    ("name", "more"),
    [("attention_causal", 0), ("attention_mqa", 77), ("attention_window", 0)],
)
def test_tiles_that_are_not_visited_do_not(name: str, more: int, length: int) -> None:
    """A block of 128 queries visits tiles of 64 keys: those up to its last query, in a window since its first."""
    pairs = 0
    for first in range(0, length, 128):
        rows = min(128, length - first)
        since = first - 511 if name == "attention_window" else 0
        for key in range(0, length + more, 64):
            if key <= first + 127 + more and key + 63 >= since:
                pairs += rows * min(64, length + more - key)
    sizes = {"BATCH": 2, "HEADS": 4, "LENGTH": length, "D": 64}
    sizes |= {"KEYS": length + more} if more else {"KV_HEADS": 2} if name == "attention_causal" else {}
    assert flops(name, **sizes) == 4 * 2 * 4 * 64 * pairs
    if length == 2000 and name == "attention_causal":
        assert 0.5 < pairs / length**2 < 0.56
