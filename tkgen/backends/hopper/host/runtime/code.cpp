/// The instructions of `asm` statements: read from their text, carried out for a thread (PTX ISA).
#include "machine.h"

#include <cmath>
#include <cstring>
#include <map>

#include "../include/cuda_host.h"

namespace tkgen_host {

namespace {

enum kind : int {
    UNKNOWN_KIND, NOTHING, DECLARE, SET_PREDICATE, BRANCH, MAP_ADDRESS, MBARRIER_INIT, MBARRIER_ARRIVE, MBARRIER_ARRIVE_REMOTE,
    MBARRIER_EXPECT, MBARRIER_WAIT, CLUSTER_RANK, CLUSTER_ARRIVE, CLUSTER_WAIT, BAR_SYNC, BAR_ARRIVE, REGISTERS_MORE,
    REGISTERS_LESS, PRODUCT, PRODUCT_FENCE, PRODUCT_COMMIT, PRODUCT_WAIT, ASYNC_FENCE, STORE_MATRICES, STORE_PAIR, STORE_16,
    COPY_IN, COPY_IN_ALL, COPY_OUT, COPY_ADD, COPY_COMMIT, COPY_READ_WAIT, COPY_WAIT, EXP2, RECIPROCAL, LOG2, SQUARE_ROOT, TANH,
    TO_E4M3, TO_E5M2,
};

/// By how an instruction's name begins; the first that fits.
const std::pair<const char *, kind> KINDS[] = {
    {".reg", DECLARE},
    {"setp.ne.b32", SET_PREDICATE},
    {"bra", BRANCH},
    {"mapa.shared::cluster.u32", MAP_ADDRESS},
    {"mbarrier.init.shared::cta.b64", MBARRIER_INIT},
    {"fence.mbarrier_init.release.cluster", NOTHING},
    {"griddepcontrol.wait", NOTHING},  // kernels run one after the other
    {"griddepcontrol.launch_dependents", NOTHING},
    {"mbarrier.arrive.expect_tx.release.cta.shared::cta.b64", MBARRIER_EXPECT},
    {"mbarrier.arrive.release.cta.shared::cta.b64", MBARRIER_ARRIVE},
    {"mbarrier.arrive.release.cta.shared::cluster.b64", MBARRIER_ARRIVE_REMOTE},
    {"mbarrier.try_wait.parity.acquire.cta.shared::cta.b64", MBARRIER_WAIT},
    {"mov.u32", CLUSTER_RANK},
    {"barrier.cluster.arrive.release", CLUSTER_ARRIVE},
    {"barrier.cluster.wait.acquire", CLUSTER_WAIT},
    {"bar.sync", BAR_SYNC},
    {"bar.arrive", BAR_ARRIVE},
    {"setmaxnreg.inc.sync.aligned.u32", REGISTERS_MORE},
    {"setmaxnreg.dec.sync.aligned.u32", REGISTERS_LESS},
    {"wgmma.mma_async.sync.aligned.", PRODUCT},
    {"wgmma.fence.sync.aligned", PRODUCT_FENCE},
    {"wgmma.commit_group.sync.aligned", PRODUCT_COMMIT},
    {"wgmma.wait_group.sync.aligned", PRODUCT_WAIT},
    {"fence.proxy.async.shared::cta", ASYNC_FENCE},
    {"stmatrix.sync.aligned.m8n8.x4.shared::cta.b16", STORE_MATRICES},
    {"st.shared.v2.f32", STORE_PAIR},
    {"st.shared.v2.b32", STORE_PAIR},
    {"st.shared.v4.b32", STORE_PAIR},
    {"st.shared.b16", STORE_16},
    {"cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster", COPY_IN_ALL},
    {"cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster", COPY_IN_ALL},
    {"cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes", COPY_IN},
    {"cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes", COPY_IN},
    {"cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes", COPY_IN},
    {"cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group", COPY_OUT},
    {"cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group", COPY_OUT},
    {"cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group", COPY_OUT},
    {"cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group", COPY_ADD},
    {"cp.async.bulk.commit_group", COPY_COMMIT},
    {"cp.async.bulk.wait_group.read", COPY_READ_WAIT},
    {"cp.async.bulk.wait_group", COPY_WAIT},
    {"ex2.approx.ftz.f32", EXP2},
    {"rcp.approx.ftz.f32", RECIPROCAL},
    {"lg2.approx.ftz.f32", LOG2},
    {"sqrt.approx.ftz.f32", SQUARE_ROOT},
    {"tanh.approx.f32", TANH},
    {"cvt.rn.satfinite.e4m3x2.f32", TO_E4M3},
    {"cvt.rn.satfinite.e5m2x2.f32", TO_E5M2},
};

constexpr int MOST_NAMES = 8;

/// What stands in a text between blanks, brackets and commas.
class reader {
public:
    explicit reader(const char *text) : text(text) {}

    std::vector<instruction> read() {
        strip();
        while (skip(), at < text.size()) statement();
        for (instruction &each : made)
            if (each.kind == BRANCH) each.groups.back() = {{term::NUMBER, labels.at(targets.at(&each - made.data()))}};
        return std::move(made);
    }

private:
    std::string text;
    size_t at = 0;
    std::vector<instruction> made;
    std::map<std::string, int> names, labels;
    std::map<size_t, std::string> targets;

    /// The braces around a text that declares registers.
    void strip() {
        const size_t first = text.find_first_not_of(" \t\n");
        if (first == std::string::npos || text[first] != '{') return;
        text[first] = ' ';
        text[text.rfind('}')] = ' ';
    }
    void skip() {
        while (at < text.size() && (isspace(text[at]) || text[at] == ';')) ++at;
    }
    std::string word() {
        while (at < text.size() && isspace(text[at])) ++at;
        const size_t from = at;
        while (at < text.size() && (isalnum(text[at]) || strchr("_.:%@", text[at]))) ++at;
        return text.substr(from, at - from);
    }
    int name(const std::string &of) {
        const int found = names.emplace(of, int(names.size())).first->second;
        return found < MOST_NAMES ? found : MOST_NAMES - 1;
    }
    void statement() {
        instruction one{UNKNOWN_KIND, word(), {}};
        if (one.opcode.size() > 1 && one.opcode.back() == ':') {
            labels[one.opcode.substr(0, one.opcode.size() - 1)] = int(made.size());
            return;
        }
        if (one.opcode[0] == '@') {  // a branch if the register holds
            one.groups.push_back({{term::NAME, name(one.opcode.substr(1))}});
            one.opcode = word();
        }
        for (const auto &[begins, kind] : KINDS)
            if (one.opcode.compare(0, strlen(begins), begins) == 0) {
                one.kind = kind;
                break;
            }
        if (one.kind == BRANCH) {
            targets[made.size()] = word();
            one.groups.push_back({});
        } else if (one.kind == DECLARE) {
            while (at < text.size() && text[at] != ';') ++at;
            return;
        } else {
            operands(one);
        }
        made.push_back(std::move(one));
    }
    void operands(instruction &one) {
        int depth = 0;
        bool fresh = true;
        for (; at < text.size() && text[at] != ';'; ) {
            const char c = text[at];
            if (c == '{' || c == '[') ++depth, ++at;
            else if (c == '}' || c == ']') --depth, ++at;
            else if (c == ',') fresh = fresh || depth == 0, ++at;
            else if (isspace(c)) ++at;
            else {
                if (std::exchange(fresh, false)) one.groups.emplace_back();
                const std::string w = word();
                if (w.empty()) {
                    one.kind = UNKNOWN_KIND, ++at;
                    continue;
                }
                const bool number = isdigit(w[0]), operand = w[0] == '%' && w.size() > 1 && isdigit(w[1]);
                one.groups.back().push_back(operand  ? term{term::OPERAND, atoll(w.c_str() + 1)}
                                            : number ? term{term::NUMBER, atoll(w.c_str())}
                                                     : term{term::NAME, name(w)});
            }
        }
    }
};

int64_t read_operand(const operand &of) {
    switch (of.bytes) {
        case 1: return *static_cast<const uint8_t *>(of.at);
        case 2: return *static_cast<const uint16_t *>(of.at);
        case 4: return *static_cast<const int32_t *>(of.at);
        default: return *static_cast<const int64_t *>(of.at);
    }
}

/// Numbers with subnormals taken for zero.
float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }

// ---------------------------------------------------------------- what all lanes of a warp take

void sync_named(warp &w, const instruction &what, bool waits) {
    const thread &first = *now->running;
    const int id = int(value_of(first, what.groups.at(0).at(0))), count = int(value_of(first, what.groups.at(1).at(0)));
    named_barrier &at = w.of->barriers[id & (NAMED_BARRIERS - 1)];
    const uint64_t before = at.generation;
    arrive_named(w, id, count);
    for (thread &t : w.lanes) t.passed = waits ? before : at.generation + 1;
}

void store_matrices(warp &w, const void *site) {
    const auto &what = *static_cast<const instruction *>(site);
    if (w.living() != WARP) stop("a warp stores matrices without all of its lanes");
    for (int m = 0; m < 4; ++m)
        for (int row = 0; row < 8; ++row) {
            const auto to = uint32_t(value_of(w.lanes[size_t(m * 8 + row)], what.groups.at(0).at(0)));
            if (to % 16) stop("a row of a matrix is not at a multiple of 16 bytes of shared memory");
            check_shared(to, 16, "a warp stores to");
            for (int l = 0; l < 4; ++l) {
                const auto word = uint32_t(value_of(w.lanes[size_t(row * 4 + l)], what.groups.at(1).at(size_t(m))));
                memcpy(shared_at(to) + 4 * l, &word, 4);
                stored_by(w.lanes[size_t(row * 4 + l)], to, 16);
            }
        }
}

void move_registers(warp &w, const void *site) {
    const auto &what = *static_cast<const instruction *>(site);
    const int wanted = int(value_of(*now->running, what.groups.at(0).at(0))), threads = int(w.lanes.size());
    const bool more = what.kind == REGISTERS_MORE;
    if (wanted % 8 || wanted < 24 || wanted > 256) stop("setmaxnreg cannot be told " + std::to_string(wanted) + " registers");
    if (more ? wanted < w.registers : wanted > w.registers)
        stop("setmaxnreg " + std::string(more ? "increases " : "decreases ") + std::to_string(w.registers) + " registers to " +
             std::to_string(wanted));
    const int needed = (wanted - w.registers) * threads;
    for (thread &t : w.lanes) t.passed = uint64_t(needed > 0 ? needed : 0);
    if (!more) w.of->free_registers -= needed, w.registers = wanted;
}

} // namespace

int64_t value_of(const thread &t, const term &of) {
    switch (of.kind) {
        case term::OPERAND: return read_operand(t.operands[of.value]);
        case term::NUMBER: return of.value;
        default: return t.names[of.value];
    }
}

code::code(const char *text) : instructions(new std::vector<instruction>(reader(text).read())) {}

void execute(const code &what, std::initializer_list<operand> operands) {
    thread &t = *now->running;
    warp &w = *t.of;
    int64_t names[MOST_NAMES] = {};
    const operand *held = operands.begin();
    const auto value = [&](const instruction &one, size_t group, size_t n = 0) {
        t.operands = held, t.names = names;
        return value_of(t, one.groups.at(group).at(n));
    };
    const auto at = [&](const instruction &one, size_t group, size_t n = 0) { return held[one.groups.at(group).at(n).value].at; };
    const auto number = [&](const instruction &one, size_t group) { return __builtin_bit_cast(float, int32_t(value(one, group))); };

    const auto &all = *static_cast<const std::vector<instruction> *>(what.instructions);
    for (size_t n = 0; n < all.size(); ++n) {
        const instruction &one = all[n];
        t.operands = held, t.names = names;
        switch (one.kind) {
            case NOTHING: break;
            case SET_PREDICATE: names[one.groups[0][0].value] = value(one, 1) != value(one, 2); break;
            case BRANCH:
                if (one.groups.size() == 1 || names[one.groups[0][0].value]) n = size_t(one.groups.back()[0].value) - 1;
                break;
            case MAP_ADDRESS:
                names[one.groups[0][0].value] = int64_t(uint32_t(value(one, 2)) << RANK_SHIFT | (uint32_t(value(one, 1)) & OFFSET));
                break;
            case MBARRIER_INIT: init_mbarrier(uint32_t(value(one, 0)), uint32_t(value(one, 1))); break;
            case MBARRIER_ARRIVE:
            case MBARRIER_ARRIVE_REMOTE:
                arrive(uint32_t(value(one, 1)), one.groups.size() > 2 ? uint32_t(value(one, 2)) : 1, 0);
                pause();
                break;
            case MBARRIER_EXPECT:
                arrive(uint32_t(value(one, 1)), 1, int32_t(value(one, 2)));
                pause();
                break;
            case MBARRIER_WAIT: {
                const auto address = uint32_t(value(one, 1)), parity = uint32_t(value(one, 2));
                check_shared(address, 8, "a thread waits in");
                names[one.groups[0][0].value] = is_complete(address, parity);
                ++now->steps;
                if (!names[one.groups[0][0].value]) wait_for(waiting::MBARRIER, address, parity);  // and tries again
                break;
            }
            case CLUSTER_RANK: {
                const auto rank = uint32_t(w.of->rank);
                memcpy(at(one, 0), &rank, 4);
                break;
            }
            case CLUSTER_ARRIVE: {
                if (std::exchange(t.came_to_cluster, true)) stop(name_of(t) + " comes to the barrier of its cluster twice");
                t.cluster_phase = now->cluster_generation;
                int all = 0;
                for (const block &b : now->blocks) all += b.living();
                if (++now->cluster_arrived >= all) now->cluster_arrived = 0, ++now->cluster_generation;
                pause();
                break;
            }
            case CLUSTER_WAIT:
                if (!std::exchange(t.came_to_cluster, false)) stop(name_of(t) + " waits for its cluster without coming to its barrier");
                if (now->cluster_generation == t.cluster_phase) wait_for(waiting::CLUSTER, 0, 0, t.cluster_phase);
                break;
            case BAR_SYNC:
                meet_warp(&one, [](warp &all, const void *site) { sync_named(all, *static_cast<const instruction *>(site), true); });
                {
                    const auto id = uint32_t(value(one, 0)) & (NAMED_BARRIERS - 1);
                    if (w.of->barriers[id].generation == t.passed) wait_for(waiting::NAMED, id, 0, t.passed);
                    else wait_for(waiting::NOTHING);  // who comes last need not go on first
                }
                break;
            case BAR_ARRIVE:
                meet_warp(&one, [](warp &all, const void *site) { sync_named(all, *static_cast<const instruction *>(site), false); });
                pause();
                break;
            case REGISTERS_MORE:
            case REGISTERS_LESS:
                meet_warp(&one, move_registers);
                if (one.kind == REGISTERS_MORE) {
                    const int wanted = int(value(one, 0));
                    if (w.registers != wanted && w.of->free_registers < int(t.passed))
                        wait_for(waiting::REGISTERS, uint32_t(wanted), uint32_t(t.passed));
                    if (w.registers != wanted)  // the first lane that goes on takes them for all
                        w.of->free_registers -= (wanted - w.registers) * int(w.lanes.size()), w.registers = wanted;
                }
                break;
            case PRODUCT_FENCE: meet_warp(&one, [](warp &all, const void *) { all.registers_fenced = true; }); break;
            case PRODUCT:
                meet_warp(&one, [](warp &all, const void *site) { multiply(*static_cast<const instruction *>(site), all); });
                break;
            case PRODUCT_COMMIT:
                meet_warp(&one, [](warp &all, const void *) { commit_products(all); });
                pause();
                break;
            case PRODUCT_WAIT:
                meet_warp(&one, [](warp &all, const void *site) {
                    wait_products(all, int(value_of(*now->running, static_cast<const instruction *>(site)->groups.at(0).at(0))));
                });
                break;
            case ASYNC_FENCE: fence(t); break;
            case STORE_MATRICES: meet_warp(&one, store_matrices); break;
            case STORE_PAIR:
            case STORE_16: {
                const auto to = uint32_t(value(one, 0));
                const size_t bytes = one.kind == STORE_PAIR ? 4 : 2;
                const size_t count = one.groups.at(1).size();
                if (to % (bytes * count)) stop("a store to shared memory is not at a multiple of its bytes");
                check_shared(to, uint32_t(bytes * count), "a thread stores to");
                for (size_t i = 0; i < count; ++i) memcpy(shared_at(to) + i * bytes, at(one, 1, i), bytes);
                stored_by(t, to, uint32_t(bytes * count));
                break;
            }
            case COPY_IN:
            case COPY_IN_ALL: {
                // [to], [map, {coordinates}], [mbarrier], blocks
                const auto &from = one.groups.at(1);
                int32_t first[5] = {};
                for (size_t d = 1; d < from.size(); ++d) first[d - 1] = int32_t(value(one, 1, d));
                const auto *map = reinterpret_cast<const void *>(value(one, 1));
                load_tile(uint32_t(value(one, 0)), map, first, int(from.size()) - 1, uint32_t(value(one, 2)),
                          one.kind == COPY_IN_ALL ? uint32_t(value(one, 3)) : 0, one.kind == COPY_IN_ALL);
                pause();
                break;
            }
            case COPY_OUT:
            case COPY_ADD: {
                const auto &to = one.groups.at(0);
                int32_t first[5] = {};
                for (size_t d = 1; d < to.size(); ++d) first[d - 1] = int32_t(value(one, 0, d));
                store_tile(reinterpret_cast<const void *>(value(one, 0)), first, int(to.size()) - 1, uint32_t(value(one, 1)),
                           one.kind == COPY_ADD);
                break;
            }
            case COPY_COMMIT:
                commit_stores(t);
                pause();
                break;
            case COPY_READ_WAIT: wait_stores(t, int(value(one, 0)), true); break;
            case COPY_WAIT: wait_stores(t, int(value(one, 0)), false); break;
            case EXP2: {
                const float made = flushed(std::exp2(flushed(number(one, 1))));
                memcpy(at(one, 0), &made, 4);
                break;
            }
            case RECIPROCAL: {
                const float made = flushed(1.0f / flushed(number(one, 1)));
                memcpy(at(one, 0), &made, 4);
                break;
            }
            case LOG2: {
                const float made = std::log2(flushed(number(one, 1)));
                memcpy(at(one, 0), &made, 4);
                break;
            }
            case SQUARE_ROOT: {
                const float made = std::sqrt(flushed(number(one, 1)));
                memcpy(at(one, 0), &made, 4);
                break;
            }
            case TANH: {  // 17 bits of the result, about as close as an H200 is
                const float exact = std::tanh(number(one, 1)), split = 129.0f * exact;
                const float made = std::isfinite(split) ? split - (split - exact) : exact;
                memcpy(at(one, 0), &made, 4);
                break;
            }
            case TO_E4M3:
            case TO_E5M2: {
                const auto byte = one.kind == TO_E4M3 ? to_e4m3 : to_e5m2;  // the first source is the upper half
                const auto made = uint16_t(byte(number(one, 1)) << 8 | byte(number(one, 2)));
                memcpy(at(one, 0), &made, 2);
                break;
            }
            default: stop("`" + one.opcode + "` is no instruction that the host runs");
        }
    }
}

// ---------------------------------------------------------------- CUDA's own

void sync_threads() {
    thread &t = *now->running;
    static const int here = 0;
    meet_warp(&here, [](warp &w, const void *) {
        const uint64_t before = w.of->barriers[0].generation;
        arrive_named(w, 0, -1);
        for (thread &each : w.lanes) each.passed = before;
    });
    if (t.of->of->barriers[0].generation == t.passed) wait_for(waiting::NAMED, 0, 0, t.passed);
    else wait_for(waiting::NOTHING);
}

void sync_warp() {
    static const int here = 0;
    meet_warp(&here, nullptr);
}

uint64_t shuffled(uint64_t value, int from) {
    thread &t = *now->running;
    static const int here = 0;
    t.passed = value, t.shuffles = from;
    meet_warp(&here, [](warp &w, const void *) {
        uint64_t before[WARP];
        for (uint64_t &each : before) each = ~uint64_t(0);  // of lanes that are not there
        for (const thread &each : w.lanes)
            if (each.why != waiting::ENDED) before[each.lane] = each.passed;
        for (thread &each : w.lanes) each.passed = before[each.shuffles & (WARP - 1)];
    });
    return t.passed;
}

uint32_t ballot(bool value) {
    thread &t = *now->running;
    static const int here = 0;
    t.passed = value;
    meet_warp(&here, [](warp &w, const void *) {
        uint64_t all = 0;
        for (const thread &each : w.lanes)
            if (each.why != waiting::ENDED && each.passed) all |= uint64_t(1) << each.lane;
        for (thread &each : w.lanes) each.passed = all;
    });
    return uint32_t(t.passed);
}

} // namespace tkgen_host
