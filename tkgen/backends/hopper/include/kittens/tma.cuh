/// The bulk copy engine (PTX ISA: cp.async.bulk.tensor). One thread issues; a load completes bytes on an mbarrier, a store
/// belongs to the bulk groups of the thread that issued it.
#pragma once

#include "sync.cuh"

namespace kittens::tkgen {

/// The first element of a tile of type S whose rows lie along `axis`.
template<int axis, typename S> __device__ inline coord<> first_element(const coord<> &at) { return at; }
template<int axis, typename S> __device__ inline coord<> first_element(const coord<S> &at) {
    return {at.b * (axis == dim::BATCH ? S::rows : 1), at.d * (axis == dim::DEPTH ? S::rows : 1),
            at.r * (axis == dim::ROW ? S::rows : 1), at.c * S::cols};
}

/// The same of a tile whose rows are of a group: they end where the tensor does. `end` is the place along the fifth dimension
/// by which the map then has the group's rows: its address is that of the first row, less as many rows as the tensor has.
struct first_of_group : coord<> {
    int end;
};
template<int axis, typename S, typename G, typename C> requires(G::grouped)
__device__ inline first_of_group first_element(const G &tensor, const C &at) {
    const int before = (axis == dim::BATCH ? tensor.batch() : axis == dim::DEPTH ? tensor.depth() : tensor.rows()) - at.length;
    first_of_group first{first_element<axis, S>(coord<S>{at.b, at.d, at.r, at.c}), at.first + at.length};
    (axis == dim::BATCH ? first.b : axis == dim::DEPTH ? first.d : first.r) += before;
    return first;
}
template<int axis, typename S, typename G, typename C> __device__ inline coord<> first_element(const G &, const C &at) {
    return first_element<axis, S>(at);
}

/// Moves a tile to `to` as one bulk group: written there, or added to what is there.
template<bool add, typename G, typename S, typename C>
__device__ inline void move_out(const G &to, const S &from, const C &first) {
#pragma unroll
    for (int p = 0; p < S::panels; ++p) {
        const uint32_t place = shared_address(&from) + p * S::panel_bytes;
        const int column = first.c + p * S::panel_cols;
        if constexpr (add) {
            static_assert(G::matrix && sizeof(typename S::dtype) == 4);
            asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&to.map),
                         "r"(column), "r"(first.r), "r"(place)
                         : "memory");
        } else if constexpr (G::matrix) {
            asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&to.map),
                         "r"(column), "r"(first.r), "r"(place)
                         : "memory");
        } else if constexpr (G::grouped) {
            asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3, %4, %5}], [%6];" ::"l"(
                             &to.map),
                         "r"(column), "r"(first.r), "r"(first.d), "r"(first.b), "r"(first.end), "r"(place)
                         : "memory");
        } else {
            asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3, %4}], [%5];" ::"l"(
                             &to.map),
                         "r"(column), "r"(first.r), "r"(first.d), "r"(first.b), "r"(place)
                         : "memory");
        }
    }
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

} // namespace kittens::tkgen

namespace kittens::tma {

/// Arrives at `bar` and has its phase expect the bytes of `tiles`.
template<typename... Tiles> __device__ inline void expect(semaphore &bar, const Tiles &...) {
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(tkgen::shared_address(&bar)),
                 "r"(tkgen::size_bytes<Tiles...>)
                 : "memory");
}

/// The same for this number of bytes.
__device__ inline void expect_bytes(semaphore &bar, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(tkgen::shared_address(&bar)), "r"(bytes)
                 : "memory");
}

/// Brings the tile at `at` from `from`; elements outside the tensor are zeros. The rows of the tile lie along `axis`.
template<int axis = dim::ROW, cache_policy = cache_policy::NORMAL, typename S, typename G, typename C = coord<S>>
__device__ inline void load_async(S &to, const G &from, const C &at, semaphore &bar) {
    static_assert(G::template moves<S, axis>, "the tensor has no map for such tiles");
    const auto first = tkgen::first_element<axis, S>(from, at);
#pragma unroll
    for (int p = 0; p < S::panels; ++p) {
        const uint32_t place = tkgen::shared_address(&to) + p * S::panel_bytes, meeting = tkgen::shared_address(&bar);
        const int column = first.c + p * S::panel_cols;
        if constexpr (G::matrix) {
            asm volatile(
                "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
                    place),
                "l"(&from.map), "r"(column), "r"(first.r), "r"(meeting)
                : "memory");
        } else if constexpr (G::grouped) {
            asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                         "[%0], [%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(place),
                         "l"(&from.map), "r"(column), "r"(first.r), "r"(first.d), "r"(first.b), "r"(first.end), "r"(meeting)
                         : "memory");
        } else {
            asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                         "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(place),
                         "l"(&from.map), "r"(column), "r"(first.r), "r"(first.d), "r"(first.b), "r"(meeting)
                         : "memory");
        }
    }
}

namespace cluster {

/// `load_async` into every block of the cluster whose bit is set in `blocks`: to the place that `to` has there, with its
/// bytes for the barrier in the place of `bar`.
template<int axis = dim::ROW, cache_policy = cache_policy::NORMAL, typename S, typename G, typename C = coord<S>>
__device__ inline void load_async(S &to, const G &from, const C &at, semaphore &bar, uint16_t blocks) {
    static_assert(G::template moves<S, axis>, "the tensor has no map for such tiles");
    const coord<> first = tkgen::first_element<axis, S>(at);
#pragma unroll
    for (int p = 0; p < S::panels; ++p) {
        const uint32_t place = tkgen::shared_address(&to) + p * S::panel_bytes, meeting = tkgen::shared_address(&bar);
        const int column = first.c + p * S::panel_cols;
        if constexpr (G::matrix) {
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                         "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(place),
                         "l"(&from.map), "r"(column), "r"(first.r), "r"(meeting), "h"(blocks)
                         : "memory");
        } else {
            asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                         "[%0], [%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(place),
                         "l"(&from.map), "r"(column), "r"(first.r), "r"(first.d), "r"(first.b), "r"(meeting), "h"(blocks)
                         : "memory");
        }
    }
}

} // namespace cluster

/// Adds a tile of f32 to `to` as one bulk group, element by element, each at once; else as `store_async`.
template<int axis = dim::ROW, cache_policy = cache_policy::NORMAL, typename G, typename S, typename C = coord<S>>
__device__ inline void store_add_async(const G &to, const S &from, const C &at) {
    static_assert(G::template moves<S, axis>, "the tensor has no map for such tiles");
    tkgen::move_out<true>(to, from, tkgen::first_element<axis, S>(to, at));
}

/// Writes a tile to `to` as one bulk group; elements outside the tensor are dropped. What ordinary stores put into the
/// tile must have been made visible to the copy engine (`group::store`) before a meeting of the writers.
template<int axis = dim::ROW, cache_policy = cache_policy::NORMAL, typename G, typename S, typename C = coord<S>>
__device__ inline void store_async(const G &to, const S &from, const C &at) {
    static_assert(G::template moves<S, axis>, "the tensor has no map for such tiles");
    tkgen::move_out<false>(to, from, tkgen::first_element<axis, S>(to, at));
}

/// Returns when at most N of this thread's stores still read shared memory.
template<int N = 0> __device__ inline void store_async_read_wait() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

/// Returns when at most N of this thread's stores are incomplete.
template<int N = 0> __device__ inline void store_async_wait() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}

} // namespace kittens::tma
