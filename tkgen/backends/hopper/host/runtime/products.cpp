/// Matrix products (PTX ISA: wgmma): operands are read where their descriptors say, sums come to the registers when a
/// thread waits for them.
#include "machine.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "../include/cuda_host.h"

namespace tkgen_host {

namespace {

enum type : int { BF16, F16, E4M3, E5M2, S8 };
constexpr uint32_t IN_FLIGHT = 0xffabcdef;  // NaN: what registers hold while their product runs
constexpr int ROWS = 16;                   // of a warp
constexpr int DEPTH_BYTES = 32;

int type_named(const std::string &name) {
    if (name == "bf16") return BF16;
    if (name == "f16") return F16;
    if (name == "e4m3") return E4M3;
    if (name == "e5m2") return E5M2;
    if (name == "s8") return S8;
    stop("no product of `" + name + "` runs on the host");
}
int bytes_of(int type) { return type <= F16 ? 2 : 1; }

const float *numbers(int type) {
    static float tables[5][1 << 16];
    static bool made[5];
    if (!std::exchange(made[type], true))
        for (uint32_t bits = 0; bits < (type <= F16 ? 1u << 16 : 256u); ++bits)
            tables[type][bits] = type == BF16   ? __builtin_bit_cast(float, bits << 16)
                                 : type == F16  ? of_half(uint16_t(bits))
                                 : type == S8   ? float(int8_t(bits))
                                 : type == E4M3 ? of_e4m3(uint8_t(bits))
                                                : of_e5m2(uint8_t(bits));
    return tables[type];
}

/// Shared memory as a descriptor lays a matrix out, with the swizzle of 128 or of 64 bytes.
struct matrix {
    uint32_t rank, start, leading, stride, width;  // bytes of a row of a panel
    int type;
    bool unfenced = false;

    matrix(uint64_t descriptor, uint32_t rank, int type)
        : rank(rank), start(uint32_t(descriptor & 0x3fff) << 4), leading(uint32_t(descriptor >> 16 & 0x3fff) << 4),
          stride(uint32_t(descriptor >> 32 & 0x3fff) << 4), width(descriptor >> 62 == 1 ? 128 : 64), type(type) {
        if (descriptor >> 62 != 1 && descriptor >> 62 != 2) stop("a matrix descriptor has another swizzle than those of 128 and 64 bytes");
        if (descriptor >> 49 & 7) stop("a matrix descriptor has a base offset");
    }

    /// The 16 bytes from a place of the pattern on, as numbers.
    void chunk(uint32_t at, float *to) {
        at ^= (at >> 7 & (width / 16 - 1)) << 4;
        const uint32_t address = rank << RANK_SHIFT | at;
        check_shared(address, CHUNK, "a product reads");
        uint8_t bytes[CHUNK];
        memcpy(bytes, shared_at(address), CHUNK);
        if (!is_fenced(address, CHUNK)) memset(bytes, UNKNOWN, CHUNK), unfenced = true;
        const float *table = numbers(type);
        if (bytes_of(type) == 1) {
            for (int n = 0; n < CHUNK; ++n) to[n] = table[bytes[n]];
        } else {
            for (int n = 0; n < CHUNK / 2; ++n) {
                uint16_t bits;
                memcpy(&bits, bytes + 2 * n, 2);
                to[n] = table[bits];
            }
        }
    }

    /// Row `row` of those that lie along K, all of its depth.
    void along_k(uint32_t row, float *to) {
        const uint32_t at = start + row / 8 * stride + row % 8 * width;
        chunk(at, to), chunk(at + CHUNK, to + CHUNK / bytes_of(type));
    }

    /// Of depth `k` what stands at `first`, a multiple of 8, where rows lie along M or N.
    void along_rows(uint32_t k, uint32_t first, float *to) {
        if (width != 128) stop("rows along M or N have the swizzle of 128 bytes");
        chunk(start + first / 64 * leading + k / 8 * stride + k % 8 * 128 + first % 64 * 2, to);
    }
};

/// Where the register `n` of a lane stands in 16 rows of sums.
int row_of(int lane, int n) { return lane / 4 + 8 * (n >> 1 & 1); }
int column_of(int lane, int n) { return (n >> 2) * 8 + lane % 4 * 2 + (n & 1); }

std::shared_ptr<flight> flight_to(warp &w, const instruction &what) {
    const auto &registers = what.groups.at(0);
    const int count = int(registers.size());
    const auto at = [&](const thread &t, size_t n) { return static_cast<float *>(t.operands[registers[n].value].at); };
    float *first = at(w.lanes[0], 0);
    for (const auto &each : w.flights)
        if (each->registers[0] == first && each->count == count) return each;
    auto made = std::make_shared<flight>();
    made->count = count;
    made->sums.resize(size_t(WARP * count));
    for (const thread &t : w.lanes) {
        float *own = made->registers[t.lane] = at(t, 0);
        for (int n = 0; n < count; ++n) {
            if (at(t, size_t(n)) != own + n) stop("the registers of a product are not neighbours");
            made->sums[size_t(t.lane * count + n)] = own[n];
            memcpy(own + n, &IN_FLIGHT, 4);
        }
    }
    w.flights.push_back(made);
    return made;
}

/// The sums come to their registers.
void land(warp &w, const std::shared_ptr<flight> &made) {
    if (--made->products) return;
    bool touched = false;
    for (int lane = 0; lane < WARP; ++lane) {
        float *own = made->registers[lane];
        for (int n = 0; n < made->count; ++n) {
            touched = touched || memcmp(own + n, &IN_FLIGHT, 4) != 0;
            own[n] = made->sums[size_t(lane * made->count + n)];
        }
    }
    if (touched) now->find("warp " + std::to_string(w.number) + " writes to registers of a product that is under way");
    w.flights.remove(made);
}

} // namespace

void multiply(const instruction &what, warp &w) {
    if (w.living() != WARP || w.of->warps.size() < size_t(w.number / 4 * 4 + 4)) stop("a product needs all lanes of four warps");
    // wgmma.mma_async.sync.aligned.m64nNkK.SUMS.LEFT.RIGHT, of which integers have sums of s32
    std::vector<std::string> parts{""};
    for (char c : what.opcode)
        if (c == '.') parts.emplace_back();
        else parts.back() += c;
    if (parts.size() != 8 || (parts[5] != "s32" && parts[5] != "f32") || (parts[5] == "s32") != (parts[6] == "s8") || (parts[6] == "s8") != (parts[7] == "s8"))
        stop("`" + what.opcode + "` is no product that the host runs");
    const std::string &shape = parts[4];
    auto made = std::make_shared<product>();
    made->left_type = type_named(parts[6]), made->right_type = type_named(parts[7]);
    const int columns = atoi(shape.c_str() + shape.find('n') + 1), depth = atoi(shape.c_str() + shape.find('k') + 1);
    made->columns = columns, made->depth = DEPTH_BYTES / bytes_of(made->left_type);
    if (shape.compare(0, 3, "m64") || depth != made->depth || columns * 2 != int(what.groups.at(0).size()) * 4)
        stop("`" + what.opcode + "` does not fit its operands");
    const thread &first = w.lanes[0];
    made->from_registers = what.groups.at(1).size() == 4;
    for (const thread &t : w.lanes)
        for (size_t n = 0; made->from_registers && n < 4; ++n)
            made->registers[t.lane][n] = static_cast<const uint32_t *>(t.operands[what.groups[1][n].value].at);
    const auto number = [&](size_t group) { return value_of(first, what.groups.at(group).at(0)); };
    if (!made->from_registers) made->left = uint64_t(number(1));
    made->right = uint64_t(number(2));
    made->adds = number(3) != 0;
    if (made->left_type != S8 && (number(4) != 1 || number(5) != 1)) stop("a product with negated factors does not run on the host");
    const bool two = bytes_of(made->left_type) == 2;
    if (two && !made->from_registers) made->left_transposed = number(6) != 0;
    if (two) made->right_transposed = number(made->from_registers ? 6 : 7) != 0;
    for (const thread &t : w.lanes)
        if (uint64_t(value_of(t, what.groups[2][0])) != made->right || (value_of(t, what.groups[3][0]) != 0) != made->adds)
            stop("the lanes of a warp multiply different tiles");
    if (!w.registers_fenced) now->find("a product has no wgmma.fence since products were committed");
    made->to = flight_to(w, what);
    ++made->to->products;
    w.issued.push_back(made);
    w.products.push_back(made);
    if (now->order.products_early) perform(w);
}

void perform(warp &w) {
    const std::shared_ptr<product> one = w.products.front();
    w.products.pop_front();
    one->done = true;
    const int depth = one->depth, columns = one->columns, count = one->to->count;
    float left[ROWS][32], sums[ROWS * 256] = {}, right[32][256], row[32];
    if (one->from_registers) {
        const float *table = numbers(one->left_type);
        for (int lane = 0; lane < WARP; ++lane)
            for (int n = 0; n < 4; ++n) {
                const uint32_t held = *one->registers[lane][n];  // neighbours of a row: two of 16 bits, or four of 8
                const int bits = 8 * bytes_of(one->left_type), count = 32 / bits;
                for (int e = 0; e < count; ++e)
                    left[lane / 4 + 8 * (n % 2)][lane % 4 * count + 4 * count * (n / 2) + e] = table[held >> bits * e & ((1u << bits) - 1)];
            }
    } else {
        matrix from(one->left, w.of->rank, one->left_type);
        const auto first = uint32_t(w.number % 4 * ROWS);
        for (uint32_t r = 0; !one->left_transposed && r < ROWS; ++r) from.along_k(first + r, left[r]);
        for (int k = 0; one->left_transposed && k < depth; ++k)
            for (uint32_t r = 0; r < ROWS; r += 8) {
                from.along_rows(uint32_t(k), first + r, row);
                for (uint32_t n = 0; n < 8; ++n) left[r + n][k] = row[n];
            }
        if (from.unfenced) now->find("a product reads shared memory that was written and not fenced");
    }
    matrix from(one->right, w.of->rank, one->right_type);
    for (int n = 0; !one->right_transposed && n < columns; ++n) {
        from.along_k(uint32_t(n), row);
        for (int k = 0; k < depth; ++k) right[k][n] = row[k];
    }
    for (int k = 0; one->right_transposed && k < depth; ++k)
        for (int n = 0; n < columns; n += 8) from.along_rows(uint32_t(k), uint32_t(n), right[k] + n);
    if (from.unfenced) now->find("a product reads shared memory that was written and not fenced");

    for (int r = 0; r < ROWS; ++r)
        for (int k = 0; k < depth; ++k) {
            const float factor = left[r][k];
            float *to = sums + r * columns;
            for (int n = 0; n < columns; ++n) to[n] += factor * right[k][n];
        }
    for (int lane = 0; lane < WARP; ++lane)
        for (int n = 0; n < count; ++n) {
            float &sum = one->to->sums[size_t(lane * count + n)];
            const float more = sums[row_of(lane, n) * columns + column_of(lane, n)];
            if (one->left_type == S8) {  // the register holds an integer
                const uint32_t before = one->adds ? __builtin_bit_cast(uint32_t, sum) : 0, now = before + uint32_t(int(more));
                memcpy(&sum, &now, 4);
            } else {
                sum = one->adds ? sum + more : more;
            }
        }
}

void commit_products(warp &w) {
    w.groups.push_back(std::move(w.issued));
    w.issued.clear();
    w.registers_fenced = false;
}

void wait_products(warp &w, int left) {
    while (int(w.groups.size()) > left) {
        const auto group = std::move(w.groups.front());
        w.groups.pop_front();
        for (const auto &each : group) {
            while (!each->done) perform(w);
            land(w, each->to);
        }
    }
}

} // namespace tkgen_host
