"""Every name that emitted code may use: the ThunderKittens surface, HIP and clang names beside it, what each means.

>>> surface["mma_ABt"].meaning
'd = a b^T + c: a (M x K) row, b (N x K) row'

Emitted code is compared with this table, so a name that exists nowhere cannot slip in. Names marked `addition` exist in
the embedded headers only: code that uses them does not compile against a ThunderKittens checkout.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "namespace", "type", "constant", "function", "member", "macro", "language", "builtin", "hip", "python", "c++"
]


@dataclass(frozen=True)
class Name:
    """One name, what sort of thing it is, and one line on what it means."""

    name: str
    kind: Kind
    meaning: str
    addition: bool = False


def _names(kind: Kind, table: str, *, addition: bool = False) -> list[Name]:
    """One `name: meaning` per line; names of one meaning are separated by commas, also over several lines."""
    names = []
    for line in re.sub(r",\s*\n\s*", ", ", table.strip()).splitlines():
        left, _, meaning = line.strip().partition(": ")
        names += [Name(name.strip(), kind, meaning, addition) for name in left.split(",")]
    return names


_KITTENS = [
    *_names(
        "namespace",
        """
        kittens: everything below
        ducks: concepts and layout tags
        py: binding of kernels and functions to Python
        base_types: conversions and packing of element types
        base_ops, sum: the operations of maps and reductions
        rt_layout, rv_layout: layout tags of register tiles and vectors
        coord: coordinates; as a type, coord<TILE>
        """,
    ),
    *_names(
        "type",
        """
        bf16: brain float, 8-bit exponent and 7-bit fraction
        half: IEEE half precision
        bf16_2, half_2, float2: a packed pair
        float4: four floats
        gl: gl<T, b, d, r, c>, a tensor in global memory; an extent of -1 is known at run time
        st: st<T, R, C>, a swizzled tile in LDS
        st_bf, st_hf, st_fl: st of bf16, half, float
        st_subtile: a rectangle of a shared tile, made by subtile_inplace
        sv: sv<T, N>, a vector in LDS
        sv_bf, sv_hf, sv_fl: sv of bf16, half, float
        rt: rt<T, R, C, layout>, a tile in the registers of one wave
        rt_bf, rt_hf, rt_fl: rt of bf16, half, float
        rt_base: one lane's part of a base tile
        rv: rv<T, N, layout>, a vector in the registers of one wave
        rv_bf, rv_hf, rv_fl: rv of bf16, half, float
        row, col: register tile layouts: a lane owns part of a row, of a column
        align, ortho, naive: register vector layouts
        group: group<N>, N consecutive waves that load or store together
        warpgroup: group<4>
        alignment_dummy: element type of the dynamic shared array
        shared_allocator: hands out aligned objects of the dynamic shared array
        convertor: convertor<T, U>::convert, element type conversion
        packing: packing<T>, the unpacked and packed type of an element type
        dtype: element type of a tensor or shared tile, packed pair of a register tile
        layout: a register tile's layout
        row_vec, col_vec: a tile's vector of one value per column, per row
        packed_type, unpacked_type: the pair, the element of packing<T>
        """,
    ),
    *_names(
        "constant",
        """
        WARP_THREADS: lanes of a wave, 64
        WARPGROUP_THREADS: threads of four waves, 256
        WARPGROUP_WARPS: waves of a warpgroup, 4
        MAX_SHARED_MEMORY: LDS bytes that a block may use
        GROUP_THREADS: threads of a group
        GROUP_WARPS: waves of a group
        rows, cols: shape of a tile, or the extents of a gl
        height, width: shape of a tile in base tiles
        tile_size_row, tile_size_col: shape of a base tile
        num_elements: elements of a tile
        packed_per_thread, packed_per_tile: packed pairs a lane holds of a tile, of a base tile
        length: elements of a vector
        tiles: base tiles of a register tile, or how many a vector spans
        """,
    ),
    *_names(
        "function",
        """
        warpid: the wave's number in its block, or in its group
        warpgroupid: the wave's number over four
        laneid: the lane's number in its wave, the thread's in its group
        groupid: the group's number in its block
        load: dst = a tile or vector of src: global to shared or registers, shared to registers
        store: a tile or vector of dst = src: registers to shared or global, shared to global
        subtile_inplace: the part of a shared tile at {row, column}, counted in subtiles
        allocate: the next object, or array of objects, of the dynamic shared array
        zero, one, pos_infty, neg_infty: fill with 0, 1, +inf, -inf
        copy: dst = src, converting the element type
        add, sub, mul, div, max, min: element-wise, with a tile, a vector or one value
        exp, exp2, log, log2, abs, relu: element-wise functions
        unary_map, bin_map: element-wise application of an operation
        row_map, col_map: application of an operation with one value per row, per column
        add_row, sub_row, mul_row, div_row: with one value per row
        add_col, sub_col, mul_col, div_col: with one value per column
        broadcast_row, broadcast_col: every element its row's, its column's value
        row_sum, row_prod, row_max, row_min: one value per row
        col_sum, col_prod, col_max, col_min: one value per column
        swap_layout: dst = src in the other layout
        transpose_sep: dst = src transposed
        mma_AB: d = a b + c: a (M x K) row, b (K x N) col
        mma_ABt: d = a b^T + c: a (M x K) row, b (N x K) row
        mma_AtB: d = a^T b + c: a (K x M) col, b (K x N) col
        mma_AtBt: d = a^T b^T + c: a (K x M) col, b (N x K) row
        bind_kernel: bind_kernel<k>(m, "name", &G::a, ...), a Python function that launches a kernel
        bind_function: bind_function<f>(m, "name", &G::a, ...), a Python function that calls a C++ one
        """,
    ),
    *_names(
        "member",
        """
        op: of one of base_ops, for an element type: base_ops::sum::op<float>(a, b)
        raw_ptr: a gl's address
        batch_internal, depth_internal, rows_internal, cols_internal: an extent of a gl as it was given
        v: the number of such an extent, in 64 bits, where it is known at run time
        batch, depth: extents of a gl
        shape, stride: an extent of a gl by axis, and the elements between neighbours
        data: a tile's storage: LDS elements, or a lane's packed pairs
        idx: where an element of a shared tile lies
        convert: element type conversion
        b, d, r, c: a coordinate's axes
        x, y, z, w: components
        all: ducks concepts: any gl, st, rt, ...
        """,
    ),
    *_names(
        "type",
        """
        rt_shape, rt_16x16, rt_32x32: base tile shapes; rt_32x32 multiplies with the 32x32x8 instructions
        rt_16x64, rt_32x32_bytes: base tile shapes of one-byte elements
        rt_fp8e4m3, rt_fp8e5m2, rt_i8, rt_i32: rt of 8-bit floats, of whole numbers
        st_fp8e4m3, st_fp8e5m2, st_i8: st of them
        u4x2, i4x2: two whole numbers of 4 bits, from 0 to 15, from -8 to 7
        st_u4x2, st_i4x2: st of them
        """,
        addition=True,
    ),
    # HipKittens' names, for gfx950.
    *_names(
        "type",
        """
        st_shape, st_16x32, st_16x32_s: shape of the shared tiles that direct loads fill
        rt_16x32, rt_16x32_s, rt_32x16, rt_32x16_s: shapes of the operands of wide matrix instructions
        row_l, col_l: register tile layouts: a lane owns part of a row, of a column
        """,
        addition=True,
    ),
    *_names(
        "function",
        """
        scales_of: the scales of a tile's blocks of 32 along k, which mma_ABt takes
        prefill_swizzled_offsets: what a group's direct loads of tiles of one kind need beside the coordinate
        """,
        addition=True,
    ),
]

_HIP = [
    *_names(
        "language",
        """
        __global__: a kernel
        __device__, __host__: a function of the device, of the host
        __shared__: in LDS
        __forceinline__: always inlined
        __launch_bounds__: threads of a block, waves per SIMD
        threadIdx, blockIdx, blockDim, gridDim: thread and block coordinates and extents
        dim3: extents of a grid or block
        __syncthreads: all waves of the block meet, their LDS accesses complete
        __has_builtin: whether the compiler has a builtin
        __is_same: whether two types are one
        """,
    ),
    *_names(
        "hip",
        """
        hipError_t, hipSuccess: result of a HIP call
        hipStream_t: a stream
        hipEvent_t: an event
        hipGetErrorString: the text of an error
        hipGetLastError: the error of the last launch
        hipFuncSetAttribute, hipFuncAttributeMaxDynamicSharedMemorySize: allow a kernel more dynamic LDS
        hipMalloc, hipFree, hipMemcpy, hipMemset, hipMemsetAsync: device memory
        hipMemcpyHostToDevice, hipMemcpyDeviceToHost: direction of a copy
        hipDeviceSynchronize, hipStreamSynchronize: wait
        hipEventCreate, hipEventRecord, hipEventSynchronize, hipEventElapsedTime, hipEventDestroy: timing
        hipGetDeviceProperties, hipDeviceProp_t, hipGetDevice, hipSetDevice: the device
        """,
    ),
    *_names(
        "python",
        """
        PYBIND11_MODULE: a Python module
        pybind11: its namespace
        """,
    ),
    *_names(
        "macro",
        """
        KITTENS_DEVICE_ONLY: device code without HIP headers
        """,
    ),
]

# clang: LanguageExtensions, AMDGPUSupport and BuiltinsAMDGPU; each is compiled for gfx90a and gfx942 by a test.
_BUILTINS = _names(
    "builtin",
    """
    __builtin_amdgcn_s_barrier: all waves of the block meet; waits for nothing else
    __builtin_amdgcn_fence: order memory accesses at a scope, optionally of one address space
    __builtin_amdgcn_s_waitcnt: wait for counters (gfx9 encoding)
    __builtin_amdgcn_s_setprio: priority of the wave, 0..3
    __builtin_amdgcn_s_sleep: idle for about 64 n clocks
    __builtin_amdgcn_sched_barrier: the compiler moves nothing of the masked kinds across
    __builtin_amdgcn_sched_group_barrier: the compiler groups instructions of a kind
    __builtin_amdgcn_iglp_opt: the compiler interleaves loads and matrix instructions
    __builtin_amdgcn_readfirstlane: the first active lane's value, as a scalar
    __builtin_amdgcn_readlane: one lane's value, as a scalar
    __builtin_amdgcn_workitem_id_x, __builtin_amdgcn_workitem_id_y,
    __builtin_amdgcn_workitem_id_z: the thread's coordinates
    __builtin_amdgcn_workgroup_id_x, __builtin_amdgcn_workgroup_id_y,
    __builtin_amdgcn_workgroup_id_z: the block's coordinates
    __builtin_amdgcn_workgroup_size_x, __builtin_amdgcn_workgroup_size_y,
    __builtin_amdgcn_workgroup_size_z: the block's extents
    __builtin_amdgcn_implicitarg_ptr: the implicit kernel arguments
    __builtin_amdgcn_make_buffer_rsrc: a buffer descriptor: base, stride, range, flags
    __builtin_amdgcn_raw_buffer_load_b16, __builtin_amdgcn_raw_buffer_load_b32,
    __builtin_amdgcn_raw_buffer_load_b64, __builtin_amdgcn_raw_buffer_load_b128: load with bounds
    __builtin_amdgcn_raw_buffer_store_b16, __builtin_amdgcn_raw_buffer_store_b32,
    __builtin_amdgcn_raw_buffer_store_b64, __builtin_amdgcn_raw_buffer_store_b128: store with bounds
    __builtin_amdgcn_raw_ptr_buffer_atomic_fadd_f32: add to memory with bounds, atomically
    __builtin_amdgcn_global_atomic_fadd_f32: add to memory, atomically
    __builtin_amdgcn_mfma_f32_16x16x16bf16_1k, __builtin_amdgcn_mfma_f32_16x16x16f16,
    __builtin_amdgcn_mfma_f32_16x16x4f32: matrix multiply-add, 16x16
    __builtin_amdgcn_mfma_f32_32x32x8bf16_1k, __builtin_amdgcn_mfma_f32_32x32x8f16,
    __builtin_amdgcn_mfma_f32_32x32x2f32: matrix multiply-add, 32x32
    __builtin_amdgcn_exp2f: 2^x, v_exp_f32
    __builtin_amdgcn_logf: log2(x), v_log_f32
    __builtin_amdgcn_rcpf: 1/x, v_rcp_f32
    __builtin_amdgcn_rsqf: 1/sqrt(x), v_rsq_f32
    __builtin_amdgcn_ds_bpermute: another lane's value
    __builtin_amdgcn_update_dpp: another lane's value within 16 lanes
    __builtin_amdgcn_ds_swizzle: another lane's value within 32 lanes
    __builtin_bit_cast: the same bits as another type
    __builtin_memcpy: copy bytes
    __builtin_convertvector: convert each element
    __builtin_elementwise_max, __builtin_elementwise_min, __builtin_elementwise_abs,
    __builtin_elementwise_fma: element by element
    __builtin_fabsf, __builtin_copysignf, __builtin_fminf, __builtin_fmaxf, __builtin_fmaf,
    __builtin_inff: float functions
    __ATOMIC_RELEASE, __ATOMIC_ACQUIRE, __ATOMIC_ACQ_REL, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED: memory orders
    __attribute__, ext_vector_type, address_space, always_inline: attributes: vectors of n elements, LDS (3), inlining
    __amdgpu_buffer_rsrc_t: a buffer descriptor
    """,
)

# HipKittens (November 2025), for the dialect `hk`; what it shares with ThunderKittens is above.
_HIPKITTENS = [
    *_names(
        "type",
        """
        row_l, col_l: ducks::rt_layout::row and col
        rt_16x32_s, rt_32x16_s: base tiles of the wide matrix instructions, as operands
        st_16x32_s: shared tiles whose base tiles a direct load fills in one go
        """,
    ),
    *_names(
        "function",
        """
        prefill_swizzled_offsets: where in its tensor each lane's part of a shared tile lies, once for all loads of it
        """,
    ),
]

_CPP = _names(
    "c++",
    """
    std: the C++ library; host code only
    size_t, uintptr_t, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t: integers
    int2, int4: two, four integers
    min, max: the smaller, the larger of two numbers
    """,
)

surface: Mapping[str, Name] = {name.name: name for name in [*_CPP, *_BUILTINS, *_HIP, *_HIPKITTENS, *_KITTENS]}
"""Name -> what it is. Where C++ or HIP and ThunderKittens share a name (`max`), the entry is ThunderKittens'."""
