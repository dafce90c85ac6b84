/**
 * Of HIP's cooperative groups those of one block: the block, and tiles of a wave. Blocks of a grid run one after another under the
 * emulator, so that groups of a grid cannot meet: their names say so.
 */
#pragma once

#include "host.cuh"

namespace cooperative_groups {

struct thread_block {
    __device__ static void sync() { __syncthreads(); }
    __device__ static unsigned thread_rank() { return tkgen_hip::thread(); }
    __device__ static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
    __device__ static unsigned num_threads() { return size(); }
    __device__ static dim3 thread_index() { return threadIdx; }
    __device__ static dim3 group_index() { return blockIdx; }
};
__device__ inline thread_block this_thread_block() { return {}; }

#define TKGEN_NO_GRID __attribute__((unavailable("blocks run one after another here: a barrier of the whole grid cannot be met")))
struct TKGEN_NO_GRID grid_group {};
struct TKGEN_NO_GRID multi_grid_group {};
TKGEN_NO_GRID __device__ grid_group this_grid();
TKGEN_NO_GRID __device__ multi_grid_group this_multi_grid();
#undef TKGEN_NO_GRID

/// `width` neighbouring lanes of a wave.
template <unsigned width> struct thread_block_tile {
    static_assert(width <= 64 && (width & (width - 1)) == 0, "a tile is a power of two, and of one wave");
    __device__ static void sync() { __builtin_amdgcn_wave_barrier(); }
    __device__ static unsigned thread_rank() { return tkgen_hip::thread() % width; }
    __device__ static unsigned meta_group_rank() { return tkgen_hip::thread() / width; }
    __device__ static unsigned meta_group_size() { return (thread_block::size() + width - 1) / width; }
    __device__ static constexpr unsigned size() { return width; }
    __device__ static constexpr unsigned num_threads() { return width; }
    template <typename T> __device__ static T shfl(T value, int lane) { return __shfl(value, lane, width); }
    template <typename T> __device__ static T shfl_up(T value, unsigned by) { return __shfl_up(value, by, width); }
    template <typename T> __device__ static T shfl_down(T value, unsigned by) { return __shfl_down(value, by, width); }
    template <typename T> __device__ static T shfl_xor(T value, int mask) { return __shfl_xor(value, mask, width); }
    __device__ static unsigned long ballot(int predicate) {
        const unsigned long all = __ballot(predicate) >> __lane_id() / width * width;
        return width == 64 ? all : all & ((1ul << width % 64) - 1);
    }
    __device__ static int any(int predicate) { return ballot(predicate) != 0; }
    __device__ static int all(int predicate) { return ballot(!predicate) == 0; }
};
template <unsigned width, typename G> __device__ thread_block_tile<width> tiled_partition(const G &) { return {}; }
template <typename G> __device__ void sync(const G &group) { group.sync(); }

} // namespace cooperative_groups
