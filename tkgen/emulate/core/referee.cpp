// See referee.h for the rule.
#include "referee.h"

#include <algorithm>

void Referee::begin_block(uint32_t lds_bytes) {
  instances_.assign(1, Instance{});
  lds_.assign(lds_bytes, Cell{});
  pages_.clear();
  last_page_ = ~0ull;
  last_cells_ = nullptr;
}

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
        const bool in_order = writes && use.info_flags & MEMORY && op.encoding != ENC_SMEM && op.encoding != ENC_FLAT;
        if (!in_order)
          if (TkFinding* f = engine_.report(writes ? OVERWRITE_BEFORE_WAIT : READ_BEFORE_WAIT, w)) {
            f->address = r < unsigned(ROWS) ? r : r - ROWS;
            f->space = r < unsigned(ROWS) ? 3 : 4;
          }
      }
      if (writes || r >= unsigned(ROWS)) continue;
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
  sources_defined = defined;
}

void Referee::define_registers(Wave& w, const Op& op, const Use& use, uint64_t sources) {
  uint64_t lanes = w.lanes;
  if (use.info_flags & (MATRIX | MEMORY | CROSS_LANE | SELECTS) || op.flags & (F_DPP | F_SDWA)) sources = ~0ull;
  if (use.info_flags & MATRIX || (use.info_flags & CROSS_LANE && !(use.info_flags & MEMORY))) lanes = ~0ull;
  for (int i = 0; i < use.count; ++i) {
    const Use::Span& s = use.spans[i];
    if (!(s.flags & Use::WRITES) || s.first >= ROWS) continue;
    for (unsigned r = s.first; r < unsigned(s.first) + s.count; ++r)
      w.defined[r] = (w.defined[r] & ~lanes) | (lanes & sources);
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

// Direct-to-LDS loads complete with vmcnt: until then the wave's own LDS accesses may come before or after them.
void Referee::issued(Wave& w, MemoryOp& m) {
  for (int i = 0; i < 4; ++i) m.undefined[i] = m.access == Access::READ ? 0 : m.exec & ~data_defined_[i];
  if (m.private_lanes) through_scratch(w, m);
  if (m.queue != Queue::LDS) return stored_undefined(w, m);
  for (auto& other : w.vector_ops) {
    if (!other->dma) continue;
    const uint64_t width = std::max<uint32_t>(other->size, 4), begin = other->lds_base, end = begin + LANES * width;
    for (int l = 0; l < LANES; ++l) {
      if (!(m.live >> l & 1) || m.address[l] >= end || m.address[l] + m.size <= begin) continue;
      const TkParty a = party(w);
      const TkParty b = {w.id, other->index, other->number, other->epoch, NONE, 1};
      if (TkFinding* f = engine_.report(m.access == Access::READ ? READ_BEFORE_WAIT : OVERWRITE_BEFORE_WAIT, w, a, &b)) {
        f->address = m.address[l];
        f->size = m.size;
        f->space = 0;
        f->lane = uint32_t(l);
      }
      break;
    }
  }
}

void Referee::read_lds(Wave& w, const MemoryOp& m, uint64_t address, uint32_t size, int lane) {
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
  const uint32_t first = part * size / 4;
  for (uint32_t i = 0; i < size; i += 4)
    std::memset(engine_.lds_state.data() + address + i, m.undefined[first + i / 4] >> lane & 1 ? 2 : 1, std::min(4u, size - i));
}

void Referee::judge(Wave& w, const Instance& mine, uint32_t other, bool lds, uint64_t address, uint32_t size, int lane) {
  if (!other) return;
  const Instance& x = instances_[other];
  if (x.wave == mine.wave || x.done < mine.epoch) return;
  if (x.access == Access::ATOMIC && mine.access == Access::ATOMIC) return;
  const TkParty a = {mine.wave, mine.index, mine.number, mine.epoch, mine.done, uint32_t(mine.access)};
  const TkParty b = {x.wave, x.index, x.number, x.epoch, x.done, uint32_t(x.access)};
  if (TkFinding* f = engine_.report(RACE, w, a, &b)) {
    f->address = address;
    f->size = size;
    f->space = lds ? 0 : 1;
    f->lane = uint32_t(lane);
  }
}

Referee::Cell* Referee::global_cell(Wave& w, uint64_t address) {
  const uint64_t page = address >> PAGE_BITS;
  if (page != last_page_) {
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

void Referee::touch(Wave& w, const MemoryOp& m, uint32_t id, bool lds, Access access, uint64_t address, uint32_t size, int lane) {
  (void)m;
  const Instance mine = instances_[id];
  for (uint64_t at = address; at < address + size; ++at) {
    Cell& c = lds ? lds_[at] : *global_cell(w, at);
    judge(w, mine, c.write[0], lds, at, size, lane);
    judge(w, mine, c.write[1], lds, at, size, lane);
    uint32_t* mine_last = c.read;
    if (access != Access::READ) {
      judge(w, mine, c.read[0], lds, at, size, lane);
      judge(w, mine, c.read[1], lds, at, size, lane);
      mine_last = c.write;
    }
    if (mine_last[0] && instances_[mine_last[0]].wave != mine.wave) mine_last[1] = mine_last[0];
    mine_last[0] = id;
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
  instances_.swap(kept);
}

void Referee::completed(Wave& w, const MemoryOp& m, bool waited) {
  if (!m.live && !m.dma) return;
  if (instances_.size() >= compact_at_) {
    compact();
    compact_at_ = std::max(MOST_INSTANCES, 2 * instances_.size());
  }
  const uint32_t done = waited ? w.epoch : NONE;
  const uint32_t id = uint32_t(instances_.size());
  instances_.push_back({w.id, m.index, m.number, m.epoch, done, m.access});
  if (m.queue == Queue::SCALAR) {
    if (m.live) touch(w, m, id, false, Access::READ, m.address[0], m.in_range[0], 0);
    return;
  }
  for (int i = 0; i < m.dst_count && m.dst >= 256; ++i) {
    uint64_t& defined = w.defined[m.dst - 256 + i];
    defined = (defined | m.exec) & ~(m.access == Access::READ && i < 4 ? m.undefined[i] : 0);
  }
  const uint64_t shared = engine_.launch.shared_base >> 32;
  uint32_t dma_id = 0;
  if (m.dma) {
    dma_id = id + 1;
    instances_.push_back({w.id, m.index, m.number, m.epoch, done, Access::WRITE});
  }
  for (int l = 0; l < LANES; ++l) {
    if ((m.live & ~m.private_lanes) >> l & 1) {
      bool lds = m.lds;
      uint64_t address = m.address[l];
      if (m.queue == Queue::FLAT) {
        if (address >> 32 == shared) lds = true, address = uint32_t(address);
      }
      const uint32_t size = m.op->encoding == ENC_DS ? m.size : m.in_range[l];
      touch(w, m, id, lds, m.access, address, size, l);
      if (m.parts == 2) touch(w, m, id, lds, m.access, address + uint64_t(m.second), size, l);
    }
    if (m.dma && m.exec >> l & 1) {
      const uint64_t width = std::max<uint32_t>(m.size, 4), to = m.lds_base + uint64_t(l) * width;
      if (to + width <= lds_.size()) touch(w, m, dma_id, true, Access::WRITE, to, uint32_t(width), l);
    }
  }
}

void Referee::add_intervals(uint64_t page, const Page& cells, int kind) {
  const uint64_t base = page << PAGE_BITS;
  TkInterval* open = nullptr;
  for (uint64_t i = 0; i < 1 << PAGE_BITS; ++i) {
    const uint32_t id = kind ? cells.cells[i].write[0] : cells.cells[i].read[0];
    if (!id) {
      open = nullptr;
      continue;
    }
    const Instance& x = instances_[id];
    const uint32_t access = uint32_t(x.access);
    if (open && open->end == base + i && open->writes == access && (!kind || open->index == x.index)) {
      open->end = base + i + 1;
      continue;
    }
    if (engine_.intervals.size() >= MOST_INTERVALS) return engine_.fatal(WATCH_LIMIT, *engine_.waves[0]);
    const TkRegion* r = engine_.find(base + i, 1);
    engine_.intervals.push_back({r ? r->id : NONE, uint32_t(engine_.block_linear), x.index, access, base + i, base + i + 1});
    open = &engine_.intervals.back();
  }
}

void Referee::end_block() {
  std::vector<uint64_t> order;
  for (auto& p : pages_) order.push_back(p.first);
  std::sort(order.begin(), order.end());
  for (int kind = 0; kind < 2; ++kind)
    for (uint64_t page : order) add_intervals(page, *pages_[page], kind);
}
