// LDS, global, flat, scratch, buffer and scalar memory; the queues between issue and wait.
//
// A handler works out addresses and takes its data at issue; `submit` then performs the access at once, or (poison)
// when the wave waits for it, which shows a missing wait. Counters as the hardware has them (CDNA3 ISA, "Manually
// inserted wait states", and LLVM's SIInsertWaitcnts): vector memory returns in order; LDS returns in order; scalar
// loads return in any order, so only lgkmcnt(0) covers them. A flat access counts in both, and returns by the way that its
// address takes: if no lane of it is in LDS it is one of vector memory, as LLVM has it where it knows the address space
// (SIInsertWaitcnts, mayAccessLDSThroughFlat); if all are, lgkmcnt(0) covers it; otherwise both must be zero.
#include <algorithm>
#include <mutex>

#include "algebra.h"
#include "lanes.h"
#include "referee.h"
#include "repetition.h"
#include "unknown.h"

namespace {

constexpr unsigned VECTOR_LIMIT = 63, LGKM_LIMIT = 15;
constexpr uint32_t POISON = 0x7fc0dead;  // a NaN in f32, and in the upper half for bf16

std::mutex& atomic_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

// The host answers between two atomic operations, as it would with atomic operations itself.
void interrupt_host(const Engine& e) {
  std::lock_guard<std::mutex> lock(atomic_mutex());
  e.launch.interrupt();
}

namespace {

// --- Queues ------------------------------------------------------------------------------------------------------

MemoryOp& begin(Wave& w, const Op& op, MemoryOp::Perform perform, Queue queue, Access access) {
  Engine& e = *w.engine;
  MemoryOp* m = &e.scratch_op;
  if (e.tracks()) {
    if (e.free_ops.empty()) e.free_ops.push_back(std::make_unique<MemoryOp>());
    m = e.free_ops.back().get();
  }
  m->perform = perform;
  m->op = &op;
  m->exec = m->live = w.exec();
  m->index = w.pc;
  m->number = w.instances.empty() ? 0 : w.instances[w.pc] - 1;
  m->epoch = w.epoch;
  m->clock = e.referee ? e.referee->order.clock(w) : 0;
  m->seen = e.referee ? e.referee->order.seen(w) : 0;
  m->issued_at = w.executed;
  m->queue = queue;
  m->access = access;
  m->lds = queue == Queue::LDS;
  m->performed = m->seen_vector = m->seen_lgkm = m->dma = m->transposes = m->writes_back = m->high = m->hollow = m->writable = false;
  m->private_lanes = m->changed = 0;
  m->instance = m->given = m->acquires = 0;
  m->release = NONE;
  m->dst = 256;
  m->dst_count = 0;
  m->written = ~0u;
  m->size = 0;
  m->parts = 1;
  return *m;
}

MemoryQueue& queue_of(Wave& w, Queue q) {
  return q == Queue::LDS ? w.lds_ops : q == Queue::SCALAR ? w.scalar_ops : w.vector_ops;
}

unsigned pending_index(uint16_t code) { return code >= 256 ? code - 256u : ROWS + code; }

void mark(Wave& w, const MemoryOp& m, int change) {
  const unsigned first = pending_index(m.dst);
  for (unsigned i = 0; i < m.dst_count; ++i) w.pending[first + i] += uint32_t(change) * pending_unit(m.queue);
}

void poison(Wave& w, const MemoryOp& m) {
  for (unsigned i = 0; i < m.dst_count; ++i) {
    if (m.dst < 256) w.s[m.dst + i] = POISON;
    else
      for (int l = 0; l < LANES; ++l)
        if (m.exec >> l & 1) {
          uint32_t& r = w.v[m.dst - 256 + i][l];
          r = (r & ~m.written) | (POISON & m.written);
        }
  }
}

void perform(Wave& w, MemoryOp& m) {
  if (w.engine->algebra) w.engine->algebra->performing(w, m);
  m.perform(w, m);
}

void retire(Wave& w, std::unique_ptr<MemoryOp> m) {
  Engine& e = *w.engine;
  if (!m->performed) perform(w, *m);
  mark(w, *m, -1);
  if (e.referee) e.referee->completed(w, *m);
  e.free_ops.push_back(std::move(m));
}

void retire_at(Wave& w, MemoryQueue& q, size_t i) {
  std::unique_ptr<MemoryOp> m = std::move(q[i]);
  q.erase(q.begin() + long(i));
  retire(w, std::move(m));
}

// The wave has waited until at most `allowed` of the queue's in-order accesses are outstanding.
void wait_in_order(Wave& w, MemoryQueue& q, unsigned allowed) {
  unsigned in_order = 0;
  for (auto& m : q) in_order += m->queue != Queue::FLAT;
  for (size_t i = 0; i < q.size() && in_order > allowed;) {
    if (q[i]->queue == Queue::FLAT) ++i;
    else retire_at(w, q, i), --in_order;
  }
}

void wait_flat(Wave& w, bool vector, bool lgkm) {
  for (size_t i = 0; i < w.vector_ops.size();) {
    MemoryOp& m = *w.vector_ops[i];
    if (m.queue == Queue::FLAT) {
      m.seen_vector |= vector;
      m.seen_lgkm |= lgkm;
      if (m.seen_vector && m.seen_lgkm) {
        retire_at(w, w.vector_ops, i);
        continue;
      }
    }
    ++i;
  }
}

void trace_addresses(Engine& e, const MemoryOp& m) {
  if (!e.tracing || !e.launch.trace_lanes) return;
  e.trace.back().lanes = int64_t(e.trace_lanes.size());
  TkTraceEntry& entry = e.trace.back();
  entry.exec = m.live;
  entry.size = m.size;
  entry.access = uint32_t(m.access) | (m.lds ? 4 : 0) | (m.dma ? 8 : 0) | (m.parts == 2 ? 16 : 0);
  entry.second = int32_t(m.second);
  entry.lds_base = m.lds_base;
  for (int l = 0; l < LANES; ++l) e.trace_lanes.push_back(m.live >> l & 1 ? m.address[l] : ~0ull);
}

void touch_alone(Wave& w, MemoryOp& m);

// Whether the wave looks again at what it looked at before: a flag, or LDS, at the same address, soon after, with no barrier
// between. It may wait for another wave, and lets it run.
bool polls(Wave& w, const MemoryOp& m) {
  constexpr uint64_t SOON = 256;  // instructions
  const bool flag = m.op->flags & (F_SC0 | F_SC1) || m.access == Access::ATOMIC || w.engine->polls[m.index];
  if (!m.live || m.access == Access::WRITE || !(m.dst_count && (m.lds || flag))) return false;
  Wave::Poll& last = w.polls[m.index % 4];
  const uint64_t address = m.address[__builtin_ctzll(m.live)];
  const bool again = last.pc == m.index && last.address == address && last.epoch == w.epoch && w.executed - last.at < SOON;
  last = {address, w.executed, m.index, w.epoch};
  return again;
}

void submit(Wave& w, MemoryOp& m) {
  Engine& e = *w.engine;
  if (e.repetition && e.repetition->takes(w, m)) return;
  trace_addresses(e, m);
  if (e.unknown) e.unknown->submitted(w, m);
  else e.sleeps |= polls(w, m);
  if (m.hollow) m.perform = touch_alone;
  if (!e.tracks()) return perform(w, m);
  std::unique_ptr<MemoryOp> owned = std::move(e.free_ops.back());
  e.free_ops.pop_back();
  if (e.referee) e.referee->issued(w, m);
  if (e.launch.poison) {
    poison(w, m);
  } else {
    perform(w, m);
    m.performed = true;
  }
  mark(w, m, 1);
  queue_of(w, m.queue).push_back(std::move(owned));
}

// --- Addresses ---------------------------------------------------------------------------------------------------

int first_set(uint64_t lanes) { return __builtin_ctzll(lanes); }

void bad_lane(Wave& w, MemoryOp& m, FindingKind kind, int lane, uint64_t address, uint32_t size, uint32_t space) {
  m.live &= ~(1ull << lane);
  if (TkFinding* f = w.engine->report(kind, w)) f->a.writes = uint32_t(m.access), f->lane = uint32_t(lane), f->address = address, f->size = size, f->space = space;
}

// Below four bytes an access must be aligned to its size, atomics always; wider ones need four (the unaligned access
// mode that HSA sets lets the rest pass, LLVM's SITargetLowering::allowsMisalignedMemoryAccesses). Transposing reads
// need their whole size, and those of 12 bytes 16 (CDNA4 ISA, "MFMA Transpose Load from LDS").
void check_alignment(Wave& w, const MemoryOp& m, int lane, uint64_t address, uint32_t size, uint32_t space) {
  uint32_t need = m.access == Access::ATOMIC ? size : std::min<uint32_t>(size, 4) & ~(size == 3 ? 3u : 0u);
  if (m.transposes) need = size == 12 ? 16 : size;
  if (need && address % need == 0) return;
  if (TkFinding* f = w.engine->report(MISALIGNED, w)) f->a.writes = uint32_t(m.access), f->lane = uint32_t(lane), f->address = address, f->size = size, f->space = space;
}

uint8_t* private_pointer(Wave& w, MemoryOp& m, int lane, uint64_t offset, uint32_t size) {
  m.private_lanes |= 1ull << lane;
  const uint64_t limit = w.engine->launch.scratch_bytes;
  if (offset > limit || size > limit - offset) {
    bad_lane(w, m, SCRATCH_OUT_OF_BOUNDS, lane, offset, size, 2);
    return nullptr;
  }
  return w.scratch.data() + lane * limit + offset;
}

uint8_t* lds_pointer(Wave& w, MemoryOp& m, int lane, uint64_t offset, uint32_t size) {
  const uint64_t limit = w.engine->lds.size();
  if (offset > limit || size > limit - offset) {
    bad_lane(w, m, LDS_OUT_OF_BOUNDS, lane, offset, size, 0);
    return nullptr;
  }
  m.hollow |= w.engine->launch.dataless;
  return w.engine->lds.data() + offset;
}

uint8_t* global_pointer(Wave& w, MemoryOp& m, int lane, uint64_t address, uint32_t size) {
  const TkRegion* r = w.engine->find(address, size);
  if (!r) {
    bad_lane(w, m, GLOBAL_OUT_OF_BOUNDS, lane, address, size, 1);
    return nullptr;
  }
  if (m.access != Access::READ && !r->writable) {
    bad_lane(w, m, READ_ONLY_WRITE, lane, address, size, 1);
    return nullptr;
  }
  m.hollow |= !r->host;
  m.writable |= r->writable;
  return r->host + (address - r->base);
}

bool in_aperture(uint64_t address, uint64_t base) { return address >> 32 == base >> 32; }

void flat_addresses(Wave& w, const Op& op, MemoryOp& m) {
  const TkLaunch& launch = w.engine->launch;
  const uint32_t *lo = w.v[op.src[0] - 256], *hi = w.v[op.src[0] - 255];
  const bool scalar_base = op.flags & F_SADDR;
  const uint64_t base = scalar_base ? w.get64(op.src[2]) : 0;
  uint64_t in_lds = 0;
  for (int l = 0; l < LANES; ++l) {
    m.address[l] = (scalar_base ? base + lo[l] : U64::get(lo[l], hi[l])) + int64_t(op.offset);
    if (!(m.live >> l & 1)) continue;
    const uint64_t a = m.address[l];
    const bool flat = m.queue == Queue::FLAT;
    if (flat && in_aperture(a, launch.private_base)) {
      m.host[l] = private_pointer(w, m, l, uint32_t(a), m.size);
      continue;
    }
    const bool shared = flat && in_aperture(a, launch.shared_base);
    if (shared) in_lds |= 1ull << l;
    m.host[l] = shared ? lds_pointer(w, m, l, uint32_t(a), m.size) : global_pointer(w, m, l, a, m.size);
    if (m.host[l]) check_alignment(w, m, l, shared ? uint32_t(a) : a, m.size, !shared);
  }
  if (!in_lds && m.queue == Queue::FLAT) m.queue = Queue::VECTOR;
  m.seen_vector = in_lds && !(m.exec & ~in_lds);
}

// From CDNA3 on the SVE bit says whether the vector address counts; before, it did where there was no scalar one.
bool scratch_takes_vector(const Op& op, uint32_t target) { return target == GFX90A ? !(op.flags & F_SADDR) : op.flags & F_OFFEN; }

void scratch_addresses(Wave& w, const Op& op, MemoryOp& m) {
  const bool scalar_base = op.flags & F_SADDR;
  const bool vector_address = scratch_takes_vector(op, w.engine->launch.target);
  const uint32_t* v = w.v[op.src[0] - 256];
  const uint32_t base = scalar_base ? w.s[op.src[2]] : 0;
  for (int l = 0; l < LANES; ++l) {
    m.address[l] = uint32_t(base + (vector_address ? v[l] : 0) + uint32_t(op.offset));
    if (m.live >> l & 1) m.host[l] = private_pointer(w, m, l, m.address[l], m.size);
  }
}

// A buffer descriptor ("Buffer resource", CDNA3 ISA).
struct Descriptor {
  uint64_t base;
  uint32_t stride, lane_stride, records, index_stride;
  bool swizzle, add_lane;
  explicit Descriptor(const uint32_t* s) {
    base = (uint64_t(s[1] & 0xffff) << 32) | s[0];
    stride = s[1] >> 16 & 0x3fff;
    lane_stride = stride | (s[3] >> 15 & 15) << 14;
    swizzle = s[1] >> 31;
    records = s[2];
    index_stride = 8u << (s[3] >> 21 & 3);
    add_lane = s[3] >> 23 & 1;
  }
};

// Where an access goes, and how much of it is in range. What is out reads as zero and is not written; of a wide access that
// is checked in bytes each dword counts by itself, an atomic one is all or nothing.
//
// The formula of the ISA documents ("Swizzled Buffer Addressing") asks for SWIZZLE_ENABLE alone. Hardware does not: kernels
// set it, with a stride, to spread the banks of the cache (HipKittens' make_srsrc), and are linear. AMD's emulator, which has
// these rules from a gfx950, swizzles only with ADD_TID_ENABLE, in elements of 4 bytes, counts records where there is IDXEN
// and a stride and bytes elsewhere, and checks nothing with ADD_TID_ENABLE without IDXEN (ROCm/rocm-systems,
// emulation/rocjitsu, gfx9_buffer_lane_offset and gfx9_buffer_elems_in_range). For gfx9, AMD's PAL says of the units:
// "According to the regspec [...] Bytes if: const_stride == 0 || or const_swizzle_enable == false [...] According to the SQ
// team [...] Bytes if: Shader instruction doesn't include a structured buffer" (gfx9Device.cpp, CalcNumRecords), and LLVM that
// "the behavior of bound checking and swizzling changes depending on whether idxen is set" (IntrinsicsAMDGPU.td).
void buffer_addresses(Wave& w, const Op& op, MemoryOp& m) {
  const TkLaunch& launch = w.engine->launch;
  const Descriptor d(w.s + op.src[1]);
  const uint32_t soffset = scalar32(w, op, op.src[2], Kind::B32);
  const bool indexed = op.flags & F_IDXEN, offset_register = op.flags & F_OFFEN;
  const bool add_lane = d.add_lane && (d.swizzle || !indexed);
  const uint32_t* index_row = w.v[op.src[0] - 256];
  const uint32_t* offset_row = indexed && offset_register ? w.v[op.src[0] - 255] : index_row;
  const bool is_private = launch.scratch_base && d.base >= launch.scratch_base && d.base - launch.scratch_base < (1ull << 40);
  for (int l = 0; l < LANES; ++l) {
    const uint32_t offset = uint32_t(op.offset) + (offset_register ? offset_row[l] : 0);
    const uint32_t index = (indexed ? index_row[l] : 0) + (add_lane ? uint32_t(l) : 0);
    m.in_range[l] = uint8_t(m.size);
    if (!(m.live >> l & 1)) continue;
    if (is_private) {
      // Scratch of gfx90a: the scalar offset counts in bytes of the whole wave.
      const uint64_t wave_base = launch.scratch_base + uint64_t(w.id) * launch.scratch_bytes * LANES;
      m.address[l] = offset + (soffset + (d.base - wave_base)) / LANES;
      m.host[l] = private_pointer(w, m, l, m.address[l], m.size);
      continue;
    }
    uint64_t inner = uint64_t(index) * (add_lane ? d.lane_stride : d.stride) + offset;
    if (d.swizzle && d.add_lane)
      inner = (uint64_t(index / d.index_stride) * d.lane_stride + offset / 4 * 4) * d.index_stride + index % d.index_stride * 4 + offset % 4;
    if (indexed && d.stride) {
      m.in_range[l] = uint8_t(index_row[l] < d.records ? m.size : 0);
    } else if (indexed || !d.add_lane) {
      const uint64_t limit = d.records > soffset ? d.records - soffset : 0;
      const uint64_t left = inner < limit ? limit - inner : 0;
      const uint32_t unit = m.size < 4 || m.access == Access::ATOMIC ? m.size : 4;
      m.in_range[l] = uint8_t(std::min<uint64_t>(left / unit * unit, m.size));
    }
    m.address[l] = d.base + soffset + inner;
    if (!m.in_range[l]) m.live &= ~(1ull << l);
    else m.host[l] = global_pointer(w, m, l, m.address[l], m.in_range[l]);
    if (m.live >> l & 1) check_alignment(w, m, l, m.address[l], m.size, 1);
  }
}

void vector_addresses(Wave& w, const Op& op, MemoryOp& m) {
  if (op.encoding == ENC_MUBUF) return buffer_addresses(w, op, m);
  std::memset(m.in_range, int(m.size), sizeof m.in_range);
  if (op.encoding == ENC_SCRATCH) scratch_addresses(w, op, m);
  else flat_addresses(w, op, m);
}

Queue vector_queue(const Op& op) { return op.encoding == ENC_FLAT ? Queue::FLAT : Queue::VECTOR; }

void take_data(Wave& w, MemoryOp& m, uint16_t code, int first, int rows) {
  for (int r = 0; r < rows; ++r) std::memcpy(m.data[first + r], w.v[code - 256 + r], sizeof m.data[0]);
  if (w.engine->algebra) w.engine->algebra->takes(w, m, code, first, rows);
}

void touch_lds_read(Wave& w, MemoryOp& m, uint64_t address, uint32_t size, int lane) {
  if (w.engine->referee) w.engine->referee->read_lds(w, m, address, size, lane);
}
// `part` is 1 for the second half of ds_write2 and its kin.
void touch_lds_write(Wave& w, MemoryOp& m, uint64_t address, uint32_t size, int lane, int part = 0) {
  if (w.engine->referee) w.engine->referee->write_lds(m, address, size, lane, part);
}

bool lane_in_lds(const Wave& w, const MemoryOp& m, int lane) {
  return m.lds || (m.queue == Queue::FLAT && in_aperture(m.address[lane], w.engine->launch.shared_base));
}

// In place of `perform` where memory has no contents: what is initialised is still known.
void touch_alone(Wave& w, MemoryOp& m) {
  for (int l = 0; l < LANES; ++l) {
    if (m.live >> l & 1 && !m.dma && lane_in_lds(w, m, l))
      for (int part = 0; part < m.parts; ++part) {
        const uint64_t at = uint32_t(m.address[l]) + (part ? uint64_t(m.second) : 0);
        if (m.access != Access::WRITE) touch_lds_read(w, m, at, m.size, l);
        if (m.access != Access::READ) touch_lds_write(w, m, at, m.size, l, part);
      }
    const uint64_t to = m.lds_base + uint64_t(l) * m.lds_step();
    if (m.dma && m.exec >> l & 1 && to + m.lds_width() <= w.engine->lds.size()) touch_lds_write(w, m, to, m.lds_width(), l);
  }
}

// --- Loads and stores of whole dwords, bytes and halves ------------------------------------------------------------

enum class Part : uint8_t { WHOLE, LOW, HIGH };  // d16 forms fill one half and keep the other
constexpr uint32_t WRITTEN[] = {0xffffffff, 0xffff, 0xffff0000};

template <class T, Part PART>
void perform_narrow_load(Wave& w, MemoryOp& m) {
  uint32_t* to = w.v[m.dst - 256];
  for (int l = 0; l < LANES; ++l) {
    if (!(m.exec >> l & 1)) continue;
    T x = 0;
    if (m.live >> l & 1) {
      std::memcpy(&x, m.host[l], sizeof x);
      if (lane_in_lds(w, m, l)) touch_lds_read(w, m, uint32_t(m.address[l]), sizeof x, l);
    }
    const uint32_t wide = uint32_t(int32_t(x));
    if (PART == Part::WHOLE) to[l] = wide;
    else if (PART == Part::LOW) to[l] = (to[l] & 0xffff0000) | (wide & 0xffff);
    else to[l] = (to[l] & 0xffff) | wide << 16;
  }
}

template <int DWORDS>
void perform_load(Wave& w, MemoryOp& m) {
  for (int l = 0; l < LANES; ++l) {
    if (!(m.exec >> l & 1)) continue;
    uint32_t x[DWORDS] = {};
    if (m.live >> l & 1) {
      std::memcpy(x, m.host[l], m.in_range[l]);
      if (lane_in_lds(w, m, l)) touch_lds_read(w, m, uint32_t(m.address[l]), 4 * DWORDS, l);
    }
    for (int d = 0; d < DWORDS; ++d) w.v[m.dst - 256 + d][l] = x[d];
  }
}

void perform_store(Wave& w, MemoryOp& m) {
  for (int l = 0; l < LANES; ++l) {
    if (!(m.live >> l & 1)) continue;
    uint32_t x[4];
    for (int d = 0; d < 4; ++d) x[d] = m.data[d][l];
    if (std::memcmp(m.host[l], x, m.in_range[l])) m.changed |= 1ull << l;
    std::memcpy(m.host[l], x, m.in_range[l]);
    if (lane_in_lds(w, m, l)) touch_lds_write(w, m, uint32_t(m.address[l]), m.size, l);
  }
}

// Straight into LDS: lane l to lds_base + l * lds_step(); narrow loads are widened to a dword.
template <class T>
void perform_dma(Wave& w, MemoryOp& m) {
  for (int l = 0; l < LANES; ++l) {
    if (!(m.exec >> l & 1)) continue;
    uint32_t x[4] = {};
    if (m.live >> l & 1) {
      if (m.size < 4) {
        T narrow;
        std::memcpy(&narrow, m.host[l], sizeof narrow);
        x[0] = uint32_t(int32_t(narrow));
      } else {
        std::memcpy(x, m.host[l], m.in_range[l]);
      }
    }
    const uint32_t width = m.lds_width();
    const uint64_t to = m.lds_base + uint64_t(l) * m.lds_step();
    if (to + width > w.engine->lds.size()) continue;
    std::memcpy(w.engine->lds.data() + to, x, width);
    touch_lds_write(w, m, to, width, l);
  }
}

// The byte in LDS that M0 gives: buffers take all of its low bits, others whole dwords (CDNA3 ISA, "Memory Buffer Load to
// LDS", "Flat memory, Addressing"; CDNA4 has 18 bits for both).
uint32_t lds_place(const Wave& w, const Op& op) {
  if (op.encoding != ENC_MUBUF) return w.s[M0] & 0x3fffc;
  return w.s[M0] & (w.engine->launch.target == GFX950 ? 0x3ffff : 0xffff);
}

template <class T>
void load_to_lds(Wave& w, const Op& op, int bytes) {
  MemoryOp& m = begin(w, op, perform_dma<T>, vector_queue(op), Access::READ);
  m.size = uint16_t(bytes);
  m.dma = true;
  m.lds_base = lds_place(w, op) + uint32_t(op.offset);
  vector_addresses(w, op, m);
  const uint64_t width = m.lds_width();
  for (int l = 0; l < LANES; ++l)
    if (m.exec >> l & 1) {
      const uint64_t to = m.lds_base + uint64_t(l) * m.lds_step();
      if (to + width > w.engine->lds.size())
        if (TkFinding* f = w.engine->report(LDS_OUT_OF_BOUNDS, w)) f->lane = uint32_t(l), f->address = to, f->size = uint32_t(width), f->space = 0;
    }
  submit(w, m);
}

template <class T, Part PART>
void load_narrow(Wave& w, const Op& op) {
  if (op.flags & F_LDS) return load_to_lds<T>(w, op, sizeof(T));
  MemoryOp& m = begin(w, op, perform_narrow_load<T, PART>, vector_queue(op), Access::READ);
  m.written = WRITTEN[int(PART)];
  m.size = sizeof(T);
  m.dst = op.dst;
  m.dst_count = 1;
  vector_addresses(w, op, m);
  submit(w, m);
}

template <int DWORDS>
void load(Wave& w, const Op& op) {
  if (op.flags & F_LDS) return load_to_lds<uint32_t>(w, op, 4 * DWORDS);
  MemoryOp& m = begin(w, op, perform_load<DWORDS>, vector_queue(op), Access::READ);
  m.size = 4 * DWORDS;
  m.dst = op.dst;
  m.dst_count = DWORDS;
  vector_addresses(w, op, m);
  submit(w, m);
}

uint16_t data_code(const Op& op) { return op.encoding == ENC_MUBUF ? op.dst : op.src[1]; }

void store_bytes(Wave& w, const Op& op, int bytes, bool high) {
  MemoryOp& m = begin(w, op, perform_store, vector_queue(op), Access::WRITE);
  m.size = uint16_t(bytes);
  take_data(w, m, data_code(op), 0, (bytes + 3) / 4);
  m.high = high;
  if (high)
    for (int l = 0; l < LANES; ++l) m.data[0][l] >>= 16;
  vector_addresses(w, op, m);
  submit(w, m);
}

// --- Atomics -------------------------------------------------------------------------------------------------------

uint32_t packed_add(uint32_t a, uint32_t b, bool bfloat) {
  uint32_t r = 0;
  for (int i = 0; i < 32; i += 16) {
    const uint32_t x = a >> i & 0xffff, y = b >> i & 0xffff;
    r |= (bfloat ? float_to_bfloat(bfloat_to_float(x) + bfloat_to_float(y)) : float_to_half(half_to_float(x) + half_to_float(y))) << i;
  }
  return r;
}

template <class T> using Combine = T (*)(T old, T data, T compare);
template <class T> T swap_(T, T d, T) { return d; }
template <class T> T add_(T o, T d, T) { return T(o + d); }
template <class T> T sub_(T o, T d, T) { return T(o - d); }
template <class T> T rsub_(T o, T d, T) { return T(d - o); }
template <class T> T inc_(T o, T d, T) { return o >= d ? 0 : T(o + 1); }
template <class T> T dec_(T o, T d, T) { return o == 0 || o > d ? d : T(o - 1); }
template <class T> T umin_(T o, T d, T) { return std::min(o, d); }
template <class T> T umax_(T o, T d, T) { return std::max(o, d); }
template <class T> T smin_(T o, T d, T) { using S = std::make_signed_t<T>; return T(std::min(S(o), S(d))); }
template <class T> T smax_(T o, T d, T) { using S = std::make_signed_t<T>; return T(std::max(S(o), S(d))); }
template <class T> T and_(T o, T d, T) { return o & d; }
template <class T> T or_(T o, T d, T) { return o | d; }
template <class T> T xor_(T o, T d, T) { return o ^ d; }
template <class T> T compare_swap(T o, T d, T c) { return o == c ? d : o; }
template <class T> T mask_or(T o, T d, T c) { return (o & ~d) | c; }  // here `compare` is the second data operand
template <class T> T wrap_(T o, T d, T c) { return o >= d ? T(o - d) : T(o + c); }
template <class T, class F> T float_add(T o, T d, T) { return bits<T>(F(bits<F>(o) + bits<F>(d))); }
template <class T, class F> T float_min(T o, T d, T) { return bits<T>(minimum_number(bits<F>(o), bits<F>(d), false)); }
template <class T, class F> T float_max(T o, T d, T) { return bits<T>(maximum_number(bits<F>(o), bits<F>(d), false)); }
template <class T, class F> T float_compare_swap(T o, T d, T c) { return bits<F>(o) == bits<F>(c) ? d : o; }
uint32_t add_f16(uint32_t o, uint32_t d, uint32_t) { return packed_add(o, d, false); }
uint32_t add_bf16(uint32_t o, uint32_t d, uint32_t) { return packed_add(o, d, true); }

// data[0..] is the operand, data[2..] the value to compare with (or the second operand).
template <class T>
T lane_data(const MemoryOp& m, int first, int l) {
  return sizeof(T) == 4 ? T(m.data[first][l]) : T(U64::get(m.data[first][l], m.data[first + 1][l]));
}

template <class T, Combine<T> F>
void perform_atomic(Wave& w, MemoryOp& m) {
  std::lock_guard<std::mutex> lock(atomic_mutex());
  for (int l = 0; l < LANES; ++l) {
    if (!(m.exec >> l & 1)) continue;
    T old = 0;
    if (m.live >> l & 1) {
      std::memcpy(&old, m.host[l], sizeof old);
      const T now = F(old, lane_data<T>(m, 0, l), lane_data<T>(m, 2, l));
      std::memcpy(m.host[l], &now, sizeof now);
      if (lane_in_lds(w, m, l)) {
        touch_lds_read(w, m, uint32_t(m.address[l]), sizeof(T), l);
        touch_lds_write(w, m, uint32_t(m.address[l]), sizeof(T), l);
      }
    }
    if (!m.dst_count) continue;
    w.v[m.dst - 256][l] = uint32_t(old);
    if (sizeof(T) == 8) w.v[m.dst - 255][l] = uint32_t(uint64_t(old) >> 32);
  }
}

template <class T, Combine<T> F, bool COMPARES = false>
void atomic(Wave& w, const Op& op) {
  constexpr int rows = sizeof(T) / 4;
  MemoryOp& m = begin(w, op, perform_atomic<T, F>, vector_queue(op), Access::ATOMIC);
  m.size = sizeof(T);
  take_data(w, m, data_code(op), 0, rows);
  if (COMPARES) take_data(w, m, uint16_t(data_code(op) + rows), 2, rows);
  if (op.flags & F_SC0) m.dst = op.dst, m.dst_count = rows;  // SC0 (GLC): give back what was there
  vector_addresses(w, op, m);
  submit(w, m);
}

// --- LDS ------------------------------------------------------------------------------------------------------------

void lds_addresses(Wave& w, const Op& op, MemoryOp& m, uint32_t offset) {
  const uint32_t* v = w.v[op.src[0] - 256];
  for (int l = 0; l < LANES; ++l) {
    m.address[l] = v[l] + offset;
    m.in_range[l] = uint8_t(m.size);
    if (!(m.live >> l & 1)) continue;
    m.host[l] = lds_pointer(w, m, l, m.address[l], m.size);
    if (m.host[l] && m.parts == 2 && !lds_pointer(w, m, l, m.address[l] + uint64_t(m.second), m.size)) m.host[l] = nullptr;
    if (m.host[l]) check_alignment(w, m, l, m.address[l], m.size, 0);
  }
}

template <class T, Part PART>
void lds_load_narrow(Wave& w, const Op& op) {
  MemoryOp& m = begin(w, op, perform_narrow_load<T, PART>, Queue::LDS, Access::READ);
  m.written = WRITTEN[int(PART)];
  m.size = sizeof(T);
  m.dst = op.dst;
  m.dst_count = 1;
  lds_addresses(w, op, m, uint16_t(op.offset));
  submit(w, m);
}

template <int DWORDS>
void lds_load(Wave& w, const Op& op) {
  MemoryOp& m = begin(w, op, perform_load<DWORDS>, Queue::LDS, Access::READ);
  m.size = 4 * DWORDS;
  m.dst = op.dst;
  m.dst_count = DWORDS;
  lds_addresses(w, op, m, uint16_t(op.offset));
  submit(w, m);
}

void lds_store(Wave& w, const Op& op, int bytes, bool high) {
  MemoryOp& m = begin(w, op, perform_store, Queue::LDS, Access::WRITE);
  m.size = uint16_t(bytes);
  take_data(w, m, op.src[1], 0, (bytes + 3) / 4);
  m.high = high;
  if (high)
    for (int l = 0; l < LANES; ++l) m.data[0][l] >>= 16;
  lds_addresses(w, op, m, uint16_t(op.offset));
  submit(w, m);
}

// ds_read2, ds_write2: two 8-bit offsets in units of the element, or of 64 elements.
void lds_pair(Wave& w, const Op& op, MemoryOp& m, int bytes, bool stride64) {
  const uint32_t unit = uint32_t(bytes) * (stride64 ? 64 : 1);
  const uint32_t first = (uint32_t(op.offset) & 255) * unit, second = (uint32_t(op.offset) >> 8 & 255) * unit;
  m.size = uint16_t(bytes);
  m.parts = 2;
  m.second = int64_t(second) - int64_t(first);
  lds_addresses(w, op, m, first);
}

template <int DWORDS>
void perform_load2(Wave& w, MemoryOp& m) {
  for (int l = 0; l < LANES; ++l) {
    if (!(m.exec >> l & 1)) continue;
    uint32_t x[2 * DWORDS] = {};
    if (m.live >> l & 1) {
      std::memcpy(x, m.host[l], 4 * DWORDS);
      std::memcpy(x + DWORDS, m.host[l] + m.second, 4 * DWORDS);
      touch_lds_read(w, m, m.address[l], 4 * DWORDS, l);
      touch_lds_read(w, m, m.address[l] + uint64_t(m.second), 4 * DWORDS, l);
    }
    for (int d = 0; d < 2 * DWORDS; ++d) w.v[m.dst - 256 + d][l] = x[d];
  }
}

template <int DWORDS>
void perform_store2(Wave& w, MemoryOp& m) {
  for (int l = 0; l < LANES; ++l) {
    if (!(m.live >> l & 1)) continue;
    for (int part = 0; part < 2; ++part)
      for (int d = 0; d < DWORDS; ++d) {
        uint8_t* at = m.host[l] + (part ? m.second : 0) + 4 * d;
        if (std::memcmp(at, &m.data[2 * part + d][l], 4)) m.changed |= 1ull << l;
        std::memcpy(at, &m.data[2 * part + d][l], 4);
      }
    touch_lds_write(w, m, m.address[l], 4 * DWORDS, l);
    touch_lds_write(w, m, m.address[l] + uint64_t(m.second), 4 * DWORDS, l, 1);
  }
}

template <int DWORDS, bool STRIDE64>
void lds_load2(Wave& w, const Op& op) {
  MemoryOp& m = begin(w, op, perform_load2<DWORDS>, Queue::LDS, Access::READ);
  m.dst = op.dst;
  m.dst_count = 2 * DWORDS;
  lds_pair(w, op, m, 4 * DWORDS, STRIDE64);
  submit(w, m);
}

template <int DWORDS, bool STRIDE64>
void lds_store2(Wave& w, const Op& op) {
  MemoryOp& m = begin(w, op, perform_store2<DWORDS>, Queue::LDS, Access::WRITE);
  take_data(w, m, op.src[1], 0, DWORDS);
  take_data(w, m, op.src[2], 2, DWORDS);
  lds_pair(w, op, m, 4 * DWORDS, STRIDE64);
  submit(w, m);
}

template <class T, Combine<T> F, bool RETURNS, int OPERANDS = 1>
void lds_atomic(Wave& w, const Op& op) {
  constexpr int rows = sizeof(T) / 4;
  MemoryOp& m = begin(w, op, perform_atomic<T, F>, Queue::LDS, Access::ATOMIC);
  m.size = sizeof(T);
  // ds_cmpst: data0 is the comparison, data1 the new value; ds_mskor and ds_wrap take them in order.
  constexpr bool compares = F == static_cast<Combine<T>>(compare_swap<T>) || OPERANDS == 3;
  take_data(w, m, compares ? op.src[2] : op.src[1], 0, rows);
  if (OPERANDS > 1) take_data(w, m, compares ? op.src[1] : op.src[2], 2, rows);
  if (RETURNS) m.dst = op.dst, m.dst_count = rows;
  lds_addresses(w, op, m, uint16_t(op.offset));
  submit(w, m);
}

template <int DWORDS>
void perform_exchange2(Wave& w, MemoryOp& m) {
  std::lock_guard<std::mutex> lock(atomic_mutex());
  for (int l = 0; l < LANES; ++l) {
    if (!(m.exec >> l & 1)) continue;
    uint32_t old[2 * DWORDS] = {};
    if (m.live >> l & 1)
      for (int part = 0; part < 2; ++part)
        for (int d = 0; d < DWORDS; ++d) {
          uint8_t* at = m.host[l] + (part ? m.second : 0) + 4 * d;
          std::memcpy(&old[part * DWORDS + d], at, 4);
          std::memcpy(at, &m.data[2 * part + d][l], 4);
        }
    for (int d = 0; d < 2 * DWORDS; ++d) w.v[m.dst - 256 + d][l] = old[d];
    if (m.live >> l & 1) {
      touch_lds_write(w, m, m.address[l], 4 * DWORDS, l);
      touch_lds_write(w, m, m.address[l] + uint64_t(m.second), 4 * DWORDS, l, 1);
    }
  }
}

template <int DWORDS, bool STRIDE64>
void lds_exchange2(Wave& w, const Op& op) {
  MemoryOp& m = begin(w, op, perform_exchange2<DWORDS>, Queue::LDS, Access::ATOMIC);
  take_data(w, m, op.src[1], 0, DWORDS);
  take_data(w, m, op.src[2], 2, DWORDS);
  m.dst = op.dst;
  m.dst_count = 2 * DWORDS;
  lds_pair(w, op, m, 4 * DWORDS, STRIDE64);
  submit(w, m);
}

// M0 and the lane give the address: ds_read_addtid_b32, ds_write_addtid_b32.
void lane_addresses(Wave& w, const Op& op, MemoryOp& m) {
  m.size = 4;
  for (int l = 0; l < LANES; ++l) {
    m.address[l] = (w.s[M0] & 0xffff) + uint16_t(op.offset) + 4u * uint32_t(l);
    m.in_range[l] = 4;
    if (m.live >> l & 1) m.host[l] = lds_pointer(w, m, l, m.address[l], 4);
  }
}
void lds_load_lane(Wave& w, const Op& op) {
  MemoryOp& m = begin(w, op, perform_load<1>, Queue::LDS, Access::READ);
  m.dst = op.dst;
  m.dst_count = 1;
  lane_addresses(w, op, m);
  submit(w, m);
}
void lds_store_lane(Wave& w, const Op& op) {
  MemoryOp& m = begin(w, op, perform_store, Queue::LDS, Access::WRITE);
  take_data(w, m, op.src[1], 0, 1);
  lane_addresses(w, op, m);
  submit(w, m);
}

// gfx950's transposing reads: 16 lanes load 64 (96) bits each; seen as one row of `16 x BITS`-bit elements after the other,
// lane l of the 16 receives element l of every row.
template <int BITS, int DWORDS>
void perform_transpose(Wave& w, MemoryOp& m) {
  constexpr int per_lane = 32 * DWORDS / BITS;
  for (int base = 0; base < LANES; base += 16) {
    uint8_t flat[16 * 4 * DWORDS] = {};
    for (int l = 0; l < 16; ++l)
      if (m.live >> (base + l) & 1) {
        std::memcpy(flat + l * 4 * DWORDS, m.host[base + l], 4 * DWORDS);
        touch_lds_read(w, m, m.address[base + l], 4 * DWORDS, base + l);
      }
    for (int l = 0; l < 16; ++l) {
      if (!(m.exec >> (base + l) & 1)) continue;
      uint32_t x[DWORDS] = {};
      for (int e = 0; e < per_lane; ++e)
        for (int b = 0; b < BITS; ++b) {
          const int from = (16 * e + l) * BITS + b, to = e * BITS + b;
          if (flat[from / 8] >> from % 8 & 1) x[to / 32] |= 1u << to % 32;
        }
      for (int d = 0; d < DWORDS; ++d) w.v[m.dst - 256 + d][base + l] = x[d];
    }
  }
}
template <int BITS, int DWORDS>
void lds_transpose(Wave& w, const Op& op) {
  if (~w.exec()) return w.engine->fatal(UNSUPPORTED, w);  // "EXEC must be all 1's" (CDNA4 ISA, 11.4)
  MemoryOp& m = begin(w, op, perform_transpose<BITS, DWORDS>, Queue::LDS, Access::READ);
  m.size = 4 * DWORDS;
  m.transposes = true;
  m.dst = op.dst;
  m.dst_count = DWORDS;
  lds_addresses(w, op, m, uint16_t(op.offset));
  submit(w, m);
}

// Permutations go through the LDS hardware but touch no memory. address[l] is the lane that l reads or writes.
void perform_bpermute(Wave& w, MemoryOp& m) {
  for (int l = 0; l < LANES; ++l)
    if (m.exec >> l & 1) w.v[m.dst - 256][l] = m.exec >> m.address[l] & 1 ? m.data[0][m.address[l]] : 0;
}
void perform_permute(Wave& w, MemoryOp& m) {
  uint32_t r[LANES] = {};
  for (int l = 0; l < LANES; ++l)
    if (m.exec >> l & 1) r[m.address[l]] = m.data[0][l];
  for (int l = 0; l < LANES; ++l)
    if (m.exec >> l & 1) w.v[m.dst - 256][l] = r[l];
}

int swizzle_lane(uint32_t offset, int l) {
  if (offset & 0x8000) {
    if (offset >= 0xe000) {  // the order of a Fourier transform: bits reversed above those that the mask keeps
      const int mask = int(offset & 31);
      int reversed = 0;
      for (int i = 0; i < 5; ++i) reversed |= (l >> i & 1) << (4 - i);
      return (l & 32) | (l & mask) | reversed >> __builtin_popcount(unsigned(mask));
    }
    if (offset >= 0xc000) {  // rotate within 32 lanes
      const int mask = int(offset & 31), by = int(offset >> 5 & 31);
      const int in = l & 31, to = offset >> 10 & 1 ? in - by : in + by;
      return (l & 32) | (in & mask) | (to & 31 & ~mask);
    }
    return (l & ~3) | (offset >> 2 * (l & 3) & 3);
  }
  const int and_mask = int(offset & 31), or_mask = int(offset >> 5 & 31), xor_mask = int(offset >> 10 & 31);
  return (l & 32) | ((((l & 31) & and_mask) | or_mask) ^ xor_mask);
}

template <class F>
void permute(Wave& w, const Op& op, MemoryOp::Perform perform, uint16_t data, F lane) {
  MemoryOp& m = begin(w, op, perform, Queue::LDS, Access::READ);
  m.dst = op.dst;
  m.dst_count = 1;
  m.live = 0;  // no memory
  take_data(w, m, data, 0, 1);
  for (int l = 0; l < LANES; ++l) m.address[l] = uint64_t(lane(l));
  submit(w, m);
}

void bpermute(Wave& w, const Op& op) {
  const uint32_t* v = w.v[op.src[0] - 256];
  permute(w, op, perform_bpermute, op.src[1], [&](int l) { return (v[l] + uint16_t(op.offset)) / 4 % 64; });
}
void permute_forward(Wave& w, const Op& op) {
  const uint32_t* v = w.v[op.src[0] - 256];
  permute(w, op, perform_permute, op.src[1], [&](int l) { return (v[l] + uint16_t(op.offset)) / 4 % 64; });
}
void swizzle(Wave& w, const Op& op) {
  permute(w, op, perform_bpermute, op.src[0], [&](int l) { return swizzle_lane(uint16_t(op.offset), l); });
}

// ds_append, ds_consume: one counter at M0[15:0] + offset moves by the number of active lanes. M0 holds the pointer that LLVM
// gives it (AMDGPUInstructionSelector::selectDSAppendConsume); of LDS, CDNA4's ISA document names the offset alone.
template <int SIGN>
void perform_count(Wave& w, MemoryOp& m) {
  std::lock_guard<std::mutex> lock(atomic_mutex());
  if (!m.live) return;
  const int l = first_set(m.live);
  uint32_t old;
  std::memcpy(&old, m.host[l], 4);
  const uint32_t now = old + uint32_t(SIGN * __builtin_popcountll(m.exec));
  std::memcpy(m.host[l], &now, 4);
  touch_lds_write(w, m, m.address[l], 4, l);
  for (int i = 0; i < LANES; ++i)
    if (m.exec >> i & 1) w.v[m.dst - 256][i] = old;
}
template <int SIGN>
void lds_count(Wave& w, const Op& op) {
  MemoryOp& m = begin(w, op, perform_count<SIGN>, Queue::LDS, Access::ATOMIC);
  m.size = 4;
  m.dst = op.dst;
  m.dst_count = 1;
  m.live = m.exec ? 1ull << first_set(m.exec) : 0;
  for (int l = 0; l < LANES; ++l) {
    m.address[l] = (w.s[M0] & 0xffff) + uint16_t(op.offset);
    if (m.live >> l & 1) m.host[l] = lds_pointer(w, m, l, m.address[l], 4);
    if (m.live >> l & 1) check_alignment(w, m, l, m.address[l], 4, 0);
  }
  submit(w, m);
}

// --- Scalar memory ----------------------------------------------------------------------------------------------------

void perform_scalar_load(Wave& w, MemoryOp& m) {
  uint32_t x[16] = {};
  if (m.live) std::memcpy(x, m.host[0], m.in_range[0]);
  std::memcpy(w.s + m.dst, x, 4u * m.dst_count);
}

void scalar_load(Wave& w, const Op& op, int dwords, bool buffer) {
  MemoryOp& m = begin(w, op, perform_scalar_load, Queue::SCALAR, Access::READ);
  m.exec = m.live = 1;
  m.size = uint16_t(4 * dwords);
  m.dst = op.dst;
  m.dst_count = uint16_t(dwords);
  m.in_range[0] = uint8_t(m.size);
  const uint32_t offset_register = op.flags & F_SADDR ? scalar32(w, op, op.src[1], Kind::B32) : 0;
  uint64_t address;
  if (buffer) {
    const Descriptor d(w.s + op.src[0]);
    const uint64_t offset = (uint64_t(offset_register) + uint64_t(int64_t(op.offset))) & ~3ull;
    const uint64_t limit = uint64_t(d.records) * (d.stride ? d.stride : 1);
    m.in_range[0] = uint8_t(offset < limit ? std::min<uint64_t>((limit - offset) & ~3ull, m.size) : 0);
    address = d.base + offset;
  } else {
    address = w.get64(op.src[0]) + offset_register + uint64_t(int64_t(op.offset));
    check_alignment(w, m, 0, address, 4, 1);  // the low bits are dropped
    address &= ~3ull;
  }
  m.address[0] = address;
  if (!m.in_range[0]) m.live = 0;
  else m.host[0] = global_pointer(w, m, 0, address, m.in_range[0]);
  submit(w, m);
}

void perform_clock(Wave& w, MemoryOp& m) { w.set64(m.dst, m.address[0]); }
void read_clock(Wave& w, const Op& op) {
  MemoryOp& m = begin(w, op, perform_clock, Queue::SCALAR, Access::READ);
  m.exec = 1;
  m.live = 0;
  m.dst = op.dst;
  m.dst_count = 2;
  uint64_t issued = w.engine->instructions;  // by all waves, so that a time after a barrier is later than one before it
  for (const auto& each : w.engine->waves) issued += each->executed;
  m.address[0] = issued * 4;
  submit(w, m);
}

// The L1 forgets: whoever waited for a flag sees what was released with it (from gfx942 on only with SC1: agent scope).
void invalidate(Wave& w, const Op& op) {
  if (w.engine->referee && (w.engine->launch.target == GFX90A || op.flags & F_SC1)) w.engine->referee->order.invalidated(w);
}

// The writeback of the L2, without which blocks of other XCDs do not see what was stored (from gfx942 on, with SC1: flags.h). It
// counts in vmcnt: the sequences of LLVM's memory model wait for it before the flag.
void write_back(Wave& w, const Op& op) {
  if (!w.engine->referee || w.engine->launch.target == GFX90A || !(op.flags & F_SC1)) return;
  MemoryOp& m = begin(w, op, [](Wave&, MemoryOp&) {}, Queue::VECTOR, Access::READ);
  m.exec = m.live = 0;
  m.writes_back = true;
  submit(w, m);
}

// --- Tables -------------------------------------------------------------------------------------------------------------

// In these entries dst and src give the result's and the data's dwords; addresses are described below.
#define LOAD(NAME, CALL, DST, FLAGS) {NAME, CALL, DST, {0, 0, 0}, MEMORY | FLAGS}
#define STORE(NAME, BYTES, HIGH) {NAME, [](Wave& w, const Op& op) { store_bytes(w, op, BYTES, HIGH); }, 0, {0, (BYTES + 3) / 4, 0}, MEMORY}
#define ATOMIC(NAME, T, F) {NAME, atomic<T, F>, sizeof(T) / 4, {0, sizeof(T) / 4, 0}, MEMORY}
#define ATOMIC_COMPARE(NAME, T) {NAME, atomic<T, compare_swap<T>, true>, sizeof(T) / 4, {0, sizeof(T) / 2, 0}, MEMORY}

#define NARROW(P, UBYTE, SBYTE, USHORT, SSHORT, D16)                                                           \
  LOAD(P UBYTE, (load_narrow<uint8_t, Part::WHOLE>), 1, 0), LOAD(P SBYTE, (load_narrow<int8_t, Part::WHOLE>), 1, 0),     \
  LOAD(P USHORT, (load_narrow<uint16_t, Part::WHOLE>), 1, 0), LOAD(P SSHORT, (load_narrow<int16_t, Part::WHOLE>), 1, 0), \
  LOAD(P "load_ubyte_d16", (load_narrow<uint8_t, Part::LOW>), 1, READS_DST), LOAD(P "load_ubyte_d16_hi", (load_narrow<uint8_t, Part::HIGH>), 1, READS_DST), \
  LOAD(P "load_sbyte_d16", (load_narrow<int8_t, Part::LOW>), 1, READS_DST), LOAD(P "load_sbyte_d16_hi", (load_narrow<int8_t, Part::HIGH>), 1, READS_DST),   \
  LOAD(P "load_short_d16", (load_narrow<uint16_t, Part::LOW>), 1, READS_DST), LOAD(P "load_short_d16_hi", (load_narrow<uint16_t, Part::HIGH>), 1, READS_DST)

#define PLAIN(P)                                                                                                   \
  NARROW(P, "load_ubyte", "load_sbyte", "load_ushort", "load_sshort", ), LOAD(P "load_dword", load<1>, 1, 0),       \
  LOAD(P "load_dwordx2", load<2>, 2, 0), LOAD(P "load_dwordx3", load<3>, 3, 0), LOAD(P "load_dwordx4", load<4>, 4, 0), \
  STORE(P "store_byte", 1, false), STORE(P "store_byte_d16_hi", 1, true), STORE(P "store_short", 2, false),          \
  STORE(P "store_short_d16_hi", 2, true), STORE(P "store_dword", 4, false), STORE(P "store_dwordx2", 8, false),      \
  STORE(P "store_dwordx3", 12, false), STORE(P "store_dwordx4", 16, false)

#define ATOMICS_OF(P, S, T)                                                                                               \
  ATOMIC(P "atomic_swap" S, T, swap_<T>), ATOMIC_COMPARE(P "atomic_cmpswap" S, T), ATOMIC(P "atomic_add" S, T, add_<T>),   \
  ATOMIC(P "atomic_sub" S, T, sub_<T>), ATOMIC(P "atomic_smin" S, T, smin_<T>), ATOMIC(P "atomic_umin" S, T, umin_<T>),    \
  ATOMIC(P "atomic_smax" S, T, smax_<T>), ATOMIC(P "atomic_umax" S, T, umax_<T>), ATOMIC(P "atomic_and" S, T, and_<T>),    \
  ATOMIC(P "atomic_or" S, T, or_<T>), ATOMIC(P "atomic_xor" S, T, xor_<T>), ATOMIC(P "atomic_inc" S, T, inc_<T>),          \
  ATOMIC(P "atomic_dec" S, T, dec_<T>)

#define ATOMICS(P)                                                                                                         \
  ATOMICS_OF(P, "", uint32_t), ATOMICS_OF(P, "_x2", uint64_t), ATOMIC(P "atomic_add_f32", uint32_t, (float_add<uint32_t, float>)), \
  ATOMIC(P "atomic_pk_add_f16", uint32_t, add_f16), ATOMIC(P "atomic_pk_add_bf16", uint32_t, add_bf16),                    \
  ATOMIC(P "atomic_add_f64", uint64_t, (float_add<uint64_t, double>)), ATOMIC(P "atomic_min_f64", uint64_t, (float_min<uint64_t, double>)), \
  ATOMIC(P "atomic_max_f64", uint64_t, (float_max<uint64_t, double>))

#define DMA(P)                                                                                              \
  LOAD(P "load_lds_ubyte", [](Wave& w, const Op& op) { load_to_lds<uint8_t>(w, op, 1); }, 0, 0),             \
  LOAD(P "load_lds_sbyte", [](Wave& w, const Op& op) { load_to_lds<int8_t>(w, op, 1); }, 0, 0),              \
  LOAD(P "load_lds_ushort", [](Wave& w, const Op& op) { load_to_lds<uint16_t>(w, op, 2); }, 0, 0),           \
  LOAD(P "load_lds_sshort", [](Wave& w, const Op& op) { load_to_lds<int16_t>(w, op, 2); }, 0, 0),            \
  LOAD(P "load_lds_dword", [](Wave& w, const Op& op) { load_to_lds<uint32_t>(w, op, 4); }, 0, 0),            \
  LOAD(P "load_lds_dwordx3", [](Wave& w, const Op& op) { load_to_lds<uint32_t>(w, op, 12); }, 0, 0),         \
  LOAD(P "load_lds_dwordx4", [](Wave& w, const Op& op) { load_to_lds<uint32_t>(w, op, 16); }, 0, 0)

#define LDS_LOAD(NAME, CALL, DST, FLAGS) {NAME, CALL, DST, {0, 0, 0}, MEMORY | FLAGS}
#define LDS_STORE(NAME, BYTES, HIGH) {NAME, [](Wave& w, const Op& op) { lds_store(w, op, BYTES, HIGH); }, 0, {0, (BYTES + 3) / 4, 0}, MEMORY}
#define LDS_ATOMIC(PLAIN_NAME, RETURN_NAME, T, F)                                                       \
  {PLAIN_NAME, lds_atomic<T, F, false>, 0, {0, sizeof(T) / 4, 0}, MEMORY},                               \
  {RETURN_NAME, lds_atomic<T, F, true>, sizeof(T) / 4, {0, sizeof(T) / 4, 0}, MEMORY}
#define LDS_ATOMIC2(PLAIN_NAME, RETURN_NAME, T, F, OPERANDS)                                            \
  {PLAIN_NAME, lds_atomic<T, F, false, OPERANDS>, 0, {0, sizeof(T) / 4, sizeof(T) / 4}, MEMORY},         \
  {RETURN_NAME, lds_atomic<T, F, true, OPERANDS>, sizeof(T) / 4, {0, sizeof(T) / 4, sizeof(T) / 4}, MEMORY}
#define LDS_ATOMICS(U, S, B, T)                                                                                                 \
  LDS_ATOMIC("ds_add_" U, "ds_add_rtn_" U, T, add_<T>), LDS_ATOMIC("ds_sub_" U, "ds_sub_rtn_" U, T, sub_<T>),                    \
  LDS_ATOMIC("ds_rsub_" U, "ds_rsub_rtn_" U, T, rsub_<T>), LDS_ATOMIC("ds_inc_" U, "ds_inc_rtn_" U, T, inc_<T>),                 \
  LDS_ATOMIC("ds_dec_" U, "ds_dec_rtn_" U, T, dec_<T>), LDS_ATOMIC("ds_min_" S, "ds_min_rtn_" S, T, smin_<T>),                   \
  LDS_ATOMIC("ds_max_" S, "ds_max_rtn_" S, T, smax_<T>), LDS_ATOMIC("ds_min_" U, "ds_min_rtn_" U, T, umin_<T>),                  \
  LDS_ATOMIC("ds_max_" U, "ds_max_rtn_" U, T, umax_<T>), LDS_ATOMIC("ds_and_" B, "ds_and_rtn_" B, T, and_<T>),                   \
  LDS_ATOMIC("ds_or_" B, "ds_or_rtn_" B, T, or_<T>), LDS_ATOMIC("ds_xor_" B, "ds_xor_rtn_" B, T, xor_<T>),                       \
  LDS_ATOMIC2("ds_mskor_" B, "ds_mskor_rtn_" B, T, mask_or<T>, 2), LDS_ATOMIC2("ds_cmpst_" B, "ds_cmpst_rtn_" B, T, compare_swap<T>, 2), \
  {"ds_wrxchg_rtn_" B, lds_atomic<T, swap_<T>, true>, sizeof(T) / 4, {0, sizeof(T) / 4, 0}, MEMORY}

#define SCALAR_LOAD(NAME, DWORDS, BUFFER) \
  {NAME, [](Wave& w, const Op& op) { scalar_load(w, op, DWORDS, BUFFER); }, DWORDS, {BUFFER ? 4 : 2, 1, 0}, MEMORY}
#define NOTHING(NAME) {NAME, [](Wave&, const Op&) {}, 0, {0, 0, 0}, 0}

const Info TABLE[] = {
    PLAIN("flat_"), PLAIN("global_"), PLAIN("scratch_"), PLAIN("buffer_"),
    ATOMICS("flat_"), ATOMICS("global_"), ATOMICS("buffer_"), DMA("global_"), DMA("scratch_"),
    {"buffer_wbl2", write_back, 0, {0, 0, 0}, 0}, NOTHING("buffer_invl2"),
    {"buffer_inv", invalidate, 0, {0, 0, 0}, 0}, {"buffer_wbinvl1", invalidate, 0, {0, 0, 0}, 0}, {"buffer_wbinvl1_vol", invalidate, 0, {0, 0, 0}, 0},

    LDS_LOAD("ds_read_b32", lds_load<1>, 1, 0), LDS_LOAD("ds_read_b64", lds_load<2>, 2, 0),
    LDS_LOAD("ds_read_b96", lds_load<3>, 3, 0), LDS_LOAD("ds_read_b128", lds_load<4>, 4, 0),
    LDS_LOAD("ds_read_u8", (lds_load_narrow<uint8_t, Part::WHOLE>), 1, 0), LDS_LOAD("ds_read_i8", (lds_load_narrow<int8_t, Part::WHOLE>), 1, 0),
    LDS_LOAD("ds_read_u16", (lds_load_narrow<uint16_t, Part::WHOLE>), 1, 0), LDS_LOAD("ds_read_i16", (lds_load_narrow<int16_t, Part::WHOLE>), 1, 0),
    LDS_LOAD("ds_read_u8_d16", (lds_load_narrow<uint8_t, Part::LOW>), 1, READS_DST), LDS_LOAD("ds_read_u8_d16_hi", (lds_load_narrow<uint8_t, Part::HIGH>), 1, READS_DST),
    LDS_LOAD("ds_read_i8_d16", (lds_load_narrow<int8_t, Part::LOW>), 1, READS_DST), LDS_LOAD("ds_read_i8_d16_hi", (lds_load_narrow<int8_t, Part::HIGH>), 1, READS_DST),
    LDS_LOAD("ds_read_u16_d16", (lds_load_narrow<uint16_t, Part::LOW>), 1, READS_DST), LDS_LOAD("ds_read_u16_d16_hi", (lds_load_narrow<uint16_t, Part::HIGH>), 1, READS_DST),
    LDS_LOAD("ds_read2_b32", (lds_load2<1, false>), 2, 0), LDS_LOAD("ds_read2st64_b32", (lds_load2<1, true>), 2, 0),
    LDS_LOAD("ds_read2_b64", (lds_load2<2, false>), 4, 0), LDS_LOAD("ds_read2st64_b64", (lds_load2<2, true>), 4, 0),
    LDS_LOAD("ds_read_b64_tr_b16", (lds_transpose<16, 2>), 2, CROSS_LANE), LDS_LOAD("ds_read_b64_tr_b8", (lds_transpose<8, 2>), 2, CROSS_LANE),
    LDS_LOAD("ds_read_b64_tr_b4", (lds_transpose<4, 2>), 2, CROSS_LANE), LDS_LOAD("ds_read_b96_tr_b6", (lds_transpose<6, 3>), 3, CROSS_LANE),
    {"ds_read_addtid_b32", lds_load_lane, 1, {0, 0, 0}, MEMORY},
    {"ds_write_addtid_b32", lds_store_lane, 0, {0, 1, 0}, MEMORY},
    LDS_STORE("ds_write_b8", 1, false), LDS_STORE("ds_write_b16", 2, false), LDS_STORE("ds_write_b32", 4, false),
    LDS_STORE("ds_write_b64", 8, false), LDS_STORE("ds_write_b96", 12, false), LDS_STORE("ds_write_b128", 16, false),
    LDS_STORE("ds_write_b8_d16_hi", 1, true), LDS_STORE("ds_write_b16_d16_hi", 2, true),
    {"ds_write2_b32", lds_store2<1, false>, 0, {0, 1, 1}, MEMORY}, {"ds_write2st64_b32", lds_store2<1, true>, 0, {0, 1, 1}, MEMORY},
    {"ds_write2_b64", lds_store2<2, false>, 0, {0, 2, 2}, MEMORY}, {"ds_write2st64_b64", lds_store2<2, true>, 0, {0, 2, 2}, MEMORY},
    LDS_ATOMICS("u32", "i32", "b32", uint32_t), LDS_ATOMICS("u64", "i64", "b64", uint64_t),
    LDS_ATOMIC("ds_add_f32", "ds_add_rtn_f32", uint32_t, (float_add<uint32_t, float>)),
    LDS_ATOMIC("ds_min_f32", "ds_min_rtn_f32", uint32_t, (float_min<uint32_t, float>)),
    LDS_ATOMIC("ds_max_f32", "ds_max_rtn_f32", uint32_t, (float_max<uint32_t, float>)),
    LDS_ATOMIC("ds_add_f64", "ds_add_rtn_f64", uint64_t, (float_add<uint64_t, double>)),
    LDS_ATOMIC("ds_min_f64", "ds_min_rtn_f64", uint64_t, (float_min<uint64_t, double>)),
    LDS_ATOMIC("ds_max_f64", "ds_max_rtn_f64", uint64_t, (float_max<uint64_t, double>)),
    LDS_ATOMIC("ds_pk_add_f16", "ds_pk_add_rtn_f16", uint32_t, add_f16), LDS_ATOMIC("ds_pk_add_bf16", "ds_pk_add_rtn_bf16", uint32_t, add_bf16),
    LDS_ATOMIC2("ds_cmpst_f32", "ds_cmpst_rtn_f32", uint32_t, (float_compare_swap<uint32_t, float>), 3),
    LDS_ATOMIC2("ds_cmpst_f64", "ds_cmpst_rtn_f64", uint64_t, (float_compare_swap<uint64_t, double>), 3),
    {"ds_wrap_rtn_b32", lds_atomic<uint32_t, wrap_<uint32_t>, true, 2>, 1, {0, 1, 1}, MEMORY},
    {"ds_wrxchg2_rtn_b32", lds_exchange2<1, false>, 2, {0, 1, 1}, MEMORY}, {"ds_wrxchg2st64_rtn_b32", lds_exchange2<1, true>, 2, {0, 1, 1}, MEMORY},
    {"ds_wrxchg2_rtn_b64", lds_exchange2<2, false>, 4, {0, 2, 2}, MEMORY}, {"ds_wrxchg2st64_rtn_b64", lds_exchange2<2, true>, 4, {0, 2, 2}, MEMORY},
    {"ds_bpermute_b32", bpermute, 1, {0, 1, 0}, MEMORY | CROSS_LANE},
    {"ds_permute_b32", permute_forward, 1, {0, 1, 0}, MEMORY | CROSS_LANE},
    {"ds_swizzle_b32", swizzle, 1, {0, 0, 0}, MEMORY | CROSS_LANE},
    {"ds_append", lds_count<1>, 1, {0, 0, 0}, MEMORY}, {"ds_consume", lds_count<-1>, 1, {0, 0, 0}, MEMORY},
    NOTHING("ds_nop"),

    SCALAR_LOAD("s_load_dword", 1, false), SCALAR_LOAD("s_load_dwordx2", 2, false), SCALAR_LOAD("s_load_dwordx4", 4, false),
    SCALAR_LOAD("s_load_dwordx8", 8, false), SCALAR_LOAD("s_load_dwordx16", 16, false),
    SCALAR_LOAD("s_buffer_load_dword", 1, true), SCALAR_LOAD("s_buffer_load_dwordx2", 2, true), SCALAR_LOAD("s_buffer_load_dwordx4", 4, true),
    SCALAR_LOAD("s_buffer_load_dwordx8", 8, true), SCALAR_LOAD("s_buffer_load_dwordx16", 16, true),
    {"s_memtime", read_clock, 2, {0, 0, 0}, MEMORY}, {"s_memrealtime", read_clock, 2, {0, 0, 0}, MEMORY},
    NOTHING("s_dcache_inv"), NOTHING("s_dcache_wb"), NOTHING("s_dcache_inv_vol"), NOTHING("s_dcache_wb_vol"),
};

}  // namespace

Table memory_table() { return {TABLE, sizeof TABLE / sizeof *TABLE}; }

void wait(Wave& w, unsigned vector, unsigned lgkm) {
  if (!w.engine->tracks()) return;
  wait_in_order(w, w.vector_ops, vector);
  wait_in_order(w, w.lds_ops, lgkm);
  if (lgkm == 0)
    while (!w.scalar_ops.empty()) retire_at(w, w.scalar_ops, 0);
  if (vector == 0 || lgkm == 0) wait_flat(w, vector == 0, lgkm == 0);
}

// A wave stalls while the counter that its next access takes is full: of those that return in order the oldest is back then,
// before the access reads its registers. Flat and scalar ones return in any order, so that room says nothing of which; only
// that many that no queue could hold so many are taken off.
void make_room(Wave& w, const Op& op) {
  if (!w.engine->tracks()) return;
  const bool scalar = op.encoding == ENC_SMEM, lds = op.encoding == ENC_DS;
  MemoryQueue& q = scalar ? w.scalar_ops : lds ? w.lds_ops : w.vector_ops;
  const unsigned limit = scalar || lds ? LGKM_LIMIT : VECTOR_LIMIT;
  if (q.size() < limit) return;
  if (!scalar) wait_in_order(w, q, limit - 1);
  for (size_t i = 0; q.size() > 4 * limit && i < q.size();)
    if (q[i]->queue == Queue::FLAT || scalar) retire_at(w, q, i);
    else ++i;
}

// s_endpgm: "The hardware implicitly executes S_WAITCNT 0 before executing this instruction" (CDNA3 ISA, SOPP).
void drain(Wave& w) {
  for (MemoryQueue* q : {&w.scalar_ops, &w.lds_ops, &w.vector_ops})
    while (!q->empty()) retire_at(w, *q, 0);
}

// A barrier, for a launch that delays accesses: what the waves of a block have issued to global memory reaches it in that
// order (referee.h), so other waves see it from here on, though the registers of a load still wait.
void reach_memory(Wave& w) {
  for (auto& m : w.vector_ops) {
    if (m->performed) continue;
    if (m->access != Access::READ) {
      perform(w, *m);
      m->performed = true;
      continue;
    }
    for (int l = 0; l < LANES; ++l) {
      if (!(m->live >> l & 1) || lane_in_lds(w, *m, l) || m->private_lanes >> l & 1) continue;
      if (w.engine->algebra) w.engine->algebra->reaches_memory(w, *m, l);
      uint8_t* taken = reinterpret_cast<uint8_t*>(m->data) + 16 * l;
      std::memcpy(taken, m->host[l], m->in_range[l]);
      m->host[l] = taken;
    }
  }
}

// Buffer loads that can go to LDS (LLVM's BUFInstructions.td).
bool goes_to_lds(const char* name, uint32_t target) {
  if (begins(name, {"buffer_load_ubyte_d16", "buffer_load_sbyte_d16", "buffer_load_dwordx2"})) return false;
  if (begins(name, {"buffer_load_dwordx"})) return target == GFX950;
  return begins(name, {"buffer_load_ubyte", "buffer_load_sbyte", "buffer_load_ushort", "buffer_load_sshort", "buffer_load_dword"});
}

// Which registers a memory instruction reads: addresses, data, descriptors. False if they cannot exist.
bool describe_memory(const Op& op, const Info& info, uint32_t target, Use& use) {
  const uint8_t address = Use::ADDRESS;
  switch (op.encoding) {
    case ENC_SMEM:
      if (info.src[0]) use.add(op.src[0], info.src[0], address);
      if (op.flags & F_SADDR) use.add(op.src[1], 1, address);
      break;
    case ENC_DS:
      if (std::strstr(info.name, "addtid") == nullptr && std::strcmp(info.name, "ds_append") && std::strcmp(info.name, "ds_consume"))
        use.add(op.src[0], 1, info.run == swizzle ? 0 : address);
      if (info.src[1]) use.add(op.src[1], info.src[1], 0);
      if (info.src[2]) use.add(op.src[2], info.src[2], 0);
      break;
    case ENC_MUBUF: {
      if (op.flags & F_LDS && !goes_to_lds(info.name, target)) return false;
      use.add(op.src[1], 4, address);
      const unsigned registers = (op.flags & F_OFFEN ? 1 : 0) + (op.flags & F_IDXEN ? 1 : 0);
      if (registers) use.add(op.src[0], registers, address);
      if (op.src[2] < SCALARS) use.add(op.src[2], 1, address);
      if (info.src[1]) use.add(op.dst, info.src[1], 0);
      break;
    }
    case ENC_SCRATCH:
      if (op.flags & F_SADDR) use.add(op.src[2], 1, address);
      if (scratch_takes_vector(op, target)) use.add(op.src[0], 1, address);
      if (info.src[1]) use.add(op.src[1], info.src[1], 0);
      break;
    default:
      if (op.flags & F_SADDR) use.add(op.src[2], 2, address);
      use.add(op.src[0], op.flags & F_SADDR ? 1 : 2, address);
      if (info.src[1]) use.add(op.src[1], info.src[1], 0);
  }
  const bool atomic_without_result = std::strstr(info.name, "_atomic_") && !(op.flags & F_SC0);
  const bool to_lds = op.flags & F_LDS;
  if (info.dst && !atomic_without_result && !to_lds) use.add(op.dst, info.dst, Use::WRITES);
  return true;
}
