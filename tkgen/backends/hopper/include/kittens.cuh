/// The names of ThunderKittens 2.0 that tkgen's kernels for Hopper use. See the folder `kittens`.
#pragma once

#include "kittens/types.cuh"
#include "kittens/sync.cuh"
#include "kittens/tma.cuh"
#include "kittens/wgmma.cuh"
#include "kittens/store.cuh"
#include "kittens/maths.cuh"
