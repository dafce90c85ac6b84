"""Streams read off the emulator: paths, trip counts, addresses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from measured_kernels import eight_clusters, element_reads

import tkgen
from tkgen.backends.cdna.kittens.layout import conflict_ways, fragment_addresses
from tkgen.predict import Workload
from tkgen.predict.cache import traffic
from tkgen.predict.stream import Unit, WaveStream, block_streams, lds_cycles
from tkgen.targets import load_target

SPECS = Path(__file__).parents[2] / "specs"
TARGET = load_target("gfx942")


def of_spec(name: str, **defines: int) -> tuple[Workload, tuple[WaveStream, ...]]:
    build = tkgen.load(SPECS / f"{name}.tk", defines).build()
    workload = Workload.of(build)
    return workload, block_streams(workload, build.spec.target)


def count(stream: WaveStream, unit: Unit) -> int:
    parts = ((stream.prologue, 1), (stream.body, stream.passes), (stream.epilogue, 1))
    return sum(n for part, n in parts for i in part if i.unit is unit)


@pytest.mark.parametrize("name", ["eight_wave", "producer_consumer_4p4c", "one_wave", "double_buffer"])
def test_all_of_the_product_is_in_the_streams(name: str) -> None:
    workload, streams = of_spec(name, M=512, N=512, K=1024)
    assert sum(s.total("flops") for s in streams) == pytest.approx(workload.flops_per_piece)
    assert len({count(s, Unit.BARRIER) for s in streams}) == 1


def test_operands_are_loaded_once_a_step() -> None:
    workload, streams = of_spec("eight_wave", M=512, N=512, K=1024)
    loaded = sum(
        i.bytes * n
        for s in streams
        for part, n in ((s.prologue, 1), (s.body, s.passes))
        for i in part
        if not i.is_store
    )
    rows, cols, _ = workload.block
    assert loaded == pytest.approx((rows * workload.left_bits + cols * workload.right_bits) // 8 * workload.k, rel=0.1)


@pytest.mark.parametrize(("name", "width"), [("w8", 8), ("w4", 4), ("fp8_rowwise", 0)])
def test_factors_have_the_bytes_of_their_own_elements(name: str, width: int) -> None:
    """Weights are narrower than what they are multiplied with: of all factors, and asked of the caches."""
    rows, cols, length = 512, 1024, 256
    workload, _ = of_spec(f"low_precision/{name}", M=rows, N=cols, K=length)
    bits = (16, width) if width else (8, 8)
    assert workload.operand_bytes == (rows * bits[0] + cols * bits[1]) * length // 8
    found = traffic(workload, TARGET, TARGET.products[0])
    assert found.l2_bytes == rows // 128 * (cols // 128) * 128 * length * sum(bits) // 8
    assert found.hbm_bytes == workload.operand_bytes


def test_roles_have_streams_of_their_own() -> None:
    _, streams = of_spec("producer_consumer_4p4c", M=512, N=512, K=1024)
    multiplies = [count(s, Unit.MFMA) > 0 for s in streams]
    assert multiplies == [False] * 4 + [True] * 4
    assert all(count(s, Unit.VMEM) > 0 for s in streams[:4])


def test_phases_shift_the_prologue_not_the_work() -> None:
    streams = block_streams(eight_clusters(4096), TARGET)
    early, late = streams[0], streams[7]
    assert early.passes == late.passes and len(early.body) == len(late.body)
    assert sum(i.unit is Unit.BARRIER for i in late.prologue) == sum(i.unit is Unit.BARRIER for i in early.prologue) + 1


def test_the_cost_does_not_grow_with_k() -> None:
    short, long = (block_streams(element_reads(64, size), TARGET)[0] for size in (1024, 8192))
    assert len(short.body) == len(long.body)
    assert long.passes == pytest.approx(8 * short.passes, abs=8)


def test_generic_accesses_to_lds_are_known_as_such() -> None:
    body = block_streams(element_reads(64, 1024), TARGET)[0].body
    flat = [i for i in body if i.unit is Unit.FLAT]
    assert len(flat) == 64 and all(i.lds_cycles and not i.bytes for i in flat)


def test_a_short_k_without_a_loop_is_one_stream() -> None:
    workload, streams = of_spec("eight_wave", M=128, N=128, K=64)
    assert {s.passes for s in streams} == {0}
    assert sum(s.total("flops") for s in streams) == workload.flops_per_piece


@pytest.mark.parametrize(("stride", "cycles"), [(16, 8), (256, 64), (32, 16)])
def test_lds_cycles_count_bank_conflicts(stride: int, cycles: int) -> None:
    assert lds_cycles("ds_read_b128", np.arange(64, dtype=np.uint64) * np.uint64(stride), 16, TARGET) == cycles


def test_lds_cycles_agree_with_the_layout() -> None:
    addresses = fragment_addresses(size=2, rows=64, cols=64, layout="row")
    assert conflict_ways("ds_read_b128", addresses) == 1
    assert lds_cycles("ds_read_b128", np.array(addresses, dtype=np.uint64), 16, TARGET) == 8


def test_lanes_that_share_a_word_do_not_conflict() -> None:
    same = np.zeros(64, dtype=np.uint64)
    assert lds_cycles("ds_read_b32", same, 4, TARGET) == 2
    off = np.full(64, 2**64 - 1, dtype=np.uint64)
    assert lds_cycles("ds_read_b32", off, 4, TARGET) == 1


def test_twice_the_banks_take_half_the_cycles() -> None:
    addresses = np.arange(64, dtype=np.uint64) * np.uint64(16)
    assert lds_cycles("ds_read_b128", addresses, 16, load_target("gfx950")) == 4
