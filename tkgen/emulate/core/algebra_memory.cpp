// Payloads through memory: registers, LDS and scratch hold cells, tensors hold numbers element by element (algebra.h).
#include <algorithm>
#include <mutex>

#include "algebra.h"

namespace ring {

// Where bytes lie: in cells of LDS or scratch, or in a region of memory.
struct Algebra::Place {
  Cell* cells = nullptr;
  unsigned byte = 0;  // within the first cell
  const TkRegion* region = nullptr;
  uint64_t offset = 0;
};

namespace {

constexpr uint32_t NEVER = 0xfffffffe;  // in a tensor's payload: nobody has written it

std::mutex& sums() {
  static std::mutex mutex;
  return mutex;
}

void set(Cell& c, int byte, uint32_t tag, uint32_t p, uint32_t q) {
  c.tag = (c.tag & ~(255u << 8 * byte)) | tag << 8 * byte;
  c.p[byte] = p, c.q[byte] = q;
}

bool is_part(uint32_t tag) { return tag && tag != F8 && tag != PACKED && tag != WHOLE && tag != JUNK; }

// `count` bytes of cells from `byte` on, as the low bytes of `out`.
void take(const Cell* from, unsigned byte, unsigned count, uint32_t junk, Cell& out) {
  out.tag = PLAIN;
  for (unsigned i = 0; i < count; ++i) {
    const Cell& c = from[(byte + i) / 4];
    const unsigned b = (byte + i) % 4;
    uint32_t t = c.tag >> 8 * b & 255;
    const bool torn = is_part(t) && (count == 1 || (count == 2 && byte % 2));
    set(out, int(i), torn ? uint32_t(JUNK) : t, c.p[b], torn ? junk : c.q[b]);
  }
}

Format format_of(const TkRegion& r) { return Format(r.format); }

Number element(const TkRegion& r, uint64_t e) { return {r.payload[2 * e], r.payload[2 * e + 1]}; }

uint32_t tag_of(Format f) {
  switch (f) {
    case Format::F32: return TAG_F32;
    case Format::BF16: return TAG_BF16;
    case Format::F16: return TAG_F16;
    default: return F8;
  }
}

}  // namespace

// The number that bytes `first` .. `last` of a cell are; LOST, without a loss where they are another format's.
Number Algebra::number_in(const Cell& c, unsigned first, unsigned last, Format f, uint32_t data, uint32_t pc) {
  const uint32_t t = c.tag >> 8 * last & 255, width = last - first + 1;
  const uint32_t mine = (width == 4 ? ~0u : (1u << 8 * width) - 1) << 8 * first;
  const uint32_t wanted = f == Format::F32 || f == Format::BF16 ? F32 + 3 : f == Format::F16 ? F16 + 1 : uint32_t(F8);
  if (t == wanted && !is_plain(f)) return {c.p[last], c.q[last]};
  if (whole_within(c.tag & mine)) return spelled(f, c, first, data, pc);
  if (!(c.tag & mine) || c.tag == TAG_NEAR) {
    const uint32_t b = (data & mine) >> 8 * first;
    return is_integer(f) ? image_of_integer(f == Format::I8 ? int8_t(b) : int32_t(b)) : image_of(f, b);
  }
  return {LOST, t == JUNK ? c.q[last] : NONE};
}

Algebra::Place Algebra::place(Wave& w, const MemoryOp& m, int lane, int part) {
  Place at;
  const uint64_t address = m.address[lane] + (part ? uint64_t(m.second) : 0);
  if (m.private_lanes >> lane & 1) {
    const size_t offset = size_t(m.host[lane] - w.scratch.data());
    at.cells = &of(w).scratch[offset / 4], at.byte = offset % 4;
  } else if (m.lds || (m.queue == Queue::FLAT && address >> 32 == engine_.launch.shared_base >> 32)) {
    at.cells = &lds_[uint32_t(address) / 4], at.byte = uint32_t(address) % 4;
  } else if (const TkRegion* r = engine_.find(address, 1)) {
    at.region = r, at.offset = address - r->base;
  }
  return at;
}

// Cells of `size` bytes, and of what a dword has beyond them: plain.
void Algebra::read(const Place& at, unsigned size, uint32_t pc, Cell* out) {
  const unsigned cells = (size + 3) / 4;
  if (at.cells) {
    if (at.byte == 0 && size % 4 == 0)
      for (unsigned i = 0; i < cells; ++i) out[i] = at.cells[i];
    else
      for (unsigned i = 0; i < cells; ++i) take(at.cells, at.byte + 4 * i, std::min(4u, size - 4 * i), loss(pc, "a byte of a number"), out[i]);
    return;
  }
  for (unsigned i = 0; i < cells; ++i) out[i].tag = PLAIN;
  if (!at.region || !at.region->payload || is_plain(format_of(*at.region))) return;
  const TkRegion& r = *at.region;
  const Format f = format_of(r);
  const int width = width_of(f);
  if (width < 8) {
    const uint32_t number = uint32_t(&r - engine_.launch.regions);
    for (unsigned b = 0; b < size; ++b) set(out[b / 4], int(b % 4), PACKED, number, uint32_t(at.offset) + b);
    return;
  }
  const unsigned bytes = unsigned(width) / 8;
  const bool whole = at.offset % bytes == 0 && size % bytes == 0;
  for (unsigned b = 0; b < size; b += whole ? bytes : 1) {
    const uint64_t e = (at.offset + b) / bytes;
    const Number n = e < r.elements ? element(r, e) : Number{NEVER, NEVER};
    if (n.p == NEVER) continue;
    const uint32_t q = n.p == LOST ? 0 : n.q;
    if (!whole) {
      set(out[b / 4], int(b % 4), JUNK, 0, loss(pc, "a part of a number"));
    } else if (width == 64) {
      out[b / 4].tag = TAG_F64_LOW, out[b / 4 + 1].tag = TAG_F64;
      out[b / 4 + 1].p[3] = n.p, out[b / 4 + 1].q[3] = q;
    } else {
      Cell& c = out[b / 4];
      const unsigned first = b % 4, last = first + bytes - 1;
      c.tag |= tag_of(f) << 8 * first;
      c.p[last] = n.p, c.q[last] = q;
    }
  }
}

void Algebra::write(const Place& at, unsigned size, uint32_t pc, const Cell* from, const uint32_t* data) {
  if (at.cells) {
    if (at.byte == 0 && size % 4 == 0) {
      for (unsigned i = 0; i < size / 4; ++i) at.cells[i] = from[i];
      return;
    }
    for (unsigned i = 0; i < size; ++i) {
      Cell& to = at.cells[(at.byte + i) / 4];
      const unsigned b = (at.byte + i) % 4, s = i % 4, beside = b ^ 1;
      set(to, int(b), from[i / 4].tag >> 8 * s & 255, from[i / 4].p[s], from[i / 4].q[s]);
      if (size == 1 && is_part(to.tag >> 8 * beside & 255)) set(to, int(beside), JUNK, 0, loss(pc, "a part of a number"));
    }
    return;
  }
  if (!at.region) return;
  const TkRegion& r = *at.region;
  const TkLaunch& launch = engine_.launch;
  if (!r.payload) {
    if (r.base + at.offset - launch.printed_base < launch.printed_bytes) return;
    for (unsigned i = 0; i < (size + 3) / 4; ++i) {
      Cell c = from[i];
      if (whole_in_use_ && c.tag) bare_cell(c);
      if (c.tag & (size < 4 ? (1u << 8 * size) - 1 : ~0u)) ++losses[loss(pc, "it is stored in memory without payloads")].count;
    }
    return;
  }
  const Format f = format_of(r);
  const unsigned bytes = unsigned(width_of(f)) / 8;
  if (!bytes) return write_packed(at, size, pc, from, data);
  for (unsigned b = 0; b < size; b += bytes) {
    const uint64_t e = (at.offset + b) / bytes;
    if (e >= r.elements) return;
    Number n = {LOST, NONE};
    if (at.offset % bytes == 0 && size % bytes == 0) {
      if (bytes == 8) {
        const Cell &low = from[b / 4], &high = from[b / 4 + 1];
        if (high.tag == TAG_F64) n = {high.p[3], high.q[3]};
        else if (!low.tag && !high.tag) n = image_of(f, U64::get(data[b / 4], data[b / 4 + 1]));
      } else {
        n = number_in(from[b / 4], b % 4, b % 4 + bytes - 1, f, data[b / 4], pc);
      }
    }
    if (n.lost()) {
      ++losses[n.q == NONE ? loss(pc, "it is stored as another format") : n.q].count;
      n.q = LOST;
    }
    r.payload[2 * e] = n.p, r.payload[2 * e + 1] = n.q;
  }
}

// A tensor of 4- or 6-bit floats: numbers of where bytes came from, or what their bits spell. An element that lies in several
// bytes may be stored in several parts.
void Algebra::write_packed(const Place& at, unsigned size, uint32_t pc, const Cell* from, const uint32_t* data) {
  const TkRegion& r = *at.region;
  const Format f = format_of(r);
  const uint64_t width = uint64_t(width_of(f)), begin = at.offset * 8, end = begin + 8 * size;
  Ref refs[128];
  for (unsigned i = 0; i < (size + 3) / 4; ++i) refs_of(from[i], refs + 32 * i);
  for (uint64_t e = begin / width; e * width < end && e < r.elements; ++e) {
    const uint64_t low = std::max(begin, e * width), high = std::min(end, (e + 1) * width), bit = low - begin;
    const Cell& c = from[bit / 32];
    const unsigned b = unsigned(bit % 32 / 8);
    if ((c.tag >> 8 * b & 255) != PACKED) {
      write_part(at, e, unsigned(low - e * width), unsigned(high - e * width), from, refs, data, unsigned(bit), pc);
      continue;
    }
    Number n = {LOST, NONE};
    const Packed* tensor = packed(c.p[b]);
    const uint64_t place = uint64_t(c.q[b]) * 8 + bit % 8 - (low - e * width);
    if (tensor && tensor->format == f && place % width == 0 && place / width < tensor->elements)
      n = {tensor->payload[2 * (place / width)], tensor->payload[2 * (place / width) + 1]};
    if (n.lost()) ++losses[n.q == NONE ? loss(pc, "it is stored as another format") : n.q].count, n.q = LOST;
    r.payload[2 * e] = n.p, r.payload[2 * e + 1] = n.q;
  }
}

// Bits `from` .. `to` of an element; its number is what all of them spell, as soon as they are there.
void Algebra::write_part(const Place& at, uint64_t element, unsigned from, unsigned to, const Cell* cells, const Ref* refs, const uint32_t* data, unsigned bit, uint32_t pc) {
  const TkRegion& r = *at.region;
  const Format f = format_of(r);
  const unsigned width = unsigned(width_of(f)), all = (1u << width) - 1;
  Parts here;
  Parts& parts = to - from == width ? here : parts_[{&r, element}];
  for (unsigned i = from; i < to; ++i, ++bit) {
    const Cell& c = cells[bit / 32];
    const uint32_t t = c.tag >> 8 * (bit % 32 / 8) & 255;
    if (t != WHOLE && t != PLAIN) parts.lost = t == JUNK ? c.q[bit % 32 / 8] : loss(pc, "it is stored as another format");
    parts.done |= 1u << i;
    parts.bits = (parts.bits & ~(1u << i)) | (data[bit / 32] >> bit % 32 & 1) << i;
    parts.refs[i] = refs[bit];
  }
  Number n = {LOST, LOST};
  if (parts.done == all) {
    n = parts.lost ? Number{LOST, parts.lost} : spelled(f, parts.refs, parts.bits, pc);
    if (n.lost()) ++losses[n.q == NONE ? loss(pc, "it is stored as another format") : n.q].count, n.q = LOST;
    parts_.erase({&r, element});
  }
  r.payload[2 * element] = n.p, r.payload[2 * element + 1] = n.q;
}

// --- At issue -----------------------------------------------------------------------------------------------------------

void Algebra::takes(Wave& w, MemoryOp& m, uint16_t code, int first, int rows) {
  if (!m.taken) m.taken = std::make_shared<Taken>();
  for (int r = 0; r < rows; ++r) m.taken->data[first + r].copy(of(w).rows[size_t(code - 256 + r)]);
}

// A barrier: what the waves have issued to memory has reached it.
void Algebra::reaches_memory(Wave& w, MemoryOp& m, int lane) {
  if (!m.taken) m.taken = std::make_shared<Taken>();
  read(place(w, m, lane, 0), m.in_range[lane], m.index, m.taken->reached_cells[lane]);
  for (unsigned d = (m.in_range[lane] + 3u) / 4; d < 4; ++d) m.taken->reached_cells[lane][d].tag = PLAIN;
  m.taken->reached |= 1ull << lane;
}

// --- When it is performed ---------------------------------------------------------------------------------------------------

void Algebra::performing(Wave& w, MemoryOp& m) {
  switch (rules[m.index].motion) {
    case Motion::LOAD: m.dma ? to_lds(w, m) : load(w, m); break;
    case Motion::STORE: store(w, m); break;
    case Motion::TRANSPOSE: transpose(w, m); break;
    case Motion::PERMUTE: case Motion::PERMUTE_TO: permute(w, m); break;
    case Motion::SCALAR: scalar_load(w, m); break;
    case Motion::ADD_F32: case Motion::ADD_F64: case Motion::ADD_F16: case Motion::ADD_BF16: case Motion::ATOMIC: atomic(w, m); break;
    case Motion::NONE:
      for (unsigned d = 0; d < m.dst_count; ++d)
        if (m.dst < 256) of(w).s[m.dst + d].tag = PLAIN;
        else of(w).rows[size_t(m.dst - 256) + d].common = PLAIN;
  }
  if (m.taken) m.taken->reached = 0;
}

void Algebra::lane_cells(Wave& w, MemoryOp& m, int l, unsigned parts, Cell* x) {
  const unsigned dwords = (m.size + 3u) / 4;
  for (unsigned part = 0; part < parts; ++part) {
    Cell* to = x + part * dwords;
    for (unsigned d = 0; d < dwords; ++d) to[d].tag = PLAIN;
    if (!(m.live >> l & 1)) continue;
    if (m.taken && m.taken->reached >> l & 1) std::copy(m.taken->reached_cells[l], m.taken->reached_cells[l] + dwords, to);
    else if (m.in_range[l]) read(place(w, m, l, int(part)), m.in_range[l], m.index, to);
  }
}

void Algebra::load(Wave& w, MemoryOp& m) {
  Registers& r = of(w);
  Shadow* rows = &r.rows[m.dst - 256];
  const bool fresh = m.exec == ~0ull && m.written == ~0u;
  if (fresh)
    for (unsigned d = 0; d < m.dst_count; ++d) rows[d].common = MIXED;
  else
    for (unsigned d = 0; d < m.dst_count; ++d) rows[d].spread();
  Cell x[4];
  for (int l = 0; l < LANES; ++l) {
    if (!(m.exec >> l & 1)) continue;
    lane_cells(w, m, l, m.parts, x);
    if (m.written != ~0u) {  // a half of the register
      Cell old = rows[0].cell(l);
      for (int b = 0; b < 2; ++b) set(old, b + (m.written == 0xffff ? 0 : 2), x[0].tag >> 8 * b & 255, x[0].p[b], x[0].q[b]);
      x[0] = old;
    }
    for (unsigned d = 0; d < m.dst_count; ++d) rows[d].put(l, x[d]);
  }
  for (unsigned d = 0; d < m.dst_count; ++d) rows[d].settle();
}

void Algebra::store(Wave& w, MemoryOp& m) {
  const unsigned dwords = (m.size + 3u) / 4;
  for (int l = 0; l < LANES; ++l) {
    if (!(m.live >> l & 1)) continue;
    for (int part = 0; part < m.parts; ++part) {
      Cell x[4];
      uint32_t data[4];
      for (unsigned d = 0; d < dwords; ++d) {
        const unsigned from = (part ? 2 : 0) + d;
        x[d] = m.taken->data[from].cell(l), data[d] = m.data[from][l];
        for (int b = 0; b < 4; ++b)
          if ((x[d].tag >> 8 * b & 240) == NEAR) x[d].tag = PLAIN;
        if (m.high) {
          const Cell whole = x[d];
          take(&whole, 2, 2, 0, x[d]);
        }
      }
      if (m.size == 1 && is_part(x[0].tag & 255)) set(x[0], 0, JUNK, 0, loss(m.index, "a part of a number"));
      write(place(w, m, l, part), m.parts == 2 ? m.size : m.in_range[l], m.index, x, data);
    }
  }
}

void Algebra::to_lds(Wave& w, MemoryOp& m) {
  const uint32_t width = m.lds_width();
  for (int l = 0; l < LANES; ++l) {
    if (!(m.exec >> l & 1)) continue;
    Cell x[4];
    lane_cells(w, m, l, 1, x);
    const uint64_t to = m.lds_base + uint64_t(l) * m.lds_step();
    if (to + width > engine_.lds.size()) continue;
    for (unsigned d = 0; d < width / 4; ++d) lds_[to / 4 + d] = x[d];
  }
}

// gfx950's transposing reads: lane l of 16 takes elements l, 16 + l and so on of what all of them read.
void Algebra::transpose(Wave& w, MemoryOp& m) {
  const int width = rules[m.index].part, dwords = m.dst_count, per_lane = 32 * dwords / width, bytes = width / 8;
  Shadow* rows = &of(w).rows[m.dst - 256];
  for (int d = 0; d < dwords; ++d) rows[d].spread();
  for (int base = 0; base < LANES; base += 16) {
    Cell flat[16 * 3];
    uint32_t any = 0;
    for (int l = 0; l < 16; ++l) {
      lane_cells(w, m, base + l, 1, flat + l * dwords);
      for (int d = 0; d < dwords; ++d) any |= flat[l * dwords + d].tag;
    }
    for (int l = 0; l < 16; ++l) {
      if (!(m.exec >> (base + l) & 1)) continue;
      Cell x[3];
      for (int e = 0; e < per_lane && bytes; ++e)
        for (int b = 0; b < bytes; ++b) {
          const int from = (16 * e + l) * bytes + b, to = e * bytes + b;
          const Cell& c = flat[from / 4];
          set(x[to / 4], to % 4, c.tag >> 8 * (from % 4) & 255, c.p[from % 4], c.q[from % 4]);
        }
      if (any && !bytes) transposed(w, m, flat, base, l, x);
      for (int d = 0; d < dwords; ++d) rows[d].put(base + l, x[d]);
    }
  }
  for (int d = 0; d < dwords; ++d) rows[d].settle();
}

// Floats of 4 or 6 bits of one lane: a run of packed numbers of its own. Plain bits are those of the numbers beside them.
void Algebra::transposed(Wave& w, MemoryOp& m, const Cell* flat, int base, int l, Cell* out) {
  const int width = rules[m.index].part, count = 32 * m.dst_count / width;
  Format f = width == 4 ? Format::FP4 : Format::FP6;
  for (int c = 0; c < 16 * m.dst_count; ++c)
    for (int b = 0; b < 4; ++b)
      if ((flat[c].tag >> 8 * b & 255) == PACKED && packed(flat[c].p[b])) f = packed(flat[c].p[b])->format;
  Number run[16];
  for (int e = 0; e < count; ++e) {
    const int bit = (16 * e + l) * width, lane = bit / (32 * m.dst_count), at = bit % (32 * m.dst_count);
    uint64_t data = 0;  // the bytes that it lies in
    Ref refs[64];
    const int cell = bit / 32, last = (bit + width - 1) / 32;
    if (m.live >> (base + lane) & 1) std::memcpy(&data, static_cast<const uint8_t*>(m.host[base + lane]) + at / 8, size_t(at % 8 + width + 7) / 8);
    const Cell& c = flat[cell];
    const int b = bit % 32 / 8;
    const uint32_t t = c.tag >> 8 * b & 255;
    for (int d = cell; d <= last; ++d) refs_of(flat[d], refs + 32 * (d - cell));
    if (t == PACKED) {
      const Packed* tensor = packed(c.p[b]);
      const uint64_t place = uint64_t(c.q[b]) * 8 + uint64_t(bit % 8), n = place / uint64_t(width);
      if (tensor && tensor->format == f && place % uint64_t(width) == 0 && n < tensor->elements) run[e] = {tensor->payload[2 * n], tensor->payload[2 * n + 1]};
      else run[e] = {LOST, loss(m.index, "bits of one format are read as another's")};
    } else if (t == PLAIN || t == WHOLE) {
      run[e] = spelled(f, refs + bit % 32, uint32_t(data >> at % 8) & ((1u << width) - 1), m.index);
    } else {
      run[e] = {LOST, t == JUNK ? c.q[b] : loss(m.index, "bits of one format are read as another's")};
    }
  }
  const uint32_t place = keep(f, run, count), number = uint32_t(packed_.size()) - 3 + uint32_t(f) - uint32_t(Format::FP4);
  for (int b = 0; b < 4 * m.dst_count; ++b) set(out[b / 4], b % 4, PACKED, number, place + uint32_t(b));
  (void)w;
}

void Algebra::permute(Wave& w, MemoryOp& m) {
  Shadow &to = of(w).rows[size_t(m.dst - 256)], &data = m.taken->data[0];
  if (to.common == PLAIN && data.common == PLAIN) return;
  Cell out[LANES];
  for (int l = 0; l < LANES; ++l) {
    if (!(m.exec >> l & 1)) continue;
    const int other = int(m.address[l]);
    if (rules[m.index].motion == Motion::PERMUTE_TO) out[other] = data.cell(l);
    else if (m.exec >> other & 1) out[l] = data.cell(other);
  }
  to.spread();
  for (int l = 0; l < LANES; ++l)
    if (m.exec >> l & 1) to.put(l, out[l]);
  to.settle();
}

void Algebra::scalar_load(Wave& w, MemoryOp& m) {
  Registers& r = of(w);
  Cell x[16];
  if (m.live) {
    Place at;
    if (const TkRegion* region = engine_.find(m.address[0], 1)) at.region = region, at.offset = m.address[0] - region->base;
    read(at, m.in_range[0], m.index, x);
  }
  for (unsigned d = 0; d < m.dst_count; ++d) r.s[m.dst + d] = x[d], r.scalars |= x[d].tag != PLAIN;
}

// Sums in memory. Other operations on numbers lose them.
void Algebra::atomic(Wave& w, MemoryOp& m) {
  std::lock_guard<std::mutex> lock(sums());
  const Motion motion = rules[m.index].motion;
  const unsigned dwords = m.size / 4;
  const auto shown = [&](Cell c) {
    if (whole_in_use_ && c.tag && motion == Motion::ATOMIC) bare_cell(c);
    return c;
  };
  for (int l = 0; l < LANES; ++l) {
    if (!(m.exec >> l & 1)) continue;
    Cell old[2], now[2], x[2];
    uint32_t bits[2] = {0, 0}, data[2] = {0, 0};
    const bool live = m.live >> l & 1;
    if (live) {
      const Place at = place(w, m, l, 0);
      read(at, m.size, m.index, old);
      std::memcpy(bits, m.host[l], m.size);
      uint32_t any = 0;
      for (unsigned d = 0; d < dwords; ++d) x[d] = shown(m.taken->data[d].cell(l)), data[d] = m.data[d][l], any |= x[d].tag | old[d].tag;
      const bool tensor = at.region && at.region->payload;
      if (any || (tensor && motion != Motion::ATOMIC)) {
        add_cells(motion, m.index, old, bits, x, data, dwords, now);
        write(at, m.size, m.index, now, data);
      }
    }
    for (unsigned d = 0; d < m.dst_count; ++d) {
      Shadow& row = of(w).rows[size_t(m.dst - 256) + d];
      if (row.common == PLAIN && old[d].tag == PLAIN) continue;
      row.spread();
      row.put(l, old[d]);
    }
  }
  for (unsigned d = 0; d < m.dst_count; ++d) of(w).rows[size_t(m.dst - 256) + d].settle();
}

void Algebra::add_cells(Motion motion, uint32_t pc, const Cell* old, const uint32_t* bits, const Cell* x, const uint32_t* data, unsigned dwords, Cell* now) {
  const auto sum = [&](Number a, Number b) {
    if (a.lost() || b.lost()) {
      const uint32_t lost = a.lost() ? a.q : b.q;
      return Number{LOST, lost == NONE ? loss(pc, "bits of one format are read as another's") : lost};
    }
    if (a.special() || b.special()) return Number{LOST, loss(pc, "an infinity is added in memory")};
    return Number{add<P>(a.p, b.p), (a.q | b.q) & SPECIAL ? ABSENT : add<Q>(a.q, b.q)};
  };
  if (motion == Motion::ADD_F32 || motion == Motion::ADD_F16 || motion == Motion::ADD_BF16) {
    const Format f = motion == Motion::ADD_F32 ? Format::F32 : motion == Motion::ADD_F16 ? Format::F16 : Format::BF16;
    const unsigned bytes = f == Format::F32 ? 4 : 2;
    for (unsigned first = 0; first < 4; first += bytes) {
      Number a, b;
      a = number_in(old[0], first, first + bytes - 1, f, bits[0], pc);
      b = number_in(x[0], first, first + bytes - 1, f, data[0], pc);
      const Number n = sum(a, b);
      now[0].tag |= tag_of(f) << 8 * first;
      now[0].p[first + bytes - 1] = n.p, now[0].q[first + bytes - 1] = n.q;
    }
    return;
  }
  for (unsigned d = 0; d < dwords; ++d)
    for (int b = 0; b < 4; ++b) set(now[d], b, JUNK, 0, loss(pc, "an atomic operation that is no sum of numbers"));
}

}  // namespace ring
