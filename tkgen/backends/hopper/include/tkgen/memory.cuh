/// Global memory: elements of tensors, buffers of a tensor, groups of rows.
#pragma once

#include "kittens.cuh"

namespace tk {
using namespace kittens;

// ---------------------------------------------------------------- elements

/// An element of a tensor.
template <typename GL> __device__ inline typename GL::dtype &number_at(const GL &tensor, const coord<> &at) {
    return tensor.raw_ptr[((size_t(at.b) * tensor.depth() + at.d) * tensor.rows() + at.r) * tensor.cols() + at.c];
}

/// The offset of the row of an element, or of the nearest row.
template <typename GL> __device__ inline size_t row_at(const GL &tensor, const coord<> &at) {
    const size_t plane = size_t(min(at.b, tensor.batch() - 1)) * tensor.depth() + min(at.d, tensor.depth() - 1);
    return (plane * tensor.rows() + min(at.r, tensor.rows() - 1)) * tensor.cols();
}

/// An element of a tensor as a float; outside of it, where nothing is stored, its nearest one.
template <typename GL> __device__ inline float element_at(const GL &tensor, const coord<> &at) {
    return float(tensor.raw_ptr[row_at(tensor, at) + min(at.c, tensor.cols() - 1)]);
}

/// Two neighbours of a row, the first of which has an even column, as rows have an even number of elements.
template <typename GL> __device__ inline float2 pair_at(const GL &tensor, const coord<> &at) {
    struct alignas(2 * sizeof(typename GL::dtype)) pair { typename GL::dtype x, y; };
    const pair p = *reinterpret_cast<const pair *>(tensor.raw_ptr + row_at(tensor, at) + min(at.c, tensor.cols() - 2));
    return {float(p.x), float(p.y)};
}

/// The same number for two neighbours.
__device__ inline float2 both(float v) { return {v, v}; }

// ---------------------------------------------------------------- boxes of the copy engine

/// What the copy engine brings of a tile: by which tensor map, and how many bytes.
template <typename GL> struct boxes {
    const GL &tensor;
    uint32_t bytes;
};

/// Those of tile number `tile` along the rows, of which there are `size`. A box that reaches beyond the last row takes longer
/// than one of the rows inside, so the map of `end` has as many rows as the last tile; of a tile without any, eight.
template <typename Tile, typename GL>
__device__ inline boxes<GL> boxes_of(const GL &whole, const GL &end, int tile, int size) {
    constexpr int rows = Tile::rows, row_bytes = int(sizeof(Tile)) / rows, least = 8;
    if ((tile + 1) * rows <= size) return {whole, sizeof(Tile)};
    return {end, uint32_t((size % rows ? size % rows : least) * row_bytes)};
}

// ---------------------------------------------------------------- buffers

constexpr uint32_t OUTSIDE = 0x80000000;  // an offset past every buffer: loads give zero, stores are dropped

/// A tensor from one of its elements on.
template <typename T> struct buffer {
    T *first;
    __device__ bool has(uint32_t offset) const { return offset < OUTSIDE; }
    __device__ char *at(uint32_t offset) const { return reinterpret_cast<char *>(first) + offset; }
};
template <typename GL> __device__ inline buffer<typename GL::dtype> buffer_from(const GL &tensor, uint64_t origin) {
    return {tensor.raw_ptr + origin};
}

// ---------------------------------------------------------------- groups

/// A tensor's descriptor where the rows of tiles are of groups: a copy has rows of one group, and zeros beyond its end.
template <typename Tile, int along = dim::ROW> struct group_descriptor : tma::descriptor<Tile, along> {
    static constexpr bool groups = true;
};

/// Where a tile of a group's rows is, in tiles: along these rows from the first one of the group, which is row `first` of the
/// tensor. The group has `length` of them.
struct group_coord {
    int b, d, r, c, first, length;
};

/// Where a tile of a page is, in tiles: along the page's rows from its first one, of `length` rows of all pages. The page is
/// the entry of a table, whose place there is `tb` to `tc`; entries are in the order of the rows.
struct page_coord {
    int b, d, r, c, length, tb, td, tr, tc;
};

/// The same as a part of the tensor, where pages lie along dimension `along` and their rows along `axis`: the rows that
/// the page has of `length`. Of an entry that the table has not, and of a page that the tensor has not, all are zeros.
template <int along, int axis, typename Table, typename GL>
__device__ inline group_coord in_page(const Table &table, const GL &tensor, const page_coord &at) {
    const int page = at.tc < table.cols() ? number_at(table, {at.tb, at.td, at.tr, at.tc}) : -1;
    const int rows = axis == dim::BATCH ? tensor.batch() : axis == dim::DEPTH ? tensor.depth() : tensor.rows();
    const int length = min(max(at.length - at.tc * rows, 0), rows);
    return {along == dim::BATCH ? page : at.b, along == dim::DEPTH ? page : at.d, at.r, at.c, 0, length};
}

/// The groups of the rows of a tensor, each of which has tiles of its own. Where offsets decrease or lie outside, a group
/// still begins where the one before it ended, and none ends behind the last row.
struct group_walk {
    const int *offsets;
    int groups, size, group = -1, first = 0, end, rows = 0, before = 0;

    __device__ inline group_walk(const int *offsets, int groups, int size) : offsets(offsets), groups(groups), size(size), end(min(max(__ldg(offsets), 0), size)) {}

    /// Goes on to the group that has tile `tile` of all; false where no group has it. `before` are those of earlier groups.
    __device__ inline bool find(int tile, int block_rows, int cols) {
        while (tile - before >= rows * cols) {
            if (++group == groups) return false;
            before += rows * cols;
            next();
            rows = (end - first + block_rows - 1) / block_rows;
        }
        return true;
    }
    /// Goes on to group `wanted`.
    __device__ inline void go(int wanted) {
        while (group < wanted) ++group, next();
    }
    /// The rows of the group at hand, which is the one after that of before.
    __device__ inline void next() {
        first = end;
        end = max(first, min(__ldg(offsets + group + 1), size));
    }
};

} // namespace tk
