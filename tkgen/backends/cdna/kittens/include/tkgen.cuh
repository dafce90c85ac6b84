/**
 * What generated kernels need beside ThunderKittens, over its public surface: namespace tk.
 *
 *   types.cuh     element types as the compiler knows them, conversions
 *   common.cuh    what is the same on all machines
 *   sync.cuh      barriers, waits and fences that no access to memory crosses
 *   memory.cuh    buffers, single elements, groups of rows, pages
 *   stage.cuh     global memory -> registers -> LDS
 *   tiles.cuh     register tiles element by element: compute, load and store at the end of a tensor
 *   lanes.cuh     values of other lanes
 *   sorted.cuh    rows in order
 *   results.cuh   reductions of register tiles
 *   rings.cuh     what a loop over tiles of keys brings to LDS
 *   products.cuh  products of register tiles
 *   fused.cuh     fused matmuls; their register tiles in fused_tiles.cuh and wide_tiles.cuh
 *   fused_bytes.cuh  the same of 8-bit floats
 *   rows.cuh      rows over lanes: a lane's elements, reductions over lanes, packed floats
 *
 * A kernel calls all of it as tk::NAME, so nothing here can clash with a name of a spec.
 */
#pragma once

#include "tkgen/types.cuh"
#include "tkgen/common.cuh"
#include "tkgen/sync.cuh"
#include "tkgen/memory.cuh"
#include "tkgen/stage.cuh"
#include "tkgen/tiles.cuh"
#include "tkgen/lanes.cuh"
#include "tkgen/sorted.cuh"
#include "tkgen/results.cuh"
#include "tkgen/rings.cuh"
#include "tkgen/products.cuh"
#include "tkgen/fused.cuh"
#include "tkgen/fused_bytes.cuh"
#include "tkgen/rows.cuh"
#include "tkgen/atomics.cuh"
