"""A Triton GEMM, C = A Bt in bf16, 8-bit floats or i8, compiled for an AMD target without a GPU.

The peer of the benchmarks and tests.

Needs the `triton` wheel (extra `peer`).
"""

from __future__ import annotations

from dataclasses import dataclass

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def gemm(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    block = tl.program_id(0)
    columns = N // BN
    row, column = block // columns, block % columns
    rows, cols, ks = row * BM + tl.arange(0, BM), column * BN + tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=c.dtype.element_ty)
    for k in range(0, K, BK):
        left = tl.load(a + rows[:, None] * K + k + ks[None, :])
        right = tl.load(b + cols[None, :] * K + k + ks[:, None])
        total = tl.dot(left, right, total, out_dtype=c.dtype.element_ty)
    tl.store(c + rows[:, None] * N + cols[None, :], total)


@dataclass(frozen=True)
class Compiled:
    """Assembly, code object and launch facts of a Triton kernel."""

    asm: str
    hsaco: bytes
    name: str
    lds_bytes: int
    warps: int


def compile_gemm(
    target: str, block: tuple[int, int, int], warps: int, stages: int = 2, dtype: str = "bf16"
) -> Compiled:
    """Triton's code for a block of (rows, columns, K-step) with `warps` waves; `dtype` is Triton's name."""
    sums = "i32" if dtype == "i8" else "fp32"
    # Divisibility by 16 is what Triton sees at launch for such sizes and for torch's allocations.
    divisible = [["tt.divisibility", 16]]
    source = ASTSource(
        gemm,
        signature={
            "a": f"*{dtype}", "b": f"*{dtype}", "c": f"*{sums}", "M": "i32", "N": "i32", "K": "i32",
            "BM": "constexpr", "BN": "constexpr", "BK": "constexpr",
        },
        constexprs={"BM": block[0], "BN": block[1], "BK": block[2]},
        attrs={(i,): divisible for i in range(6)},
    )  # fmt: skip
    options = {"num_warps": warps, "num_stages": stages}
    built = triton.compile(source, target=GPUTarget("hip", target, 64), options=options)
    return Compiled(built.asm["amdgcn"], built.asm["hsaco"], built.metadata.name, built.metadata.shared, warps)
