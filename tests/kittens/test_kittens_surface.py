"""The table of the surface against the headers, and what the headers refuse."""

from __future__ import annotations

import re

import pytest
from kittens_support import PRELUDE, Build

from tkgen.backends.cdna.kittens import include_dir, surface
from tkgen.targets import load_target
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.compiler import Compiler, ToolchainError


def _header_text() -> str:
    files = sorted(include_dir().rglob("*.cuh"))
    assert files
    return "\n".join(path.read_text("utf-8") for path in files)


def test_every_name_of_the_table_is_in_the_headers() -> None:
    words = set(re.findall(r"\w+", re.sub(r"/\*.*?\*/|//[^\n]*", "", _header_text(), flags=re.S)))
    spelled = re.sub(r"name##_(row|col)", "", _header_text())
    for prefix in re.findall(r"KITTENS_(?:ROW_COL|REDUCTION)\((\w+),", spelled):
        words |= {f"{prefix}_row", f"{prefix}_col", f"row_{prefix}", f"col_{prefix}"}
    ours = ("namespace", "type", "constant", "function", "member")
    missing = [n for n, entry in surface.items() if entry.kind in ours and n not in words]
    assert not missing


def test_every_name_has_a_meaning() -> None:
    for name, entry in surface.items():
        assert entry.name == name and re.fullmatch(r"\w+", name), name
        assert len(entry.meaning) > 3 and "\n" not in entry.meaning, name


BUILTINS = """
typedef short short4 __attribute__((ext_vector_type(4)));
typedef _Float16 half4 __attribute__((ext_vector_type(4)));
typedef float float16 __attribute__((ext_vector_type(16)));
KERNEL(builtins, 64, float *p, uint32_t *q) {
    auto b = __builtin_amdgcn_make_buffer_rsrc(p, 0, 4096, 0x20000);
    const uint32_t x = __builtin_amdgcn_workitem_id_x() + __builtin_amdgcn_workitem_id_y()
        + __builtin_amdgcn_workitem_id_z();
    const uint32_t g = __builtin_amdgcn_workgroup_id_x() + __builtin_amdgcn_workgroup_id_y()
        + __builtin_amdgcn_workgroup_id_z();
    const uint32_t s = __builtin_amdgcn_workgroup_size_x() + __builtin_amdgcn_workgroup_size_y()
        + __builtin_amdgcn_workgroup_size_z();
    auto implicit = (const __attribute__((address_space(4))) uint32_t *)__builtin_amdgcn_implicitarg_ptr();
    __builtin_amdgcn_raw_buffer_store_b16(__builtin_amdgcn_raw_buffer_load_b16(b, x, 0, 0), b, x + 64, 0, 0);
    __builtin_amdgcn_raw_buffer_store_b32(__builtin_amdgcn_raw_buffer_load_b32(b, x, 0, 0), b, x + 64, 0, 0);
    __builtin_amdgcn_raw_buffer_store_b64(__builtin_amdgcn_raw_buffer_load_b64(b, x, 0, 0), b, x + 64, 0, 0);
    __builtin_amdgcn_raw_buffer_store_b128(__builtin_amdgcn_raw_buffer_load_b128(b, x, 0, 0), b, x + 64, 0, 0);
    __builtin_amdgcn_raw_ptr_buffer_atomic_fadd_f32(p[21], b, x, 0, 0);
    __builtin_amdgcn_global_atomic_fadd_f32((__attribute__((address_space(1))) float *)p, p[22]);
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_s_waitcnt(0xc07f);
    __builtin_amdgcn_s_setprio(1);
    __builtin_amdgcn_s_sleep(1);
    __builtin_amdgcn_sched_barrier(0);
    __builtin_amdgcn_sched_group_barrier(8, 1, 0);
    __builtin_amdgcn_iglp_opt(0);
    q[0] = __builtin_amdgcn_readfirstlane(x) + __builtin_amdgcn_readlane(x, 3) + g + s + implicit[0];
    q[1] = __builtin_amdgcn_ds_bpermute(4, x) + __builtin_amdgcn_update_dpp(0, x, 0x121, 0xf, 0xf, false) +
           __builtin_amdgcn_ds_swizzle(x, 0x401f);
    float f = __builtin_amdgcn_exp2f(p[0]) + __builtin_amdgcn_logf(p[1]) + __builtin_amdgcn_rcpf(p[2])
        + __builtin_amdgcn_rsqf(p[3]);
    f += __builtin_fabsf(f) + __builtin_copysignf(f, p[4]) + __builtin_fminf(f, p[5]) + __builtin_fmaxf(f, p[6]);
    f += __builtin_fmaf(f, f, p[7]) + __builtin_elementwise_fma(f, f, f) + __builtin_elementwise_abs(f);
    p[8] = __builtin_elementwise_max(f, 1.0f) + __builtin_elementwise_min(f, 2.0f) + (f < __builtin_inff());
    short4 k = __builtin_bit_cast(short4, float2{p[9], p[10]});
    half4 h = __builtin_bit_cast(half4, k);
    float4 c = {f, f, f, f};
    float16 d = {};
    c = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(k, k, c, 0, 0, 0);
    c = __builtin_amdgcn_mfma_f32_16x16x16f16(h, h, c, 0, 0, 0);
    c = __builtin_amdgcn_mfma_f32_16x16x4f32(f, f, c, 0, 0, 0);
    d = __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(k, k, d, 0, 0, 0);
    d = __builtin_amdgcn_mfma_f32_32x32x8f16(h, h, d, 0, 0, 0);
    d = __builtin_amdgcn_mfma_f32_32x32x2f32(f, f, d, 0, 0, 0);
    __builtin_memcpy(p + 16, &c, sizeof(c));
    p[20] = d[0] + __builtin_convertvector(h, float4).x;
}
"""


def test_every_builtin_of_the_table_compiles(build: Build, target: str) -> None:
    build(BUILTINS, target)
    used = set(re.findall(r"__builtin_\w+|__ATOMIC_\w+", BUILTINS))
    listed = {n for n, entry in surface.items() if entry.kind == "builtin" and n.startswith("__builtin_")}
    assert listed == {n for n in used if n.startswith("__builtin_")}


def test_the_headers_include_nothing_outside_themselves() -> None:
    """All other includes stand where KITTENS_DEVICE_ONLY is not defined."""
    for path in include_dir().rglob("*.cuh"):
        text = re.sub(
            r"#ifndef KITTENS_DEVICE_ONLY.*?(#else|#endif // KITTENS_DEVICE_ONLY)", "", path.read_text(), flags=re.S
        )
        assert not re.findall(r"#include <", text), path.name


REFUSED = {
    "rt_bf<16, 24> t;": "multiple of its base tile",
    "rt_fl<16, 32, row, rt_32x32> t;": "multiple of its base tile",
    "SHARED auto &s = al.allocate<st_bf<24, 16>>(); zero(s);": "rows of a shared tile must be a multiple of 16",
    "SHARED auto &s = al.allocate<st_bf<64, 64>>(); rt_bf<64, 16> t; load(t, s);": "must have the same shape",
    "SHARED auto &s = al.allocate<st_bf<32, 32>>(); subtile_inplace<64, 32>(s, {0, 0});": "within the tile",
    "SHARED auto &s = al.allocate<st_fl<32, 32>>(); load(s, a, {0, 0, 0, 0});": "must have the same element type",
    "rt_fl<16, 16, col> c; rt_bf<16, 32> x; rt_bf<16, 16> y; mma_ABt(c, x, y, c);": "mma_ABt: (M x K) (N x K)^T",
    "rt_fl<16, 16, col> c; rt_bf<16, 16> x; mma_AB(c, x, x, c);": "no matching function for call to 'mma_AB'",
    "rt_fl<16, 16> c; rt_bf<16, 16> x; mma_ABt(c, x, x, c);": "no matching function for call to 'mma_ABt'",
    "rt_fl<16, 16, col> c; rt_bf<16, 16> x; rt_hf<16, 16> y; mma_ABt(c, x, y, c);": "no matching function",
    "rt_fl<16, 32> t; rt_fl<16, 32>::row_vec v; add_row(t, t, v);": "row maps take the tile's col_vec",
    "rt_fl<16, 32> t; rt_fl<16, 32>::row_vec v; row_sum(v, t);": "row reductions give the tile's col_vec",
    "gl<bf16, 1, 1, 64, 72> g(nullptr, 1, 1, 64, 72); gl<bf16, 1, 1, 64, 68> h(nullptr, 1, 1, 64, 68);"
    " rt_bf<16, 32> t; load(t, h, {0, 0, 0, 0});": "must be a multiple of 16 bytes",
}


@pytest.mark.parametrize("body", REFUSED)
def test_a_mistake_is_a_sentence_at_compile_time(compiler: Compiler, body: str) -> None:
    source = PRELUDE + f"KERNEL(refused, 64, dynamic<bf16> a) {{ {body} }}"
    with pytest.raises(ToolchainError) as error:
        compile_device(source, load_target("gfx942"), compiler, include_dirs=[include_dir()], outputs=["asm"])
    assert REFUSED[body] in error.value.output
