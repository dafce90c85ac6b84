"""`tkgen verify` on kernels of the forms that Triton and HipKittens give them, each a command line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tkgen.cli import app

triton = pytest.importorskip("triton", reason="needs the extra `peer`: pip install --no-deps triton==3.9.0")
tl = pytest.importorskip("triton.language")
LLD = next((p for n in ("ld.lld-22", "ld.lld-21", "ld.lld") if (p := shutil.which(n))), None)
pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.skipif(LLD is None, reason="Triton links with ld.lld: install lld-22"),
]
MEANING = """
import torch
def product(left, right): return (left @ right.T).half()
def twice(left, right): return 2 * (left @ right.T).half()
def softmax(given): return torch.softmax(given, -1)
def normed(x, weight, eps):
    r = torch.rsqrt((x.float() ** 2).mean(-1) + eps)
    return (x.float() * r[:, None]).bfloat16() * weight, r
def stops(left, right): raise SystemExit(3)
def anything(**more): return more["left"]
"""


def product(left, right, out, rows, cols, depth, left_row, right_row, out_row, B: tl.constexpr, K: tl.constexpr):
    at_rows = tl.program_id(0) * B + tl.arange(0, B)
    at_cols = tl.program_id(1) * B + tl.arange(0, B)
    ks = tl.arange(0, K)
    total = tl.zeros((B, B), tl.float32)
    for k in range(0, depth, K):
        inside = ks + k < depth
        a = tl.load(left + (at_rows % rows)[:, None] * left_row + k + ks[None, :], mask=inside[None, :], other=0.0)
        b = tl.load(right + (at_cols % cols)[None, :] * right_row + k + ks[:, None], mask=inside[:, None], other=0.0)
        total = tl.dot(a, b, total)
    kept = (at_rows < rows)[:, None] & (at_cols < cols)[None, :]
    tl.store(out + at_rows[:, None] * out_row + at_cols[None, :], total.to(tl.float16), mask=kept)


def described(left, right, out, depth, B: tl.constexpr, K: tl.constexpr):
    row, col = tl.program_id(0) * B, tl.program_id(1) * B
    total = tl.zeros((B, B), tl.float32)
    for k in range(0, depth, K):
        total = tl.dot(left.load([row, k]), right.load([col, k]).T, total)
    out.store([row, col], total.to(tl.float16))


def softmax(out, given, row_size, rows, cols, WIDTH: tl.constexpr):
    at = tl.arange(0, WIDTH)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        x = tl.load(given + row * row_size + at, mask=at < cols, other=-float("inf"))
        e = tl.exp(x - tl.max(x, 0))
        tl.store(out + row * row_size + at, e / tl.sum(e, 0), mask=at < cols)


def normed(y, x, weight, scale, cols, eps, WIDTH: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, WIDTH)
    values = tl.load(x + row * cols + at, mask=at < cols, other=0).to(tl.float32)
    r = tl.rsqrt(tl.sum(values * values, 0) / cols + eps)
    w = tl.load(weight + at, mask=at < cols, other=0)
    tl.store(scale + row, r)
    tl.store(y + row * cols + at, (values * r).to(w.dtype) * w, mask=at < cols)


def eighths(left, right, out, depth, B: tl.constexpr, K: tl.constexpr):
    rows, cols, ks = tl.program_id(0) * B + tl.arange(0, B), tl.program_id(1) * B + tl.arange(0, B), tl.arange(0, K)
    total = tl.zeros((B, B), tl.float32)
    for k in range(0, depth, K):
        a = tl.load(left + rows[:, None] * depth + k + ks[None, :])
        b = tl.load(right + cols[None, :] * depth + k + ks[:, None])
        total = tl.dot(a, b, total)
    tl.store(out + rows[:, None] * 2 * B + cols[None, :], total.to(tl.float16))


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Compiles a function as a launch would, and gives the code object where Triton's cache has it."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    (tmp_path / "meaning.py").write_text(MEANING)
    monkeypatch.setenv("TRITON_HIP_LLD_PATH", str(LLD))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def build(function: Any, types: str, sixteens: tuple[int, ...] = (), warps: int = 4, **constants: int) -> Path:
        names = function.__code__.co_varnames
        signature = dict(zip(names, types.split(), strict=False)) | dict.fromkeys(constants, "constexpr")
        attributes = {(i,): [["tt.divisibility", 16]] for i in sixteens}
        source = ASTSource(triton.jit(function), signature, constants, attributes)
        triton.compile(source, target=GPUTarget("hip", "gfx942", 64), options={"num_warps": warps})
        (found,) = tmp_path.glob(f"cache/*/{function.__name__}.hsaco")
        return found

    return build


def verify(path: Path, reference: str, grid: str, *words: str) -> Result:
    command = ["verify", str(path), "--reference", f"meaning.py:{reference}", "--grid", grid]
    return CliRunner().invoke(app, [*command, *(w for word in words for w in ("--arg", word))])


SIZES = "i32=80, i32=48, i32=72, i32=80, i32=80, i32=48"
STRIDED = ("f16[80,80]=randn:in", "f16[48,80]=randn:in", "f16[80,48]=nan:out")


def strided(built: Callable[..., Path]) -> Path:
    types = "*fp16 *fp16 *fp16 i32 i32 i32 i32 i32 i32"
    return built(product, types, (0, 1, 2, 6, 7, 8), B=32, K=32)


def test_a_product_with_strides_and_tails(built: Callable[..., Path]) -> None:
    path = strided(built)
    (path.parents[2] / "meaning.py").write_text(
        "def cut(left, right): return (left[:, :72] @ right[:, :72].T).half()\n"
    )
    result = verify(path, "cut", "3,2", *STRIDED, SIZES)
    assert result.exit_code == 0 and "as meant, in 2 draws" in result.output, result.output
    assert "product.hsaco: product    (left[80x80] right[48x80] out[80x48])" in result.output
    for words, message in (
        (("f16[80,80]", *STRIDED[1:], SIZES), "left[80x80] = 0 right"),
        ((*STRIDED, SIZES.replace("72", "71")), "WRONG out"),
    ):
        found = verify(path, "cut", "3,2", *words)
        assert message in found.output, found.output


def test_what_does_not_fit_a_kernel_of_tritons(built: Callable[..., Path]) -> None:
    path = strided(built)
    for words, message in (
        (
            (*STRIDED, SIZES.replace("i32=80, i32=80,", "i32=80, i32=72,")),
            "right_row is 72; Triton compiled this code for",
        ),
        (("f32[80,80]", *STRIDED[1:], SIZES), "left points to f16, but a buffer of f32 was given"),
        ((*STRIDED, SIZES, "i32, i32, i32"), "product takes 11 arguments (left: 8 bytes, right: 8 bytes,"),
        (
            ("desc(f16[80,80]=randn:in)", *STRIDED[1:], SIZES),
            "desc(...) is given for parameter 1, left, which is not a descriptor",
        ),
        (("x:f16[80,80]", "x:f16[48,80]", STRIDED[2], SIZES), "2 buffers are called x: give each a different name"),
    ):
        result = verify(path, "product", "3,2", *words)
        assert result.exit_code == 2 and message in " ".join(result.output.split()), result.output
    for reference, message in (
        ("stops", "meaning.py:stops failed: SystemExit: 3"),
        ("anything", "meaning.py:anything takes `**more`: its parameters are to have names of their own"),
    ):
        result = verify(path, reference, "3,2", *STRIDED, SIZES)
        assert result.exit_code == 2 and message in " ".join(result.output.split()), result.output
    facts = path.with_suffix(".json")
    plain = facts.read_text()
    facts.write_text(json.dumps(json.loads(plain) | {"profile_scratch_size": 64}))
    result = verify(path, "product", "3,2", *STRIDED, SIZES)
    assert result.exit_code == 2 and "takes 64 bytes of scratch memory for each block" in " ".join(
        result.output.split()
    )
    for text in ("[]", "{", '{"num_warps": 4}'):  # files of others
        facts.write_text(text)
        result = verify(path, "product", "3,2", *STRIDED, SIZES)
        assert result.exit_code == 2 and "--block is missing" in result.output, result.output
    facts.write_text(plain)
    path.with_suffix(".ttir").unlink()
    result = verify(path, "product", "3,2", *STRIDED, SIZES)
    assert result.exit_code == 2 and "product takes 11 arguments" in result.output, result.output


def test_a_product_through_descriptors(built: Callable[..., Path]) -> None:
    tiles = "tensordesc<fp16[32,32]> tensordesc<fp16[32,32]> tensordesc<fp16[32,32]> i32"
    path = built(described, tiles, (3,), warps=2, B=32, K=32)
    given = "desc(f16[64,96]=randn*4:in), desc(f16[64,96]=randn:in), desc(f16[64,64]=nan:out), i32=96"
    result = verify(path, "product", "2,2", given)
    assert result.exit_code == 0 and "as meant, in 2 draws" in result.output, result.output
    wrong = verify(path, "twice", "2,2", given)
    assert wrong.exit_code == 1 and "WRONG out" in wrong.output, wrong.output
    flat = verify(path, "product", "2,2", "desc(f16[6144]=randn:in)", given.split(", ", 1)[1])
    assert flat.exit_code == 2 and "left has 2 dimensions or more, [6144] were given" in flat.output, flat.output
    path.with_suffix(".ttir").unlink()
    unknown = verify(path, "product", "2,2", given)
    assert unknown.exit_code == 2 and "needs the .ttir that Triton leaves" in " ".join(unknown.output.split()), (
        unknown.output
    )


def test_a_product_of_small_floats(built: Callable[..., Path]) -> None:
    path = built(eighths, "*fp8e4b8 *fp8e4b8 *fp16 i32", (0, 1, 2, 3), warps=2, B=32, K=32)
    given = "fp8_fnuz[64,96]=randn:in, fp8_fnuz[64,96]=randn:in, f16[64,64]=nan:out, i32=96"
    result = verify(path, "product", "2,2", given)
    assert result.exit_code == 0 and "as meant, in 2 draws" in result.output, result.output


def test_softmax(built: Callable[..., Path]) -> None:
    path = built(softmax, "*fp32 *fp32 i32 i32 i32", warps=8, WIDTH=1024)
    given = "f32[5,781]=nan:out, f32[5,781]=randn*3:in, i32=781, i32=5, i32=781"
    result = verify(path, "softmax", "2", given)
    assert result.exit_code == 0 and "as meant, in 2 draws" in result.output, result.output


def test_rms_norm(built: Callable[..., Path]) -> None:
    path = built(normed, "*bf16 *bf16 *bf16 *fp32 i32 fp32", WIDTH=1024)
    given = "bf16[3,700]=nan:out, bf16[3,700]=randn:in, bf16[700]=randn:in, f32[3]=nan:out, i32=700, f32=1e-6"
    result = verify(path, "normed", "3", given)
    assert result.exit_code == 0 and "as meant, in 2 draws" in result.output, result.output


# ---------------------------------------------------------------- the form of HipKittens

CHECKOUT = """\
#pragma once
#include <hip/hip_runtime.h>
#include <hip_bf16.h>
namespace kittens {
using bf16 = __hip_bfloat16;
struct nothing { __host__ nothing() {} };
template <typename T> struct gl {  // a tensor of four extents, and the empty dictionary behind it
    T *data;
    size_t batch, depth, rows, cols;
    nothing descriptors;
};
}
"""
SCALED = """\
#include "kittens.cuh"
#include "pyutils/pyutils.cuh"
using namespace kittens;
#ifndef COLS
constexpr int COLS = 4096;
#endif
struct globals { gl<bf16> x; gl<float> y; float factor; hipStream_t stream; };
template <int D> __global__ __launch_bounds__(64) void scaled(const globals g) {
    for (int c = threadIdx.x; c < D; c += 64)
        g.y.data[blockIdx.x * g.y.cols + c] = g.factor * __bfloat162float(g.x.data[blockIdx.x * g.x.cols + c]);
}
void dispatch(globals g) { scaled<COLS><<<4, 64, 0, g.stream>>>(g); }
PYBIND11_MODULE(example, m) { py::bind_function<dispatch>(m, "dispatch", &globals::x, &globals::y); }
"""


def test_a_struct_of_tensors_with_the_headers_of_a_checkout(tmp_path: Path) -> None:
    (tmp_path / "tk/include").mkdir(parents=True)
    (tmp_path / "tk/include/kittens.cuh").write_text(CHECKOUT)
    (tmp_path / "scaled.cpp").write_text(SCALED)
    (tmp_path / "meaning.py").write_text("def scaled(x, factor): return x * factor\n")

    def of(arguments: str, *words: str) -> Result:
        command = ["verify", str(tmp_path / "scaled.cpp"), "--reference", f"{tmp_path / 'meaning.py'}:scaled"]
        launch = ["--target", "gfx950", "--grid", "3", "--block", "64", "--arg", arguments]
        return CliRunner().invoke(app, [*command, *launch, *words])

    given = "{gl(x:bf16[3,192]=randn:in), u64, gl(y:f32[3,192]=nan:out), u64, factor:f32=0.5, u64}"
    own = ("--kittens", str(tmp_path / "tk"))
    result = of(given, *own, "-D", "COLS=192")
    assert result.exit_code == 0 and "as meant, in 2 draws" in result.output, result.output
    short = of(given, *own, "-D", "COLS=191")
    assert short.exit_code == 1 and "WRONG y: never written: 3 of 576 elements" in short.output, short.output
    for arguments, words, code, message in (
        (given.replace("u64, gl", "gl"), own, 2, "has 112 bytes, the struct given 104"),
        (given, (*own, "-D", "COLS=wide"), 3, "use of undeclared identifier 'wide'"),
        (given, ("--kittens", str(tmp_path)), 3, "not a ThunderKittens checkout"),
    ):
        result = of(arguments, *words)
        assert result.exit_code == code and message in " ".join(result.output.split()), result.output


def test_what_is_asked_of_a_spec(tmp_path: Path) -> None:
    spec = str(Path(__file__).parents[2] / "specs/rows/softmax.tk")
    for words, message in (
        ((spec, "--grid", "2"), "--grid is for kernels that are not specs"),
        ((spec, "--reference", "meaning.py:softmax"), "--reference is for kernels that are not specs"),
        ((str(tmp_path / "none.hsaco"), "--reference", "meaning.py:softmax"), "No such file or directory: "),
    ):
        result = CliRunner().invoke(app, ["verify", *words])
        assert result.exit_code == 2 and message in " ".join(result.output.replace("│", "").split()), result.output
