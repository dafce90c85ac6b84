"""Classes of mistakes that only the machine code shows, a pair of kernels each, one edit apart.

Counted waits, copies straight into LDS, what the compiler moved, and blocks that exchange data.
"""

from __future__ import annotations

import pytest
from test_pairs import EXCHANGE, FLAG, FLOATS, POLL, Pair, codes
from test_pairs import PAIRS as BLOCKS

LDS = "(unsigned)(unsigned long)(__attribute__((address_space(3))) float *)"
# A wave copies 64 floats from `in + t` into LDS at `tile + TO`, not waiting for it.
COPY = (
    'asm volatile("s_mov_b32 m0, %1\\ns_nop 1\\nglobal_load_lds_dword %0, off" '
    f':: "v"(in + t), "s"(__builtin_amdgcn_readfirstlane({LDS}(tile + TO + t / 64 * 64))) : "memory", "m0"); '
)
WAIT = 'asm volatile("s_waitcnt vmcnt(EDIT)" ::: "memory"); '
# `y` is read from LDS at `tile + FROM` by an instruction of which the compiler knows nothing.
READ = (
    f"float y; unsigned from = {LDS}(tile + FROM); "
    'asm volatile("ds_read_b32 %0, %1\\ns_waitcnt lgkmcnt(0)" : "=v"(y) : "v"(from) : "memory"); '
)
TILE = "__shared__ float tile[256]; int t = threadIdx.x; tile[t] = tile[128 + t] = 1; __syncthreads(); "
END = "out[t] = y; middle[t] = 0;"
# Block 0 stores with an instruction of which the compiler knows nothing, then gives the flag.
HANDED = ("f32[64]=randn", "f32[64]=nan:out", "i32[1]", "f32[64]=nan:out")
HAND = (
    "int t = threadIdx.x; if (blockIdx.x == 0) { float x = in[t]; "
    'asm volatile("global_store_dword %0, %1, off STORE" :: "v"(data + t), "v"(x) : "memory"); '
    "if (t == 0) __hip_atomic_store(flag, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); } "
) + POLL.replace("EDIT", "__ATOMIC_ACQUIRE").replace("127 - t", "63 - t")
# Blocks 0 and 1 leave partial sums, block 2 adds them up.
STREAM_K = (
    "int t = threadIdx.x, b = blockIdx.x; float sum = in[64 * b + t]; "
    "if (b < 2) { parts[64 * b + t] = sum; FENCE; __syncthreads(); "
    "if (t == 0) __hip_atomic_store(flags + b, 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT); } "
    "else { for (int p = 0; p < 2; ++p) { "
    "while (__hip_atomic_load(flags + FLAG, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT) == 0) {} "
    "__threadfence(); sum += parts[64 * p + t]; } out[t] = sum; }"
)
PARTIAL = "const float *in, float *parts, int *flags, float *out"
PARTS = ("f32[192]=randn", "f32[128]=nan", "i32[2]", "f32[64]=nan:out")
PAIRS = {
    # Two waves write the same bytes of LDS, and nobody reads them in between.
    "two waves write the same bytes of LDS": Pair(
        {"E701"}, EXCHANGE,
        "__shared__ float tile[64]; int t = threadIdx.x; middle[t] = 0; float x = in[t]; "
        "if (t < 64) tile[t] = x; EDIT; if (t >= 64) tile[t - 64] = x; __syncthreads(); out[t] = tile[t % 64];",
        "", "__syncthreads()",
    ),
    "two waves add to the same bytes of LDS": Pair(
        {"E701"}, EXCHANGE,
        "__shared__ float tile[64]; int t = threadIdx.x; middle[t] = 0; if (t < 64) tile[t] = 0; __syncthreads(); "
        "EDIT; __syncthreads(); out[t] = tile[t % 64];",
        "tile[t % 64] += in[t]", "atomicAdd(tile + t % 64, in[t])",
    ),
    # Copies straight into LDS.
    "a copy that the other wave reads after the barrier": Pair(
        {"E701"}, EXCHANGE,
        TILE + COPY.replace("TO", "0") + WAIT + "__builtin_amdgcn_s_barrier(); "
        + READ.replace("FROM", "127 - t") + END,
        "1", "0",
    ),
    "a copy that its own wave reads": Pair(
        {"E705"}, EXCHANGE, TILE + COPY.replace("TO", "0") + WAIT + READ.replace("FROM", "t") + END, "1", "0",
    ),
    "a copy into what the second half of an access reads": Pair(
        {"E705"}, EXCHANGE,
        TILE + COPY.replace("TO", "128") + WAIT
        + READ.replace("FROM", "t").replace("float y", "float2 y").replace("b32 %0, %1", "b32 %0, %1 offset1:2")
        .replace("read_", "read2st64_")
        + END.replace("= y", "= y.x + y.y"),
        "1", "0",
    ),
    "a copy that lands on what another wave has written since": Pair(
        {"E701", "E705"}, EXCHANGE,
        TILE + f"if (t < 64) {{ {COPY.replace('TO', '0')} EDIT }} __builtin_amdgcn_s_barrier(); "
        "if (t >= 64) tile[t - 64] = 2; __syncthreads(); out[t] = tile[t % 64]; middle[t] = 0;",
        "", 'asm volatile("s_waitcnt vmcnt(0)" ::: "memory");',
    ),
    "a copy over what its own wave has not read yet": Pair(
        {"E705"}, EXCHANGE,
        TILE + READ.replace("FROM", "t").replace("s_waitcnt lgkmcnt(0)", "EDIT") + COPY.replace("TO", "0")
        + WAIT.replace("vmcnt(EDIT)", "vmcnt(0) lgkmcnt(0)") + 'asm volatile("" : "+v"(y)); ' + END,
        "s_nop 0", "s_waitcnt lgkmcnt(0)",
    ),
    "a copy over what its own wave has not written yet": Pair(
        {"E705"}, EXCHANGE,
        TILE + f"unsigned at = {LDS}(tile + t); "
        'asm volatile("ds_write_b32 %0, %1\\nEDIT" :: "v"(at), "v"(in[t]) : "memory"); '
        + COPY.replace("TO", "0") + WAIT.replace("vmcnt(EDIT)", "vmcnt(0) lgkmcnt(0)")
        + READ.replace("FROM", "t") + END,
        "s_nop 0", "s_waitcnt lgkmcnt(0)",
    ),
    # Waits that say too little.
    "of two loads one is waited for": Pair(
        {"E705"}, EXCHANGE,
        "int t = threadIdx.x; middle[t] = in[t]; float a, b; "
        'asm volatile("s_load_dword %0, %2, 0\\ns_load_dword %1, %2, 4\\ns_waitcnt lgkmcnt(EDIT)\\ns_add_u32 %0, %0, 0'
        '\\ns_waitcnt lgkmcnt(0)" : "=&s"(a), "=&s"(b) : "s"(in) : "scc", "memory"); out[t] = a + b;',
        "1", "0",
    ),
    "a flat load of global memory, of which the counter of LDS is waited for": Pair(
        {"E705"}, EXCHANGE,
        "int t = threadIdx.x; middle[t] = 0; float y; "
        'asm volatile("flat_load_dword %0, %1\\ns_waitcnt EDIT\\nv_add_f32 %0, %0, %0\\ns_waitcnt vmcnt(0) lgkmcnt(0)" '
        ': "=&v"(y) : "v"(in + t) : "memory"); out[t] = y;',
        "lgkmcnt(0)", "vmcnt(0)",
    ),
    "loads of two queues into one register": Pair(
        {"E705"}, EXCHANGE,
        TILE + f"float y; unsigned from = {LDS}(tile + t); "
        'asm volatile("global_load_dword %0, %1, off\\nEDIT\\nds_read_b32 %0, %2\\ns_waitcnt vmcnt(0) lgkmcnt(0)" '
        ': "=&v"(y) : "v"(in + t), "v"(from) : "memory"); ' + END,
        "", "s_waitcnt vmcnt(0)",
    ),
    # The compiler moves the read of `v` into the branch, below the barrier: what is read is needed there alone.
    "a read that the compiler moved across a raw barrier": Pair(
        {"E701"}, "const float *in, float *middle, float *out, int n",
        "__shared__ float tile[128]; int t = threadIdx.x; tile[t] = in[t]; __syncthreads(); float v = tile[127 - t]; "
        "__builtin_amdgcn_s_waitcnt(0xc07f); EDIT; __builtin_amdgcn_s_barrier(); if (n) out[t] = v; tile[t] = 1; "
        "__syncthreads(); middle[t] = tile[127 - t];",
        "", 'asm volatile("" : "+v"(v))', (*FLOATS, "i32=1"),
    ),
    # Between blocks.
    "the flag is given before the data is there": Pair(
        {"E701"}, FLAG, HAND.replace("STORE", "EDIT"), "", "\\nbuffer_wbl2 sc1\\ns_waitcnt vmcnt(0)", HANDED, 64, 2,
    ),
    "it is not written back from the L2": Pair(
        {"E701"}, FLAG, HAND.replace("STORE", "\\nEDIT\\ns_waitcnt vmcnt(0)"), "", "buffer_wbl2 sc1", HANDED, 64, 2,
    ),
    "the writeback is not waited for": Pair(
        {"E701"}, FLAG, HAND.replace("STORE", "\\nbuffer_wbl2 sc1\\ns_waitcnt vmcnt(EDIT)"), "1", "0", HANDED, 64, 2,
    ),
    "stores that leave the L2 at once need no writeback": Pair(
        {"E701"}, FLAG, HAND.replace("STORE", "EDIT\\ns_waitcnt vmcnt(0)"), "", "sc1", HANDED, 64, 2,
    ),
    "stream-K: partial sums without a release": Pair(
        {"E701"}, PARTIAL, STREAM_K.replace("FENCE", "EDIT").replace("FLAG", "p"), "", "__threadfence()", PARTS, 64, 3,
    ),
    "stream-K: the partial sum of one, the flag of another": Pair(
        {"E701"}, PARTIAL, STREAM_K.replace("FENCE", "__threadfence()").replace("FLAG", "EDIT"), "0", "p", PARTS, 64, 3,
    ),
    "split-K: one block adds atomically, one does not": Pair(
        {"E701"}, "float *sum", "int t = threadIdx.x; if (blockIdx.x) atomicAdd(sum + t, 1.f); else EDIT;",
        "sum[t] += 2",
        "{ int *at = (int *)sum + t, old = __hip_atomic_load(at, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT), now; "
        "do { now = old; old = atomicCAS(at, now, __float_as_int(__int_as_float(now) + 2)); } while (old != now); }",
        ("f32[128]",), 128, 2,
    ),
    "split-K: pairs of bf16 added atomically, and one by one": Pair(
        {"E701"}, "float *sum",
        "int t = threadIdx.x; typedef short pair __attribute__((ext_vector_type(2))); "
        "auto at = (__attribute__((address_space(1))) pair *)(__attribute__((address_space(1))) float *)sum + t; "
        "if (blockIdx.x) __builtin_amdgcn_global_atomic_fadd_v2bf16(at, pair{0x3f80, 0x3f80}); else EDIT;",
        "((__hip_bfloat16 *)sum)[2 * t + 1] += 1",
        "__builtin_amdgcn_global_atomic_fadd_v2bf16(at, pair{0, 0x3f80})",
        ("f32[128]",), 128, 2,
    ),
    "what another block has not finished": Pair(
        {"E701"}, EXCHANGE,
        "int t = threadIdx.x, b = 64 * blockIdx.x; middle[b + t] = in[b + t]; __syncthreads(); "
        "out[b + t] = middle[EDIT + t];",
        "64 - b", "b", threads=64, grid=2,
    ),
    # What the compiler chose itself, the hardware can do.
    "an access of the compiler's that is not aligned": Pair(
        {"W703"}, EXCHANGE,
        "int t = threadIdx.x; middle[t] = 0; struct __attribute__((packed)) odd { char c; float x; }; out[t] = EDIT;",
        "((const odd *)in)[t % 8].x", "in[t]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_the_mistake_is_named(name: str) -> None:
    pair = PAIRS[name]
    assert codes(pair, "wrong") == pair.codes


@pytest.mark.parametrize("name", PAIRS)
def test_the_right_kernel_is_left_alone(name: str) -> None:
    pair = PAIRS[name]
    assert codes(pair, "right") == pair.also


def test_blocks_of_a_gpu_with_one_l2_need_no_writeback() -> None:
    """On gfx90a __threadfence() has none."""
    pair = BLOCKS["the last block sums up"]
    assert codes(pair, "right", "gfx90a") == set()
    assert codes(pair, "wrong", "gfx90a") == pair.codes
