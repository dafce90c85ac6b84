"""Layouts of rows over lanes: every element has one lane, and what is refused says why."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from row_kernels import Builder, columns, layernorm, rotary, softmax, transpose

from tkgen.backends.hopper.machine import load_hopper
from tkgen.ir.equations import accesses
from tkgen.ir.tensors import DType
from tkgen.schedule.row_form import RowError, Way
from tkgen.schedule.row_verifier import wrong
from tkgen.schedule.rows import EXCHANGE_BYTES, LaneTarget, RowMap, map_rows
from tkgen.schedule.sweeps import held, sweeps
from tkgen.targets import load_target

TARGET = load_target("gfx942")


def elements(m: RowMap) -> Counter[tuple[int, int]]:
    """(row, element) of every lane, by the formulas that the module states, within the tile."""
    found: Counter[tuple[int, int]] = Counter()
    for thread in range(m.threads):
        lane = thread // m.spacing % m.lanes
        group = thread // (m.spacing * m.lanes) * m.spacing + thread % m.spacing
        for step in range(m.passes * m.held):
            i = step % m.held
            row = ((step // m.held * m.held + i) // m.across * m.groups + group) * m.across + i % m.across
            for c in range(m.chunks):
                for e in range(m.chunk):
                    element = (c * m.lanes + lane) * m.chunk + e
                    if row < m.row_count and element < m.length:
                        found[row, element] += 1
    return found


OF_ROWS = [d for d in DType if not d.packed]  # those are of products alone


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 700), st.integers(1, 40), st.sampled_from([1, 2, 3, 4, 8, 12, 16]), st.sampled_from(OF_ROWS))
def test_every_element_has_one_lane(length: int, by: int, waves: int, dtype: DType) -> None:
    m = map_rows(softmax(100, length, by, dtype), waves, TARGET)
    found = elements(m)
    assert len(found) == by * length
    assert set(found.values()) == {1}
    assert length % m.chunk == 0
    assert m.chunk * dtype.bytes <= 16


@pytest.mark.parametrize("dtype", [d for d in DType if d.packed])
def test_rows_of_what_is_packed_are_refused(dtype: DType) -> None:
    with pytest.raises(
        RowError, match=f"`X` is {dtype.spelling}, which can only be used to compute an operand of a matrix product"
    ):
        map_rows(softmax(100, 64, 4, dtype), 4, TARGET)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 200), st.integers(1, 200), st.sampled_from([16, 64, 96]), st.sampled_from([1, 4]))
def test_every_element_has_one_lane_where_rows_lie_across(rows: int, cols: int, by: int, waves: int) -> None:
    m = map_rows(transpose(rows, cols, (by, by)), waves, TARGET)
    assert set(elements(m).values()) == {1}
    assert {m.way(a) for a in accesses(m.kernel)} == {Way.ALONG, Way.ACROSS}
    assert m.held % m.across == 0
    assert rows % m.across == 0


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 200), st.integers(1, 200), st.sampled_from([8, 32, 64, 96]), st.sampled_from([1, 2, 4, 8]))
def test_every_element_has_one_lane_where_columns_are_summed(rows: int, cols: int, by: int, waves: int) -> None:
    for target in (TARGET, load_hopper().lanes):
        m = map_rows(columns(rows, cols, by), waves, target)
        assert set(elements(m).values()) == {1}
        assert not [*wrong(m, target)]
        threads = range(m.threads)
        assert {(m.group(t), m.lane(t)) for t in threads} == {(g, n) for g in range(m.groups) for n in range(m.lanes)}
        assert m.exchange_bytes <= EXCHANGE_BYTES


@pytest.mark.parametrize("target", [TARGET, load_hopper().lanes], ids=lambda target: target.name)
def test_neighbouring_lanes_have_neighbouring_columns(target: LaneTarget) -> None:
    m = map_rows(columns(256, 64, 32), 8, target)
    assert m.spacing * m.across == 32  # so a wave has all 64 bytes of a row of the tensor
    assert [m.group(thread) for thread in range(m.spacing)] == [*range(m.spacing)]
    assert {m.lane(thread) for thread in range(m.spacing)} == {0}
    assert (m.lanes_of_wave, m.groups_of_wave) == (target.wave_size // m.spacing, m.spacing)
    assert m.waves_of_row == 8
    assert f"{m.lanes_of_wave} lanes of each of 8 waves to a row" in m.describe()


def test_waves_along_the_columns_do_not_share_one() -> None:
    kernel = columns(256, 64, 32)
    assert map_rows(kernel, 4, TARGET, kernel.axes[0]).waves_of_row == 1


@pytest.mark.parametrize("spacing", [3, 64])
def test_lanes_that_cannot_be_so_far_apart_are_found(spacing: int) -> None:
    m = map_rows(columns(256, 64, 32), 8, TARGET)
    assert [rule for rule, _ in wrong(replace(m, spacing=spacing), TARGET)] == ["elements"]


def test_rows_are_shared_by_as_many_lanes_as_their_length_asks() -> None:
    kernels = {length: softmax(100_000, length, max(4096 // length, 1)) for length in (1, 64, 4096)}
    lanes = {length: map_rows(kernel, 4, TARGET).lanes for length, kernel in kernels.items()}
    assert lanes[1] == 1
    assert 1 < lanes[64] < 64
    assert lanes[4096] >= 64
    assert map_rows(softmax(64, 16384, 1), 16, TARGET).lanes == 1024


def test_waves_along_the_rows_do_not_share_one() -> None:
    kernel = softmax(64, 2048, 4)
    t = kernel.axes[0]
    assert map_rows(kernel, 4, TARGET, t).lanes == 64
    assert map_rows(kernel, 4, TARGET, t).exchanges == 0
    with pytest.raises(RowError, match="give it more waves, and not along t"):
        map_rows(softmax(64, 65536, 4), 4, TARGET, t)


def test_values_that_a_later_sweep_reads_are_held() -> None:
    kernel = layernorm(64, 1024, 4)
    fast = map_rows(kernel, 4, TARGET).fast
    assert [value.name for value in held(kernel, fast)] == ["d"]
    assert [len(s.reduces) for s in sweeps(kernel, fast)] == [1, 1, 0]


def test_rotary_needs_no_exchange() -> None:
    m = map_rows(rotary(64, 8, 64, (4, 4)), 4, TARGET)
    assert m.exchanges == 0
    assert m.row_count == 16


def refused(b: Builder) -> str:
    with pytest.raises(RowError) as error:
        map_rows(b.kernel(), 4, TARGET)
    return str(error.value)


def test_what_is_refused() -> None:
    b = Builder("k", {"M": 64, "N": 64})
    b.tensor("X Y", DType.F32, "M", "N")
    b.over("m", "M", 4)
    x = b.load("X", "m")
    b.store(x, "Y", "m")
    b.store(x, "Y", "m")
    assert refused(b) == "Y is stored twice"

    b = Builder("k", {"M": 64, "N": 64})
    b.tensor("X", DType.F32, "M", "N")
    b.tensor("W", DType.F32, "N")
    b.over("m", "M", 4)
    b.store(b.load("X", "m"), "W")
    assert refused(b).startswith("W is stored without m")

    b = Builder("k", {"M": 64, "N": None})
    b.tensor("X Y", DType.F32, "M", "N")
    b.over("m", "M", 4)
    b.store(b.load("X", "m"), "Y", "m")
    assert refused(b) == "a row of N elements is complete in registers: its size must be known at build time"

    b = Builder("k", {"M": 64, "N": 64})
    b.tensor("X Y", DType.F32, "M", "N")
    b.over("m", "M", 4)
    b.store(b.load("X", "m"), "Y", "m")
    b.load("Y", "m")
    assert refused(b).startswith("Y is read after it has been stored")

    b = Builder("k", {"M": 64, "N": 64})
    b.tensor("X", DType.F32, "M", "N")
    b.over("m", "M", 4)
    b.over("n", "N", 4)
    b.store(b.load("X", "n", "m"), "X", "m", "n")
    assert refused(b).startswith("X is stored, but read at another position")


def test_parts_of_a_tensor_are_told_apart_by_constant_indices() -> None:
    b = Builder("k", {"M": 64, "TWO": 2, "N": 64})
    b.tensor("X", DType.F32, "M", "TWO", "N")
    b.over("m", "M", 4)
    left, right = b.load("X", "m", 0), b.load("X", "m", 1)
    b.store(right, "X", "m", 0)
    b.store(left, "X", "m", 1)
    assert map_rows(b.kernel(), 4, TARGET).row_count == 4
