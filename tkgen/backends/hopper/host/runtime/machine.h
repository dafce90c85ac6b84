/// The parts of the machine that run a launch: threads of warps of blocks, shared memory, what was started and is not done.
#pragma once

#include "../include/tkgen_host.h"
#include "fibers.h"

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tkgen_host {

constexpr int WARP = 32;
constexpr uint8_t UNKNOWN = 0xff;         // each byte of memory that nobody has written: NaN in all types of floats
constexpr uint32_t RANK_SHIFT = 24;       // of a shared address: above it the number of a block in its cluster
constexpr uint32_t OFFSET = (1u << RANK_SHIFT) - 1;
constexpr int NAMED_BARRIERS = 16;
constexpr uint32_t SHARED_BYTES = 227 * 1024;  // that a block may have, static and dynamic
constexpr uint32_t MOST_STATIC = 48 * 1024;    // that may be static
constexpr uint32_t BARRIERS = 4096;            // beside dynamic memory the static one is of barriers
constexpr int CHUNK = 16;                 // bytes of shared memory that are fenced together

struct block;
struct warp;

/// An operand in the text of an instruction: `%N`, a number, or a register that the text declares.
struct term {
    enum { OPERAND, NUMBER, NAME } kind;
    int64_t value;
};
struct instruction {
    int kind;
    std::string opcode;
    std::vector<std::vector<term>> groups;  // operands between commas outside brackets
};

/// Why a thread does not go on.
enum class waiting { NOTHING, WARP_MATES, MBARRIER, NAMED, CLUSTER, REGISTERS, ENDED };

/// Copies to global memory that a thread has committed together, or has not committed yet.
struct store {
    block *of;
    std::function<void()> read, write;  // empty once done
};
using store_group = std::vector<std::shared_ptr<store>>;

struct thread {
    fiber at;
    warp *of = nullptr;
    int lane = 0;
    waiting why = waiting::NOTHING;
    uint32_t address = 0, phase = 0;  // of the mbarrier or named barrier
    uint64_t generation = 0;
    uint64_t cluster_phase = 0;
    bool came_to_cluster = false;
    uint64_t passed = 0;              // what the warp's meeting takes and returns
    int shuffles = 0;                 // from which lane it takes
    const void *site = nullptr;       // where it meets its warp
    const operand *operands = nullptr;  // of the instruction that it takes
    const int64_t *names = nullptr;     // registers that its text declares
    std::deque<store_group> stores;   // committed
    store_group uncommitted;
    std::vector<uint32_t> unfenced;   // chunks of shared memory that it has stored to
};

/// The sums of a product that was started, in registers of all lanes: nobody may touch these until they are waited for.
struct flight {
    int count = 0;                // of registers in a lane
    float *registers[WARP] = {};
    std::vector<float> sums;      // lane by lane
    int products = 0;             // that are not waited for
};

/// One matrix instruction of a warp: 16 rows of a warpgroup's 64.
struct product {
    std::shared_ptr<flight> to;
    int columns = 0, depth = 0, left_type = 0, right_type = 0;
    bool from_registers = false, left_transposed = false, right_transposed = false, adds = false, done = false;
    uint64_t left = 0, right = 0;         // descriptors
    const uint32_t *registers[WARP][4] = {};
};

struct warp {
    block *of = nullptr;
    int number = 0;
    std::vector<thread> lanes;
    // Where its threads meet.
    uint64_t generation = 0;
    int arrived = 0;
    void (*action)(warp &, const void *site) = nullptr;
    // What it multiplies.
    std::deque<std::shared_ptr<product>> products;                 // not executed, in order
    std::vector<std::shared_ptr<product>> issued;                  // and not committed
    std::deque<std::vector<std::shared_ptr<product>>> groups;      // committed and not waited for
    std::list<std::shared_ptr<flight>> flights;
    int registers = 0;                                             // of a thread
    bool registers_fenced = false;                                 // since products were committed last

    int living() const;
};

/// Lanes of a warp that have stored to a chunk of shared memory and have not fenced since.
struct stores_seen {
    uint32_t lanes = 0, warp = 0;
};

struct named_barrier {
    int arrived = 0, expected = 0;
    uint64_t generation = 0;
};

/// As tiles are aligned: what shared memory is allocated in.
struct alignas(1024) aligned_chunk {
    uint8_t bytes[1024];
};

struct block {
    uint32_t number = 0, rank = 0;
    std::vector<warp> warps;
    std::vector<aligned_chunk> memory;  // shared memory
    size_t shared_bytes = 0;
    std::vector<stores_seen> unfenced;  // of each chunk
    named_barrier barriers[NAMED_BARRIERS];
    int free_registers = 0;
    bool ended = false;

    int living() const;
    uint8_t *shared() { return reinterpret_cast<uint8_t *>(memory.data()); }
    const uint8_t *shared() const { return reinterpret_cast<const uint8_t *>(memory.data()); }
};

/// Something that is under way and comes at any time: a copy into shared memory.
struct copy {
    std::function<void()> perform;
};

struct settings {
    int agents = 0;      // who goes on: 0 in turn, 1 the first, 2 the last, 3 at random
    bool copies_early = true, products_early = true, stores_early = true;
    uint64_t seed = 0;
};

enum : int { IN_TURN, FIRST, LAST, RANDOM };

struct variable_of_block {
    std::string name;
    size_t offset, bytes, element;
};

/// A launch that is carried out.
struct machine {
    settings order;
    uint32_t threads = 0, cluster = 1, dynamic_bytes = 0;
    std::vector<block> blocks;  // of the cluster that is running
    uint64_t cluster_generation = 0;
    int cluster_arrived = 0;
    std::list<copy> copies;
    std::list<std::shared_ptr<store>> stores;  // not written
    std::vector<variable_of_block> variables;
    std::unordered_map<const void *, size_t> placed;
    size_t static_bytes = 0;

    /// Where dynamic shared memory begins: a multiple of 16 and of no more.
    uint32_t dynamic_at() const { return (dynamic_bytes ? BARRIERS : MOST_STATIC) + 48; }
    std::vector<std::string> findings;
    std::mt19937_64 random;
    std::vector<uint64_t> ranks;  // of warps, where a random one goes on until it waits: the largest first
    fiber scheduler;
    thread *running = nullptr;
    uint64_t steps = 0;
    bool stopped = false;

    void find(const std::string &text);
};
extern machine *now;

// run.cpp
struct stopped {};  // thrown where no thread runs
[[noreturn]] void stop(const std::string &finding);
void wait_for(waiting why, uint32_t address = 0, uint32_t phase = 0, uint64_t generation = 0);
void meet_warp(const void *site, void (*action)(warp &, const void *site));
void pause();
std::string name_of(const thread &t);
std::string name_of_shared(uint32_t address);

// memory.cpp
void check_shared(uint32_t address, uint32_t bytes, const char *what);
uint8_t *shared_at(uint32_t address);
void stored_by(thread &t, uint32_t address, uint32_t bytes);
bool is_fenced(uint32_t address, uint32_t bytes);
void fence(thread &t);
void init_mbarrier(uint32_t address, uint32_t count);
void arrive(uint32_t address, uint32_t count, int32_t expected_bytes);
bool is_complete(uint32_t address, uint32_t parity);
std::string lacks(uint32_t address);
void arrive_named(warp &w, int id, int expected);
void load_tile(uint32_t to, const void *map, const int32_t *first, int rank, uint32_t mbarrier, uint32_t blocks, bool cluster);
void store_tile(const void *map, const int32_t *first, int rank, uint32_t from, bool adds);
void commit_stores(thread &t);
void wait_stores(thread &t, int left, bool reads_only);
void end_stores(block &b);

// products.cpp
void multiply(const instruction &what, warp &w);
void commit_products(warp &w);
void wait_products(warp &w, int left);
void perform(warp &w);
int64_t value_of(const thread &t, const term &of);

} // namespace tkgen_host
