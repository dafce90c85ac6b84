"""The machine code of the specs for gfx950: what main loops are made of, and the layout after their LDS reads."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tkgen import api
from tkgen.backends.cdna.kittens import include_dir
from tkgen.backends.cdna.kittens.layout import box_offset
from tkgen.build import Build
from tkgen.schedule.instructions import global_instructions
from tkgen.targets import load_target
from tkgen.tile.ops import Copy
from tkgen.tile.program import ops
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.discover import find_compiler
from tkgen.toolchain.isa import main_loop

SPECS = Path(__file__).parents[2] / "specs"
NAMES = sorted(path.stem for path in SPECS.glob("hk_*.tk"))
# Other instructions for each matrix instruction of the main loop, at most. One of 32 x 32 x 16 takes as long as two of
# 16 x 16 x 32.
OTHERS = {
    "hk_eight_wave": 0.75, "hk_ping_pong": 0.85, "hk_8c4p_2": 1.0, "hk_8c4p_3": 1.0,
    "hk_12c4p_2": 1.05, "hk_12c4p_3": 1.06, "hk_four_wave": 1.85, "hk_ab": 2.8, "hk_at_b": 1.5, "hk_half_tiles": 1.1,
}  # fmt: skip


@cache
def built(name: str) -> Build:
    return api.load(SPECS / f"{name}.tk").check().build().check()


def loop(name: str) -> list[str]:
    """Mnemonics of the loop that multiplies, in order."""
    found = main_loop(built(name).function)
    assert found is not None
    return [i.mnemonic for i in found.instructions]


@pytest.mark.parametrize("name", NAMES)
def test_only_wide_products(name: str) -> None:
    products = {m for m in loop(name) if m.startswith("v_mfma")}
    assert products and all(m.startswith(("v_mfma_f32_16x16x32_", "v_mfma_f32_32x32x16_")) for m in products)


@pytest.mark.parametrize("name", NAMES)
def test_tiles_go_straight_to_lds(name: str) -> None:
    """No LDS write, no access of single elements; each load of a tile moves 16 bytes a lane to LDS."""
    used = [i.mnemonic for i in built(name).function.instructions]
    assert not [m for m in used if m.startswith(("ds_write", "ds_read_u", "flat_", "global_load"))]
    text = built(name).asm
    loads = [line for line in text.splitlines() if line.strip().startswith("buffer_load")]
    assert loads and all("dwordx4" in line and line.rstrip().endswith("lds") for line in loads)


@pytest.mark.parametrize("name", NAMES)
def test_as_many_loads_as_the_waits_count(name: str) -> None:
    """vmcnt counts instructions: the calculus and the machine code must agree on how many make a tile."""
    build = built(name)
    wave = next(w for w in build.spec.plan.waves if any(isinstance(p, Copy) for p in w.tiles.body))
    expected = sum(global_instructions(build.spec.program, p) for p in wave.tiles.body if isinstance(p, Copy))
    text = build.asm
    whole = sum(global_instructions(build.spec.program, p) for p in ops(wave.nodes) if isinstance(p, Copy))
    assert expected
    assert sum(line.strip().startswith("buffer_load_dwordx4") for line in text.splitlines()) == whole


@pytest.mark.parametrize(("name", "operands"), [("hk_at_b", 2), ("hk_ab", 1)])
def test_transposing_reads(name: str, operands: int) -> None:
    used = loop(name)
    assert used.count("ds_read_b64_tr_b16") > 0
    assert (used.count("ds_read_b128") == 0) == (operands == 2)


@pytest.mark.parametrize("name", NAMES)
def test_few_other_instructions(name: str) -> None:
    used = loop(name)
    products = sum(m.startswith("v_mfma") for m in used)
    assert (len(used) - products) / products <= OTHERS[name]


CONFLICTS = """
#include "kittens.cuh"
using namespace kittens;
using tile = detail::boxes<bf16, 64, 128>;
constexpr int NEIGHBOURS[32] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
                                16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
constexpr int MIXED[32] = {0, 1, 2, 3, 12, 13, 14, 15, 20, 21, 22, 23, 24, 25, 26, 27,
                           4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 28, 29, 30, 31};
/// Lanes read `bytes` each, `together` of them in one cycle, in this order: no two in one of 64 banks.
template <typename F> constexpr bool free_of_conflicts(const int (&order)[32], int together, int bytes, F at) {
    for (int half = 0; half < 64; half += 32)
        for (int start = 0; start < 32; start += together) {
            bool used[64] = {};
            for (int i = 0; i < together; i++) {
                const int lane = half + order[start + i];
                for (int b = 0; b < bytes; b += 4) {
                    bool &bank = used[(at(lane) + b) / 4 % 64];
                    if (bank) return false;
                    bank = true;
                }
            }
        }
    return true;
}
template <int side, int row, int col> constexpr bool rows_are_free() {
    const auto at = [](int lane) { return tile::offset(row + lane % side, col + lane / side * 8); };
    return free_of_conflicts(NEIGHBOURS, 16, 16, at) && free_of_conflicts(MIXED, 16, 16, at);
}
template <int side, int row, int col> constexpr bool columns_are_free() {
    return free_of_conflicts(NEIGHBOURS, 32, 8, [](int lane) {
        const int column = side == 32 ? 16 * (lane / 16 % 2) : 0;
        return tile::offset(row + lane / side * 8 + lane % 16 / 4, col + column + lane % 4 * 4);
    });
}
static_assert(rows_are_free<16, 0, 0>() && rows_are_free<16, 48, 96>());
static_assert(rows_are_free<32, 32, 0>() && rows_are_free<32, 0, 80>());
static_assert(columns_are_free<16, 0, 0>() && columns_are_free<16, 4, 16>() && columns_are_free<16, 36, 112>());
static_assert(columns_are_free<32, 0, 0>() && columns_are_free<32, 20, 64>());
/// Every byte of the tile is somebody's.
constexpr bool one_to_one() {
    bool used[64 * 128] = {};
    for (int r = 0; r < 64; r++)
        for (int c = 0; c < 128; c++) {
            bool &place = used[tile::offset(r, c) / 2];
            if (place) return false;
            place = true;
        }
    return true;
}
static_assert(one_to_one());
"""


def test_the_python_twin_of_the_layout() -> None:
    """Element by element the headers' position and the one that reports draw."""
    places = [(row, col) for row in range(64) for col in range(0, 128, 4)]
    table = ", ".join(str(box_offset(64, row, col)) for row, col in places)
    source = (
        f'#include "kittens.cuh"\nusing tile = kittens::detail::boxes<kittens::bf16, 64, 128>;\n'
        f"constexpr unsigned TABLE[] = {{{table}}};\n"
        "constexpr bool same() {\n"
        "    for (int i = 0; i < 64 * 32; i++)\n"
        "        if (tile::offset(i / 32, i % 32 * 4) != TABLE[i]) return false;\n"
        "    return true;\n}\nstatic_assert(same());\n__global__ void kernel() {}\n"
    )
    target = load_target("gfx950")
    compile_device(source, target, find_compiler(target), include_dirs=[include_dir()], outputs=("asm",))


def test_no_read_has_bank_conflicts() -> None:
    """For both orders in which LDS may serve 16-byte reads; computed by the compiler from the headers' own layout."""
    target = load_target("gfx950")
    source = CONFLICTS + "__global__ void kernel() {}\n"
    compile_device(source, target, find_compiler(target), include_dirs=[include_dir()], outputs=("asm",))
