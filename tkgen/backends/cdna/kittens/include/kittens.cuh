/**
 * Embedded tile library: the ThunderKittens-HIP surface (dialect of July 2025) for gfx942, gfx90a and gfx950.
 *
 * One file emitted for this surface compiles against these headers or against a real checkout.
 *
 *   device.cuh      qualifiers, thread indices, fences, address spaces: HIP's, or clang builtins alone
 *   base_types.cuh  bf16, half, float and their packed pairs; conversions; the operations of maps and reductions
 *   global.cuh      gl: a tensor in global memory; coord; the buffer window of one tile
 *   shared.cuh      st, st_subtile, sv, shared_allocator: LDS tiles and their swizzle
 *   registers.cuh   rt, rv: one wave's register tiles and vectors
 *   move.cuh        load and store between the three
 *   maps.cuh        zero, copy, element-wise, row and column maps, reductions
 *   mma.cuh         mma_AB, mma_ABt, mma_AtB, mma_AtBt
 *   bytes.cuh       operands of 8-bit floats and whole numbers
 *   made.cuh        operands computed of weights of 8 and 4 bits
 *   hk.cuh          gfx950 (KITTENS_CDNA4): tiles of HipKittens, direct loads to LDS, wide matrix instructions
 *   group.cuh       group<N>: loads and stores by N waves together
 *
 * With KITTENS_DEVICE_ONLY nothing is included: a code object needs no HIP headers, no device library and no
 * C++ library. Without it <hip/hip_runtime.h> provides the language extensions.
 */
#pragma once

// Additions to the surface, such as base tiles of 32 x 32 and elements of one byte, are there.
#define KITTENS_EMBEDDED

#include "kittens/device.cuh"
#include "kittens/base_types.cuh"
#include "kittens/global.cuh"
#include "kittens/shared.cuh"
#include "kittens/registers.cuh"
#include "kittens/move.cuh"
#include "kittens/maps.cuh"
#include "kittens/mma.cuh"
#include "kittens/bytes.cuh"
#include "kittens/made.cuh"
#ifdef KITTENS_CDNA4
#include "kittens/hk.cuh"
#endif
#include "kittens/group.cuh"
