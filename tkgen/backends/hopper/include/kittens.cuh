/// The names of ThunderKittens 2.0 that tkgen's kernels for Hopper use, with the meaning that they have there. What these
/// headers need beside them is in `kittens::tkgen`, which no kernel mentions.
#pragma once

#include "kittens/types.cuh"
#include "kittens/sync.cuh"
#include "kittens/tma.cuh"
#include "kittens/group.cuh"
#include "kittens/maths.cuh"
