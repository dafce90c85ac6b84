/// What a kernel needs of the machine that runs it on the host: the instructions of its `asm` statements, shared memory,
/// barriers. `runtime/` implements it. `source.py` rewrites a kernel, and the embedded headers, in these terms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace tkgen_host {

/// An operand of an `asm` statement: where it is. Registers of a matrix product are read and written there later.
struct operand {
    void *at;
    uint32_t bytes;
};
template<typename T> operand in(const T &value) { return {const_cast<void *>(static_cast<const void *>(&value)), sizeof(T)}; }
template<typename T> operand out(T &value) { return {static_cast<void *>(&value), sizeof(T)}; }

/// The instructions of an `asm` statement, read once.
struct code {
    const void *instructions;
    explicit code(const char *text);
};
void execute(const code &what, std::initializer_list<operand> operands);

/// What a thread is and where; the runtime sets it whenever another thread goes on.
struct place {
    uint32_t x, y, z;
};
extern place thread_index, block_index, block_dimension, grid_dimension;

/// Static shared memory of the declaration that `key` tells, the same in every thread of a block.
struct variable {
    const char *name;
    size_t offset, bytes, element;
};
void *static_shared(const void *key, size_t bytes, size_t alignment, std::initializer_list<variable> variables);
void *dynamic_shared();
uint64_t shared_address(const void *p);

void sync_threads();
void sync_warp();
/// The value that lane `from` of the warp passes.
uint64_t shuffled(uint64_t value, int from);
uint32_t ballot(bool value);

/// A tensor of the launch, by the memory that holds it.
struct tensor_memory {
    const char *name;
    uint64_t first, bytes;
};

/// What Python asks for (`run.py` has the same fields).
struct request {
    const void *argument;
    uint32_t grid, threads, cluster, dynamic_bytes, registers;
    uint32_t agents, early;  // bits: copies, products, stores
    uint64_t seed;
    char *report;  // in memory that is shared with the process that runs the launch
    uint64_t report_bytes;
    uint64_t *progress;  // blocks done, steps
    const tensor_memory *tensors;
    uint64_t tensor_count;
    double limit;  // seconds
};
int run(const request &what, void (*kernel)(const void *), int (*told)(uint64_t));

} // namespace tkgen_host
