"""The bars that the compiled main loop of the large kernels must keep, as benchmarks/codegen.py measures them."""

from __future__ import annotations

from pathlib import Path

import codegen
import pytest

import tkgen
from tkgen.build import Build
from tkgen.predict import Workload
from tkgen.predict.stream import Unit, block_streams
from tkgen.toolchain.isa import instruction_mix, loops, main_loop, parse_asm

ROOT = Path(__file__).parents[2]
KERNELS = ["auto", "ping_pong", "ping_pong_wide"]


@pytest.fixture(scope="module", params=KERNELS)
def build(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Build:
    """256 x 256 x 64 by 8 waves."""
    if request.param == "auto":
        return codegen.built((256, 256, 64), 8, tmp_path_factory.mktemp("codegen"))
    return tkgen.load(ROOT / "specs" / f"{request.param}.tk").check().build().check()


def test_registers_and_occupancy(build: Build) -> None:
    r = build.resources
    assert r.vgpr_spills == r.sgpr_spills == r.scratch_bytes == 0
    assert r.vgpr + r.agpr <= 254
    assert build.occupancy.waves_per_simd >= 2


def test_the_loop_multiplies(build: Build) -> None:
    loop = main_loop(build.function)
    assert loop is not None
    mix = instruction_mix(loop.instructions)
    mfmas = codegen.equivalent_mfmas(mix)
    assert mfmas == 128
    assert (mix.total - sum(mix.mfma.values())) / mfmas <= 0.60
    assert set(mix.lds_reads) == {128} and set(mix.global_loads) == {128}
    assert not mix.flat and not mix.scratch
    assert {x.mnemonic for x in loop.instructions if x.mnemonic.startswith("ds_read")} == {"ds_read_b128"}
    assert not codegen.hoistable(loop.instructions)


def test_lds_accesses_meet_in_no_bank(build: Build) -> None:
    """As many cycles as their bytes need, for the addresses of every lane and wave."""
    target = build.spec.target
    body = [x for s in block_streams(Workload.of(build), target) for x in s.body if x.unit is Unit.LDS]
    assert len(body) == 8 * (24 + 8)
    assert all(x.lds_cycles == x.lds_bytes // target.lds_read_bytes_per_clock for x in body)


def test_what_could_be_hoisted_is_seen() -> None:
    asm = """
	.type f,@function
f:
  s_mov_b32 s3, 0
.LBB0_1:
  v_add_u32_e32 v1, s2, v0
  v_add_u32_e32 v3, 8, v1
  ds_read_b128 v[4:7], v1
  v_add_u32_e32 v5, v4, v1
  s_addk_i32 s3, 0x80
  v_mov_b32_e32 v2, s3
  s_cmpk_lg_i32 s3, 0x100
  s_cbranch_scc1 .LBB0_1
  s_endpgm
  .size f, .-f
"""
    (loop,) = loops(parse_asm(asm)["f"])
    assert [x.operands[0] for x in codegen.hoistable(loop.instructions)] == ["v1", "v3"]


@pytest.mark.parametrize(("name", "target", "most"), [("fp8", "gfx942", 0.28), ("fp8_direct", "gfx950", 0.24)])
def test_the_loops_of_8_bit_floats(name: str, target: str, most: float) -> None:
    """256 x 256 x 128 by 8 waves: nothing spilled, all moves of 16 bytes a lane; a deeper MFMA counts as several."""
    build = tkgen.load(codegen.LOW_PRECISION / f"{name}.tk", target=target).check().build().check()
    assert build.resources.vgpr_spills == build.resources.scratch_bytes == 0
    loop = main_loop(build.function)
    assert loop is not None
    mix = instruction_mix(loop.instructions)
    mfmas = codegen.equivalent_mfmas(mix)
    assert mfmas == 256
    assert (mix.total - sum(mix.mfma.values())) / mfmas <= most
    assert set(mix.lds_reads) == {128} and set(mix.lds_writes) <= {128}
    assert not codegen.hoistable(loop.instructions)


@pytest.mark.parametrize(
    ("name", "target", "most"),
    [("w8", "gfx942", 8.1), ("w8", "gfx950", 3.15), ("w4", "gfx942", 3.0), ("w4", "gfx950", 3.0),
     ("w4, not interleaved", "gfx942", 3.15)],
)  # fmt: skip
def test_the_loops_of_weights(name: str, target: str, most: float) -> None:
    """Vector instructions beside an MFMA; a lane reads 16 bytes of interleaved weights at a time, else two."""
    build = codegen.low_precision_kernel(name, target)
    assert build.resources.vgpr_spills == build.resources.scratch_bytes == 0
    loop = main_loop(build.function)
    assert loop is not None
    mix = instruction_mix(loop.instructions)
    vector = [x for x in loop.instructions if x.mnemonic.startswith("v_") and "mfma" not in x.mnemonic]
    assert len(vector) / codegen.equivalent_mfmas(mix) <= most
    assert (set(mix.lds_reads) == {128}) == (name == "w4")


def test_the_loop_of_blocks_with_scales() -> None:
    """256 x 256 x 128 by 8 waves: beside the loop without scales, one load of a byte for 16 rows or columns."""
    build = tkgen.load(codegen.LOW_PRECISION / "mxfp8.tk").check().build().check()
    assert build.resources.vgpr_spills == build.resources.scratch_bytes == 0
    loop = main_loop(build.function)
    assert loop is not None
    mix = instruction_mix(loop.instructions)
    assert codegen.equivalent_mfmas(mix) == 256 and mix.global_loads[8] == 12
    assert (mix.total - sum(mix.mfma.values())) / 256 <= 0.32


@pytest.mark.parametrize(("name", "products", "most"), [("mxfp4", 512, 0.22), ("mxfp6", 256, 0.82)])
def test_the_loops_of_packed_floats(name: str, products: int, most: float) -> None:
    """256 x 256 x 256 and 256 x 128 x 256 by 8 waves: 24 reads of LDS of 16 bytes or twice 8, for 24 bytes a block."""
    build = tkgen.load(codegen.LOW_PRECISION / f"{name}.tk").check().build().check()
    assert build.resources.vgpr_spills == build.resources.scratch_bytes == 0
    loop = main_loop(build.function)
    assert loop is not None
    mix = instruction_mix(loop.instructions)
    assert codegen.equivalent_mfmas(mix) == products and mix.lds_reads == {128: 24}
    assert (mix.total - sum(mix.mfma.values())) / products <= most
