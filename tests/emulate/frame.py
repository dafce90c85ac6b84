"""Assembly kernels around single instructions: inputs from one buffer, results into another.

A vector case gets eight rows of 64 dwords (v10..v15, v20, v21) and VCC, and leaves v20, v21, v10, s[30:31] and VCC in
seven rows. A scalar case gets eight dwords (s[20:27]) and leaves s[30:31], s20, SCC and EXEC.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tkgen.emulate import Buffer, Outcome, launch

ROWS_IN, ROWS_OUT = 9, 9
_BYTES = 64 * 4


def kernel(
    body: str,
    target: str = "gfx942",
    *,
    lds: int = 0,
    scratch: int = 0,
    vgprs: int = 128,
    threads: int = 64,
    ieee: int = 1,
) -> str:
    """One kernel `k` as assembly: its two pointer arguments are in s[8:9] and s[10:11], lane * 4 is in v1."""
    return f"""
.amdgcn_target "amdgcn-amd-amdhsa--{target}"
.text
.globl k
.p2align 8
.type k,@function
k:
  s_load_dwordx4 s[8:11], s[0:1], 0x0
  v_and_b32 v1, 0x3ff, v0
  v_lshlrev_b32 v1, 2, v1
  s_waitcnt lgkmcnt(0)
{body}
  s_endpgm
.Lend:
  .size k, .Lend-k
.rodata
.p2align 6
.amdhsa_kernel k
  .amdhsa_group_segment_fixed_size {lds}
  .amdhsa_private_segment_fixed_size {scratch}
  .amdhsa_kernarg_size 16
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_system_sgpr_workgroup_id_x 1
  .amdhsa_next_free_vgpr {vgprs * 2}
  .amdhsa_next_free_sgpr 96
  .amdhsa_accum_offset {vgprs}
  .amdhsa_ieee_mode {ieee}
  .amdhsa_dx10_clamp 1
  .amdhsa_float_denorm_mode_32 3
  .amdhsa_float_denorm_mode_16_64 3
{f"  .amdhsa_enable_private_segment {int(bool(scratch))}" if target != "gfx90a" else ""}
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: k
    .symbol: k.kd
    .kernarg_segment_size: 16
    .kernarg_segment_align: 8
    .group_segment_fixed_size: {lds}
    .private_segment_fixed_size: {scratch}
    .wavefront_size: 64
    .sgpr_count: 96
    .vgpr_count: {vgprs}
    .max_flat_workgroup_size: {max(threads, 64)}
    .args:
      - {{.offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global}}
      - {{.offset: 8, .size: 8, .value_kind: global_buffer, .address_space: global}}
...
.end_amdgpu_metadata
"""


_REGISTERS_IN = ("v10", "v11", "v12", "v13", "v14", "v15", "v20", "v21")


def vector_case(instruction: str) -> str:
    loads = "\n".join(f"  global_load_dword {r}, v1, s[8:9] offset:{_BYTES * i}" for i, r in enumerate(_REGISTERS_IN))
    outs = ("v20", "v21", "v10", "v30", "v31", "v32", "v33")
    stores = "\n".join(f"  global_store_dword v1, {r}, s[10:11] offset:{_BYTES * i}" for i, r in enumerate(outs))
    return f"""
{loads}
  s_load_dwordx2 vcc, s[8:9], {_BYTES * 8}
  s_mov_b64 s[30:31], 0
  s_mov_b64 s[28:29], exec
  s_waitcnt vmcnt(0) lgkmcnt(0)
  {instruction}
  s_mov_b64 exec, s[28:29]
  v_mov_b32 v30, s30
  v_mov_b32 v31, s31
  v_mov_b32 v32, vcc_lo
  v_mov_b32 v33, vcc_hi
{stores}
  s_add_u32 s8, s8, {ROWS_IN * _BYTES}
  s_addc_u32 s9, s9, 0
  s_add_u32 s10, s10, {ROWS_OUT * _BYTES}
  s_addc_u32 s11, s11, 0
"""


def run_vector(assemble, instructions: Sequence[str], inputs: np.ndarray, target: str = "gfx942") -> np.ndarray:
    """`inputs` is [cases, ROWS_IN, 64] of u32; the result [cases, ROWS_OUT, 64]."""
    path = assemble(kernel("".join(vector_case(i) for i in instructions), target), target)
    out = np.zeros((len(instructions), ROWS_OUT, 64), dtype=np.uint32)
    outcome = launch(path, grid=(1, 1, 1), block=(64, 1, 1), args=[Buffer(np.ascontiguousarray(inputs)), Buffer(out)])
    assert outcome.completed and not outcome.findings, [str(f) for f in outcome.findings]
    return out


def scalar_case(instruction: str) -> str:
    return f"""
  s_load_dwordx8 s[20:27], s[8:9], 0
  s_waitcnt lgkmcnt(0)
  s_mov_b64 s[30:31], s[26:27]
  s_mov_b64 s[28:29], exec
  s_cmp_eq_u32 s25, 0
  {instruction}
  s_cselect_b32 s33, 1, 0
  s_mov_b64 s[34:35], exec
  s_mov_b64 exec, s[28:29]
  v_mov_b32 v10, s30
  v_mov_b32 v11, s31
  v_mov_b32 v12, s20
  v_mov_b32 v13, s33
  global_store_dwordx4 v2, v[10:13], s[10:11]
  v_mov_b32 v10, s34
  v_mov_b32 v11, s35
  global_store_dwordx2 v2, v[10:11], s[10:11] offset:16
  s_add_u32 s8, s8, 32
  s_addc_u32 s9, s9, 0
  s_add_u32 s10, s10, 32
  s_addc_u32 s11, s11, 0
"""


def run_scalar(assemble, instructions: Sequence[str], inputs: np.ndarray, target: str = "gfx942") -> np.ndarray:
    """`inputs` is [cases, 8]: s20..s27 (s[26:27] also the old s[30:31]; SCC is s25 == 0); the result alike."""
    path = assemble(kernel("  v_mov_b32 v2, 0\n" + "".join(scalar_case(i) for i in instructions), target), target)
    out = np.zeros((len(instructions), 8), dtype=np.uint32)
    outcome = launch(path, grid=(1, 1, 1), block=(64, 1, 1), args=[Buffer(np.ascontiguousarray(inputs)), Buffer(out)])
    assert outcome.completed and not outcome.findings, [str(f) for f in outcome.findings]
    return out


def run_body(
    assemble, body: str, inputs: np.ndarray, out: np.ndarray, target: str = "gfx942", threads: int = 64, **options
) -> Outcome:
    """Run assembly with `inputs` at s[8:9] and `out` at s[10:11]; `lds`, `scratch`, `vgprs` go to the frame."""
    frame = {k: options.pop(k) for k in ("lds", "scratch", "vgprs") if k in options}
    path = assemble(kernel(body, target, threads=threads, **frame), target)
    args = [Buffer(np.ascontiguousarray(inputs), "in"), Buffer(out, "out")]
    return launch(path, grid=(1, 1, 1), block=(threads, 1, 1), args=args, **options)
