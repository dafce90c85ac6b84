/**
 * Global memory: buffers of a tensor, single elements of it, groups of rows, pages.
 */
#pragma once

#include "common.cuh"
#include "sync.cuh"
#include "types.cuh"

namespace tk {

/// What raw buffer loads and stores take.
using buffer = decltype(__builtin_amdgcn_make_buffer_rsrc((float *)nullptr, 0, 0, 0));

constexpr int RAW_BUFFER = 0x00020000;      // word 3 of a buffer descriptor: 32-bit raw data (CDNA3 ISA guide, table 44)
constexpr uint32_t OUTSIDE = 0x80000000;    // an offset past every buffer: loads give zero, stores are dropped
constexpr uint64_t MOST_BYTES = 0x7fffff00; // of a buffer, so that nothing added to OUTSIDE comes back into it
constexpr int NOWHERE = -1;                 // an offset past every buffer of a matrix, to which nothing is added

/// How tiles meet the end of a tensor, how large that may be, and who brings them: flags of the functions below.
constexpr int MASKED = 1;  // zeros past its end
constexpr int CLAMPED = 2; // past its end its last rows and columns again; what is made of them is not stored
constexpr int WIDE = 4;    // it may have more than 2 GiB
constexpr int WHOLE_BLOCK = 8; // by all threads of the block, not those of a role

/// The matrix of `rows` x `cols` elements from `first` on. The library constructs a gl on the host alone: on the device it
/// copies one, whose members are public.
template <ducks::gl::all GL> __device__ inline GL matrix_at(typename GL::dtype *first, size_t rows, size_t cols) {
    union made {
        GL tensor;
        __device__ made() {}
        __device__ ~made() {}
    } matrix;
    matrix.tensor.raw_ptr = first;
    if constexpr (GL::__r__ < 0) matrix.tensor.rows_internal = rows;
    if constexpr (GL::__c__ < 0) matrix.tensor.cols_internal = cols;
    return matrix.tensor;
}

/// How a tensor uses the caches, as loads and stores take it.
template <ducks::gl::all GL> constexpr int policy_of() {
    if constexpr (requires { GL::cache_policy; }) return GL::cache_policy;
    else return 0;
}

/// The buffer from element `origin` of a matrix to its end.
template <ducks::gl::all GL> __device__ inline auto buffer_at(const GL &tensor, uint64_t origin) {
    const uint64_t bytes = (uint64_t(tensor.rows()) * tensor.cols() - origin) * sizeof(typename GL::dtype);
    return __builtin_amdgcn_make_buffer_rsrc(tensor.raw_ptr + origin, 0, bytes < 0xfffffffc ? bytes : 0xfffffffc,
                                             RAW_BUFFER);
}

/// The buffer from row `first_row` of a matrix to its end.
template <ducks::gl::all GL> __device__ inline auto rows_from(const GL &tensor, int first_row) {
    return buffer_at(tensor, uint64_t(min(first_row, int(tensor.rows()))) * tensor.cols());
}

/// The buffer from element `origin` of a tensor to its end.
template <ducks::gl::all GL>
__device__ inline buffer buffer_from(const GL &tensor, uint64_t origin) {
    const uint64_t elements = uint64_t(tensor.batch()) * tensor.depth() * tensor.rows() * tensor.cols();
    const uint64_t bytes = (elements - origin) * sizeof(typename GL::dtype);
    return __builtin_amdgcn_make_buffer_rsrc(tensor.raw_ptr + origin, 0, bytes < MOST_BYTES ? bytes : MOST_BYTES,
                                             RAW_BUFFER);
}

/// `rows` rows of a tensor, `pitch` elements apart, each of `cols` elements, from element `origin` on; none where that is
/// past its end.
template <ducks::gl::all GL>
__device__ inline buffer rows_from(const GL &tensor, uint64_t origin, int rows, int pitch, int cols) {
    const int bytes = rows > 0 ? ((rows - 1) * pitch + cols) * int(sizeof(typename GL::dtype)) : 0;
    return __builtin_amdgcn_make_buffer_rsrc(tensor.raw_ptr + origin, 0, bytes, RAW_BUFFER);
}

/// An element of memory as a float, `offset` bytes into a buffer.
template <typename T, typename B> __device__ inline float read_element(const B &from, int offset) {
    const auto widened = [](auto bits) { return convert<float>(__builtin_bit_cast(T, bits)); };
    if constexpr (sizeof(T) == 1) return widened(__builtin_amdgcn_raw_buffer_load_b8(from, offset, 0, 0));
    else if constexpr (sizeof(T) == 4) return widened(__builtin_amdgcn_raw_buffer_load_b32(from, offset, 0, 0));
    else return widened(__builtin_amdgcn_raw_buffer_load_b16(from, offset, 0, 0));
}

/// An element of a vector in global memory, 0 past its end. (The vector loads of ThunderKittens-HIP deal elements to 32
/// lanes.)
template <ducks::gl::all GL> __device__ inline float element(const GL &vector, int index) {
    using T = typename GL::dtype;
    return read_element<T>(buffer_at(vector, 0), index * int(sizeof(T)));
}

/// An element of a matrix in global memory; `from` begins at row `first_row`. `how`: 0 outside of it.
template <int how = 0, ducks::gl::all GL, typename B>
__device__ inline float element_of(const GL &tensor, const B &from, int first_row, int row, int col) {
    using T = typename GL::dtype;
    const int cols = tensor.cols();
    if constexpr (how & (MASKED | CLAMPED)) {
        const bool inside = row < int(tensor.rows()) && col < cols;
        return read_element<T>(from, inside ? ((row - first_row) * cols + col) * int(sizeof(T)) : NOWHERE);
    } else return read_element<T>(from, ((row - first_row) * cols + col) * int(sizeof(T)));
}

/// An element of a tensor in global memory, counted from its first; 0 past its end.
template <ducks::gl::all GL> __device__ inline float number_at(const GL &tensor, int index) {
    using T = typename GL::dtype;
    const uint64_t bytes = uint64_t(tensor.batch()) * tensor.depth() * tensor.rows() * tensor.cols() * sizeof(T);
    return read_element<T>(__builtin_amdgcn_make_buffer_rsrc(tensor.raw_ptr, 0, bytes, RAW_BUFFER), index * int(sizeof(T)));
}

/// Entry `at` of a table's row of pages, which has `count` from element `origin` on; -1 where there is no such entry, or it
/// is none of `pages` pages.
template <ducks::gl::all GL>
__device__ inline int page_of(const GL &table, uint64_t origin, int at, int count, int pages) {
    const int page = at < count ? __builtin_amdgcn_readfirstlane(table.raw_ptr[origin + at]) : -1;
    return uint32_t(page) < uint32_t(pages) ? page : -1;
}

/// The groups of a dimension of `size`, one after the other, each with the tiles that its rows need. Whatever the offsets
/// hold, a group begins where the one before it ended, and ends within the dimension: no row is in two groups.
struct group_walk {
    const int *offsets;
    int count, size, group = -1, first = 0, end, rows = 0, before = 0;

    __device__ inline group_walk(const int *offsets, int count, int size) : offsets(offsets), count(count), size(size), end(min(max(offset(0), 0), size)) {}

    __device__ inline int offset(int at) const { return __builtin_amdgcn_readfirstlane(offsets[at]); }

    /// Goes on to group `to`, which is not before this one.
    __device__ inline void go(int to) {
        while (group < to) {
            ++group;
            first = end;
            end = max(first, min(offset(group + 1), size));
        }
    }

    /// Goes on to the group that has tile `tile` of all, `before` of which are of groups before it; false where none has.
    __device__ inline bool find(int tile, int block_rows, int cols) {
        while (tile - before >= rows * cols) {
            if (group + 1 == count) return false;
            before += rows * cols;
            go(group + 1);
            rows = (end - first + block_rows - 1) / block_rows;
        }
        return true;
    }
};

} // namespace tk
