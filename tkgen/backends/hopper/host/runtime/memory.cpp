/// Shared memory, what waits in it, and the copy engine (PTX ISA: mbarrier, cp.async.bulk.tensor).
#include "machine.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tkgen_host {

// ---------------------------------------------------------------- shared memory

void check_shared(uint32_t address, uint32_t bytes, const char *what) {
    const uint32_t rank = address >> RANK_SHIFT, offset = address & OFFSET;
    if (rank >= now->blocks.size())
        stop(std::string(what) + " a block that its cluster does not have");
    const block &b = now->blocks[rank];
    if (offset + uint64_t(bytes) > b.shared_bytes)
        stop(std::string(what) + " shared memory beyond its end: " + std::to_string(bytes) + " bytes at " + std::to_string(offset));
    if (b.ended) stop(std::string(what) + " the shared memory of a block that has ended");
}

uint8_t *shared_at(uint32_t address) { return now->blocks[address >> RANK_SHIFT].shared() + (address & OFFSET); }

uint64_t shared_address(const void *p) {
    const block &b = *now->running->of->of;
    const auto *at = static_cast<const uint8_t *>(p);
    if (at < b.shared() || at > b.shared() + b.shared_bytes)
        stop(name_of(*now->running) + " takes an address for one of shared memory that is none");
    return uint64_t(b.rank) << RANK_SHIFT | uint64_t(at - b.shared());
}

void *dynamic_shared() { return now->running->of->of->shared() + now->dynamic_at(); }

void *static_shared(const void *key, size_t bytes, size_t alignment, std::initializer_list<variable> variables) {
    machine &m = *now;
    const auto found = m.placed.find(key);
    if (found != m.placed.end()) return m.running->of->of->shared() + found->second;
    const size_t at = (m.static_bytes + alignment - 1) / alignment * alignment;
    if (at + bytes > m.dynamic_at()) stop("more than " + std::to_string(m.dynamic_at()) + " bytes of static shared memory");
    if (at + bytes + m.dynamic_bytes > SHARED_BYTES)
        stop("a block asks for " + std::to_string(at + bytes + m.dynamic_bytes) + " bytes of shared memory, there are " +
             std::to_string(SHARED_BYTES));
    m.static_bytes = at + bytes;
    m.placed[key] = at;
    for (const variable &v : variables) m.variables.push_back({v.name, at + v.offset, v.bytes, v.element});
    return m.running->of->of->shared() + at;
}

std::string name_of_shared(uint32_t address) {
    const uint32_t offset = address & OFFSET;
    std::string text = std::to_string(offset);
    for (const variable_of_block &v : now->variables)
        if (offset >= v.offset && offset < v.offset + v.bytes) {
            text = v.name;
            if (v.element < v.bytes) text += "[" + std::to_string((offset - v.offset) / v.element) + "]";
        }
    if (now->cluster > 1) text += " of block " + std::to_string(address >> RANK_SHIFT);
    return text;
}

void stored_by(thread &t, uint32_t address, uint32_t bytes) {
    block &b = now->blocks[address >> RANK_SHIFT];
    const auto number = uint32_t(t.of->number);
    for (uint32_t chunk = (address & OFFSET) / CHUNK; chunk * CHUNK < (address & OFFSET) + bytes; ++chunk) {
        stores_seen &seen = b.unfenced[chunk];
        if (seen.warp != number) seen = {0, number};
        if (!(seen.lanes >> t.lane & 1)) t.unfenced.push_back(chunk);
        seen.lanes |= 1u << t.lane;
    }
}

bool is_fenced(uint32_t address, uint32_t bytes) {
    const block &b = now->blocks[address >> RANK_SHIFT];
    const uint32_t offset = address & OFFSET;
    for (uint32_t chunk = offset / CHUNK; chunk * CHUNK < offset + bytes; ++chunk)
        if (b.unfenced[chunk].lanes) return false;
    return true;
}

void fence(thread &t) {
    for (uint32_t chunk : t.unfenced) {
        stores_seen &seen = t.of->of->unfenced[chunk];
        if (seen.warp == uint32_t(t.of->number)) seen.lanes &= ~(1u << t.lane);
    }
    t.unfenced.clear();
}

// ---------------------------------------------------------------- mbarriers

namespace {

/// The 8 bytes of an mbarrier.
struct mbarrier {
    uint16_t mark, expected;
    int32_t pending : 12, bytes : 19;
    uint32_t phase : 1;
};
static_assert(sizeof(mbarrier) == 8);
constexpr uint16_t MARK = 0x6d62;
constexpr int32_t MOST_BYTES = 1 << 18;

mbarrier &mbarrier_at(uint32_t address) {
    check_shared(address, sizeof(mbarrier), "an mbarrier is in");
    if (address % 8) stop("an mbarrier is not at a multiple of 8 bytes");
    auto &found = *reinterpret_cast<mbarrier *>(shared_at(address));
    if (found.mark != MARK) stop("`" + name_of_shared(address) + "` is used before it is set up");
    return found;
}

void count(uint32_t address, int32_t arrivals, int32_t bytes) {
    mbarrier &at = mbarrier_at(address);
    if (arrivals > at.pending) stop("`" + name_of_shared(address) + "` gets more arrivals than it expects");
    const int32_t sum = at.bytes + bytes;
    if (sum >= MOST_BYTES || sum < -MOST_BYTES) stop("`" + name_of_shared(address) + "` expects too many bytes");
    at.pending -= arrivals, at.bytes = sum;
    if (at.pending == 0 && at.bytes == 0) at.phase ^= 1, at.pending = at.expected;
}

} // namespace

void init_mbarrier(uint32_t address, uint32_t count) {
    check_shared(address, sizeof(mbarrier), "an mbarrier is in");
    if (count == 0 || count > 2047) stop("`" + name_of_shared(address) + "` is set up for " + std::to_string(int(count)) + " arrivals");
    mbarrier made{MARK, uint16_t(count), int32_t(count), 0, 0};
    memcpy(shared_at(address), &made, sizeof made);
}

void arrive(uint32_t address, uint32_t arrivals, int32_t expected_bytes) {
    // The bytes are expected before the arrival counts, so one call must not complete the phase in between.
    mbarrier &at = mbarrier_at(address);
    if (expected_bytes && at.pending == 0) stop("`" + name_of_shared(address) + "` is not in a phase that expects bytes");
    count(address, int32_t(arrivals), expected_bytes);
}

bool is_complete(uint32_t address, uint32_t parity) {
    const block &b = now->blocks[address >> RANK_SHIFT];
    if (b.ended) return false;
    const auto &at = *reinterpret_cast<const mbarrier *>(shared_at(address));
    return at.mark == MARK && at.phase != (parity & 1);
}

std::string lacks(uint32_t address) {
    const auto &at = *reinterpret_cast<const mbarrier *>(shared_at(address));
    if (at.mark != MARK) return "which is not set up";
    std::string text = "whose phase " + std::to_string(at.phase) + " lacks " + std::to_string(at.pending) + " arrivals";
    if (at.bytes > 0) text += " and " + std::to_string(at.bytes) + " bytes";
    if (at.bytes < 0) text += " and got " + std::to_string(-at.bytes) + " bytes too many";
    return text;
}

void arrive_named(warp &w, int id, int expected) {
    block &b = *w.of;
    if (id < 0 || id >= NAMED_BARRIERS) stop("there is no named barrier " + std::to_string(id));
    named_barrier &at = b.barriers[id];
    if (at.arrived && at.expected != expected)
        stop("threads come to named barrier " + std::to_string(id) + " for " + std::to_string(expected) + " and for " +
             std::to_string(at.expected) + " threads");
    at.expected = expected;
    at.arrived += expected < 0 ? w.living() : WARP;
    const int wanted = expected < 0 ? b.living() : expected;
    if (at.arrived >= wanted) at.arrived = 0, ++at.generation;
}

// ---------------------------------------------------------------- the copy engine

namespace {

/// A tensor map as `maps.py` makes it for the host, in the place of the driver's.
struct tensor_map {
    uint64_t mark, address;
    uint32_t rank, element;
    uint64_t sizes[5], strides[4];
    uint32_t box[5], swizzle;
};
static_assert(sizeof(tensor_map) <= 128);
constexpr uint64_t MAP_MARK = 0x70616d5f74736f68;  // "host_map"

tensor_map map_at(const void *p, int rank) {
    tensor_map found;
    memcpy(&found, p, sizeof found);
    if (found.mark != MAP_MARK) stop(name_of(*now->running) + " gives the copy engine a tensor map that is none");
    if (int(found.rank) != rank)
        stop("a copy has " + std::to_string(rank) + " coordinates, its tensor map " + std::to_string(found.rank) + " dimensions");
    return found;
}

/// Runs `row` for each row of a box: its offset in the tile, its first element in memory (null outside), how many elements
/// before and behind what the tensor has of it.
template<typename F> void each_row(const tensor_map &map, const int32_t *first, F row) {
    uint32_t rows = 1;
    for (uint32_t d = 1; d < map.rank; ++d) rows *= map.box[d];
    for (uint32_t n = 0; n < rows; ++n) {
        uint32_t rest = n;
        bool inside = true;
        int64_t at = int64_t(map.address);
        for (uint32_t d = 1; d < map.rank; ++d) {
            const int64_t i = int64_t(first[d]) + rest % map.box[d];
            rest /= map.box[d];
            inside = inside && i >= 0 && i < int64_t(map.sizes[d]);
            at += i * int64_t(map.strides[d - 1]);
        }
        const int64_t low = std::max<int64_t>(0, -int64_t(first[0]));
        const int64_t high = std::min<int64_t>(map.box[0], int64_t(map.sizes[0]) - first[0]);
        if (!inside || high <= low) row(n, nullptr, 0, 0);
        else row(n, reinterpret_cast<uint8_t *>(at + (first[0] + low) * map.element), low, high);
    }
}

uint32_t box_bytes(const tensor_map &map) {
    uint32_t bytes = map.element;
    for (uint32_t d = 0; d < map.rank; ++d) bytes *= map.box[d];
    return bytes;
}

/// Where 16 bytes of a box lie: chunks are exchanged within 1024 bytes of shared memory.
uint32_t swizzled(const tensor_map &map, uint32_t address) {
    return address ^ ((address >> 7 & (map.swizzle / CHUNK - 1)) << 4);
}

void check_tile(const tensor_map &map, uint32_t address) {
    if (address % 128) stop("a copy's tile is not at a multiple of 128 bytes of shared memory");
    check_shared(address, box_bytes(map), "a copy reaches into");
}

} // namespace

void load_tile(uint32_t to, const void *map_pointer, const int32_t *first, int rank, uint32_t mbarrier, uint32_t blocks, bool cluster) {
    const tensor_map map = map_at(map_pointer, rank);
    const uint32_t bytes = box_bytes(map), width = map.box[0] * map.element;
    std::vector<uint32_t> targets;
    if (!cluster) targets.push_back(to >> RANK_SHIFT);
    for (uint32_t rank_of = 0; cluster && rank_of < 16; ++rank_of)
        if (blocks >> rank_of & 1) targets.push_back(rank_of);
    std::vector<int32_t> at(first, first + rank);
    for (uint32_t target : targets) {
        const uint32_t tile = target << RANK_SHIFT | (to & OFFSET), meeting = target << RANK_SHIFT | (mbarrier & OFFSET);
        check_tile(map, tile);
        const bool seen = is_fenced(tile, bytes);
        memset(shared_at(tile), UNKNOWN, bytes);  // until the copy comes nobody knows what is there
        auto perform = [=] {
            check_tile(map, tile);
            std::vector<uint8_t> row(width);
            each_row(map, at.data(), [&](uint32_t n, const uint8_t *from, int64_t low, int64_t high) {
                std::fill(row.begin(), row.end(), 0);
                if (from) memcpy(row.data() + low * map.element, from, size_t(high - low) * map.element);
                if (!seen) std::fill(row.begin(), row.end(), UNKNOWN);
                for (uint32_t c = 0; c < width; c += CHUNK)
                    memcpy(shared_at(swizzled(map, tile + n * width + c)), row.data() + c, std::min<uint32_t>(CHUNK, width - c));
            });
            count(meeting, 0, -int32_t(bytes));
        };
        if (now->order.copies_early) perform();
        else now->copies.push_back({perform});
    }
}

void store_tile(const void *map_pointer, const int32_t *first, int rank, uint32_t from, bool adds) {
    thread &t = *now->running;
    const tensor_map map = map_at(map_pointer, rank);
    const uint32_t bytes = box_bytes(map), width = map.box[0] * map.element;
    check_tile(map, from);
    auto made = std::make_shared<store>();
    made->of = t.of->of;
    auto tile = std::make_shared<std::vector<uint8_t>>(bytes);
    const std::vector<int32_t> at(first, first + rank);
    made->read = [=] {
        bool seen = true;
        for (uint32_t c = 0; c < bytes; c += CHUNK) {
            const uint32_t place = swizzled(map, from + c);
            memcpy(tile->data() + c, shared_at(place), CHUNK);
            if (!is_fenced(place, CHUNK)) memset(tile->data() + c, UNKNOWN, CHUNK), seen = false;
        }
        if (!seen) now->find("the copy engine reads shared memory that was written and not fenced");
    };
    made->write = [=] {
        each_row(map, at.data(), [&](uint32_t n, uint8_t *to, int64_t low, int64_t high) {
            if (!to) return;
            const uint8_t *row = tile->data() + n * width + low * map.element;
            if (!adds) return void(memcpy(to, row, size_t(high - low) * map.element));
            for (int64_t i = 0; i < high - low; ++i) {
                float sum, more;
                memcpy(&sum, to + 4 * i, 4), memcpy(&more, row + 4 * i, 4);
                sum += more;
                memcpy(to + 4 * i, &sum, 4);
            }
        });
    };
    if (now->order.stores_early) std::exchange(made->read, nullptr)(), std::exchange(made->write, nullptr)();
    else now->stores.push_back(made);
    t.uncommitted.push_back(made);
}

void commit_stores(thread &t) {
    t.stores.push_back(std::move(t.uncommitted));
    t.uncommitted.clear();
}

namespace {
void finish(const std::shared_ptr<store> &each, bool reads_only) {
    if (each->read) std::exchange(each->read, nullptr)();
    if (reads_only || !each->write) return;
    std::exchange(each->write, nullptr)();
    now->stores.remove(each);
}
} // namespace

void wait_stores(thread &t, int left, bool reads_only) {
    const int count = int(t.stores.size());
    for (int n = 0; n < count - left; ++n)
        for (const auto &each : t.stores[size_t(n)]) finish(each, reads_only);
    const auto written = [](const store_group &group) {
        return std::none_of(group.begin(), group.end(), [](const auto &each) { return bool(each->write); });
    };
    while (int(t.stores.size()) > left && written(t.stores.front())) t.stores.pop_front();
}

/// A block has ended, and its shared memory with it: what was not read of it is lost.
void end_stores(block &b) {
    const auto all = now->stores;
    for (const auto &each : all)
        if (each->of == &b) finish(each, false);
}

} // namespace tkgen_host
