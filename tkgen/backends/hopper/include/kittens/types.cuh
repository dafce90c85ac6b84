/// Tiles, tensors in global memory and the shared memory that tiles lie in.
#pragma once

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

namespace kittens {

using bf16 = __nv_bfloat16;
using bf16_2 = __nv_bfloat162;
using fp8e4m3 = __nv_fp8_e4m3;
using fp8e5m2 = __nv_fp8_e5m2;

constexpr int WARP_THREADS = 32;
constexpr int WARPGROUP_WARPS = 4;
constexpr int SWIZZLE_BYTES = 128;         // a row of a panel: the widest swizzle of TMA and wgmma (PTX ISA, swizzling modes)
constexpr int TILE_ALIGNMENT = 1024;       // bytes: 8 such rows, after which the swizzle repeats
constexpr int PARAMETER_ALIGNMENT = 64;    // bytes, of a tensor map (CUDA driver API, cuTensorMapEncodeTiled)

/// A tile in shared memory: R rows in panels of 128 bytes a row, one panel behind the other. Within 8 rows of a panel the
/// 16-byte chunks are exchanged: chunk c of row r lies where c ^ (r % 8) would.
template<typename T, int R, int C> struct alignas(TILE_ALIGNMENT) st {
    using dtype = T;
    static constexpr int rows = R, cols = C;
    static constexpr int panel_cols = SWIZZLE_BYTES / int(sizeof(T));
    static constexpr int panels = C / panel_cols;
    static constexpr int panel_bytes = R * SWIZZLE_BYTES;
    static_assert(C % panel_cols == 0, "a shared tile is made of panels of 128 bytes a row");
    static_assert(R % 8 == 0, "the swizzle repeats after 8 rows");
    T data[R * C];
};
template<int R, int C> using st_bf = st<bf16, R, C>;
template<int R, int C> using st_hf = st<half, R, C>;
template<int R, int C> using st_fl = st<float, R, C>;
template<int R, int C> using st_fp8e4m3 = st<fp8e4m3, R, C>;
template<int R, int C> using st_fp8e5m2 = st<fp8e5m2, R, C>;

/// The bytes of tiles, arrays of tiles included.
template<typename... Tiles> constexpr uint32_t size_bytes = (0 + ... + uint32_t(sizeof(Tiles)));

/// 16 x 16 elements over the lanes of a warp: lane l has rows l / 4 and l / 4 + 8, columns 2 (l % 4) and 8 more.
struct rt_base_fl {
    float2 data[4];
};

/// A warp's fp32 registers of R x C elements. Four warps of 16 x C make the 64 x C that one wgmma sums.
template<int R, int C> struct rt_fl {
    static constexpr int rows = R, cols = C, height = R / 16, width = C / 16;
    rt_base_fl tiles[height][width];
};

/// The same elements of 16 bits, in pairs of neighbours: as wgmma takes a left factor from registers.
template<typename T, int R, int C> struct rt_16 {
    using dtype = T;
    static constexpr int rows = R, cols = C, height = R / 16, width = C / 16;
    static constexpr bool in_registers = true;
    struct base {
        uint32_t data[4];
    } tiles[height][width];
};
template<int R, int C> using rt_bf = rt_16<bf16, R, C>;
template<int R, int C> using rt_hf = rt_16<half, R, C>;

/// The elements of rt_fl as 8-bit floats, in pairs of neighbours, on their way to a tile.
template<typename T, int R, int C> struct rt_8 {
    using dtype = T;
    static constexpr int rows = R, cols = C, height = R / 16, width = C / 16;
    struct base {
        uint16_t data[4];
    } tiles[height][width];
};
template<int R, int C> using rt_fp8e4m3 = rt_8<fp8e4m3, R, C>;
template<int R, int C> using rt_fp8e5m2 = rt_8<fp8e5m2, R, C>;

struct alignas(PARAMETER_ALIGNMENT) tensor_map {
    char opaque[128];  // CUtensorMap
};

/// A row-major tensor in global memory and the tensor map by which the copy engine moves tiles of type `Tile`; without one
/// the map is not set. Of a matrix the map has two dimensions, else four.
/// The host writes it: 128 bytes of map, the address, rows, columns, depth, batch; 192 bytes with padding.
template<typename T, int B, int D, int R, int C, typename Tile = void> struct gl {
    static constexpr bool matrix = B == 1 && D == 1;
    using dtype = T;
    using tile = Tile;
    tensor_map map;
    T *raw_ptr;
    int rows_, cols_, depth_, batch_;
    __device__ int batch() const { return B == -1 ? batch_ : B; }
    __device__ int depth() const { return D == -1 ? depth_ : D; }
    __device__ int rows() const { return R == -1 ? rows_ : R; }
    __device__ int cols() const { return C == -1 ? cols_ : C; }
};

/// Along which dimension the rows of a tile lie.
namespace dim {
constexpr int BATCH = 0, DEPTH = 1, ROW = 2;
}
enum class cache_policy { NORMAL };

/// Where a tile stands, in tiles of type T, or without one in elements: batch, depth, row, column.
template<typename T = void> struct coord {
    int b, d, r, c;
};

__device__ inline uint32_t shared_address(const void *p) { return uint32_t(__cvta_generic_to_shared(p)); }

/// Hands out dynamic shared memory, aligned for swizzled tiles.
struct tma_swizzle_allocator {
    char *next;
    __device__ explicit tma_swizzle_allocator(int *memory) : next(reinterpret_cast<char *>(memory)) {
        next += (TILE_ALIGNMENT - shared_address(next) % TILE_ALIGNMENT) % TILE_ALIGNMENT;
    }
    template<typename A, int... dims> struct array_of { using type = A; };
    template<typename A, int first, int... rest> struct array_of<A, first, rest...> {
        using type = typename array_of<A, rest...>::type[first];
    };
    template<typename A, int... dims> __device__ typename array_of<A, dims...>::type &allocate() {
        using type = typename array_of<A, dims...>::type;
        type *p = reinterpret_cast<type *>(next);
        next += sizeof(type);
        return *p;
    }
};

__device__ inline int warpid() { return threadIdx.x / WARP_THREADS; }
__device__ inline int laneid() { return threadIdx.x % WARP_THREADS; }

} // namespace kittens
