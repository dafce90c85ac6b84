/// What generated kernels need beside ThunderKittens 2.0, over its public surface: namespace tk.
///
///   memory.cuh    elements of tensors in global memory, buffers of a tensor, groups of rows
///   lanes.cuh     reductions over a lane's numbers, and over lanes; division by one number
///   rows.cuh      rows over lanes: what a lane moves of a row at once, conversions
///   tiles.cuh     register tiles of products, element by element
///
/// A kernel calls all of it as tk::NAME, so nothing here can clash with a name of a spec.
#pragma once

#include "tkgen/memory.cuh"
#include "tkgen/lanes.cuh"
#include "tkgen/rows.cuh"
#include "tkgen/tiles.cuh"
