// Matrix instructions in the two fields; layouts are those of matrix.cpp.
#include "algebra.h"

namespace ring {

constexpr int MOST = 32, MOST_K = 128;

struct Side {  // A by [k][i] or B by [k][j]
  alignas(64) uint32_t p[MOST_K][MOST], q[MOST_K][MOST];
  uint32_t any[MOST], absent[MOST];    // top bits: a special p value among the k; an absent q value
  uint32_t lost[MOST];                 // the loss of one of them, or NONE
};

namespace {

// Puts special values aside, so that the products of a row are of numbers alone.
void tidy(Side& s, int size, int k_count) {
  for (int x = 0; x < size; ++x) s.any[x] = s.absent[x] = 0, s.lost[x] = NONE;
  for (int k = 0; k < k_count; ++k)
    for (int x = 0; x < size; ++x) s.any[x] |= s.p[k][x], s.absent[x] |= s.q[k][x];
  uint32_t any = 0;
  for (int x = 0; x < size; ++x) any |= s.any[x] | s.absent[x];
  if (!(any & SPECIAL)) return;
  for (int x = 0; x < size; ++x) {
    s.any[x] &= SPECIAL, s.absent[x] &= SPECIAL;
    for (int k = 0; k < k_count; ++k) {
      if (s.p[k][x] == LOST) s.lost[x] = s.q[k][x];
      if (s.p[k][x] & SPECIAL) s.p[k][x] = 0;
      if (s.q[k][x] & SPECIAL || s.any[x]) s.q[k][x] = 0;
    }
  }
}

// One row of products, added to `sum`. Four products and what is carried fit into 64 bits for p, fifteen for q.
template <uint32_t M>
void row(const uint32_t (*a)[MOST], const uint32_t (*b)[MOST], int i, int size, int k_count, uint32_t* sum) {
  constexpr int group = M == P ? 4 : 15, width = M == P ? 31 : 30;
  constexpr uint64_t rest = (uint64_t(1) << width) - M, mask = (uint64_t(1) << width) - 1;
  alignas(64) uint64_t acc[MOST];
  for (int j = 0; j < size; ++j) acc[j] = sum[j];
  for (int first = 0; first < k_count; first += group) {
    const int end = first + group < k_count ? first + group : k_count;
    for (int k = first; k < end; ++k) {
      const uint64_t x = a[k][i];
      for (int j = 0; j < size; ++j) acc[j] += x * b[k][j];
    }
    for (int j = 0; j < size; ++j) acc[j] = (acc[j] & mask) + (acc[j] >> width) * rest;
  }
  for (int j = 0; j < size; ++j) sum[j] = reduce<M>(acc[j]);
}

template <int SIZE>
void rows_of(const Side& a, const Side& b, int i, int k_count, bool q_too, uint32_t* p, uint32_t* q) {
  row<P>(a.p, b.p, i, SIZE, k_count, p);
  if (q_too) row<Q>(a.q, b.q, i, SIZE, k_count, q);
}

void row_place(int m, int block, int i, int& lane, int& r) {  // of j == 0; the lanes of a row stand side by side
  if (m == 32) lane = 32 * (i / 4 % 2), r = 16 * block + 4 * (i / 8) + i % 4;
  else if (m == 16) lane = 16 * (i / 4), r = 4 * block + i % 4;
  else lane = 4 * block, r = i;
}

const Number& scale_of(uint32_t code) {  // 2^(code - 127)
  static const std::vector<Number> table = [] {
    std::vector<Number> t;
    for (int c = 0; c < 256; ++c) t.push_back({two_to<P>(c - 127), two_to<Q>(c - 127)});
    return t;
  }();
  return table[code];
}

}  // namespace

// The numbers of one packed value of each lane, of formats of 4 or 6 bits.
void Algebra::packed_numbers(Wave& w, const Shadow* const* rows, const uint32_t* const* bits, Format f, int element, Numbers& out) {
  const int width = width_of(f), bit = width * element, at = bit / 8, row = at / 4, byte = at % 4;
  out.p = out.own_p, out.q = out.own_q;
  for (int l = 0; l < LANES; ++l) {
    const uint32_t t = rows[row]->of(l) >> 8 * byte & 255;
    Number n = {LOST, 0};
    if (t == PACKED) {
      const uint32_t region = rows[row]->p[byte][l];
      const uint64_t place = uint64_t(rows[row]->q[byte][l]) * 8 + uint64_t(bit % 8), e = place / uint64_t(width);
      const Packed* tensor = packed(region);
      if (tensor && place % uint64_t(width) == 0 && e < tensor->elements && tensor->format == f) {
        n = {tensor->payload[2 * e], tensor->payload[2 * e + 1]};
      } else {
        n.q = loss(w, "bits of one format are read as another's");
      }
    } else if (t == WHOLE || (bit % 8 && whole_within(rows[(bit + width - 1) / 32]->of(l)))) {
      Ref refs[64];
      uint64_t pair = 0;
      for (int d = 0; d <= (bit % 32 + width > 32); ++d) {
        refs_of(rows[row + d]->cell(l), refs + 32 * d);
        pair |= uint64_t(bits[row + d][l]) << 32 * d;
      }
      n = spelled(f, refs + bit % 32, uint32_t(pair >> bit % 32) & ((1u << width) - 1), w.pc);
    } else if (t == PLAIN) {
      uint64_t pair = bits[bit / 32][l];
      if (bit % 32 + width > 32) pair |= uint64_t(bits[bit / 32 + 1][l]) << 32;
      n = image_of(f, pair >> bit % 32 & ((1u << width) - 1));
    } else {
      n.q = t == JUNK ? rows[row]->q[byte][l] : loss(w, "bits of one format are read as another's");
    }
    out.own_p[l] = n.p, out.own_q[l] = n.q;
  }
}

void Algebra::elements(Wave& w, const Op& op, int i, Format f, int count, std::vector<Numbers>& out) {
  const int width = width_of(f), registers = (count * width + 31) / 32;
  static thread_local Shadow own;
  const uint16_t code = op.src[i];
  const Shadow* rows[64];
  const uint32_t* bits[64];
  Lanes constant;
  for (int r = 0; r < registers; ++r) {
    rows[r] = &shadow_of(w, code >= 256 ? uint16_t(code + r) : code, own);
    if (code >= 256) bits[r] = w.v[code - 256 + r];
    else fetch_code(w, op, code, Kind::F32, constant), bits[r] = constant.lo;
  }
  if (out.size() < size_t(count)) out.resize(size_t(count));
  for (int e = 0; e < count; ++e) {
    Numbers& n = out[size_t(e)];
    if (width < 8) packed_numbers(w, rows, bits, f, e, n);
    else if (width == 64) numbers(w, *rows[2 * e + 1], bits[2 * e], bits[2 * e + 1], f, 3, code < 256, n);
    else {
      const int per = 32 / width, r = e / per, last = width / 8 * (e % per + 1) - 1;
      numbers(w, *rows[r], bits[r], nullptr, f, last, code < 256, n);
    }
  }
}

// A lane's place in the operand: lane and element of (k, x).
void Algebra::gather(Wave& w, const Op& op, const Rule& rule, int i, int block, Side& s) {
  const Shape& shape = rule.shape;
  constexpr Format FORMATS[] = {Format::FP8, Format::BF8, Format::FP6, Format::BF6, Format::FP4};
  const Format f = shape.formats ? FORMATS[i ? op.blgp : op.cbsz] : i ? shape.b : shape.a;
  const int m = shape.m, per_lane = m * shape.k * shape.blocks / LANES, width = width_of(f);
  static thread_local std::vector<Numbers> e;
  elements(w, op, i, f, per_lane, e);
  if (i == 0 && !shape.formats && width != 64) {
    const int mask = (1 << op.cbsz) - 1;
    block = ((block & ~mask) | (op.abid & mask)) % shape.blocks;
  }
  static thread_local Shadow own;
  Lanes scale;
  const bool scaled = op.flags & F_SCALED;
  const Shadow* scales = nullptr;
  const int byte = (op.opsel >> i & 1) | (op.opsel >> (2 + i) & 1) << 1, groups = LANES / m;
  if (scaled) {
    const uint16_t code = op.control >> 9 * i & 511;
    fetch_code(w, op, code, Kind::B32, scale);
    scales = &shadow_of(w, code, own);
  }
  for (int k = 0; k < shape.k; ++k) {
    int group = k / per_lane, element = k % per_lane;
    if (shape.formats && width == 8) group = k / 16 % groups, element = k % 16 + 16 * (k / (16 * groups));
    const Numbers& n = e[size_t(element)];
    for (int x = 0; x < m; ++x) {
      int lane = x + m * (block + shape.blocks * group);
      if (i == 1 && !shape.formats && width != 64) lane = swizzled_lane(lane, op.blgp);
      s.p[k][x] = n.p[lane], s.q[k][x] = n.q[lane];
      if (!scaled || n.p[lane] & SPECIAL) continue;
      const int from = x + m * (k / 32);
      const uint32_t code = scale.lo[from] >> 8 * byte & 255;
      Cell of_scale = scales->cell(from);
      if (of_scale.tag) bare_cell(of_scale);
      if (code == 127 && of_scale.tag == PLAIN) continue;
      const Number& by = scale_of(code);
      s.p[k][x] = mul<P>(s.p[k][x], by.p);
      if (!(s.q[k][x] & SPECIAL)) s.q[k][x] = mul<Q>(s.q[k][x], by.q);
      if (code == 255 || (of_scale.tag >> 8 * byte & 255) != PLAIN) s.p[k][x] = LOST, s.q[k][x] = loss(w, "its scale is not plain");
    }
  }
  tidy(s, m, shape.k);
}

void Algebra::matrix(Wave& w, const Op& op, const Rule& rule) {
  const Shape& shape = rule.shape;
  specials_.clear();
  if (shape.integer) return matrix_of_integers(w, op, rule);
  static thread_local Side a, b;
  static thread_local std::vector<Numbers> c;
  const bool wide = rule.to == Format::F64;
  const int m = shape.m, count = m * m * shape.blocks / LANES;
  c.resize(size_t(count));
  elements(w, op, 2, rule.to, count, c);
  Registers& regs = of(w);
  Shadow* d = &regs.rows[op.dst - 256];
  // The sum may stand where the result goes; where they only overlap it is taken first.
  const int registers = count * (wide ? 2 : 1);
  if (op.src[2] >= 256 && op.src[2] != op.dst && std::abs(int(op.src[2]) - int(op.dst)) < registers)
    for (Numbers& n : c) {
      if (n.p == n.own_p) continue;
      std::memcpy(n.own_p, n.p, sizeof n.own_p), std::memcpy(n.own_q, n.q, sizeof n.own_q);
      n.p = n.own_p, n.q = n.own_q;
    }
  for (int block = 0; block < shape.blocks; ++block) {
    gather(w, op, rule, 0, block, a);
    gather(w, op, rule, 1, block, b);
    for (int i = 0; i < m; ++i) {
      int lane, r;
      if (wide) lane = m == 16 ? 16 * (i % 4) : 4 * block + 16 * i, r = m == 16 ? i / 4 : 0;
      else row_place(m, block, i, lane, r);
      alignas(64) uint32_t p[MOST], q[MOST];
      uint32_t odd = a.any[i], gone = a.absent[i];
      const uint32_t *cp = c[size_t(r)].p + lane, *cq = c[size_t(r)].q + lane;
      for (int j = 0; j < m; ++j) p[j] = cp[j], q[j] = cq[j] & SPECIAL ? 0 : cq[j], odd |= p[j] | b.any[j];
      uint32_t all_gone = SPECIAL;
      for (int j = 0; j < m; ++j) all_gone &= b.absent[j] | cq[j];
      const bool q_too = !((gone | all_gone) & SPECIAL);
      if (odd & SPECIAL)
        for (int j = 0; j < m; ++j) p[j] = p[j] & SPECIAL ? 0 : p[j];
      if (m == 32) rows_of<32>(a, b, i, shape.k, q_too, p, q);
      else if (m == 16) rows_of<16>(a, b, i, shape.k, q_too, p, q);
      else rows_of<4>(a, b, i, shape.k, q_too, p, q);
      for (int j = 0; j < m; ++j) q[j] = (gone | b.absent[j] | cq[j]) & SPECIAL ? ABSENT : q[j];
      if (odd & SPECIAL)
        for (int j = 0; j < m; ++j) {
          if (!((a.any[i] | b.any[j] | cp[j]) & SPECIAL)) continue;
          const uint32_t lost = cp[j] == LOST ? cq[j] : a.lost[i] != NONE ? a.lost[i] : b.lost[j];
          if (lost != NONE) p[j] = LOST, q[j] = lost;
          else specials_.push_back({uint16_t(wide ? 2 * r + 1 : r), uint8_t(lane + j)}), p[j] = q[j] = 0;
        }
      Shadow& to = d[wide ? 2 * r + 1 : r];
      std::memcpy(to.p[3] + lane, p, 4 * size_t(m)), std::memcpy(to.q[3] + lane, q, 4 * size_t(m));
    }
  }
  for (int r = 0; r < registers; ++r) d[r].common = !wide ? TAG_F32 : r & 1 ? TAG_F64 : TAG_F64_LOW;
}

void Algebra::matrix_of_integers(Wave& w, const Op& op, const Rule& rule) {
  const Shape& shape = rule.shape;
  const int count = shape.m * shape.m * shape.blocks / LANES, per_lane = (shape.m * shape.k * shape.blocks / LANES + 3) / 4;
  Registers& regs = of(w);
  bool plain = true;
  for (int i = 0; i < 3; ++i)
    for (int r = 0; r < (i < 2 ? per_lane : count); ++r)
      if (op.src[i] >= 256) plain &= bare(regs.rows[size_t(op.src[i] - 256 + r)]);
  for (int r = 0; r < count; ++r) {
    Shadow& to = regs.rows[size_t(op.dst - 256 + r)];
    to.common = plain ? uint32_t(PLAIN) : TAG_JUNK;
    for (int b = 0; b < 4 && !plain; ++b)
      for (int l = 0; l < LANES; ++l) to.q[b][l] = loss(w, "bits of a number are taken for integers");
  }
}

// Where an infinity took part, the payload is that of the real result.
void Algebra::finish_matrix(Wave& w, const Op& op, const Rule& rule) {
  for (const auto& [row, lane] : specials_) {
    const uint32_t* bits = w.v[op.dst - 256 + row];
    const Number n = rule.to == Format::F64 ? image_of(Format::F64, U64::get(bits[lane - LANES], bits[lane])) : image_of(Format::F32, bits[lane]);
    Shadow& s = of(w).rows[size_t(op.dst - 256 + row)];
    s.p[3][lane] = n.p, s.q[3][lane] = n.lost() ? loss(w, "it is not a number") : n.q;
  }
}

}  // namespace ring
