/// Who goes on next: threads, or what they have started. A launch runs in a process of its own.
#include "machine.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <utility>

namespace tkgen_host {

machine *now = nullptr;
place thread_index, block_index, block_dimension, grid_dimension;

namespace {

constexpr size_t STACK = 256 * 1024, PAGE = 4096;
constexpr size_t MOST_FINDINGS = 20;
const request *asked = nullptr;
void (*kernel)(const void *) = nullptr;

} // namespace

int warp::living() const {
    return int(std::count_if(lanes.begin(), lanes.end(), [](const thread &t) { return t.why != waiting::ENDED; }));
}
int block::living() const {
    int all = 0;
    for (const warp &w : warps) all += w.living();
    return all;
}
void machine::find(const std::string &text) {
    if (findings.size() < MOST_FINDINGS && std::find(findings.begin(), findings.end(), text) == findings.end())
        findings.push_back(text);
}

void stop(const std::string &finding) {
    now->find(finding);
    now->stopped = true;
    if (!now->running) throw stopped{};
    fiber lost;
    switch_to(lost, now->scheduler);
    abort();
}

// ---------------------------------------------------------------- threads

std::string name_of(const thread &t) {
    std::string text = "warp " + std::to_string(t.of->number) + ", lane " + std::to_string(t.lane);
    if (now->cluster > 1 || now->blocks.size() > 1) text += " of block " + std::to_string(t.of->of->rank) + " of its cluster";
    return text;
}

void wait_for(waiting why, uint32_t address, uint32_t phase, uint64_t generation) {
    thread &t = *now->running;
    t.why = why, t.address = address, t.phase = phase, t.generation = generation;
    switch_to(t.at, now->scheduler);
}

/// Others may go on here.
void pause() {
    ++now->steps;
    wait_for(waiting::NOTHING);
}

namespace {

void complete_meeting(warp &w) {
    const void *site = nullptr;
    for (const thread &t : w.lanes) {
        if (t.why == waiting::ENDED) continue;
        if (site && t.site != site) {
            now->find("the lanes of warp " + std::to_string(w.number) + " are at different instructions that all of them take");
            now->stopped = true;
            return;
        }
        site = t.site;
    }
    ++now->steps;
    const auto action = w.action;
    w.arrived = 0;
    ++w.generation;
    if (action) action(w, site);
}

} // namespace

/// Comes to where all threads of a warp take one instruction; the last one carries it out for all.
void meet_warp(const void *site, void (*action)(warp &, const void *)) {
    thread &t = *now->running;
    warp &w = *t.of;
    t.site = site;
    w.action = action;
    if (++w.arrived == w.living()) {
        complete_meeting(w);
        if (now->stopped) stop(now->findings.back());
    } else {
        wait_for(waiting::WARP_MATES, 0, 0, w.generation);
    }
}

namespace {

/// Some thread has ended: those that waited for it may be complete.
void recount(warp &w) {
    if (w.arrived && w.arrived == w.living()) complete_meeting(w);
    named_barrier &all = w.of->barriers[0];
    if (all.arrived && all.expected == -1 && all.arrived >= w.of->living()) all.arrived = 0, ++all.generation;
}

void begin() {
    kernel(asked->argument);
    thread &t = *now->running;
    t.why = waiting::ENDED;
    recount(*t.of);
    switch_to(t.at, now->scheduler);
    abort();
}

bool can_go(const thread &t) {
    switch (t.why) {
        case waiting::NOTHING: return true;
        case waiting::WARP_MATES: return t.of->generation != t.generation;
        case waiting::MBARRIER: return is_complete(t.address, t.phase);
        case waiting::NAMED: return t.of->of->barriers[t.address].generation != t.generation;
        case waiting::CLUSTER: return now->cluster_generation != t.generation;
        case waiting::REGISTERS: return t.of->registers == int(t.address) || t.of->of->free_registers >= int(t.phase);
        case waiting::ENDED: return false;
    }
    return false;
}

bool can_go(const warp &w) {
    return std::any_of(w.lanes.begin(), w.lanes.end(), [](const thread &t) { return can_go(t); });
}

/// Each thread of a warp goes on until it waits or lets others go on.
void run_warp(warp &w) {
    const int count = int(w.lanes.size());
    const bool backwards = now->order.agents == LAST;
    const int first = now->order.agents == RANDOM ? int(now->random() % count) : 0;
    for (int n = 0; n < count && !now->stopped; ++n) {
        thread &t = w.lanes[backwards ? count - 1 - n : (first + n) % count];
        if (!can_go(t)) continue;
        t.why = waiting::NOTHING;
        now->running = &t;
        thread_index = {uint32_t(w.number * WARP + t.lane), 0, 0};
        block_index = {w.of->number, 0, 0};
        switch_to(now->scheduler, t.at);
        now->running = nullptr;
    }
}

// ---------------------------------------------------------------- what was started

void perform(std::list<copy>::iterator at) {
    const auto work = std::move(at->perform);
    now->copies.erase(at);
    work();
}

/// Something that was started comes: a copy, the next product of a warp, a part of a store; false where nothing is left.
bool perform_any() {
    std::vector<warp *> multiplying;
    for (block &b : now->blocks)
        for (warp &w : b.warps)
            if (!w.products.empty()) multiplying.push_back(&w);
    const size_t all = now->copies.size() + multiplying.size() + now->stores.size();
    if (all == 0) return false;
    size_t chosen = now->random() % all;
    if (chosen < now->copies.size()) return perform(std::next(now->copies.begin(), long(chosen))), true;
    chosen -= now->copies.size();
    if (chosen < multiplying.size()) return tkgen_host::perform(*multiplying[chosen]), true;
    const auto at = std::next(now->stores.begin(), long(chosen - multiplying.size()));
    const auto store = *at;
    if (store->read) std::exchange(store->read, nullptr)();
    else std::exchange(store->write, nullptr)(), now->stores.erase(at);
    return true;
}

/// Nobody can go on: what was started last comes, or where the last warp goes first what was started first.
bool perform_late() {
    if (now->copies.empty()) return false;
    perform(now->order.agents == LAST ? now->copies.begin() : std::prev(now->copies.end()));
    return true;
}

/// The warp of the largest rank goes on; now and then it gets the least one, and others overtake it.
bool move_ranked(const std::vector<warp *> &warps) {
    std::vector<uint64_t> &ranks = now->ranks;
    if (ranks.size() != warps.size()) {
        ranks.resize(warps.size());
        for (uint64_t &each : ranks) each = now->random() | 1;
    }
    if (now->random() % 16 == 0 && perform_any()) return true;
    size_t best = warps.size();
    for (size_t n = 0; n < warps.size(); ++n)
        if (can_go(*warps[n]) && (best == warps.size() || ranks[n] > ranks[best])) best = n;
    if (best == warps.size()) return perform_any();
    run_warp(*warps[best]);
    if (now->random() % 24 == 0) ranks[best] = now->random() % 4 ? now->random() >> 32 : now->random();
    return true;
}

bool move(size_t &turn, const std::vector<warp *> &warps) {
    const size_t count = warps.size();
    if (now->order.agents == RANDOM && now->order.seed % 2) return move_ranked(warps);
    if (now->order.agents == RANDOM && now->random() % 3 == 0 && perform_any()) return true;
    const size_t first = now->order.agents == IN_TURN ? turn : now->order.agents == RANDOM ? now->random() % count : 0;
    for (size_t n = 0; n < count; ++n) {
        const size_t at = now->order.agents == LAST ? count - 1 - n : (first + n) % count;
        if (!can_go(*warps[at])) continue;
        run_warp(*warps[at]);
        turn = at + 1;
        return true;
    }
    return now->order.agents == RANDOM ? perform_any() || perform_late() : perform_late();
}

std::string waits_for(const thread &t) {
    const std::string who = name_of(t) + " waits for ever ";
    const named_barrier &barrier = t.of->of->barriers[t.why == waiting::NAMED ? t.address : 0];
    switch (t.why) {
        case waiting::MBARRIER:
            return who + "for phase " + std::to_string(t.phase) + " of `" + name_of_shared(t.address) + "`, " + lacks(t.address);
        case waiting::NAMED:
            return who + (t.address ? "at named barrier " + std::to_string(t.address) : "at the barrier of its block") + ", where " +
                   std::to_string(barrier.arrived) + " of " +
                   std::to_string(barrier.expected < 0 ? t.of->of->living() : barrier.expected) + " threads have come";
        case waiting::WARP_MATES: return who + "for the other lanes of its warp";
        case waiting::CLUSTER: return who + "for the other threads of its cluster";
        case waiting::REGISTERS: return who + "for registers that no warpgroup gives back";
        default: return who;
    }
}

/// Who waits for what: threads of a warp that wait for the same as one.
void report_waiting() {
    for (const block &b : now->blocks)
        for (const warp &w : b.warps)
            for (size_t n = 0; n < w.lanes.size(); ++n) {
                const thread &t = w.lanes[n];
                if (t.why == waiting::ENDED) continue;
                if (t.why == waiting::WARP_MATES && std::any_of(w.lanes.begin(), w.lanes.end(), [](const thread &o) {
                        return o.why != waiting::WARP_MATES && o.why != waiting::ENDED;
                    }))
                    continue;
                now->find(waits_for(t));
                break;
            }
}

// ---------------------------------------------------------------- blocks

struct stacks {
    char *memory;
    size_t count;
    explicit stacks(size_t count) : count(count) {
        memory = static_cast<char *>(mmap(nullptr, count * STACK, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
        if (memory == MAP_FAILED) abort();
        for (size_t n = 0; n < count; ++n) mprotect(memory + n * STACK, PAGE, PROT_NONE);
    }
    ~stacks() { munmap(memory, count * STACK); }
};

void set_up(block &b, uint32_t number, uint32_t rank, const stacks &all) {
    machine &m = *now;
    b.number = number, b.rank = rank, b.ended = false;
    b.shared_bytes = m.dynamic_at() + m.dynamic_bytes;
    b.memory.resize(b.shared_bytes / sizeof(aligned_chunk) + 1);
    memset(b.shared(), UNKNOWN, b.memory.size() * sizeof(aligned_chunk));
    b.unfenced.assign(b.shared_bytes / CHUNK + 1, {});
    for (named_barrier &each : b.barriers) each = {};
    b.free_registers = 65536 - int(asked->registers * m.threads);
    b.warps.clear();
    b.warps.resize((m.threads + WARP - 1) / WARP);
    for (size_t n = 0; n < b.warps.size(); ++n) {
        warp &w = b.warps[n];
        w.of = &b, w.number = int(n), w.registers = int(asked->registers);
        w.lanes.resize(std::min<size_t>(WARP, m.threads - n * WARP));
        for (size_t l = 0; l < w.lanes.size(); ++l) {
            w.lanes[l].of = &w, w.lanes[l].lane = int(l);
            make(w.lanes[l].at, all.memory + ((rank * m.threads) + n * WARP + l) * STACK, STACK, begin);
        }
    }
}

void end(block &b) {
    for (warp &w : b.warps)
        if (!w.issued.empty() || !w.groups.empty())
            now->find("products of warp " + std::to_string(w.number) + " are under way when its block ends");
    memset(b.shared(), UNKNOWN, b.shared_bytes);
    b.ended = true;
    end_stores(b);
}

void run_cluster(uint32_t first, const stacks &all) {
    machine &m = *now;
    m.copies.clear(), m.stores.clear();
    m.cluster_arrived = 0;
    std::vector<warp *> warps;
    for (uint32_t rank = 0; rank < m.cluster; ++rank) {
        set_up(m.blocks[rank], first + rank, rank, all);
        for (warp &w : m.blocks[rank].warps) warps.push_back(&w);
    }
    size_t turn = 0;
    while (!m.stopped) {
        bool ended = true;
        for (block &b : m.blocks) {
            if (!b.ended && b.living() == 0) end(b);
            ended = ended && b.ended;
        }
        if (ended) break;
        if (!move(turn, warps)) {
            report_waiting();
            m.stopped = true;
        }
    }
    if (!m.stopped && !m.copies.empty()) m.find("a copy into shared memory is under way when its block ends");
}

void write_report(const std::string &text) {
    const size_t count = std::min<size_t>(text.size(), asked->report_bytes - 1);
    memcpy(asked->report, text.data(), count);
    asked->report[count] = 0;
}

/// Where memory is that a thread must not touch, beside which tensor.
void on_fault(int, siginfo_t *info, void *) {
    const auto at = reinterpret_cast<uint64_t>(info->si_addr);
    std::string text = "a thread touches memory that is not the kernel's";
    if (now && now->running) text = name_of(*now->running) + " touches memory that is not the kernel's";
    for (uint64_t n = 0; n < asked->tensor_count; ++n) {
        const tensor_memory &t = asked->tensors[n];
        if (at >= t.first + t.bytes && at < t.first + t.bytes + (1 << 16))
            text += ", " + std::to_string(at - t.first - t.bytes) + " bytes after the end of `" + t.name + "`";
        else if (at < t.first && at + (1 << 16) > t.first)
            text += ", " + std::to_string(t.first - at) + " bytes before `" + t.name + "`";
    }
    write_report(text + "\n");
    _exit(1);
}

/// All of it, in this process.
void launch() {
    machine m;
    now = &m;
    m.order = {int(asked->agents), bool(asked->early & 1), bool(asked->early & 2), bool(asked->early & 4), asked->seed};
    m.threads = asked->threads, m.cluster = asked->cluster, m.dynamic_bytes = asked->dynamic_bytes;
    m.random.seed(asked->seed);
    m.blocks.resize(m.cluster);
    block_dimension = {m.threads, 1, 1}, grid_dimension = {asked->grid, 1, 1};
    const stacks all(size_t(m.cluster) * m.threads);
    for (uint32_t first = 0; first < asked->grid && !m.stopped; first += m.cluster) {
        try {
            run_cluster(first, all);
        } catch (const stopped &) {
        }
        asked->progress[0] = first + m.cluster, asked->progress[1] = m.steps;
    }
    std::string text;
    for (const std::string &each : m.findings) text += each + "\n";
    write_report(text);
}

void in_child() {
    signal(SIGINT, SIG_DFL);
    static char other[1 << 16];
    stack_t stack{};
    stack.ss_sp = other, stack.ss_size = sizeof other;
    sigaltstack(&stack, nullptr);
    struct sigaction action {};
    action.sa_sigaction = on_fault, action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int each : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigaction(each, &action, nullptr);
    launch();
    _exit(0);
}

double seconds() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

} // namespace

/// Runs a launch in a process of its own; what it finds wrong is in the report. Returns 0 where it came to an end.
int run(const request &what, void (*of)(const void *), int (*told)(uint64_t)) {
    asked = &what, kernel = of;
    what.report[0] = 0;
    const double start = seconds();
    const pid_t child = fork();
    if (child < 0) return -1;
    if (child == 0) in_child();
    int status = 0;
    for (useconds_t nap = 50; waitpid(child, &status, WNOHANG) == 0; usleep(nap), nap = std::min<useconds_t>(nap * 2, 5000)) {
        const bool late = what.limit > 0 && seconds() - start > what.limit;
        if (late || (told && told(what.progress[0]))) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            if (late) write_report("the kernel did not end within " + std::to_string(int(what.limit)) + " s\n");
            return late ? 2 : 3;
        }
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

} // namespace tkgen_host

/// Memory that the process of a launch shares, with a page on each side that nobody may touch; `bytes` end at the second.
extern "C" void *tkgen_host_map(size_t bytes, size_t alignment) {
    using namespace tkgen_host;
    const size_t room = (bytes + alignment + PAGE - 1) / PAGE * PAGE;
    char *memory = static_cast<char *>(mmap(nullptr, room + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    if (memory == MAP_FAILED) return nullptr;
    mprotect(memory, PAGE, PROT_NONE);
    mprotect(memory + PAGE + room, PAGE, PROT_NONE);
    return memory + PAGE + (room - bytes) / alignment * alignment;
}
extern "C" void tkgen_host_unmap(void *at, size_t bytes, size_t alignment) {
    using namespace tkgen_host;
    const size_t room = (bytes + alignment + PAGE - 1) / PAGE * PAGE;
    munmap(static_cast<char *>(at) - (room - bytes) / alignment * alignment - PAGE, room + 2 * PAGE);
}
