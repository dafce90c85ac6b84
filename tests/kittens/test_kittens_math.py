"""Arithmetic on register tiles and vectors: products, element-wise operations, row and column maps, reductions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from kittens_support import BF16, ELEMENTS, FLOAT, HALF, Array, Build, Element, numbers, run, tensor

SHAPES = {"rt_16x16": 16, "rt_32x32": 32}

# product: is A read as M x K (or K x M), is B read as K x N (or N x K)
PRODUCTS = {"AB": (True, True), "ABt": (True, False), "AtB": (False, True), "AtBt": (False, False)}
M, N, K = 32, 64, 96


def _product_kernels(element: Element) -> str:
    kernels = []
    for product, (a_plain, b_plain) in PRODUCTS.items():
        a_tile = f"{M}, {K}, row" if a_plain else f"{K}, {M}, col"
        b_tile = f"{K}, {N}, col" if b_plain else f"{N}, {K}, row"
        kernels += [
            f"""
KERNEL({product}_{shape}, 64, dynamic<{element.cpp}> a, dynamic<{element.cpp}> b, dynamic<float> c, dynamic<float> d) {{
    rt<{element.cpp}, {a_tile}, {shape}> a_tile;
    rt<{element.cpp}, {b_tile}, {shape}> b_tile;
    rt_fl<{M}, {N}, col, {shape}> start, result;
    load(a_tile, a, {{0, 0, 0, 0}});
    load(b_tile, b, {{0, 0, 0, 0}});
    load(start, c, {{0, 0, 0, 0}});
    mma_{product}(result, a_tile, b_tile, start);
    mma_{product}(result, a_tile, b_tile, result);
    store(d, result, {{0, 0, 0, 0}});
}}"""
            for shape in SHAPES
        ]
    return "".join(kernels)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize(
    ("target", "element"), [("gfx942", BF16), ("gfx942", HALF), ("gfx942", FLOAT), ("gfx90a", BF16)], ids=str
)
def test_product(build: Build, target: str, element: Element, product: str, shape: str) -> None:
    a, b, c = numbers((M, K), 1, 9), numbers((K, N), 2, 9), numbers((M, N), 3)
    a_plain, b_plain = PRODUCTS[product]
    stored = [element.pack(a if a_plain else a.T), element.pack(b if b_plain else b.T), c]
    result = np.zeros((M, N), np.float32)
    compiled = build(_product_kernels(element), target)
    name = f"{product}_{shape}"
    run(compiled, name, [*(tensor(t, writable=False) for t in stored), tensor(result)])
    np.testing.assert_array_equal(result, 2 * (a @ b) + c)
    wanted = {
        (2, "rt_16x16"): "16x16x16",
        (2, "rt_32x32"): "32x32x8",
        (4, "rt_16x16"): "16x16x4",
        (4, "rt_32x32"): "32x32x2",
    }[element.size, shape]
    mfma = [m for m in compiled.mnemonics(name) if "mfma" in m]
    assert mfma and all(wanted in m for m in mfma)


UNARY: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "abs": np.abs,
    "relu": lambda x: np.maximum(x, 0),
    "zero": np.zeros_like,
    "one": np.ones_like,
    "pos_infty": lambda x: np.full_like(x, np.inf),
    "neg_infty": lambda x: np.full_like(x, -np.inf),
}
FILLS = ("zero", "one", "pos_infty", "neg_infty")
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
}


def _elementwise_kernels(element: Element) -> str:
    T = element.cpp
    tile, vector = f"rt<{T}, 32, 32, col>", f"rt<{T}, 32, 32, col>::row_vec"
    kernels = []
    for name in UNARY:
        call = f"{name}(y);" if name in FILLS else f"{name}(y, x);"
        kernels.append(f"""
KERNEL(tile_{name}, 64, dynamic<{T}> in, dynamic<{T}> out) {{
    {tile} x, y; load(x, in, {{0, 0, 0, 0}}); {call} store(out, y, {{0, 0, 0, 0}});
}}
KERNEL(vector_{name}, 64, dynamic<{T}> in, dynamic<{T}> out) {{
    {vector} x, y; load(x, in, {{0, 0, 0, 0}}); {call} store(out, y, {{0, 0, 0, 0}});
}}""")
    for name in BINARY:
        kernels.append(f"""
KERNEL(tile_{name}, 64, dynamic<{T}> a, dynamic<{T}> b, dynamic<{T}> out) {{
    {tile} x, y; load(x, a, {{0, 0, 0, 0}}); load(y, b, {{0, 0, 0, 0}}); {name}(x, x, y); store(out, x, {{0, 0, 0, 0}});
}}
KERNEL(value_{name}, 64, dynamic<{T}> a, dynamic<{T}> b, dynamic<{T}> out) {{
    {tile} x; load(x, a, {{0, 0, 0, 0}}); {name}(x, x, b[{{0, 0, 0, 0}}]); store(out, x, {{0, 0, 0, 0}});
}}
KERNEL(vector_{name}, 64, dynamic<{T}> a, dynamic<{T}> b, dynamic<{T}> out) {{
    {vector} x, y; load(x, a, {{0, 0, 0, 0}}); load(y, b, {{0, 0, 0, 0}});
    {name}(x, x, y); store(out, x, {{0, 0, 0, 0}});
}}""")
    return "".join(kernels)


@pytest.mark.parametrize("element", ELEMENTS.values(), ids=ELEMENTS)
def test_functions_of_one_argument(build: Build, element: Element) -> None:
    compiled = build(_elementwise_kernels(element))
    for name, function in UNARY.items():
        x = np.random.default_rng(4).uniform(0.1, 5, (32, 32)).astype(np.float32)
        x[::2] *= 1 if "log" in name else -1
        x = element.round(x)
        for what in ("tile", "vector"):
            result = np.zeros_like(element.pack(x))
            run(compiled, f"{what}_{name}", [tensor(element.pack(x), writable=False), tensor(result)])
            rows = slice(None) if what == "tile" else slice(0, 1)
            # one unit in the last place of the element type, or the 2^-21 that v_exp_f32 and v_log_f32 promise
            tolerance = {"bf16": 2**-8, "half": 2**-10, "float": 2**-20}[element.cpp]
            np.testing.assert_allclose(element.unpack(result)[rows], function(x)[rows], tolerance, tolerance)


@pytest.mark.parametrize("element", ELEMENTS.values(), ids=ELEMENTS)
def test_functions_of_two_arguments(build: Build, element: Element) -> None:
    compiled = build(_elementwise_kernels(element))
    a, b = numbers((32, 32), 5), numbers((32, 32), 6)
    b[b == 0] = 3
    for name, function in BINARY.items():
        for what, other, rows in (("tile", b, 32), ("value", b[0, 0], 32), ("vector", b, 1)):
            result = np.zeros_like(element.pack(a))
            arguments = [
                tensor(element.pack(a), writable=False),
                tensor(element.pack(b), writable=False),
                tensor(result),
            ]
            run(compiled, f"{what}_{name}", arguments)
            expected = element.round(function(a, other))
            tolerance = 2**-10 if name == "div" and element is HALF else 2**-23
            np.testing.assert_allclose(element.unpack(result)[:rows], expected[:rows], rtol=tolerance)


MAPS = ("add", "sub", "mul", "div")
# bf16 widens and narrows around the same code as float: one layout and shape of it.
MAP_CASES = [(FLOAT, layout, shape) for layout in ("row", "col") for shape in SHAPES] + [(BF16, "col", "rt_16x16")]
REDUCTIONS: dict[str, Callable[..., Array]] = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}


def _map_kernels(element: Element) -> str:
    T, kernels = element.cpp, []
    for case, layout, shape in MAP_CASES:
        if case is element:
            tile, suffix = f"rt<{T}, 32, 64, {layout}, {shape}>", f"{layout}_{shape}"
            for axis, vector in (("row", "col_vec"), ("col", "row_vec")):
                operations = "".join(
                    f"{name}_{axis}(y, x, v); store(out, y, {{0, 0, {i}, 0}});" for i, name in enumerate(MAPS)
                )
                kernels.append(f"""
KERNEL(map_{axis}_{suffix}, 64, dynamic<{T}> in, dynamic<{T}> values, dynamic<{T}> out) {{
    {tile} x, y; {tile}::{vector} v;
    load(x, in, {{0, 0, 0, 0}}); load(v, values, {{0, 0, 0, 0}});
    {operations}
    broadcast_{axis}(y, v); store(out, y, {{0, 0, {len(MAPS)}, 0}});
}}""")
                for name in REDUCTIONS:
                    kernels.append(f"""
KERNEL({axis}_{name}_{suffix}, 64, dynamic<{T}> in, dynamic<{T}> values, dynamic<{T}> out) {{
    {tile} x; {tile}::{vector} v, w;
    load(x, in, {{0, 0, 0, 0}}); load(v, values, {{0, 0, 0, 0}});
    {axis}_{name}(w, x); store(out, w, {{0, 0, 0, 0}});
    {axis}_{name}(v, x, v); store(out, v, {{0, 0, 1, 0}});
}}""")
    return "".join(kernels)


@pytest.mark.parametrize(("element", "layout", "shape"), MAP_CASES, ids=str)
@pytest.mark.parametrize("axis", ["row", "col"])
def test_row_and_column_maps(build: Build, element: Element, axis: str, layout: str, shape: str) -> None:
    x = numbers((32, 64), 7)
    values = element.round(numbers((1, 32 if axis == "row" else 64), 8, 20) + 0.5)
    result = element.pack(np.zeros((32 * 5, 64)))
    arguments = [tensor(element.pack(x), writable=False), tensor(element.pack(values), writable=False), tensor(result)]
    run(build(_map_kernels(element)), f"map_{axis}_{layout}_{shape}", arguments)
    spread = values.T if axis == "row" else values
    expected = [BINARY[name](x, spread) for name in MAPS] + [np.broadcast_to(spread, x.shape)]
    np.testing.assert_allclose(element.unpack(result), element.round(np.concatenate(expected)), rtol=2**-23)


@pytest.mark.parametrize(("element", "layout", "shape"), MAP_CASES, ids=str)
@pytest.mark.parametrize("axis", ["row", "col"])
def test_reductions(build: Build, element: Element, axis: str, layout: str, shape: str) -> None:
    compiled = build(_map_kernels(element))
    length = 32 if axis == "row" else 64
    for name, function in REDUCTIONS.items():
        x, start = numbers((32, 64), 9, 4), numbers((1, length), 10, 4)
        if name == "prod":  # powers of two: products are exact
            x, start = 2.0 ** np.sign(x), 2.0 ** np.sign(start)
        result = element.pack(np.zeros((2, length)))
        arguments = [
            tensor(element.pack(x), writable=False),
            tensor(element.pack(start), writable=False),
            tensor(result),
        ]
        run(compiled, f"{axis}_{name}_{layout}_{shape}", arguments)
        plain = function(x, axis=1 if axis == "row" else 0)
        combined = function(np.stack([plain, start[0]]), axis=0)
        np.testing.assert_array_equal(element.unpack(result), element.round(np.stack([plain, combined])))


LAYOUT_CHANGES = """
template <typename T> __device__ __forceinline__ void change(const dynamic<T> &in, const dynamic<T> &out) {
    rt<T, 32, 16, row> x; load(x, in, {0, 0, 0, 0});
    rt<T, 32, 16, col> y; swap_layout(y, x); store(out, y, {0, 0, 0, 0});
    rt<T, 32, 16, row> z; swap_layout(z, y); store(out, z, {0, 0, 0, 1});
    rt<T, 16, 32, row> t; transpose_sep(t, x); store(out, t, {0, 0, 2, 0});
    rt<T, 16, 32, col> u; transpose_sep(u, y); store(out, u, {0, 0, 3, 0});
}
KERNEL(change_bf16, 64, dynamic<bf16> in, dynamic<bf16> out) { change(in, out); }
KERNEL(change_float, 64, dynamic<float> in, dynamic<float> out) { change(in, out); }
"""


@pytest.mark.parametrize("element", [BF16, FLOAT], ids=["bf16", "float"])
def test_layouts_are_swapped_and_tiles_transposed(build: Build, element: Element) -> None:
    x = element.pack(numbers((32, 16)))
    result = np.zeros((64, 32), element.storage)
    run(build(LAYOUT_CHANGES), f"change_{element.cpp}", [tensor(x, writable=False), tensor(result)])
    np.testing.assert_array_equal(result, np.block([[x, x], [x.T], [x.T]]))


VECTORS = """
KERNEL(vectors, 64, dynamic<bf16> in, dynamic<float> out) {
    SHARED auto &s = al.allocate<sv_bf<96>>();
    rv<float, 96, ducks::rv_layout::align> a;
    rv<float, 96, ducks::rv_layout::ortho> o;
    rv_fl<96> n;
    load(a, in, {0, 0, 1, 1}); store(out, a, {0, 0, 0, 0});
    load(o, in, {0, 0, 1, 1}); store(out, o, {0, 0, 1, 0});
    load(n, in, {0, 0, 1, 1}); store(out, n, {0, 0, 2, 0});
    store(s, n);
    __syncthreads();
    load(a, s); store(out, a, {0, 0, 3, 0});
    load(o, s); store(out, o, {0, 0, 4, 0});
    load(n, s); store(out, n, {0, 0, 5, 0});
    store(s, a);
    __syncthreads();
    load(n, s); store(out, n, {0, 0, 6, 0});
}
KERNEL(vector_past_the_end, 64, dynamic<bf16> in, dynamic<float> out) {
    rv<float, 96, ducks::rv_layout::align> a;
    load(a, in, {0, 0, 0, 1}); store(out, a, {0, 0, 0, 0});
    load(a, in, {0, 0, 0, 5}); store(out, a, {0, 0, 1, 1});
}
"""


def test_vectors_in_every_layout(build: Build, target: str) -> None:
    source = numbers((2, 192))
    result = np.zeros((7, 96), np.float32)
    run(build(VECTORS, target), "vectors", [tensor(BF16.pack(source), writable=False), tensor(result)])
    np.testing.assert_array_equal(result, np.broadcast_to(source[1, 96:], (7, 96)))


def test_a_vector_past_the_end_reads_zeros_and_writes_nothing(build: Build) -> None:
    source = numbers((1, 100))
    result = np.full((2, 104), 7, np.float32)
    run(build(VECTORS), "vector_past_the_end", [tensor(BF16.pack(source), writable=False), tensor(result)])
    np.testing.assert_array_equal(result[0, :96], [*source[0, 96:], *[0] * 92])
    np.testing.assert_array_equal(result[0, 96:], 7)
    np.testing.assert_array_equal(result[1], [*[7] * 96, *[0] * 8])


MEMBERS = """
struct twice_plus_one { template <typename T> __device__ static T op(const T &x) { return x + x + T{1, 1}; } };
KERNEL(own_operation, 64, dynamic<float> in, dynamic<float> out) {
    rt_fl<32, 32, col> t;
    load(t, in, {0, 0, 0, 0});
    unary_map<base_ops::abs>(t, t);
    unary_map<twice_plus_one>(t, t);
    bin_map<base_ops::sum>(t, t, base_types::convertor<float, bf16>::convert(bf16(0.5f)));
    store(out, t, {0, 0, 0, 0});
    copy(t, 3.0f);
    store(out, t, {0, 0, 1, 0});
}
"""


def test_maps_take_operations_of_the_kernels_own(build: Build) -> None:
    x = numbers((32, 32))
    result = np.zeros((64, 32), np.float32)
    run(build(MEMBERS), "own_operation", [tensor(x, writable=False), tensor(result)])
    np.testing.assert_array_equal(result, np.concatenate([2 * np.abs(x) + 1.5, np.full_like(x, 3)]))
