"""Tensors in global memory: argument layout, coordinates, tiles that overhang a tensor, tensors beyond 4 GiB."""

from __future__ import annotations

import numpy as np
import pytest
from kittens_support import BF16, FLOAT, Build, Element, numbers, run, tensor

from tkgen.emulate import Buffer, Scalar, Struct

ARGUMENTS = """
struct globals {
    gl<bf16, 1, 1, 128, 64> fixed;
    gl<float, -1, 1, -1, 8> some;
    gl<half, -1, -1, -1, -1> all;
    float alpha;
};
static_assert(sizeof(gl<bf16, 1, 1, 128, 64>) == 8);
static_assert(sizeof(gl<float, -1, 1, -1, 8>) == 24);
static_assert(sizeof(globals) == 80);
KERNEL(arguments, 64, const globals g, int *out) {
    const int extents[] = {g.fixed.batch(), g.fixed.depth(), g.fixed.rows(), g.fixed.cols(), g.some.batch(),
                           g.some.depth(), g.some.rows(), g.some.cols(), g.all.batch(), g.all.depth(), g.all.rows(),
                           g.all.cols(), int(g.alpha), int(g.all.stride<0>()), int(g.all.stride<1>()),
                           int(g.all.stride<2>()), int(g.some.shape<2>())};
    #pragma unroll
    for (int i = 0; i < 17; i++) out[i] = extents[i];
}
KERNEL(identities, 256, int *out) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    int *mine = out + at * 8;
    mine[0] = warpid(); mine[1] = warpgroupid(); mine[2] = laneid(); mine[3] = group<2>::warpid();
    mine[4] = group<2>::groupid(); mine[5] = group<2>::laneid(); mine[6] = gridDim.x; mine[7] = blockDim.x;
}
"""


def test_extents_known_at_compile_time_take_no_space(build: Build, target: str) -> None:
    out = np.zeros(17, np.int32)
    nothing = Buffer(np.zeros(1, np.uint8))
    fields = [
        nothing,
        Struct([nothing, Scalar("u64", 3), Scalar("u64", 5)]),
        Struct([nothing, *(Scalar("u64", n) for n in (2, 3, 4, 5))]),
        Scalar("f32", 9.0),
    ]
    run(build(ARGUMENTS, target), "arguments", [Struct(fields), Buffer(out)])
    assert out.tolist() == [1, 1, 128, 64, 3, 1, 5, 8, 2, 3, 4, 5, 9, 60, 20, 5, 5]


def test_waves_lanes_and_groups_are_numbered(build: Build, target: str) -> None:
    out = np.zeros((2, 256, 8), np.int32)
    run(build(ARGUMENTS, target), "identities", [Buffer(out)], threads=256, blocks=2)
    t = np.arange(256)
    expected = np.stack([t // 64, t // 256, t % 64, t // 64 % 2, t // 128, t % 128, 0 * t + 2, 0 * t + 256], axis=1)
    np.testing.assert_array_equal(out, np.broadcast_to(expected, out.shape))


AXES = """
KERNEL(axes, 64, dynamic<float> in, dynamic<float> out) {
    SHARED auto &s = al.allocate<st_fl<16, 16>>();
    rt_fl<16, 16, col> t;
    load<1>(t, in, {0, 1, 3, 1});
    store<0>(out, t, {0, 1, 2, 0});
    group<1>::load<0, false>(s, in, {0, 2, 1, 1});
    __syncthreads();
    group<1>::store<1, false>(out, s, {2, 0, 1, 0});
}
"""


def test_rows_may_run_along_other_axes(build: Build) -> None:
    source = numbers((16, 32, 4, 32))
    result = np.zeros((16, 16, 3, 16), np.float32)
    run(build(AXES), "axes", [tensor(source, writable=False), tensor(result)])
    expected = np.zeros_like(result)
    expected[:, 1, 2, :] = source[0, 16:32, 3, 16:]
    expected[2, :, 1, :] = source[:, 2, 1, 16:]
    np.testing.assert_array_equal(result, expected)


def _overhang_kernels(element: Element) -> str:
    kernels = []
    for kind, gl in (("dynamic", "-1, -1, -1, -1"), ("static", "1, 2, 40, 72")):
        for layout in ("row", "col"):
            kernels.append(f"""
KERNEL({kind}_{layout}, 64, gl<{element.cpp}, {gl}> in, gl<{element.cpp}, {gl}> out, int row, int column) {{
    rt<{element.cpp}, 32, 64, ducks::rt_layout::{layout}> t;
    load(t, in, {{0, 0, row, column}});
    store(out, t, {{0, 0, row, column}});
}}
KERNEL({kind}_values_{layout}, 64, gl<{element.cpp}, {gl}> in, dynamic<{element.cpp}> out, int row, int column) {{
    rt<{element.cpp}, 32, 64, ducks::rt_layout::{layout}> t;
    load(t, in, {{0, 0, row, column}});
    store(out, t, {{0, 0, 0, 0}});
}}""")
        kernels.append(f"""
KERNEL({kind}_group, 256, gl<{element.cpp}, {gl}> in, gl<{element.cpp}, {gl}> out, int row, int column) {{
    SHARED auto &s = al.allocate<st<{element.cpp}, 32, 64>>();
    group<4>::load(s, in, {{0, 0, row, column}});
    __syncthreads();
    group<4>::store(out, s, {{0, 0, row, column}});
}}
KERNEL({kind}_values_group, 256, gl<{element.cpp}, {gl}> in, dynamic<{element.cpp}> out, int row, int column) {{
    SHARED auto &s = al.allocate<st<{element.cpp}, 32, 64>>();
    group<4>::load(s, in, {{0, 0, row, column}});
    __syncthreads();
    group<4>::store(out, s, {{0, 0, 0, 0}});
}}""")
    return "".join(kernels)


@pytest.mark.parametrize("at", [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (0, 2)], ids=str)
@pytest.mark.parametrize("way", ["row", "col", "group"])
@pytest.mark.parametrize("kind", ["dynamic", "static"])
@pytest.mark.parametrize("element", [BF16, FLOAT], ids=str)
def test_a_tile_that_overhangs_reads_zeros_and_leaves_the_rest_alone(
    build: Build, element: Element, kind: str, way: str, at: tuple[int, int]
) -> None:
    compiled = build(_overhang_kernels(element))
    threads = 256 if way == "group" else 64
    source = element.pack(numbers((1, 2, 40, 72)))
    place = [Scalar("i32", at[0]), Scalar("i32", at[1])]
    padded = np.zeros((96, 192), element.storage)
    padded[:40, :72] = source[0, 0]
    window = padded[32 * at[0] : 32 * at[0] + 32, 64 * at[1] : 64 * at[1] + 64]

    def argument(data: np.ndarray, writable: bool) -> Struct | Buffer:
        return tensor(data, writable=writable) if kind == "dynamic" else Buffer(data, writable=writable)

    values = np.full((32, 64), 1, element.storage)
    run(compiled, f"{kind}_values_{way}", [argument(source, False), tensor(values), *place], threads=threads)
    np.testing.assert_array_equal(values, window)

    result = np.full_like(source, 1)
    run(compiled, f"{kind}_{way}", [argument(source, False), argument(result, True), *place], threads=threads)
    expected = np.full_like(source, 1)
    here = expected[0, 0, 32 * at[0] :, 64 * at[1] :][:32, :64]
    here[:] = window[: here.shape[0], : here.shape[1]]
    np.testing.assert_array_equal(result, expected)


FAR = """
constexpr size_t ROWS_BEFORE = 5ull << 18, COLUMNS = 4096; // 20 GiB before the part that is there
KERNEL(far, 256, float *in, float *out) {
    SHARED auto &s = al.allocate<st_fl<32, 32>>();
    dynamic<float> a(in - ROWS_BEFORE * COLUMNS, 1, 1, ROWS_BEFORE + 48, COLUMNS);
    dynamic<float> b(out - ROWS_BEFORE * COLUMNS, 1, 1, ROWS_BEFORE + 48, COLUMNS);
    group<4>::load(s, a, {0, 0, int(ROWS_BEFORE / 32), 3});
    __syncthreads();
    if (warpid() == 0) {
        rt_fl<32, 32, col> t;
        load(t, s);
        store(b, t, {0, 0, int(ROWS_BEFORE / 32), 2});
        load(t, a, {0, 0, int(ROWS_BEFORE / 32) + 1, 3});
        store(b, t, {0, 0, int(ROWS_BEFORE / 32) + 1, 2});
    }
}
"""


def test_tensors_may_be_larger_than_4_gib(build: Build, target: str) -> None:
    source = numbers((48, 4096))
    result = np.zeros_like(source)
    run(build(FAR, target), "far", [Buffer(source, writable=False), Buffer(result)], threads=256)
    expected = np.zeros_like(source)
    expected[:, 64:96] = source[:, 96:128]
    np.testing.assert_array_equal(result, expected)


ALLOCATION = """
KERNEL(allocation, 64, uint32_t *out) {
    SHARED
    auto place = [](auto &object) { return (uint32_t)(__attribute__((address_space(3))) char *)&object; };
    auto &a = al.allocate<sv_bf<16>>();
    auto &b = al.allocate<float>();
    auto &c = al.allocate<st_bf<16, 16>, 2, 3>();
    auto &d = al.allocate<128, st_fl<16, 16>>();
    out[0] = place(a); out[1] = place(b); out[2] = place(c); out[3] = place(c[1][2]); out[4] = place(d);
}
"""


def test_the_allocator_aligns_and_packs(build: Build) -> None:
    out = np.zeros(5, np.uint32)
    run(build(ALLOCATION), "allocation", [Buffer(out)])
    assert out.tolist() == [0, 32, 48, 48 + 5 * 512, 3200]
