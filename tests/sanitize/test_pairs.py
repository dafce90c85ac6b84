"""Pairs of kernels one edit apart: the wrong one is found out by name, the right one is left alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tkgen.sanitize import Launch, Subject, from_source, parse, sanitize

FLOATS = ("f32[128]=randn", "f32[128]=nan:out", "f32[128]=nan:out")


@dataclass(frozen=True, eq=False)
class Pair:
    """`body` is what stands in the kernel; `wrong` and `right` are what `EDIT` in it stands for."""

    codes: set[str]
    parameters: str
    body: str
    wrong: str
    right: str
    arguments: tuple[str, ...] = FLOATS
    threads: int = 128
    grid: int = 1
    also: frozenset[str] | set[str] = frozenset()  # what is said of the right one, too


FLAG = "const float *in, float *data, int *flag, float *out"
FLAGGED = ("f32[128]=randn", "f32[128]=nan:out", "i32[1]", "f32[128]=nan:out")
PUBLISH = (
    "int t = threadIdx.x; if (blockIdx.x == 0) { data[t] = in[t]; __syncthreads(); "
    "if (t == 0) __hip_atomic_store(flag, 1, ORDER, __HIP_MEMORY_SCOPE_AGENT); } "
)
POLL = "else { while (__hip_atomic_load(flag, EDIT, __HIP_MEMORY_SCOPE_AGENT) == 0) {} out[t] = data[127 - t]; }"
LDS_FLAG = "const float *in, int *flag, float *out"
LDS_ARGUMENTS = ("f32[64]=randn", "i32[1]", "f32[64]=nan:out")
LDS_PASSED = (
    "__shared__ float box[64]; const int t = threadIdx.x % 64; if (threadIdx.x < 64) { box[t] = in[t]; "
    "if (t == 0) __hip_atomic_store(flag, 7, GIVE, __HIP_MEMORY_SCOPE_AGENT); } "
    "else { while (__hip_atomic_load(flag, TAKE, __HIP_MEMORY_SCOPE_AGENT) != 7) __builtin_amdgcn_s_sleep(1); "
    "out[t] = box[t]; }"
)
EXCHANGE = "const float *in, float *middle, float *out"
PAIRS = {
    # Waves exchange data through global memory: the barrier orders it, whether or not the stores were waited for.
    "exchange through global memory": Pair(
        {"E701"}, EXCHANGE,
        "int t = threadIdx.x; middle[t] = in[t]; EDIT; out[t] = middle[127 - t];",
        'asm volatile("s_waitcnt vmcnt(0)" ::: "memory")', "__syncthreads()",
    ),
    "exchange through global memory, raw barrier and fences": Pair(
        {"E701"}, EXCHANGE,
        'int t = threadIdx.x; middle[t] = in[t]; __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); EDIT; '
        '__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"); out[t] = middle[127 - t];',
        "__builtin_amdgcn_sched_barrier(0)", "__builtin_amdgcn_s_barrier()",
    ),
    "overwriting global memory that others have read": Pair(
        {"E701"}, "float *middle, float *out",
        "int t = threadIdx.x; float x = middle[127 - t]; EDIT; middle[t] = 1; out[t] = x;",
        "", "__syncthreads()", ("f32[128]=randn", "f32[128]=nan:out"),
    ),
    "LDS is not like global memory: a raw barrier without a wait orders nothing": Pair(
        {"E701"}, EXCHANGE,
        "__shared__ float tile[128]; int t = threadIdx.x; float x = in[t]; middle[t] = x; "
        'unsigned at = (unsigned)(unsigned long)(__attribute__((address_space(3))) float *)(tile + t); '
        'asm volatile("ds_write_b32 %0, %1\\n EDIT s_barrier" :: "v"(at), "v"(x) : "memory"); out[t] = tile[127 - t];',
        "", "s_waitcnt lgkmcnt(0)\\n",
    ),
    "two blocks exchange through global memory": Pair(
        {"E701"}, EXCHANGE,
        "int t = 64 * blockIdx.x + threadIdx.x; middle[t] = in[t]; __syncthreads(); out[t] = middle[EDIT];",
        "127 - t", "64 * blockIdx.x + 63 - threadIdx.x", threads=64, grid=2,
    ),
    # A barrier waits for the waves that have not ended.
    "waves that left early": Pair(
        {"E701"}, "const float *in, float *middle, float *out",
        "__shared__ float tile[128]; int t = threadIdx.x; middle[t] = out[t] = 0; if (t >= 64) EDIT "
        "tile[t] = in[t]; __syncthreads(); out[t] = tile[t >= 64 ? t : 63 - t];",
        "{ tile[t - 64] = 1; return; }", "return;", ("f32[128]=randn", "f32[128]", "f32[128]"),
    ),
    # Lanes of one instruction.
    "two lanes write one byte of LDS": Pair(
        {"E713"}, EXCHANGE,
        "__shared__ float tile[128]; int t = threadIdx.x; middle[t] = 0; tile[EDIT] = in[t]; __syncthreads(); "
        "out[t] = tile[t / 2 * 2];",
        "t / 2 * 2", "t",
    ),
    "two lanes write one byte of global memory": Pair(
        {"E713"}, EXCHANGE, "int t = threadIdx.x; middle[t] = out[t] = 1; out[EDIT] = in[t];", "t / 2 * 2", "t",
    ),
    "many lanes write one byte, the same value": Pair(
        {"E713"}, EXCHANGE,
        "int t = threadIdx.x; middle[t] = in[t]; __shared__ float tile[2]; tile[t / 64] = EDIT; __syncthreads(); "
        "out[t] = tile[t / 64];",
        "in[t]", "in[t / 64]",
    ),
    # Flags: what one block or wave releases and another acquires is in order.
    "an acquire between blocks": Pair(
        {"E701"}, FLAG, PUBLISH.replace("ORDER", "__ATOMIC_RELEASE") + POLL, "__ATOMIC_RELAXED", "__ATOMIC_ACQUIRE",
        FLAGGED, grid=2,
    ),
    "a release between blocks": Pair(
        {"E701"}, FLAG, PUBLISH.replace("ORDER", "EDIT") + POLL.replace("EDIT", "__ATOMIC_ACQUIRE"),
        "__ATOMIC_RELAXED", "__ATOMIC_RELEASE", FLAGGED, grid=2,
    ),
    "a release for the other waves of the block": Pair(
        {"E701"}, FLAG,
        PUBLISH.replace("__syncthreads()", "EDIT").replace("ORDER", "__ATOMIC_RELEASE")
        + POLL.replace("EDIT", "__ATOMIC_ACQUIRE"),
        "__threadfence()", "__syncthreads()", FLAGGED, grid=2,
    ),
    "the last block sums up": Pair(
        {"E701"}, FLAG,
        "int t = threadIdx.x; __shared__ int last; data[128 * blockIdx.x + t] = in[t]; EDIT; __syncthreads(); "
        "if (t == 0) last = atomicAdd(flag, 1) == 1; __threadfence(); __syncthreads(); "
        "if (last) { __threadfence(); out[t] = data[t] + data[128 + t]; }",
        "", "__threadfence()", ("f32[128]=randn", "f32[256]=nan:out", "i32[1]", "f32[128]=nan:out"), grid=2,
    ),
    "all blocks sum up, not the last alone": Pair(
        {"E701"}, FLAG,
        "int t = threadIdx.x, at = 128 * blockIdx.x + t; __shared__ int last; out[at] = 0; data[at] = in[t]; "
        "__threadfence(); __syncthreads(); if (t == 0) last = atomicAdd(flag, 1) == 1; __syncthreads(); "
        "__threadfence(); if (EDIT) out[at] = data[t] + data[128 + t];",
        "last || blockIdx.x == 0", "last", ("f32[128]=randn", "f32[256]=nan:out", "i32[1]", "f32[256]=nan:out"), grid=2,
    ),
    "blocks that add to one place": Pair(
        {"E701", "E706"}, "float *sum", "EDIT;", "if (threadIdx.x == 0) *sum += 1",
        "if (threadIdx.x == 0) atomicAdd(sum, 1.f)",
        ("f32[1]",), grid=2,
    ),
    "atomic and plain stores of two blocks": Pair(
        {"E701"}, "float *sum", "int t = threadIdx.x; if (blockIdx.x) atomicAdd(sum + t, 1.f); else EDIT;",
        "sum[t] = 1", "atomicAdd(sum + t, 2.f)", ("f32[128]",), grid=2,
    ),
    # Data in LDS that a flag in global memory orders: each of release, acquire and their scope counts.
    "LDS ordered by a flag: the release": Pair(
        {"E701"}, LDS_FLAG, LDS_PASSED.replace("GIVE", "EDIT").replace("TAKE", "__ATOMIC_ACQUIRE"),
        "__ATOMIC_RELAXED", "__ATOMIC_RELEASE", LDS_ARGUMENTS,
    ),
    "LDS ordered by a flag: the acquire": Pair(
        {"E701"}, LDS_FLAG, LDS_PASSED.replace("GIVE", "__ATOMIC_RELEASE").replace("TAKE", "EDIT"),
        "__ATOMIC_RELAXED", "__ATOMIC_ACQUIRE", LDS_ARGUMENTS,
    ),
    "waves of a block that pass a flag in global memory": Pair(
        {"E701"}, FLAG,
        "int t = threadIdx.x; data[t] = 0; __syncthreads(); if (t < 64) { data[t] = in[t]; "
        "if (t == 0) __hip_atomic_store(flag, 1, EDIT, __HIP_MEMORY_SCOPE_AGENT); out[t] = 0; } else { "
        "while (__hip_atomic_load(flag, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) == 0) {} out[t] = data[127 - t]; }",
        "__ATOMIC_RELAXED", "__ATOMIC_RELEASE", FLAGGED,
    ),
    # Barriers that lanes of a wave do not meet together.
    "a barrier in a loop that lanes leave at different times": Pair(
        {"E715"}, EXCHANGE,
        "__shared__ float tile[128]; int t = threadIdx.x; float sum = 0; tile[t] = in[t]; middle[t] = 0; "
        "__syncthreads(); "
        "for (int i = 0; i < EDIT; ++i) { sum += tile[(t + i) % 64]; __syncthreads(); } "
        "out[t] = sum; middle[t] = tile[t];",
        "1 + t % 2", "2",
    ),
    "threads that returned, half of a wave": Pair(
        {"E715"}, "const float *in, float *out",
        "__shared__ float tile[128]; int t = threadIdx.x; tile[t] = in[t]; if (t >= 96) EDIT __syncthreads(); "
        "out[t] = 1;",
        "out[t] = 2; else", "return;", ("f32[128]=randn", "f32[128]"),
    ),
    # Waits that are too loose by one.
    "a counted wait for loads into registers": Pair(
        {"E705"}, "const float *in, float *middle, float *out",
        "int t = threadIdx.x; float a, b; const float *p = in + t; middle[t] = 0; "
        'asm volatile("global_load_dword %0, %2, off\\nglobal_load_dword %1, %2, off offset:4\\n'
        's_waitcnt vmcnt(EDIT)\\n'
        'v_add_f32 %0, %0, %1\\ns_waitcnt vmcnt(0)" : "=&v"(a), "=&v"(b) : "v"(p)); out[t] = a;',
        "1", "0", ("f32[129]=randn", *FLOATS[1:]),
    ),
    "a counted wait for LDS writes before a barrier": Pair(
        {"E701"}, EXCHANGE,
        "__shared__ float tile[256]; int t = threadIdx.x; float x = in[t], y; middle[t] = x; "
        'unsigned at = (unsigned)(unsigned long)(__attribute__((address_space(3))) float *)(tile + t); '
        'unsigned from = at ^ 508; '
        'asm volatile("ds_write_b32 %1, %3\\nds_write_b32 %1, %3 offset:512\\ns_waitcnt lgkmcnt(EDIT)\\n'
        's_barrier\\n'
        'ds_read_b32 %0, %2 offset:512\\ns_waitcnt lgkmcnt(0)" : "=&v"(y) : "v"(at), "v"(from), "v"(x) : "memory"); '
        "out[t] = y + tile[t];",
        "1", "0",
    ),
    # LDS that nobody allotted does not hide what waves do in it.
    "LDS of inline assembly alone": Pair(
        {"E703", "E701"}, "const float *in, float *middle, float *out",
        "int t = threadIdx.x, at = 4 * t, other = 508 - 4 * t; float x = in[t], y; middle[t] = x; "
        'asm volatile("ds_write_b32 %1, %2\\ns_waitcnt lgkmcnt(0)\\nEDIT\\nds_read_b32 %0, %3\\ns_waitcnt lgkmcnt(0)" '
        ': "=&v"(y) : "v"(at), "v"(x), "v"(other) : "memory"); out[t] = y;',
        "s_nop 0", "s_barrier", also={"E703"},
    ),
    "LDS of inline assembly alone, of which the first lane says little": Pair(
        {"E703", "E701"}, "const float *in, float *middle, float *out",
        "int t = threadIdx.x, at = 8 * t; float x = in[t], y; middle[t] = x; "
        'asm volatile("ds_write2_b32 %1, %2, %2 offset0:0 offset1:1\\ns_waitcnt lgkmcnt(0)\\nEDIT\\n'
        'ds_read_b32 %0, %3\\ns_waitcnt lgkmcnt(0)" '
        ': "=&v"(y) : "v"(at), "v"(x), "v"(at ^ 512) : "memory"); out[t] = y;',
        "s_nop 0", "s_barrier", also={"E703"},
    ),
    # What the compiler may choose, and what it may not.
    "an atomic operation that is not aligned": Pair(
        {"E709"}, "char *data", "EDIT;",
        "atomicAdd((int *)(data + 4 * threadIdx.x + 2), 1)", "atomicAdd((int *)(data + 4 * threadIdx.x + 4), 1)",
        ("i32[256]",),
    ),
}  # fmt: skip


@cache
def both(pair: Pair, target: str) -> Subject:
    """The wrong kernel and the right one, compiled as one file."""
    kernels = (
        f"__global__ __launch_bounds__({pair.threads}) void {name}({pair.parameters}) "
        f"{{ {pair.body.replace('EDIT', edit)} }}\n"
        for name, edit in (("wrong", pair.wrong), ("right", pair.right))
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cpp"
        path.write_text("#include <hip/hip_runtime.h>\n" + "".join(kernels))
        return from_source(path, target)


def codes(pair: Pair, kernel: str, target: str = "gfx942") -> set[str]:
    """Codes of the findings in one of the two."""
    launch = Launch((pair.grid, 1, 1), (pair.threads, 1, 1), parse(list(pair.arguments)), kernel=kernel)
    return {d.code for d in sanitize(both(pair, target), launch, schedules=3).diagnostics}


@pytest.mark.parametrize("name", PAIRS)
def test_the_wrong_one_is_found_out(name: str) -> None:
    pair = PAIRS[name]
    assert codes(pair, "wrong") == pair.codes


@pytest.mark.parametrize("name", PAIRS)
def test_the_right_one_is_left_alone(name: str) -> None:
    pair = PAIRS[name]
    assert codes(pair, "right") == pair.also
