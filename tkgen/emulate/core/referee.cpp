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
      const bool memory = use.info_flags & MEMORY, to_global = memory && op.encoding != ENC_DS;
      const bool used = use.info_flags & MATRIX || s.flags & Use::ADDRESS || to_global;
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

// Direct-to-LDS loads complete with vmcnt: until then the wave's own LDS accesses may come before or after them.
void Referee::issued(Wave& w, MemoryOp& m) {
  m.undefined_data = m.queue == Queue::LDS && m.access == Access::WRITE && m.exec & ~sources_defined;
  if (m.queue != Queue::LDS) return;
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

void Referee::write_lds(const MemoryOp& m, uint64_t address, uint32_t size) {
  std::memset(engine_.lds_state.data() + address, m.undefined_data ? 2 : 1, size);
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
  const uint64_t shared = engine_.launch.shared_base >> 32, private_base = engine_.launch.private_base >> 32;
  const bool is_private = m.op->encoding == ENC_SCRATCH ||
                          (m.op->encoding == ENC_MUBUF && engine_.launch.scratch_base && m.live && !engine_.find(m.address[__builtin_ctzll(m.live)], 1));
  uint32_t dma_id = 0;
  if (m.dma) {
    dma_id = id + 1;
    instances_.push_back({w.id, m.index, m.number, m.epoch, done, Access::WRITE});
  }
  for (int l = 0; l < LANES; ++l) {
    if (m.live >> l & 1 && !is_private) {
      bool lds = m.lds;
      uint64_t address = m.address[l];
      if (m.queue == Queue::FLAT) {
        if (address >> 32 == private_base) continue;
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
