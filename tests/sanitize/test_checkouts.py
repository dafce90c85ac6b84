"""`--kittens` with the headers of another make: specs are built with them, and run, where no HIP is installed."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tkgen.cli import app
from tkgen.toolchain import checkout

SPEC = Path(__file__).parents[2] / "specs/rows/elementwise.tk"
# Extents known at compile time take a byte each, as does the dictionary; HIP's types and standard headers are used.
HEADERS = """\
#pragma once
#include <concepts>
#include <hip/hip_runtime.h>
#include <hip_bf16.h>
namespace kittens {
constexpr int WARP_THREADS = 64;
__device__ inline int laneid() { return threadIdx.x % WARP_THREADS; }
using bf16 = __hip_bfloat16;
using half = __half;
struct dictionary { __host__ dictionary() {} };
template <int n> struct known {
    __host__ __device__ constexpr operator size_t() const { return n; }
};
struct told {
    size_t n;
    __host__ __device__ operator size_t() const { return n; }
};
template <int n> struct extent_of { using type = known<n>; };
template <> struct extent_of<-1> { using type = told; };
template <typename T, int b, int d, int r, int c> struct gl {
    using dtype = T;
    T *raw_ptr;
    typename extent_of<b>::type b_;
    typename extent_of<d>::type d_;
    typename extent_of<r>::type r_;
    typename extent_of<c>::type c_;
    dictionary descriptors;
    __device__ size_t batch() const { return b_; }
    __device__ size_t depth() const { return d_; }
    __device__ size_t rows() const { return r_; }
    __device__ size_t cols() const { return c_; }
};
namespace ducks::gl {
template <typename T> concept all = requires(T t) { t.raw_ptr; t.cols(); };
}
namespace ducks::st {
template <typename T> concept all = requires(T t) { t.data; t.rows; };
}
namespace base_types {
template <typename T, typename U> struct convertor;
template <> struct convertor<float, bf16> {
    __device__ static float convert(bf16 x) { return __bfloat162float(x); }
};
template <> struct convertor<bf16, float> {
    __device__ static bf16 convert(float x) { return __float2bfloat16(x); }
};
}
// Vectors are taken out of HIP's types.
__device__ inline void multiplied(float4 &d, short4 a, short4 b) {
    d.data = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a.data, b.data, d.data, 0, 0, 0);
    d.x = float4(1, 2, 3, 4).w * short4(1, 2, 3, 4).y;
}
using bytes_32 = HIP_vector_type<float, 8>;
}
"""


# These headers have no tiles of products: of ours, what rows over lanes need.
OURS = """\
#pragma once
#include "tkgen/memory.cuh"
#include "tkgen/rows.cuh"
"""


@pytest.fixture
def kittens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(checkout, "find_hip", lambda: None)
    monkeypatch.setattr(checkout, "knows_hip", lambda compiler: False)
    (tmp_path / "tk/include").mkdir(parents=True)
    (tmp_path / "tk/include/kittens.cuh").write_text(HEADERS)
    (tmp_path / "tk/include/tkgen.cuh").write_text(OURS)
    return tmp_path / "tk"


def tkgen(*words: object) -> Result:
    return CliRunner().invoke(app, [*map(str, words)])


def test_a_spec_is_built_with_a_checkout(kittens: Path, tmp_path: Path) -> None:
    result = tkgen("build", SPEC, "--kittens", kittens, "-o", tmp_path / "out")
    assert result.exit_code == 0 and "elementwise (gfx942): " in result.output, result.output
    assert "not checked" not in result.output and (tmp_path / "out/elementwise.hsaco").exists()


@pytest.mark.parametrize("size", ["8192", "dynamic"])
def test_what_was_built_with_a_checkout_runs(size: str, kittens: Path, tmp_path: Path) -> None:
    spec = tmp_path / "elementwise.tk"
    spec.write_text(SPEC.read_text().replace("ROWS = 8192", f"ROWS = {size}"))
    result = tkgen("sanitize", spec, "--kittens", kittens, "-D", "ROWS=13 COLS=512", "--schedules", 1)
    assert result.exit_code == 0 and "no findings; 2 blocks" in result.output, result.output


def test_what_a_checkout_lacks_is_said(kittens: Path, tmp_path: Path) -> None:
    headers = kittens / "include/kittens.cuh"
    headers.write_text(HEADERS.replace("return __bfloat162float(x)", "return __of_hips_own(x)"))
    result = tkgen("build", SPEC, "--kittens", kittens, "-o", tmp_path / "out")
    said = " ".join(result.output.split())
    assert result.exit_code == 3 and "'__of_hips_own'; HIP's own headers may do: apt-get install" in said, said
    assert not (tmp_path / "out/elementwise.hsaco").exists()
    headers.unlink()
    none = tkgen("build", SPEC, "--kittens", kittens, "-o", tmp_path / "out")
    assert none.exit_code == 3 and "not a ThunderKittens checkout, include/kittens.cuh is missing" in none.output
