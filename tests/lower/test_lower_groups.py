"""The host side of ragged rows, on a fake runtime: blocks for as many tiles as may be, a look at the offsets."""

from __future__ import annotations

import subprocess
from pathlib import Path

from on_host import LINK_FLAGS, host_compile, needs_clang

import tkgen
from tkgen.api import load_products

GROUPED = """kernel grouped
  dims TOKENS = 200, GROUPS = 5, OFFSETS = GROUPS + 1, N = 96, K = 64
  global FIRST : i32[OFFSETS]
  global X : bf16[TOKENS, K]
  global W : bf16[GROUPS, N, K]
  global Y : f32[TOKENS, N]
  over g in GROUPS, m in TOKENS within FIRST[g] by 64, n in N by 64
  tail masked
  waves 2 x 2
  shared X, W
  each k in K by 32
    y = y + X[m, k] @ W[g, n, k].T
  Y[m, n] = y
"""
HOST = """
#define TKGEN_STANDALONE
#include "grouped.cpp"
#include <cstdio>
#include <cstring>
extern "C" char __hip_fatbin[1] = {};
extern "C" hipError_t hipLaunchKernel(const void *, dim3 grid, dim3, void **, size_t, hipStream_t) {
    std::printf("%u blocks", grid.x);
    return hipSuccess;
}
int main(int, char **words) {
    int offsets[6];
    for (int i = 0; i < 6; ++i) offsets[i] = std::atoi(words[i + 1]);
    grouped::globals g{{offsets, nullptr, nullptr, nullptr, nullptr}, {nullptr, nullptr, nullptr, nullptr, nullptr},
                       {nullptr, nullptr, nullptr, nullptr, nullptr}, {nullptr, nullptr, nullptr, nullptr, nullptr}, 0};
    try {
        grouped::check_offsets(g);
        grouped::dispatch(g);
    } catch (const std::invalid_argument &error) {
        std::printf("%s", error.what());
    }
}
"""


@needs_clang
def test_the_host_looks_at_the_offsets(tmp_path: Path) -> None:
    (tmp_path / "grouped.cpp").write_text(load_products(GROUPED).check().text)
    (tmp_path / "main.cpp").write_text(HOST)
    host_compile(tmp_path, "main.cpp", *LINK_FLAGS, str(tmp_path / "run"))

    def said(offsets: list[int]) -> str:
        given = [tmp_path / "run", *map(str, offsets)]
        return subprocess.run(given, capture_output=True, text=True, check=True).stdout

    for offsets in ([0, 64, 64, 70, 199, 200], [0] * 6, [3, 5, 9, 9, 10, 199], [200] * 6):
        assert said(offsets) == f"{load_products(GROUPED).launch().blocks} blocks"
    assert said([0, 150, 60, 90, 199, 200]) == "grouped: offset 2 is 60, which decreases or is outside"
    assert said([-7, 30, 50, 60, 70, 200]) == "grouped: offset 0 is -7, which decreases or is outside"
    assert said([0, 1, 2, 3, 4, 201]) == "grouped: offset 5 is 201, which decreases or is outside"


PAGED = """sequence paged
dims BATCH = 2, KEYS = 100, PAGE = 64, CACHED = 3, LISTED = 2, HEADS = 16, D = 64
global PAGES : i32[BATCH, LISTED]
global LENGTH : i32[BATCH]
global Q : bf16[BATCH, HEADS, D]
global K : bf16[CACHED, PAGE, D]
global S : f32[BATCH, HEADS, D]
global T : f32[BATCH, HEADS, D]
kernel sums
  over b in BATCH, h in HEADS by 16
  waves 1
  shared K
  each j in KEYS below LENGTH[b] by 32
    x = Q[b, h] @ K[PAGES[b, j / PAGE], j % PAGE].T
    s = s + bf16(where(h > 3, x, 0)) @ K[PAGES[b, j / PAGE], j % PAGE]
  S[b, h] = s
kernel twice
  over b in BATCH, h in HEADS by 16
  waves 1
  T[b, h] = S[b, h] * 2
"""
PAGED_HOST = """
#define TKGEN_STANDALONE
#include "grouped.cpp"
#include <cstdio>
#include <cstring>
extern "C" char __hip_fatbin[1] = {};
extern "C" hipError_t hipLaunchKernel(const void *, dim3, dim3, void **, size_t, hipStream_t) { return hipSuccess; }
int main(int, char **words) {
    int held[6];
    for (int i = 0; i < 6; ++i) held[i] = std::atoi(words[i + 1]);
    decltype(paged::globals::PAGES_) pages{held, nullptr, nullptr, nullptr, nullptr};
    decltype(paged::globals::LENGTH_) lengths{held + 4, nullptr, nullptr, nullptr, nullptr};
    paged::globals g{pages, lengths, {nullptr, nullptr, nullptr, nullptr, nullptr},
                     {nullptr, nullptr, nullptr, nullptr, nullptr}, {nullptr, nullptr, nullptr, nullptr, nullptr},
                     {nullptr, nullptr, nullptr, nullptr, nullptr}, 0};
    try {
        paged::check_offsets(g);
        std::printf("right");
    } catch (const std::invalid_argument &error) {
        std::printf("%s", error.what());
    }
}
"""


@needs_clang
def test_the_host_looks_at_the_pages_and_lengths_of_a_sequence(tmp_path: Path) -> None:
    (tmp_path / "grouped.cpp").write_text(tkgen.load(PAGED).check().text)
    (tmp_path / "main.cpp").write_text(PAGED_HOST)
    host_compile(tmp_path, "main.cpp", *LINK_FLAGS, str(tmp_path / "run"))

    def said(*held: int) -> str:
        given = [tmp_path / "run", *map(str, held)]
        return subprocess.run(given, capture_output=True, text=True, check=True).stdout

    assert said(0, 1, 2, -1, 0, 100) == said(2, 2, 2, 2, 100, 64) == "right"
    assert said(0, 1, 3, 0, 7, 9) == "sums: number 2 of PAGES is 3, which is outside of -1..2"
    assert said(0, 1, 2, -2, 7, 9) == "sums: number 3 of PAGES is -2, which is outside of -1..2"
    assert said(0, 1, 2, 0, 7, 101) == "sums: number 1 of LENGTH is 101, which is outside of 0..100"
    assert said(0, 1, 2, 0, -1, 9) == "sums: number 0 of LENGTH is -1, which is outside of 0..100"
