/// What generated kernels need beside ThunderKittens 2.0, over its public surface: namespace tk.
///
///   memory.cuh    elements of tensors in global memory, buffers of a tensor, groups of rows
///   common.cuh    what is the same on all machines: beside the headers for CDNA
///   sorted.cuh    rows in order: beside the headers for CDNA
///   lanes.cuh     reductions over lanes
///   rows.cuh      rows over lanes: what a lane moves of a row at once, conversions
///   tiles.cuh     register tiles of products, element by element
///   filled.cuh    tiles of operands that a warpgroup loads, or computes, itself
///
/// A kernel calls all of it as tk::NAME, so nothing here can clash with a name of a spec.
#pragma once

#include "tkgen/common.cuh"
#include "tkgen/memory.cuh"
#include "tkgen/lanes.cuh"
#include "tkgen/sorted.cuh"
#include "tkgen/rows.cuh"
#include "tkgen/atomics.cuh"
#include "tkgen/tiles.cuh"
#include "tkgen/filled.cuh"
