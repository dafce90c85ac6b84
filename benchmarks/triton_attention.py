"""Attention forward in Triton, compiled for an AMD target without a GPU: the peer of `attention.py`.

Needs the `triton` wheel (extra `peer`).
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton_gemm import Compiled


@triton.jit
def attention(q, k, v, o, scale, length, D: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr):
    """A head of `length` queries and keys to each program of axis 1; powers are of 2, `scale` has log2(e) in it."""
    rows, keys, cols = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, KEYS), tl.arange(0, D)
    head = tl.program_id(1).to(tl.int64) * length * D
    queries = tl.load(q + head + rows[:, None] * D + cols[None, :])
    most, total = tl.full((ROWS,), float("-inf"), tl.float32), tl.zeros((ROWS,), tl.float32)
    out = tl.zeros((ROWS, D), tl.float32)
    k_at = k + head + keys[None, :] * D + cols[:, None]
    v_at = v + head + keys[:, None] * D + cols[None, :]
    for _ in range(0, length, KEYS):
        scores = tl.dot(queries, tl.load(k_at))
        now = tl.maximum(most, tl.max(scores, 1) * scale)
        weights = tl.exp2(scores * scale - now[:, None])
        shrink = tl.exp2(most - now)
        total = total * shrink + tl.sum(weights, 1)
        out = tl.dot(weights.to(v.dtype.element_ty), tl.load(v_at), out * shrink[:, None])
        most = now
        k_at += KEYS * D
        v_at += KEYS * D
    out = out / total[:, None]
    tl.store(o + head + rows[:, None] * D + cols[None, :], out.to(o.dtype.element_ty))


def compile_attention(target: str, block: tuple[int, int, int], warps: int, stages: int = 2) -> Compiled:
    """Triton's code for a block of (rows, keys of an iteration, D) with `warps` waves."""
    tensors = dict.fromkeys(("q", "k", "v", "o"), "*bf16")
    sizes = {"D": block[2], "ROWS": block[0], "KEYS": block[1]}
    source = ASTSource(
        attention,
        signature=tensors | {"scale": "fp32", "length": "i32"} | dict.fromkeys(sizes, "constexpr"),
        constexprs=sizes,
        attrs={(i,): [["tt.divisibility", 16]] for i in (0, 1, 2, 3, 5)},
    )
    options = {"num_warps": warps, "num_stages": stages}
    built = triton.compile(source, target=GPUTarget("hip", target, 64), options=options)
    return Compiled(built.asm["amdgcn"], built.asm["hsaco"], built.metadata.name, built.metadata.shared, warps)
