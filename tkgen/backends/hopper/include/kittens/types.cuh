/// Tiles, tensors in global memory and the shared memory that tiles lie in.
#pragma once

#include <cstdint>
#include <type_traits>
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

namespace tkgen {

constexpr int SWIZZLE_BYTES = 128;         // a row of a panel: the widest swizzle of TMA and wgmma (PTX ISA, swizzling modes)
constexpr int HALF_SWIZZLE_BYTES = 64;     // and the next one, of tiles whose rows are no multiple of that
constexpr int TILE_ALIGNMENT = 1024;       // bytes: 8 such rows, after which the swizzle repeats
constexpr int PARAMETER_ALIGNMENT = 64;    // bytes, of a tensor map (CUDA driver API, cuTensorMapEncodeTiled)

__device__ inline uint32_t shared_address(const void *p) { return uint32_t(__cvta_generic_to_shared(p)); }

/// The bytes of tiles, arrays of tiles included.
template<typename... Tiles> constexpr uint32_t size_bytes = (0 + ... + uint32_t(sizeof(Tiles)));

/// Two neighbours of 16 or of 8 bits, the first in the low part.
template<typename T> using pair_bits = std::conditional_t<sizeof(T) == 1, uint16_t, uint32_t>;

} // namespace tkgen

/// A tile in shared memory: R rows in panels of 128 bytes a row, one panel behind the other. Within 8 rows of a panel the
/// 16-byte chunks are exchanged: chunk c of row r lies where c ^ (r % 8) would. Where rows are no multiple of 128 bytes,
/// panels have 64 bytes a row, and chunk c of row r lies where c ^ (r / 2 % 4) would.
template<typename T, int R, int C> struct alignas(tkgen::TILE_ALIGNMENT) st {
    using dtype = T;
    static constexpr int rows = R, cols = C;
    static constexpr int row_bytes = C * int(sizeof(T)) % tkgen::SWIZZLE_BYTES ? tkgen::HALF_SWIZZLE_BYTES : tkgen::SWIZZLE_BYTES;
    static constexpr int panel_cols = row_bytes / int(sizeof(T));
    static constexpr int panels = C / panel_cols;
    static constexpr int panel_bytes = R * row_bytes;
    static_assert(C % panel_cols == 0, "a shared tile is made of panels of 128 or 64 bytes a row");
    static_assert(R % 8 == 0, "the swizzle repeats after 8 rows");
    T data[R * C];
};
template<int R, int C> using st_bf = st<bf16, R, C>;
template<int R, int C> using st_hf = st<half, R, C>;
template<int R, int C> using st_fl = st<float, R, C>;
template<int R, int C> using st_fp8e4m3 = st<fp8e4m3, R, C>;
template<int R, int C> using st_fp8e5m2 = st<fp8e5m2, R, C>;

/// 16 x 16 elements over the lanes of a warp, in pairs of neighbours: lane l has rows l / 4 and l / 4 + 8, columns
/// 2 (l % 4) and 8 more. Pairs of 16 bits are as wgmma takes a left factor from registers, those of 8 on their way to a tile.
template<typename T> struct rt_base {
    static_assert(sizeof(T) <= 2);
    tkgen::pair_bits<T> data[4];
};
template<> struct rt_base<float> {
    float2 data[4];
};
template<> struct rt_base<int> {
    int2 data[4];
};

/// A warp's registers of R x C elements. Four warps of 16 x C make the 64 x C that one wgmma sums.
template<typename T, int R, int C> struct rt {
    static constexpr int rows = R, cols = C, height = R / 16, width = C / 16;
    rt_base<T> tiles[height][width];
};
template<int R, int C> using rt_fl = rt<float, R, C>;
template<int R, int C> using rt_bf = rt<bf16, R, C>;
template<int R, int C> using rt_hf = rt<half, R, C>;
template<int R, int C> using rt_fp8e4m3 = rt<fp8e4m3, R, C>;
template<int R, int C> using rt_fp8e5m2 = rt<fp8e5m2, R, C>;

/// Along which dimension the rows of a tile lie.
struct dim {
    static constexpr int BATCH = 0, DEPTH = 1, ROW = 2;
};
enum class cache_policy { NORMAL };

namespace tma {
/// What the copy engine moves of a tensor: tiles of type `Tile`, whose rows lie along dimension `along`.
template<typename Tile, int along = dim::ROW> struct descriptor {
    using T = Tile;
    static constexpr int axis = along;
};
} // namespace tma

namespace tkgen {

template<typename Tile> struct described {
    using type = tma::descriptor<Tile>;
};
template<typename Tile, int axis> struct described<tma::descriptor<Tile, axis>> {
    using type = tma::descriptor<Tile, axis>;
};
template<typename Tile> requires(Tile::groups) struct described<Tile> {
    using type = tma::descriptor<typename Tile::T, Tile::axis>;
};
template<typename Tile> concept of_groups = requires { requires Tile::groups; };

struct alignas(PARAMETER_ALIGNMENT) tensor_map {
    char opaque[128];  // CUtensorMap
};

} // namespace tkgen

/// A row-major tensor in global memory and the tensor map by which the copy engine moves tiles of type `Tile`, or what a
/// `tma::descriptor` says; without one the map is not set. Of a matrix the map has two dimensions, else four. Of a descriptor of
/// `groups` it has five: the last one moves on by rows, too, so that a group can end where the dimension of its rows ends.
/// The host writes it: 128 bytes of map, the address, rows, columns, depth, batch; 192 bytes with padding.
template<typename T, int B, int D, int R, int C, typename Tile = void> struct gl {
    static constexpr bool grouped = tkgen::of_groups<Tile>;
    static constexpr bool matrix = B == 1 && D == 1 && !grouped;
    using dtype = T;
    /// Whether the map is that of tiles of type `S` with rows along `axis`.
    template<typename S, int axis> static constexpr bool moves =
        std::is_same_v<typename tkgen::described<Tile>::type, tma::descriptor<S, axis>>;
    tkgen::tensor_map map;
    T *raw_ptr;
    int rows_, cols_, depth_, batch_;
    __device__ int batch() const { return B == -1 ? batch_ : B; }
    __device__ int depth() const { return D == -1 ? depth_ : D; }
    __device__ int rows() const { return R == -1 ? rows_ : R; }
    __device__ int cols() const { return C == -1 ? cols_ : C; }
};

/// Where a tile stands, in tiles of type T, or without one in elements: batch, depth, row, column.
template<typename T = void> struct coord {
    int b, d, r, c;
};

/// Hands out dynamic shared memory, aligned for swizzled tiles.
struct tma_swizzle_allocator {
    char *next;
    __device__ explicit tma_swizzle_allocator(int *memory) : next(reinterpret_cast<char *>(memory)) {
        next += (tkgen::TILE_ALIGNMENT - tkgen::shared_address(next) % tkgen::TILE_ALIGNMENT) % tkgen::TILE_ALIGNMENT;
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
