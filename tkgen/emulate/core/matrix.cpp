// MFMA: D = A B + C on registers spread over the wave.
//
// Layouts (CDNA3 ISA document, "Matrix core"; AMD's matrix instruction calculator). With `per_lane` values of k in each lane:
//   A: lane = i + M (block + blocks (k / per_lane)), value k % per_lane; B the same with j and N.
//   D: lane % N = j; 32x32: i = 8 (r / 4) + 4 (lane / 32) + r % 4, 16x16: i = 4 (lane / 16) + r % 4, 4x4: i = r, with the
//   blocks in further registers (32, 16) or lanes (4). f64: i = lane / 16 + 4 r, and 4x4x4: i = lane / 16.
//
// Arithmetic. f32 and f64: one fused multiply-add per k, ascending. i8: exact, wrapping. f16, bf16, xf32 and fp8 are not
// documented by AMD; what stands here is the model that Xie et al. validated bit for bit on hardware (arXiv 2511.10909):
//   CDNA2: inputs, products and sums flush subnormals; products of four k (two for the bf16 forms without _1k) are summed
//     pairwise, then added to C, each step rounded to nearest even.
//   CDNA3: groups of 8 k (4 for xf32): products are cut toward zero 24 bits below the largest exponent of the group and
//     added exactly; that sum, cut 31 bits below the larger of its and C's exponent, and C, cut at 24 bits (both toward
//     minus infinity), are added and rounded once. fp8: groups of 16 k, even and odd k cut and summed apart first.
// CDNA4 has not been measured; it is taken to compute as CDNA3 does, and its f8f6f4 forms as CDNA3's fp8 ones.
//
// f8f6f4 (CDNA4; layouts after "Matrix Core Programming on AMD CDNA3 and CDNA4", AMD ROCm blogs): CBSZ and BLGP name the
// formats of A and B. A lane holds 32 values: in fp8 and bf8 two runs of 16 k, half of K apart, in the narrower formats 32
// consecutive k. The scaled form multiplies each 32 consecutive k of a row by a power of two, 2^(code - 127), that stands in
// the scale register of lane i + M (k / 32), in the byte that op_sel names.
#include <algorithm>
#include <array>

#include "lanes.h"

namespace {

enum class Type : uint8_t { F32, XF32, F16, BF16, I8, F64, FP8, BF8, FP6, BF6, FP4 };

struct Shape {
  int m, n, k, blocks;
  Type a, b;
  bool gather4 = false;  // (CDNA2) bf16 without _1k: sums of two products
};

int width_of(Type t) {  // bits per value
  switch (t) {
    case Type::F64: return 64;
    case Type::F32: case Type::XF32: return 32;
    case Type::F16: case Type::BF16: return 16;
    case Type::FP6: case Type::BF6: return 6;
    case Type::FP4: return 4;
    default: return 8;
  }
}

constexpr int MAX_MN = 32, MAX_K = 128;

// One operand as numbers: value[k][i], with i the row of A or the column of B.
struct Operand {
  double value[MAX_K][MAX_MN];
  int32_t exponent[MAX_K][MAX_MN];  // floor(log2), the format's smallest for subnormals; far below for zero
  float mantissa[MAX_K][MAX_MN];    // value / 2^exponent where that is exact: of finite values of up to 12 bits
  int32_t largest;                  // exponent of all; NOT_FINITE where a value is none
};

constexpr int ZERO_EXPONENT = -10000, PRODUCT_ZERO_EXPONENT = -126, NOT_FINITE = 100000;

// Every 8-bit or narrower value of a format, by its code.
template <float (*DECODE)(uint32_t)>
const float* codes() {
  static const auto* table = [] {
    auto* made = new std::array<float, 256>;
    for (uint32_t x = 0; x < 256; ++x) (*made)[x] = DECODE(x);
    return made;
  }();
  return table->data();
}

// The numbers that codes of a narrow format mean.
const float* table_of(const Wave& w, Type t) {
  const bool ocp = w.engine->launch.target == GFX950;
  switch (t) {
    case Type::FP8: return ocp ? codes<small_to_float<4, 3, false>>() : codes<small_to_float<4, 3, true>>();
    case Type::BF8: return ocp ? codes<small_to_float<5, 2, false>>() : codes<small_to_float<5, 2, true>>();
    case Type::FP6: return codes<tiny_to_float<2, 3>>();
    case Type::BF6: return codes<tiny_to_float<3, 2>>();
    default: return codes<tiny_to_float<2, 1>>();
  }
}

void decode(const Wave& w, Type t, const uint32_t* x, int count, float* out) {
  const auto each = [&](auto number) {
    for (int i = 0; i < count; ++i) out[i] = number(x[i]);
  };
  switch (t) {
    case Type::F32: return each([](uint32_t v) { return bits<float>(v); });
    case Type::XF32: return each([](uint32_t v) { return bits<float>(v & ~0x1fffu); });
    case Type::F16: return each([](uint32_t v) { return half_to_float(v & 0xffff); });
    case Type::BF16: return each([](uint32_t v) { return bfloat_to_float(v & 0xffff); });
    default: {
      const float* table = table_of(w, t);
      return each([&](uint32_t v) { return table[v & 255]; });
    }
  }
}

int smallest_exponent(const Wave& w, Type t) {
  const bool ocp = w.engine->launch.target == GFX950;
  switch (t) {
    case Type::F16: return -14;
    case Type::FP8: return ocp ? -6 : -7;
    case Type::BF8: return ocp ? -14 : -15;
    case Type::FP6: case Type::FP4: return 0;
    case Type::BF6: return -2;
    default: return -126;
  }
}

double power(int e) { return bits<double>(uint64_t(1023 + e) << 52); }

// Row k of an operand: the numbers f, or those times 2^shift where `shifts` are given.
void set_row(Operand& out, int k, const float* f, int count, int smallest, const int* shifts = nullptr) {
  int32_t largest = ZERO_EXPONENT, finite = 1;
  for (int x = 0; x < count; ++x) {
    const int32_t e = std::max(int32_t(bits<uint32_t>(f[x]) >> 23 & 255) - 127, smallest), shift = shifts ? shifts[x] : 0;
    const double wide = double(f[x]);
    out.value[k][x] = shifts ? wide * power(shift) : wide;
    out.mantissa[k][x] = float(wide * power(-e));
    out.exponent[k][x] = f[x] == 0 ? ZERO_EXPONENT : e + shift;
    largest = std::max(largest, out.exponent[k][x]);
    finite &= e < 128;
  }
  out.largest = std::max(out.largest, finite ? largest : NOT_FINITE);
}

// CBSZ makes groups of 2^CBSZ blocks share the block of A that ABID names; shapes with fewer blocks have no more to choose.
int block_of_a(const Op& op, const Shape& s, int block) {
  const int mask = (1 << op.cbsz) - 1;
  return ((block & ~mask) | (op.abid & mask)) % s.blocks;
}

uint32_t raw(const Lanes* rows, int width, int lane, int element) {
  const int per_row = 32 / width;
  return rows[element / per_row].lo[lane] >> width * (element % per_row);
}

void fetch_rows(Wave& w, const Op& op, int i, int count, Lanes* rows) {
  for (int r = 0; r < count; ++r) {
    if (op.src[i] >= 256) rows[r].lo = w.v[op.src[i] - 256 + r];
    else fetch_code(w, op, op.src[i], Kind::F32, rows[r]);
  }
}

void gather(Wave& w, const Op& op, const Shape& s, int i, int block, Operand& out) {
  const int size = i == 0 ? s.m : s.n;
  const Type type = i == 0 ? s.a : s.b;
  const int width = width_of(type), per_lane = s.m * s.k * s.blocks / LANES;
  const int smallest = smallest_exponent(w, type), per_row = 32 / width;
  Lanes rows[8];
  fetch_rows(w, op, i, (per_lane * width + 31) / 32, rows);
  if (i == 0) block = block_of_a(op, s, block);
  out.largest = ZERO_EXPONENT;
  for (int k = 0; k < s.k; ++k) {
    const int lane = size * (block + s.blocks * (k / per_lane)), element = k % per_lane;
    const uint32_t* row = rows[element / per_row].lo;
    uint32_t x[MAX_MN];
    float f[MAX_MN];
    if (i == 1 && op.blgp)
      for (int j = 0; j < size; ++j) x[j] = row[swizzled_lane(lane + j, op.blgp)] >> width * (element % per_row);
    else
      for (int j = 0; j < size; ++j) x[j] = row[lane + j] >> width * (element % per_row);
    decode(w, type, x, size, f);
    set_row(out, k, f, size, smallest);
  }
}

float flush(float x, bool keep_sign) {
  if (std::fabs(x) < 0x1p-126f) return keep_sign ? x * 0.f : 0.f;
  return x;
}

void row_cdna2(const Shape& s, const Operand& a, const Operand& b, int i, float* c, int smallest) {
  const int group = s.gather4 ? 2 : 4;
  const double least = power(smallest);
  for (int j = 0; j < s.n; ++j) c[j] = flush(c[j], false);
  for (int k = 0; k < s.k; k += group)
    for (int j = 0; j < s.n; ++j) {
      float p[4];
      for (int g = 0; g < group; ++g) {
        double x = a.value[k + g][i], y = b.value[k + g][j];
        if (std::fabs(x) < least) x = 0;
        if (std::fabs(y) < least) y = 0;
        p[g] = flush(float(x * y), true);
      }
      float sum = flush(p[0] + p[1], true);
      if (group == 4) sum = flush(sum + flush(p[2] + p[3], true), true);
      c[j] = flush(c[j] + sum, true);
    }
}

// Adds `c` to the sum of a group given in units of 2^(largest - 24).
inline float add_group(double sum, int largest, float c, bool drop_far) {
  const int ec = std::max(int(bits<uint32_t>(c) >> 23 & 255) - 127, -126);
  const int e = largest > ec ? largest : ec;
  const double cut_sum = std::floor(sum * power(largest - e + 7));  // units of 2^(e - 31)
  double cut_c = std::floor(double(c) * power(24 - e));             // units of 2^(e - 24)
  if (drop_far && ec < e - 25) cut_c = 0;
  return float((cut_sum * 0x1p-31 + cut_c * 0x1p-24) * power(e));
}

// The products of row i with every column, k = first, first + step, ..: `largest` of their exponents, and their sum in units
// of 2^(largest - 24), each cut toward zero to such a unit. Of OVERFLOWS ones those beyond f32 are infinite. `simple`: all operands are finite, and so are their products;
// each then has 22 bits at most, and the sum of up to 8 of them fits 32 bits.
template <int N, bool OVERFLOWS>
void cut_sums(const Operand& a, const Operand& b, int i, int first, int step, int end, bool simple, int32_t* largest, double* sum) {
  for (int j = 0; j < N; ++j) largest[j] = INT32_MIN;
  for (int k = first; k < end; k += step) {
    const int32_t ea = a.exponent[k][i];
    for (int j = 0; j < N; ++j) {
      int32_t e = ea + b.exponent[k][j];
      e = e < -1000 ? PRODUCT_ZERO_EXPONENT : e;
      largest[j] = e > largest[j] ? e : largest[j];
    }
  }
  if (simple) {
    int32_t units[N] = {};
    for (int k = first; k < end; k += step) {
      const int32_t ea = a.exponent[k][i];
      const float x = a.mantissa[k][i];
      for (int j = 0; j < N; ++j) {
        const int32_t below = std::max(ea + b.exponent[k][j] - largest[j], -100);  // nothing is left of what is so far below
        units[j] += int32_t(x * b.mantissa[k][j] * bits<float>(uint32_t(127 + 24 + below) << 23));
      }
    }
    for (int j = 0; j < N; ++j) sum[j] = units[j];
    return;
  }
  double scale[N];
  for (int j = 0; j < N; ++j) scale[j] = power(24 - largest[j]), sum[j] = 0;
  for (int k = first; k < end; k += step) {
    const double x = a.value[k][i];
    for (int j = 0; j < N; ++j) {
      double p = x * b.value[k][j];
      if (OVERFLOWS) p = std::fabs(p) >= 0x1p128 ? p * std::numeric_limits<double>::infinity() : p;
      sum[j] += std::trunc(p * scale[j]);
    }
  }
}

template <int N>
void row_cdna3(const Shape& s, const Operand& a, const Operand& b, int i, float* c) {
  const int most = s.a == Type::XF32 ? 4 : 8, group = s.k < most ? s.k : most;
  const bool simple = a.largest + b.largest < 127;
  for (int first = 0; first < s.k; first += group) {
    int32_t largest[N];
    double sum[N];
    cut_sums<N, true>(a, b, i, first, 1, first + group, simple, largest, sum);
    for (int j = 0; j < N; ++j) c[j] = add_group(sum[j], largest[j], c[j], false);
  }
}

template <int N>
void row_fp8(const Shape& s, const Operand& a, const Operand& b, int i, float* c) {
  const int group = s.k < 16 ? s.k : 16;
  const bool simple = a.largest < NOT_FINITE && b.largest < NOT_FINITE;
  for (int first = 0; first < s.k; first += group) {
    int32_t largest[2][N];
    double sum[2][N];
    for (int odd = 0; odd < 2; ++odd) cut_sums<N, false>(a, b, i, first + odd, 2, first + group, simple, largest[odd], sum[odd]);
    for (int j = 0; j < N; ++j) {
      const int top = largest[0][j] > largest[1][j] ? largest[0][j] : largest[1][j];
      const double both = std::floor(sum[0][j] * power(largest[0][j] - top)) + std::floor(sum[1][j] * power(largest[1][j] - top));
      c[j] = add_group(both, top, c[j], true);
    }
  }
}

void row_f32(const Shape& s, const Operand& a, const Operand& b, int i, float* c) {
  for (int k = 0; k < s.k; ++k) {
    const float x = float(a.value[k][i]);
    for (int j = 0; j < s.n; ++j) c[j] = std::fma(x, float(b.value[k][j]), c[j]);
  }
}

// Where D(i, j) of a block lies: lane and register, for 4-byte results.
void place(const Shape& s, int block, int i, int j, int& lane, int& r) {
  if (s.m == 32) lane = j + 32 * (i / 4 % 2), r = 16 * block + 4 * (i / 8) + i % 4;
  else if (s.m == 16) lane = j + 16 * (i / 4), r = 4 * block + i % 4;
  else lane = j + 4 * block, r = i;
}

int accumulators(const Shape& s) { return s.m * s.n * s.blocks / LANES; }

template <int N>
void multiply_as(Wave& w, const Op& op, const Shape& s) {
  Operand a, b;
  Lanes c_rows[32];
  const int count = accumulators(s);
  fetch_rows(w, op, 2, count, c_rows);
  alignas(64) uint32_t d[32][LANES];
  const Target target = Target(w.engine->launch.target);
  for (int block = 0; block < s.blocks; ++block) {
    gather(w, op, s, 0, block, a);
    gather(w, op, s, 1, block, b);
    for (int i = 0; i < s.m; ++i) {
      float c[N];
      int lane, r;
      place(s, block, i, 0, lane, r);  // a row of D is in lanes side by side
      std::memcpy(c, c_rows[r].lo + lane, sizeof c);
      if (s.a == Type::F32) row_f32(s, a, b, i, c);
      else if (s.a == Type::FP8 || s.a == Type::BF8) row_fp8<N>(s, a, b, i, c);
      else if (target == GFX90A) row_cdna2(s, a, b, i, c, smallest_exponent(w, s.a));
      else row_cdna3<N>(s, a, b, i, c);
      std::memcpy(d[r] + lane, c, sizeof c);
    }
  }
  for (int r = 0; r < count; ++r) std::memcpy(w.v[op.dst - 256 + r], d[r], sizeof d[r]);
}

void multiply(Wave& w, const Op& op, const Shape& s) {
  if (s.n == 32) multiply_as<32>(w, op, s);
  else if (s.n == 16) multiply_as<16>(w, op, s);
  else multiply_as<4>(w, op, s);
}

void multiply_i8(Wave& w, const Op& op, const Shape& s) {
  const int per_lane = s.m * s.k * s.blocks / LANES, count = accumulators(s);
  Lanes a[4], b[4], c_rows[32];
  fetch_rows(w, op, 0, per_lane / 4, a);
  fetch_rows(w, op, 1, per_lane / 4, b);
  for (int r = 0; r < count; ++r) {
    if (op.src[2] >= 256) c_rows[r].lo = w.v[op.src[2] - 256 + r];
    else fetch_code(w, op, op.src[2], Kind::B32, c_rows[r]);
  }
  alignas(64) uint32_t d[32][LANES];
  for (int block = 0; block < s.blocks; ++block) {
    const int block_a = block_of_a(op, s, block);
    for (int i = 0; i < s.m; ++i)
      for (int j = 0; j < s.n; ++j) {
        int lane, r;
        place(s, block, i, j, lane, r);
        uint32_t sum = c_rows[r].lo[lane];
        for (int k = 0; k < s.k; ++k) {
          const int group = s.blocks * (k / per_lane);
          const int la = i + s.m * (block_a + group), lb = swizzled_lane(j + s.n * (block + group), op.blgp);
          sum += uint32_t(int8_t(raw(a, 8, la, k % per_lane)) * int8_t(raw(b, 8, lb, k % per_lane)));
        }
        d[r][lane] = sum;
      }
  }
  for (int r = 0; r < count; ++r) std::memcpy(w.v[op.dst - 256 + r], d[r], sizeof d[r]);
}

void multiply_f64(Wave& w, const Op& op, const Shape& s) {
  const int count = accumulators(s);
  Lanes a, b, c[4];
  fetch_code(w, op, op.src[0], Kind::F64, a);
  fetch_code(w, op, op.src[1], Kind::F64, b);
  for (int r = 0; r < count; ++r) {
    if (op.src[2] >= 256) fetch_code(w, op, uint16_t(op.src[2] + 2 * r), Kind::F64, c[r]);
    else fetch_code(w, op, op.src[2], Kind::F64, c[r]);
  }
  // From CDNA3 on the BLGP bits negate A, B and C of the f64 forms.
  const bool negate = w.engine->launch.target != GFX90A;
  const double sign[3] = {negate && op.blgp & 1 ? -1. : 1., negate && op.blgp & 2 ? -1. : 1., negate && op.blgp & 4 ? -1. : 1.};
  alignas(64) uint32_t d[8][LANES];
  for (int block = 0; block < s.blocks; ++block)
    for (int i = 0; i < s.m; ++i)
      for (int j = 0; j < s.n; ++j) {
        const int lane = s.m == 16 ? j + 16 * (i % 4) : j + 4 * block + 16 * i, r = s.m == 16 ? i / 4 : 0;
        double sum = sign[2] * F64::get(c[r].lo[lane], c[r].hi[lane]);
        for (int k = 0; k < s.k; ++k) {
          const int la = i + s.m * (block + s.blocks * k), lb = j + s.n * (block + s.blocks * k);
          sum = std::fma(sign[0] * F64::get(a.lo[la], a.hi[la]), sign[1] * F64::get(b.lo[lb], b.hi[lb]), sum);
        }
        F64::put(sum, d[2 * r][lane], d[2 * r + 1][lane]);
      }
  for (int r = 0; r < 2 * count; ++r) std::memcpy(w.v[op.dst - 256 + r], d[r], sizeof d[r]);
}

// --- f8f6f4 -------------------------------------------------------------------------------------------------------

constexpr Type FORMATS[] = {Type::FP8, Type::BF8, Type::FP6, Type::BF6, Type::FP4};

uint32_t packed_value(const Lanes* rows, int width, int lane, int element) {
  const int bit = width * element;
  uint64_t pair = rows[bit / 32].lo[lane];
  if (bit % 32 + width > 32) pair |= uint64_t(rows[bit / 32 + 1].lo[lane]) << 32;
  return uint32_t(pair >> bit % 32) & ((1u << width) - 1);
}

void gather_scaled(Wave& w, const Op& op, const Shape& s, int i, Type type, Operand& out) {
  const int width = width_of(type), groups = LANES / s.m;
  const int smallest = smallest_exponent(w, type);
  Lanes rows[8], scale;
  fetch_rows(w, op, i, width, rows);
  const bool scaled = op.flags & F_SCALED;
  if (scaled) fetch_code(w, op, uint16_t(op.control >> 9 * i & 511), Kind::B32, scale);
  const int byte = (op.opsel >> i & 1) | (op.opsel >> (2 + i) & 1) << 1;
  out.largest = ZERO_EXPONENT;
  for (int k = 0; k < s.k; ++k) {
    const int group = width == 8 ? k / 16 % groups : k / 32, element = width == 8 ? k % 16 + 16 * (k / (16 * groups)) : k % 32;
    uint32_t code[MAX_MN];
    float f[MAX_MN];
    int shifts[MAX_MN];
    for (int x = 0; x < s.m; ++x) code[x] = packed_value(rows, width, x + s.m * group, element);
    decode(w, type, code, s.m, f);
    for (int x = 0; x < s.m && scaled; ++x) {
      const int by = int(scale.lo[x + s.m * (k / 32)] >> 8 * byte & 255);
      if (by == 255) f[x] = std::numeric_limits<float>::quiet_NaN();
      shifts[x] = by - 127;
    }
    set_row(out, k, f, s.m, smallest, scaled ? shifts : nullptr);
  }
}

template <int N>
void multiply_f8f6f4_as(Wave& w, const Op& op, const Shape& s) {
  Operand a, b;
  Lanes c_rows[16];
  const int count = accumulators(s);
  fetch_rows(w, op, 2, count, c_rows);
  gather_scaled(w, op, s, 0, FORMATS[op.cbsz], a);
  gather_scaled(w, op, s, 1, FORMATS[op.blgp], b);
  alignas(64) uint32_t d[16][LANES];
  for (int i = 0; i < N; ++i) {
    float c[N];
    int lane, r;
    place(s, 0, i, 0, lane, r);
    std::memcpy(c, c_rows[r].lo + lane, sizeof c);
    row_fp8<N>(s, a, b, i, c);
    std::memcpy(d[r] + lane, c, sizeof c);
  }
  for (int r = 0; r < count; ++r) std::memcpy(w.v[op.dst - 256 + r], d[r], sizeof d[r]);
}

void multiply_f8f6f4(Wave& w, const Op& op, const Shape& s) {
  if (op.cbsz > 4 || op.blgp > 4) return w.engine->fatal(UNSUPPORTED, w);
  if (s.n == 32) multiply_f8f6f4_as<32>(w, op, s);
  else multiply_f8f6f4_as<16>(w, op, s);
}

constexpr uint8_t rows_in(int m, int k, int blocks, int width) {
  const int n = m * k * blocks * width / (LANES * 32);
  return uint8_t(n ? n : 1);
}

#define MFMA(NAME, CALL, M_, K_, BLOCKS, A, B, WIDTH, ACC, PAIRS)                                                     \
  {#NAME, [](Wave& w, const Op& op) { static constexpr Shape s{M_, M_, K_, BLOCKS, Type::A, Type::B, PAIRS}; CALL(w, op, s); }, \
   M_* M_* BLOCKS / LANES * ACC, {rows_in(M_, K_, BLOCKS, WIDTH), rows_in(M_, K_, BLOCKS, WIDTH), M_* M_* BLOCKS / LANES * ACC}, MATRIX}
#define MF(NAME, M_, K_, BLOCKS, T, WIDTH) MFMA(NAME, multiply, M_, K_, BLOCKS, T, T, WIDTH, 1, false)
#define MI(NAME, M_, K_, BLOCKS) MFMA(NAME, multiply_i8, M_, K_, BLOCKS, I8, I8, 8, 1, false)
#define M8(NAME, M_, K_, A, B) MFMA(NAME, multiply, M_, K_, 1, A, B, 8, 1, false)

const Info TABLE[] = {
    MF(v_mfma_f32_32x32x1_2b_f32, 32, 1, 2, F32, 32), MF(v_mfma_f32_16x16x1_4b_f32, 16, 1, 4, F32, 32),
    MF(v_mfma_f32_4x4x1_16b_f32, 4, 1, 16, F32, 32), MF(v_mfma_f32_32x32x2_f32, 32, 2, 1, F32, 32),
    MF(v_mfma_f32_16x16x4_f32, 16, 4, 1, F32, 32),
    MF(v_mfma_f32_16x16x8_xf32, 16, 8, 1, XF32, 32), MF(v_mfma_f32_32x32x4_xf32, 32, 4, 1, XF32, 32),
    MF(v_mfma_f32_32x32x4_2b_f16, 32, 4, 2, F16, 16), MF(v_mfma_f32_16x16x4_4b_f16, 16, 4, 4, F16, 16),
    MF(v_mfma_f32_4x4x4_16b_f16, 4, 4, 16, F16, 16), MF(v_mfma_f32_32x32x8_f16, 32, 8, 1, F16, 16),
    MF(v_mfma_f32_16x16x16_f16, 16, 16, 1, F16, 16), MF(v_mfma_f32_16x16x32_f16, 16, 32, 1, F16, 16),
    MF(v_mfma_f32_32x32x16_f16, 32, 16, 1, F16, 16),
    MF(v_mfma_f32_32x32x4_2b_bf16, 32, 4, 2, BF16, 16), MF(v_mfma_f32_16x16x4_4b_bf16, 16, 4, 4, BF16, 16),
    MF(v_mfma_f32_4x4x4_16b_bf16, 4, 4, 16, BF16, 16), MF(v_mfma_f32_32x32x8_bf16, 32, 8, 1, BF16, 16),
    MF(v_mfma_f32_16x16x16_bf16, 16, 16, 1, BF16, 16), MF(v_mfma_f32_16x16x32_bf16, 16, 32, 1, BF16, 16),
    MF(v_mfma_f32_32x32x16_bf16, 32, 16, 1, BF16, 16),
    MFMA(v_mfma_f32_32x32x2_2b_bf16, multiply, 32, 2, 2, BF16, BF16, 16, 1, true),
    MFMA(v_mfma_f32_16x16x2_4b_bf16, multiply, 16, 2, 4, BF16, BF16, 16, 1, true),
    MFMA(v_mfma_f32_4x4x2_16b_bf16, multiply, 4, 2, 16, BF16, BF16, 16, 1, true),
    MFMA(v_mfma_f32_32x32x4_bf16, multiply, 32, 4, 1, BF16, BF16, 16, 1, true),
    MFMA(v_mfma_f32_16x16x8_bf16, multiply, 16, 8, 1, BF16, BF16, 16, 1, true),
    MI(v_mfma_i32_32x32x4_2b_i8, 32, 4, 2), MI(v_mfma_i32_16x16x4_4b_i8, 16, 4, 4), MI(v_mfma_i32_4x4x4_16b_i8, 4, 4, 16),
    MI(v_mfma_i32_32x32x8_i8, 32, 8, 1), MI(v_mfma_i32_16x16x16_i8, 16, 16, 1), MI(v_mfma_i32_32x32x16_i8, 32, 16, 1),
    MI(v_mfma_i32_16x16x32_i8, 16, 32, 1), MI(v_mfma_i32_32x32x32_i8, 32, 32, 1), MI(v_mfma_i32_16x16x64_i8, 16, 64, 1),
    MFMA(v_mfma_f64_16x16x4_f64, multiply_f64, 16, 4, 1, F64, F64, 64, 2, false),
    MFMA(v_mfma_f64_4x4x4_4b_f64, multiply_f64, 4, 4, 4, F64, F64, 64, 2, false),
    MFMA(v_mfma_f32_16x16x128_f8f6f4, multiply_f8f6f4, 16, 128, 1, FP8, FP8, 8, 1, false),
    MFMA(v_mfma_f32_32x32x64_f8f6f4, multiply_f8f6f4, 32, 64, 1, FP8, FP8, 8, 1, false),
    M8(v_mfma_f32_16x16x32_bf8_bf8, 16, 32, BF8, BF8), M8(v_mfma_f32_16x16x32_bf8_fp8, 16, 32, BF8, FP8),
    M8(v_mfma_f32_16x16x32_fp8_bf8, 16, 32, FP8, BF8), M8(v_mfma_f32_16x16x32_fp8_fp8, 16, 32, FP8, FP8),
    M8(v_mfma_f32_32x32x16_bf8_bf8, 32, 16, BF8, BF8), M8(v_mfma_f32_32x32x16_bf8_fp8, 32, 16, BF8, FP8),
    M8(v_mfma_f32_32x32x16_fp8_bf8, 32, 16, FP8, BF8), M8(v_mfma_f32_32x32x16_fp8_fp8, 32, 16, FP8, FP8),
};

}  // namespace

Table matrix_table() { return {TABLE, sizeof TABLE / sizeof *TABLE}; }
