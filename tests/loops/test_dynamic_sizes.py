"""Fused matmuls whose sizes only run time knows: numbers, what the host asks, what a build watches, refusals."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

import tkgen
from tkgen.backends.cdna.spec import Spec
from tkgen.build import Build
from tkgen.diagnostics import SpecError
from tkgen.execute.arguments import SizeError
from tkgen.execute.launch import run, trials
from tkgen.machine_check.tile_sorts import launches
from tkgen.sequence import SequenceSpec

FOLDER = Path(__file__).parents[2] / "specs/attention"
CAUSAL = (
    (FOLDER / "attention_causal.tk")
    .read_text(encoding="utf-8")
    .replace(
        "BATCH = 2, HEADS = 16, KV_HEADS = 4, LENGTH = 2000, D = 128",
        "BATCH = dynamic, HEADS = 2, KV_HEADS = 1, LENGTH = dynamic, D = 64",
    )
)
SIZES = "BATCH = 2, HEADS = 16, LENGTH = 2048, D = 128"


def spec_of(text: str, target: str = "gfx942") -> Spec:
    spec = tkgen.load(text, target=target)
    assert isinstance(spec, Spec)
    return spec


def dynamic(name: str) -> str:
    """A bundled spec for one head, whose length only run time knows."""
    text = (FOLDER / f"{name}.tk").read_text(encoding="utf-8")
    assert SIZES in text
    return text.replace(SIZES, "BATCH = 1, HEADS = 1, LENGTH = dynamic, D = 64")


@cache
def built(text: str, target: str = "gfx942") -> Build:
    """Compiled, watched, without spills."""
    build = spec_of(text, target).build().check()
    assert isinstance(build, Build)
    assert build.machine_check.outcome == "right" and build.resources.clean
    return build


@pytest.mark.parametrize("length", [1, 63, 64, 65, 127, 128, 300])
def test_one_build_is_right_at_all_lengths(length: int) -> None:
    build = built(CAUSAL)
    for order, kind in trials(2):
        assert not run(build, extents={"BATCH": 2, "LENGTH": length}, kind=kind, order=order).failure


def test_numbers_are_right_in_twenty_interleavings() -> None:
    build = built(CAUSAL)
    for order, kind in trials(20):
        assert not run(build, extents={"BATCH": 1, "LENGTH": 150}, kind=kind, order=order).failure


@pytest.mark.parametrize(
    ("name", "target"),
    [("attention_direct", "gfx950"), ("attention_interleaved", "gfx942"), ("attention_lazy", "gfx942")],
)
def test_other_schedules(name: str, target: str) -> None:
    for length in (1, 65, 300):
        assert not run(built(dynamic(name), target), extents={"LENGTH": length}).failure


DECODE: dict[str, int | None] = {"BATCH": 1, "HEADS": 16, "KV_HEADS": 1, "D": 32, "PARTS": 4, "KEYS": None}


def test_parts_are_as_long_as_run_time_says() -> None:
    """The last parts may have fewer keys, or none."""
    spec = tkgen.load(FOLDER / "attention_decode.tk", DECODE)
    assert isinstance(spec, SequenceSpec)
    build = spec.build().kernels[0]
    assert build.machine_check.outcome == "right" and isinstance(build, Build)
    for keys in (1, 31, 129, 300):
        assert not run(build, extents={"KEYS": keys}).failure


def test_sizes_around_every_tile_are_watched() -> None:
    """Tiles of 128 queries and of 64 keys are of one dimension."""
    watched = {tuple(w.launch.extents[name] for name in ("BATCH", "LENGTH")) for w in launches(spec_of(CAUSAL))}
    assert watched == {(b, n) for b in (1, 2) for n in (1, 64, 65, 128, 129, 191, 383)}


def test_the_host_asks_for_sizes_that_the_kernel_can_do() -> None:
    spec = spec_of(CAUSAL)
    for sizes in ({"LENGTH": 0, "BATCH": 1}, {"LENGTH": 1 << 30, "BATCH": 1}, {"LENGTH": 1 << 20, "BATCH": 1 << 20}):
        with pytest.raises(SizeError):
            spec.launch(sizes)
    with pytest.raises(SizeError, match="LENGTH"):
        spec.launch({"BATCH": 1})
    for message in (
        "LENGTH must be from 1 to 1073741822", "K and its partners differ in LENGTH", "LSE2 and its partners differ",
        "there must be at most 16777215 blocks",
    ):  # fmt: skip
        assert f'throw std::invalid_argument("attention_causal: {message}' in spec.text, message


def test_direct_loads_count_the_rows_of_a_tensor_in_32_bits() -> None:
    spec = spec_of(dynamic("attention_direct"), "gfx950")
    most = 0x7FFFFF00 // (64 * 2)
    spec.launch({"LENGTH": most})
    with pytest.raises(SizeError, match=f"LENGTH must be from 1 to {most}"):
        spec.launch({"LENGTH": most + 1})
    assert f"LENGTH must be from 1 to {most}" in spec.text


TURNED = CAUSAL.replace("K : bf16[BATCH, LENGTH, KV_HEADS, D]", "K : bf16[BATCH, KV_HEADS, D, LENGTH]")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TURNED.replace("K[b, j, h / GROUP].T", "K[b, h / GROUP, D, j]"),
         "the rows of `K` are LENGTH apart, which is dynamic"),
        (CAUSAL.replace("by 64 to q", "by 64 part b"), "the number of parts of `j` must be known, but BATCH is "
                                                       "dynamic"),
    ],
)  # fmt: skip
def test_what_must_be_known_at_build_time(text: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        spec_of(text).check()
    first = caught.value.diagnostics[0]
    assert (first.code, first.message) == ("E230", message)
