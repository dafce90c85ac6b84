/// The names that generated kernels for Hopper use, for the host: what would be an instruction is an event that is recorded.
///
/// One thread of a block runs after the other, each from its first statement to its last: nothing waits, nothing is copied
/// or multiplied. Tiles, tensors and where shared memory begins are those of the embedded headers (`types.cuh`).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <math.h>
#include <type_traits>
#include <vector>

#define __global__
#define __device__
#define __shared__ thread_local  // may be `extern`, and is one thing for all threads that are run here
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)

struct float2 {
    float x, y;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct place_in_launch {
    unsigned x;
};
inline place_in_launch threadIdx, blockIdx, gridDim;

template<typename A, typename B> auto min(A a, B b) { return a < b ? a : b; }
template<typename A, typename B> auto max(A a, B b) { return a < b ? b : a; }
template<typename T> T __ldg(const T *p) { return *p; }
template<typename T> T __shfl_xor_sync(unsigned, T value, int) { return value; }
inline float rsqrtf(float x) { return 1 / sqrtf(x); }
inline float sinpif(float x) { return sinf(float(M_PI) * x); }
inline float cospif(float x) { return cosf(float(M_PI) * x); }
inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
inline uint64_t __cvta_generic_to_shared(const void *p) { return reinterpret_cast<uint64_t>(p); }

namespace recording {

/// What one thread does. Addresses are those of this process.
struct event {
    const char *kind;
    int64_t at[12];
};
inline std::vector<event> events;
inline int rank;  // of this block in its cluster

template<typename... T> void record(const char *kind, T... at) { events.push_back({kind, {int64_t(at)...}}); }
inline int64_t address(const void *p) { return reinterpret_cast<int64_t>(p); }

/// The number of a thread's registers, in the order in which it multiplies with them.
inline std::vector<const void *> registers;
inline int64_t number(const void *of) {
    const auto found = std::find(registers.begin(), registers.end(), of);
    if (found == registers.end()) return registers.push_back(of), registers.size() - 1;
    return found - registers.begin();
}

/// Groups of products that are under way: the registers that each of them adds to.
inline std::deque<const void *> running;
inline void touched(const void *registers) {
    for (const void *each : running)
        if (each == registers) return record("touched in flight");
}

} // namespace recording

inline void __syncthreads() { recording::record("meet block"); }
inline void __syncwarp() { recording::record("rows"); }

#include "kittens/types.cuh"
namespace kittens {

/// Registers that say when they are touched while products run that write them.
template<int R, int C> struct rt<float, R, C> {
    static constexpr int rows = R, cols = C, height = R / 16, width = C / 16;
    struct {
        rt_base<float> lanes[height][width];
        rt_base<float> *operator[](int row) { return recording::touched(this), lanes[row]; }
        const rt_base<float> *operator[](int row) const { return recording::touched(this), lanes[row]; }
    } tiles;
};

namespace base_ops {
struct sum {
    template<typename T> static T op(const T &a, const T &b) { return a + b; }
};
struct max {
    template<typename T> static T op(const T &a, const T &b) { return fmaxf(a, b); }
};
struct min {
    template<typename T> static T op(const T &a, const T &b) { return fminf(a, b); }
};
} // namespace base_ops

// ---------------------------------------------------------------- sync.cuh

struct alignas(8) semaphore {
    uint64_t state;
};
inline void init_semaphore(semaphore &bar, int threads, int transactions = 0) {
    recording::record("init", recording::address(&bar), threads + transactions);
}
inline void arrive(semaphore &bar) { recording::record("arrive", recording::address(&bar), -1); }
inline void wait(semaphore &bar, int phase) { recording::record("wait", recording::address(&bar), phase); }
inline int cluster_ctarank() { return recording::rank; }

namespace tma::cluster {
inline void arrive(semaphore &bar, int rank, uint32_t count = 1) {
    recording::record("arrive", recording::address(&bar), rank, count);
}
} // namespace tma::cluster

namespace everyone::tma::cluster {
inline void arrive() { recording::record("arrive at cluster"); }
inline void wait() { recording::record("wait for cluster"); }
} // namespace everyone::tma::cluster

// ---------------------------------------------------------------- group.cuh

namespace detail {
template<bool ADDS, bool LEFT_TRANSPOSED, bool RIGHT_TRANSPOSED, typename D, typename A, typename B>
void multiply(D &d, const A &a, const B &b) {
    constexpr bool registers = requires { a.tiles; };
    recording::running.push_back(&d.tiles);
    recording::record("multiply", recording::number(&d), registers ? recording::number(&a) : recording::address(&a),
                      registers ? 0 : sizeof(A), recording::address(&b), sizeof(B), ADDS, LEFT_TRANSPOSED, RIGHT_TRANSPOSED);
}
} // namespace detail

template<int WARPS> struct group {
    static int groupid() { return threadIdx.x / (WARPS * WARP_THREADS); }
    static int warpid() { return kittens::warpid() % WARPS; }
    static int laneid() { return threadIdx.x % (WARPS * WARP_THREADS); }

    static void sync(int id) { recording::record("sync", id, WARPS * WARP_THREADS); }
    static void arrive(int id) { recording::record("arrive at named", id, WARPS * WARP_THREADS); }

    template<int N> static void increase_registers() { recording::record("registers", N, 1); }
    template<int N> static void decrease_registers() { recording::record("registers", N, -1); }

    template<typename D, typename A, typename B> static void mma_AB(D &d, const A &a, const B &b) { detail::multiply<true, false, false>(d, a, b); }
    template<typename D, typename A, typename B> static void mma_ABt(D &d, const A &a, const B &b) { detail::multiply<true, false, true>(d, a, b); }
    template<typename D, typename A, typename B> static void mma_AtB(D &d, const A &a, const B &b) { detail::multiply<true, true, false>(d, a, b); }
    template<typename D, typename A, typename B> static void mma_AtBt(D &d, const A &a, const B &b) { detail::multiply<true, true, true>(d, a, b); }
    template<typename D, typename A, typename B> static void mm_AB(D &d, const A &a, const B &b) { detail::multiply<false, false, false>(d, a, b); }
    template<typename D, typename A, typename B> static void mm_ABt(D &d, const A &a, const B &b) { detail::multiply<false, false, true>(d, a, b); }
    template<typename D, typename A, typename B> static void mm_AtB(D &d, const A &a, const B &b) { detail::multiply<false, true, false>(d, a, b); }
    template<typename D, typename A, typename B> static void mm_AtBt(D &d, const A &a, const B &b) { detail::multiply<false, true, true>(d, a, b); }

    template<int N = 0> static void mma_async_wait() {
        while (int(recording::running.size()) > N) recording::running.pop_front();
        recording::record("multiplied", N);
    }

    /// The warp's rows of the tile get a number that tells the tile, for those who read them (`store_rows`).
    template<typename S, typename R> static void store(S &to, const R &from) {
        static_assert(WARPS == WARPGROUP_WARPS && S::rows == 64 && S::cols == R::cols);
        if constexpr (requires { from.tiles.lanes; }) (void)from.tiles[0];
        const int64_t tile = recording::address(&to);
        for (int p = 0; p < S::panels; ++p)
            memset(reinterpret_cast<char *>(&to) + p * S::panel_bytes + warpid() * 16 * tkgen::SWIZZLE_BYTES, 1 + tile / 1024 % 127,
                   16 * tkgen::SWIZZLE_BYTES);
        recording::record("put", tile, sizeof(S));
    }

    template<int R, int C> static void zero(rt_fl<R, C> &tile) { memset(&tile.tiles[0][0], 0, sizeof(tile)); }
    template<typename T, int R, int C> static void copy(rt<T, R, C> &, const rt_fl<R, C> &from) { (void)from.tiles[0]; }
};
using warp = group<1>;
using warpgroup = group<WARPGROUP_WARPS>;

// ---------------------------------------------------------------- tma.cuh

namespace tma {

namespace detail {
template<int axis, typename S> coord<> first_element(const coord<> &at) { return at; }
template<int axis, typename S> coord<> first_element(const coord<S> &at) {
    return {at.b * (axis == dim::BATCH ? S::rows : 1), at.d * (axis == dim::DEPTH ? S::rows : 1),
            at.r * (axis == dim::ROW ? S::rows : 1), at.c * S::cols};
}
/// What a copy moves: the tile, its tensor, the first element of it there, the box of one instruction.
template<int axis, typename S, typename G, typename C, typename... More>
void moved(const char *kind, const S &tile, const G &tensor, const C &at, More... more) {
    const coord<> first = first_element<axis, S>(at);
    recording::record(kind, recording::address(&tile), sizeof(S), recording::address(tensor.raw_ptr), first.b, first.d, first.r,
                      first.c, S::rows, S::panel_cols, axis, more...);
}
} // namespace detail

template<typename... Tiles> void expect(semaphore &bar, const Tiles &...) {
    recording::record("expect", recording::address(&bar), tkgen::size_bytes<Tiles...>);
}
template<int axis = dim::ROW, cache_policy = cache_policy::NORMAL, typename S, typename G, typename C = coord<S>>
void load_async(S &to, const G &from, const C &at, semaphore &bar) {
    detail::moved<axis>("load", to, from, at, recording::address(&bar), 0);
}
namespace cluster {
template<int axis = dim::ROW, cache_policy = cache_policy::NORMAL, typename S, typename G, typename C = coord<S>>
void load_async(S &to, const G &from, const C &at, semaphore &bar, uint16_t blocks) {
    detail::moved<axis>("load", to, from, at, recording::address(&bar), blocks);
}
} // namespace cluster
template<int axis = dim::ROW, cache_policy = cache_policy::NORMAL, typename G, typename S, typename C = coord<S>>
void store_async(const G &to, const S &from, const C &at) {
    detail::moved<axis>("store", from, to, at, false);
}
template<int axis = dim::ROW, cache_policy = cache_policy::NORMAL, typename G, typename S, typename C = coord<S>>
void store_add_async(const G &to, const S &from, const C &at) {
    detail::moved<axis>("store", from, to, at, true);
}
template<int N = 0> void store_async_read_wait() { recording::record("read", N); }
template<int N = 0> void store_async_wait() { recording::record("stored", N); }

} // namespace tma
} // namespace kittens

/// Behind a generated file: the way into its kernel. Returns how many events thread `thread` of a block has.
#define RECORDED(name)                                                                                                \
    namespace name {                                                                                                  \
    alignas(1024) thread_local int memory[1 << 16];                                                                                \
    }                                                                                                                 \
    extern "C" long record(const void *argument, int grid, int block, int rank, int thread, const void **events) {    \
        gridDim.x = grid, blockIdx.x = block, threadIdx.x = thread;                                                   \
        recording::rank = rank;                                                                                       \
        recording::events.clear();                                                                                    \
        recording::running.clear(), recording::registers.clear();                                                                                   \
        name::kernel(*static_cast<const name::globals *>(argument));                                                  \
        *events = recording::events.data();                                                                           \
        return recording::events.size();                                                                              \
    }

// Inline assembly of generated files is arithmetic, and empty statements that keep the compiler from moving others.
#define asm(...) void(0)
#define volatile(...) ("")
