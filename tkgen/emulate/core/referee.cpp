// See referee.h for the rule.
#include "referee.h"

#include <algorithm>

void Referee::begin_block(uint32_t lds_bytes) {
  instances_.assign(1, Instance{});
  order.begin_block(engine_.waves.size(), lds_bytes);
  lds_.assign(lds_bytes, Cell{});
  pages_.clear();
  last_page_ = ~0ull;
  last_cells_ = nullptr;
}

namespace {

// The bits of `Wave::pending` that count loads which `op` cannot overtake: those of its own queue, if that returns in order.
uint32_t in_order_pending(const Op& op) {
  switch (op.encoding) {
    case ENC_DS: return 255 * pending_unit(Queue::LDS);
    case ENC_GLOBAL: case ENC_SCRATCH: case ENC_MUBUF: case ENC_MTBUF: return 255 * pending_unit(Queue::VECTOR);
    default: return 0;
  }
}

// Byte `at` of what `lane` stores with its part 0 or 1 (ds_write2), if it is there.
bool stored_byte(const MemoryOp& m, int lane, bool lds, uint64_t at, uint8_t& byte) {
  for (int part = 0; part < m.parts; ++part) {
    uint64_t begin = m.address[lane] + uint64_t(part ? m.second : 0);
    if (lds) begin = uint32_t(begin);
    const uint64_t offset = at - begin;
    if (offset >= m.size) continue;
    byte = uint8_t(m.data[2 * part + offset / 4][lane] >> 8 * (offset % 4));
    return true;
  }
  return false;
}

// Whether all that `lane` stores already stands, or stood, where it goes: LDS is judged when the store is complete.
bool changes_nothing(const MemoryOp& m, int lane, bool lds) {
  if (m.hollow || m.dma) return false;
  if (lds) return !(m.changed >> lane & 1);
  for (uint32_t i = 0; i < m.in_range[lane]; ++i)
    if (m.host[lane][i] != uint8_t(m.data[i / 4][lane] >> 8 * (i % 4))) return false;
  return true;
}

}  // namespace

void Referee::check_registers(Wave& w, const Op& op, const Use& use) {
  const uint64_t exec = use.info_flags & MATRIX ? ~0ull : w.lanes;
  uint64_t defined = ~0ull;
  std::fill(std::begin(data_defined_), std::end(data_defined_), ~0ull);
  int data = 0;
  for (int i = 0; i < use.count; ++i) {
    const Use::Span& s = use.spans[i];
    const bool writes = s.flags & Use::WRITES;
    for (unsigned r = s.first; r < unsigned(s.first) + s.count; ++r) {
      if (w.pending[r]) {
        // Loads of one in-order queue overwrite each other in order.
        const bool in_order = writes && use.info_flags & MEMORY && !(w.pending[r] & ~in_order_pending(op));
        if (!in_order)
          if (TkFinding* f = engine_.report(writes ? OVERWRITE_BEFORE_WAIT : READ_BEFORE_WAIT, w)) {
            f->address = r < unsigned(ROWS) ? r : r - ROWS;
            f->space = r < unsigned(ROWS) ? 3 : 4;
          }
      }
      // Which part of a register is defined is not followed: one that a part is written to counts as that part does.
      if (writes || s.flags & Use::KEPT || r >= unsigned(ROWS)) continue;
      defined &= w.defined[r];
      // What a memory instruction stores is judged when it is known where it goes.
      if (use.info_flags & MEMORY && !(s.flags & Use::ADDRESS) && data < 4) data_defined_[data] = w.defined[r], data_row_[data] = r, ++data;
      const bool used = use.info_flags & MATRIX || s.flags & Use::ADDRESS;
      if (used && exec & ~w.defined[r])
        if (TkFinding* f = engine_.report(UNINITIALISED_REGISTER, w)) {
          f->address = r;
          f->space = 3;
          f->lane = uint32_t(__builtin_ctzll(exec & ~w.defined[r]));
        }
    }
  }
  for (int half = 0; half < 2; ++half)
    sources_defined_[half] = use.info_flags & (PAIRS | MOVES_PAIR) ? half_defined(w, op, use, half) : defined;
}

// What goes into a half of a pair: compilers leave the other half of a source undefined.
uint64_t Referee::half_defined(const Wave& w, const Op& op, const Use& use, int half) const {
  const bool moves = use.info_flags & MOVES_PAIR;
  uint64_t defined = ~0ull;
  for (int i = 0; i < use.sources; ++i) {
    const int from = op.encoding != ENC_VOP3P ? half : (half && !moves ? op.opsel_hi : op.opsel) >> i & 1;
    if (op.src[i] >= 256 && (!moves || i == half)) defined &= w.defined[op.src[i] - 256 + from];
  }
  return defined;
}

void Referee::define_registers(Wave& w, const Op& op, const Use& use) {
  uint64_t lanes = w.lanes;
  const bool whatever = use.info_flags & (MATRIX | MEMORY | CROSS_LANE | SELECTS) || op.flags & (F_DPP | F_SDWA);
  if (use.info_flags & MATRIX || (use.info_flags & CROSS_LANE && !(use.info_flags & MEMORY))) lanes = ~0ull;
  for (int i = 0; i < use.count; ++i) {
    const Use::Span& s = use.spans[i];
    if (!(s.flags & Use::WRITES) || s.first >= ROWS) continue;
    for (unsigned r = s.first; r < unsigned(s.first) + s.count; ++r)
      w.defined[r] = (w.defined[r] & ~lanes) | (lanes & (whatever ? ~0ull : sources_defined_[(r - s.first) & 1]));
  }
}

// A wave's scratch is its own, so program order says what a load from it finds.
void Referee::through_scratch(Wave& w, MemoryOp& m) {
  for (int l = 0; l < LANES; ++l) {
    if (!((m.live & m.private_lanes) >> l & 1)) continue;
    uint8_t* state = w.scratch_state.data() + (m.host[l] - w.scratch.data());
    for (uint32_t i = 0; i < m.size; i += 4) {
      const uint32_t bytes = std::min(4u, m.size - i);
      if (m.access != Access::READ) std::memset(state + i, !(m.undefined[i / 4] >> l & 1), bytes);
      else if (std::memchr(state + i, 0, bytes)) m.undefined[i / 4] |= 1ull << l;
    }
  }
}

// Compilers store to scratch registers of which they need a part, or that a caller may not have used: no defect. What is
// stored for others to see must be defined.
void Referee::stored_undefined(Wave& w, const MemoryOp& m) {
  if (m.access == Access::READ) return;
  uint64_t seen = m.live & ~m.private_lanes;
  if (m.queue == Queue::FLAT)
    for (int l = 0; l < LANES; ++l)
      if (m.address[l] >> 32 == engine_.launch.shared_base >> 32) seen &= ~(1ull << l);
  for (int i = 0; i < 4; ++i) {
    if (!(seen & m.undefined[i])) continue;
    if (TkFinding* f = engine_.report(UNINITIALISED_REGISTER, w)) {
      f->address = data_row_[i];
      f->space = 3;
      f->lane = uint32_t(__builtin_ctzll(seen & m.undefined[i]));
    }
  }
}

// Lanes that had ended their part for good never come back; these do.
void Referee::divergent(Wave& w, const MemoryOp& m) {
  const uint64_t back = w.absent & m.exec;
  const TkParty a = {w.id, w.barrier_pc, 0, w.epoch, w.epoch, 0}, b = party(w);
  if (TkFinding* f = engine_.report(DIVERGENT_BARRIER, w, a, &b)) f->lane = uint32_t(__builtin_ctzll(back));
  w.absent = 0;
}

// Direct-to-LDS loads complete with vmcnt: until then the wave's own LDS accesses may come before or after them.
void Referee::issued(Wave& w, MemoryOp& m) {
  if (w.absent & m.exec && m.queue != Queue::SCALAR && m.op->encoding != ENC_SCRATCH && !m.private_lanes) divergent(w, m);
  for (int i = 0; i < 4; ++i) m.undefined[i] = m.access == Access::READ ? 0 : m.exec & ~data_defined_[i];
  if (m.private_lanes) through_scratch(w, m);
  if (m.queue != Queue::LDS) {
    stored_undefined(w, m);
    if (m.queue != Queue::SCALAR && !engine_.launch.split) touch_global(w, m);
  }
  if (m.queue == Queue::LDS || m.queue == Queue::FLAT) {
    meet_direct_loads(w, m);
    if (m.live && releases_lds(m)) order.releases_lds(w, m);
  }
  if (!m.dma) return;
  for (MemoryQueue* q : {&w.lds_ops, &w.vector_ops})
    for (auto& other : *q)
      if (!other->dma) overtake(w, m, *other);
}

// A load straight into LDS while the wave's own access of the same bytes is under way, by another path: neither waits.
void Referee::overtake(Wave& w, const MemoryOp& load, const MemoryOp& other) {
  const uint64_t begin = load.lds_base, end = begin + LANES * load.lds_step();
  for (int i = 0; i < LANES * other.parts; ++i) {
    const int l = i / other.parts;
    if (!(other.live >> l & 1) || !in_lds(other, l)) continue;
    const uint64_t at = uint32_t(other.address[l]) + (i % other.parts ? uint64_t(other.second) : 0);
    if (at >= end || at + other.size <= begin) continue;
    TkParty a = party(w);
    a.writes = 1;
    const TkParty b = {w.id, other.index, other.number, other.epoch, NONE, uint32_t(other.access)};
    if (TkFinding* f = engine_.report(OVERWRITE_BEFORE_WAIT, w, a, &b)) {
      f->address = at;
      f->size = other.size;
      f->space = 0;
      f->lane = uint32_t(l);
    }
    return;
  }
}

// The wave's own access of LDS while a load straight into the same bytes is under way.
void Referee::meet_direct_loads(Wave& w, const MemoryOp& m) {
  for (auto& other : w.vector_ops) {
    if (!other->dma) continue;
    const uint64_t begin = other->lds_base, end = begin + LANES * other->lds_step();
    for (int i = 0; i < LANES * m.parts; ++i) {
      const int l = i / m.parts;
      if (!(m.live >> l & 1) || !in_lds(m, l)) continue;
      const uint64_t at = uint32_t(m.address[l]) + (i % m.parts ? uint64_t(m.second) : 0);
      if (at >= end || at + m.size <= begin) continue;
      const TkParty a = party(w);
      const TkParty b = {w.id, other->index, other->number, other->epoch, NONE, 1};
      if (TkFinding* f = engine_.report(m.access == Access::READ ? READ_BEFORE_WAIT : OVERWRITE_BEFORE_WAIT, w, a, &b)) {
        f->address = at;
        f->size = m.size;
        f->space = 0;
        f->lane = uint32_t(l);
      }
      break;
    }
  }
}

bool Referee::acquires_lds(const MemoryOp& m) const {
  return engine_.lds_flags && m.dst_count && (m.access == Access::ATOMIC || engine_.polls[m.index] & POLLS_LDS);
}

bool Referee::releases_lds(const MemoryOp& m) const {
  return m.access == Access::ATOMIC ? engine_.lds_flags : engine_.lds_polls && m.access == Access::WRITE && m.size <= 8 && m.parts == 1;
}

void Referee::read_lds(Wave& w, MemoryOp& m, uint64_t address, uint32_t size, int lane) {
  if (acquires_lds(m)) order.reads_lds(m, address);
  const uint8_t* state = engine_.lds_state.data() + address;
  for (uint32_t i = 0; i < size; ++i)
    if (state[i] != 1) {
      const TkParty a = {w.id, m.index, m.number, m.epoch, w.epoch, 0};
      if (TkFinding* f = engine_.report(UNINITIALISED_LDS, w, a)) {
        f->address = address + i;
        f->size = size;
        f->space = 0;
        f->lane = uint32_t(lane);
      }
      return;
    }
}

void Referee::write_lds(const MemoryOp& m, uint64_t address, uint32_t size, int lane, int part) {
  if (m.given) order.lds_holds(m, address);
  const uint32_t first = part * size / 4;
  for (uint32_t i = 0; i < size; i += 4)
    std::memset(engine_.lds_state.data() + address + i, m.undefined[first + i / 4] >> lane & 1 ? 2 : 1, std::min(4u, size - i));
}

bool Referee::ordered(const Instance& x, const Instance& mine, bool lds, uint64_t address) const {
  const uint32_t own = lds && order.polled(address) ? x.own : NONE;  // who has seen a flag is after it
  if (mine.clock && order.before(x.wave, lds ? x.done : x.epoch, lds || x.scalar ? NONE : x.issued, x.completed, own, mine.clock)) return true;
  if (!lds && !engine_.launch.split && !x.scalar && !mine.scalar) return x.epoch != mine.epoch;
  return x.done < mine.epoch || (!lds && mine.done < x.epoch);
}

void Referee::judge(Wave& w, const MemoryOp& m, const Instance& mine, uint32_t other, bool lds, uint64_t address, uint32_t size, int lane) {
  if (!other) return;
  const Instance& x = instances_[other];
  if (x.wave == mine.wave || ordered(x, mine, lds, address)) return;
  if (apart(x.flag, mine.flag)) return;
  const auto may_be_flag = [](const Instance& i) { return i.flag == STORED || i.flag == PERHAPS; };
  if (may_be_flag(x) && may_be_flag(mine) && (lds ? order.polled(address) : order.polled_in_global(address))) return;
  const TkParty a = {mine.wave, mine.index, mine.number, mine.epoch, mine.done, uint32_t(mine.access)};
  const TkParty b = {x.wave, x.index, x.number, x.epoch, x.done, uint32_t(x.access)};
  if (TkFinding* f = engine_.report(RACE, w, a, &b)) {
    f->address = address;
    f->size = size;
    f->space = lds ? 0 : 1;
    f->lane = uint32_t(lane);
    const bool both_write = x.access == Access::WRITE && mine.access == Access::WRITE;
    if (both_write && changes_nothing(m, lane, lds)) f->note = SAME_VALUES;
    for (auto [one, other] : {std::pair{&x, &mine}, {&mine, &x}})
      f->note |= order.lacks({one->wave, lds ? one->done : one->epoch, one->completed, one->issued_at}, other->clock, other->seen);
  }
}

// Another lane of the same instruction wrote the byte, too.
void Referee::judge_lanes(Wave& w, const MemoryOp& m, bool lds, uint64_t address, int lane) {
  uint8_t mine, theirs;
  if (engine_.launch.dataless) return;  // the values mean nothing
  if (!stored_byte(m, lane, lds, address, mine)) return;
  for (int other = lane - 1; other >= 0; --other) {
    if (!(m.live >> other & 1) || !stored_byte(m, other, lds, address, theirs)) continue;
    if (mine == theirs) return;
    const TkParty a = {w.id, m.index, m.number, m.epoch, w.epoch, 1};
    if (TkFinding* f = engine_.report(LANE_RACE, w, a)) {
      f->address = address;
      f->size = m.size;
      f->space = lds ? 0 : 1;
      f->lane = uint32_t(lane);
      f->other_lane = uint32_t(other);
    }
    return;
  }
}

Referee::Cell* Referee::global_cell(Wave& w, uint64_t address) {
  const uint64_t page = address >> PAGE_BITS;
  if (page != last_page_) {
    if (pages_.size() >= MOST_PAGES && !pages_.count(page)) put_away();
    if (pages_.size() >= MOST_PAGES && !pages_.count(page)) {
      engine_.fatal(WATCH_LIMIT, w);
      return last_cells_ + (address & ((1 << PAGE_BITS) - 1));
    }
    std::unique_ptr<Page>& p = pages_[page];
    if (!p) p = std::make_unique<Page>();
    last_page_ = page;
    last_cells_ = p->cells;
  }
  return last_cells_ + (address & ((1 << PAGE_BITS) - 1));
}

// Pages whose accesses all waves have a barrier behind: nothing in this block can race with them any more, and other blocks
// need their intervals alone.
void Referee::put_away() {
  if (engine_.launch.split || order.used()) return;
  uint32_t behind = NONE;
  for (auto& w : engine_.waves)
    if (w->state != Wave::ENDED) behind = std::min(behind, w->epoch);
  const auto open = [&](uint32_t id) { return id && (instances_[id].scalar || instances_[id].epoch >= behind); };
  const auto in_use = [&](const Cell& c) { return open(c.read[0]) || open(c.read[1]) || open(c.write[0]) || open(c.write[1]); };
  std::vector<uint64_t> old;
  for (auto& p : pages_)
    if (std::none_of(std::begin(p.second->cells), std::end(p.second->cells), in_use)) old.push_back(p.first);
  write_intervals(std::move(old));
  last_page_ = ~0ull;
}

// The intervals of these pages go to the engine, and the pages away.
void Referee::write_intervals(std::vector<uint64_t> pages) {
  std::sort(pages.begin(), pages.end());
  for (int kind = 0; kind < 2; ++kind)
    for (uint64_t page : pages) add_intervals(page, *pages_[page], kind);
  for (uint64_t page : pages) pages_.erase(page);
}

void Referee::touch(Wave& w, const MemoryOp& m, uint32_t id, bool lds, Access access, uint64_t address, uint32_t size, int lane) {
  const Instance mine = instances_[id];
  Cell before = {}, after = {};  // of the byte below
  bool same = false;             // so that a byte with the history of the one below needs no judging
  for (uint64_t at = address; at < address + size; ++at) {
    Cell& c = lds ? lds_[at] : *global_cell(w, at);
    if (same && !std::memcmp(&c, &before, sizeof c)) {
      c = after;
      continue;
    }
    before = c;
    const size_t found = engine_.reports;
    judge(w, m, mine, c.write[0], lds, at, size, lane);
    judge(w, m, mine, c.write[1], lds, at, size, lane);
    uint32_t* mine_last = c.read;
    if (access != Access::READ) {
      judge(w, m, mine, c.read[0], lds, at, size, lane);
      judge(w, m, mine, c.read[1], lds, at, size, lane);
      mine_last = c.write;
      if (c.write[0] == id && access == Access::WRITE && !engine_.launch.dataless) judge_lanes(w, m, lds, at, lane);
    }
    if (mine_last[0] && instances_[mine_last[0]].wave != mine.wave) mine_last[1] = mine_last[0];
    mine_last[0] = id;
    after = c;
    same = engine_.reports == found && before.write[0] != id;  // findings are counted, and lanes judged, byte by byte
  }
}

// Drops the instances that no cell names any more.
void Referee::compact() {
  std::vector<uint32_t> renamed(instances_.size(), 0);
  std::vector<Instance> kept(1);
  const auto keep = [&](Cell& c) {
    for (uint32_t* ids : {c.read, c.write})
      for (int i = 0; i < 2; ++i) {
        if (!ids[i]) continue;
        if (!renamed[ids[i]]) renamed[ids[i]] = uint32_t(kept.size()), kept.push_back(instances_[ids[i]]);
        ids[i] = renamed[ids[i]];
      }
  };
  for (Cell& c : lds_) keep(c);
  for (auto& p : pages_)
    for (Cell& c : p.second->cells) keep(c);
  for (auto& w : engine_.waves)
    for (auto& m : w->vector_ops) m->instance = renamed[m->instance];
  instances_.swap(kept);
  ++compactions_;
}

Referee::Touched Referee::touched() const { return {lds_, engine_.lds_state, compactions_}; }

bool Referee::touched_as(const Touched& then, uint32_t epochs) const {
  if (then.compactions != compactions_ || then.state != engine_.lds_state) return false;
  uint32_t was = 0, is = 0;  // a pair that is the same, as that of the byte before mostly is
  const auto same = [&](uint32_t a, uint32_t b) {
    if (a == b || (a == was && b == is)) return true;
    if (!a || !b) return false;
    const Instance &x = instances_[a], &y = instances_[b];
    if (x.wave != y.wave || x.index != y.index || x.epoch + epochs != y.epoch || x.done + epochs != y.done || x.access != y.access) return false;
    was = a, is = b;
    return true;
  };
  for (size_t i = 0; i < lds_.size(); ++i)
    for (int k = 0; k < 2; ++k)
      if (!same(then.cells[i].read[k], lds_[i].read[k]) || !same(then.cells[i].write[k], lds_[i].write[k])) return false;
  return true;
}

uint32_t Referee::add_instance(const Wave& w, const MemoryOp& m, Access access, uint32_t done, Flag flag) {
  if (instances_.size() >= compact_at_) {
    compact();
    compact_at_ = std::max(MOST_INSTANCES, 2 * instances_.size());
  }
  instances_.push_back({w.id, m.index, m.number, m.epoch, done, access, m.queue == Queue::SCALAR, access == Access::ATOMIC && flag == PLAIN ? OF_ALL : flag, false, m.clock, engine_.launch.split ? NONE : order.releases(), NONE, NONE, m.seen, m.issued_at});
  return uint32_t(instances_.size() - 1);
}

bool Referee::in_lds(const MemoryOp& m, int lane) const {
  return m.lds || (m.queue == Queue::FLAT && m.address[lane] >> 32 == engine_.launch.shared_base >> 32);
}

// The lanes of a vector access that are in global memory.
void Referee::touch_global(Wave& w, MemoryOp& m) {
  if (!m.live || (engine_.launch.dataless && !m.writable)) return;  // nobody writes there
  if (engine_.of_host(m.address[__builtin_ctzll(m.live)])) return;
  const Flag flag = flag_of(engine_, m);
  const uint32_t id = m.instance = add_instance(w, m, m.access, engine_.launch.split ? w.epoch : NONE, flag);
  bool unchanged = m.access == Access::WRITE && !engine_.launch.split && !m.hollow;  // there it is performed already
  for (int l = 0; l < LANES; ++l) {
    if (!((m.live & ~m.private_lanes) >> l & 1) || in_lds(m, l)) continue;
    touch(w, m, id, false, m.access, m.address[l], m.in_range[l], l);
    for (int i = 0; unchanged && i < m.in_range[l]; i += 4)
      unchanged = !std::memcmp(m.host[l] + i, &m.data[i / 4][l], std::min(4, m.in_range[l] - i));
  }
  instances_[id].unchanged = unchanged;
  if (flag == POLLED) order.polls_global(m);
  else if (flag && (m.access == Access::READ || m.dst_count)) order.reads(w, m);
  if (flag && m.access != Access::READ && !adds_floats(engine_.launch.names[m.op->opcode])) order.released(w, m, flag);
}

// The lanes that are in LDS, and what a load straight into LDS writes there.
void Referee::touch_lds(Wave& w, const MemoryOp& m, uint32_t done) {
  uint32_t id = 0;
  for (int l = 0; l < LANES; ++l) {
    if (!((m.live & ~m.private_lanes) >> l & 1) || !in_lds(m, l)) continue;
    if (!id) {
      const bool polls = m.access != Access::WRITE && acquires_lds(m) && engine_.polls[m.index] & POLLS_LDS;
      id = add_instance(w, m, m.access, done, polls ? POLLED : m.access == Access::WRITE && m.given ? STORED : PLAIN);
      instances_[id].completed = order.releases();
      instances_[id].own = m.release;
    }
    const uint64_t address = uint32_t(m.address[l]);
    touch(w, m, id, true, m.access, address, m.size, l);
    if (m.parts == 2) touch(w, m, id, true, m.access, address + uint64_t(m.second), m.size, l);
  }
  if (!m.dma) return;
  id = add_instance(w, m, Access::WRITE, done);
  instances_[id].completed = order.releases();
  for (int l = 0; l < LANES; ++l) {
    const uint64_t to = m.lds_base + uint64_t(l) * m.lds_step();
    if (m.exec >> l & 1 && to + m.lds_width() <= lds_.size()) touch(w, m, id, true, Access::WRITE, to, m.lds_width(), l);
  }
}

void Referee::completed(Wave& w, MemoryOp& m) {
  if (m.writes_back) return order.written_back(w, m.epoch);
  if (!m.live && !m.dma) return;
  if (m.instance) {
    Instance& x = instances_[m.instance];
    x.done = w.epoch;
    x.completed = order.releases();
    if (x.flag && (m.access == Access::READ || m.dst_count)) order.acquired(w, m, x.flag);
  }
  if (m.queue == Queue::SCALAR) {
    if (m.live && (m.writable || !engine_.launch.dataless) && !engine_.of_host(m.address[0]))
      touch(w, m, add_instance(w, m, Access::READ, w.epoch), false, Access::READ, m.address[0], m.in_range[0], 0);
    return;
  }
  for (int i = 0; i < m.dst_count && m.dst >= 256; ++i) {
    uint64_t& defined = w.defined[m.dst - 256 + i];
    defined = (defined | m.exec) & ~(m.access == Access::READ && i < 4 ? m.undefined[i] : 0);
  }
  if (engine_.launch.split && m.queue != Queue::LDS) touch_global(w, m);
  if (m.queue != Queue::VECTOR || m.dma) touch_lds(w, m, w.epoch);
  order.acquired_lds(w, m);
}

void Referee::add_intervals(uint64_t page, const Page& cells, int kind) {
  const uint64_t base = page << PAGE_BITS;
  TkInterval* open = nullptr;
  const bool flags = order.used();
  for (uint64_t i = 0; i < 1 << PAGE_BITS; ++i) {
    const uint32_t id = kind ? cells.cells[i].write[0] : cells.cells[i].read[0];
    if (!id) {
      open = nullptr;
      continue;
    }
    const Instance& x = instances_[id];
    const uint32_t access = uint32_t(x.access);
    const bool like = open && open->end == base + i && open->writes == access && open->flag == (of_block(x.flag) ? PLAIN : x.flag);
    const bool written_alike = !kind || (open && open->index == x.index && open->unchanged == x.unchanged);
    const bool in_step = !flags || (open && open->clock == x.clock && open->wave == x.wave && open->epoch == x.epoch && open->completed == x.completed);
    if (like && written_alike && in_step) {
      open->end = base + i + 1;
      continue;
    }
    if (engine_.intervals.size() >= MOST_INTERVALS) return engine_.fatal(WATCH_LIMIT, *engine_.waves[0]);
    const TkRegion* r = engine_.find(base + i, 1);
    engine_.intervals.push_back({r ? r->id : NONE, uint32_t(engine_.block_linear), x.index, access, base + i, base + i + 1, x.unchanged, x.clock, x.wave, x.epoch, x.completed, of_block(x.flag) ? PLAIN : x.flag});
    open = &engine_.intervals.back();
  }
}

void Referee::end_block() {
  std::vector<uint64_t> all;
  for (auto& p : pages_) all.push_back(p.first);
  write_intervals(std::move(all));
  for (TkFinding& f : engine_.findings)
    if (f.kind == UNINITIALISED_LDS && std::equal(f.block, f.block + 3, engine_.block_id) && engine_.lds_state[f.address]) f.note = WRITTEN_LATER;
}
