// Launches over an algebra: beside its bits every number carries what it is of the inputs, exactly, in two finite fields
// (algebra_field.h). Rounding and conversion leave it; sums, products and quotients are taken in the fields; what compares
// follows the real numbers. What is stored then equals what was meant however it was rounded, or is something else.
//
// Of each dword of a register, of LDS and of scratch a tag says what its bytes are, a byte of the tag each:
//   PLAIN     bits that speak for themselves; used as a number, they are that number
//   F32 + i   byte i of an f32; bytes 2 and 3 are also its bf16, and with whatever stands below an f32 that was rounded
//   F16 + i, F64 + i, F8   byte i of such a number, an 8-bit float of any encoding
//   PACKED    a byte of floats of 4 or 6 bits: its payload is a place, a number of `Packed` and its byte there
//   WHOLE     a byte of the bits of whole numbers that others were rounded to: which, and from which bit (`Whole`)
//   NEAR + i  byte i of an f32 that another number was rounded to: plain, but for conversions to integers (`Act::ROUND`)
//   JUNK      bits of a number that are none by themselves, with the loss that they become where they are taken for one
// The payload of a number stands in the slot of its last byte, that of JUNK, PACKED and WHOLE in the slot of each byte.
//
// Integer instructions move numbers as long as the bits of one stay together (algebra_bits.cpp). Bits that changed in any
// other way are JUNK; it is reported with the instruction when it reaches a tensor (`losses`).
#pragma once
#include <array>
#include <map>
#include <string>

#include "algebra_field.h"
#include "lanes.h"

namespace ring {

enum Tag : uint32_t { PLAIN = 0, F32 = 0x10, F16 = 0x20, F8 = 0x30, F64 = 0x40, PACKED = 0x50, NEAR = 0x60, WHOLE = 0x70, JUNK = 0xff };
constexpr uint32_t TAG_F32 = 0x13121110, TAG_BF16 = 0x1312, TAG_F16 = 0x2120, TAG_F64_LOW = 0x43424140, TAG_F64 = 0x47464544;
constexpr uint32_t TAG_JUNK = 0xffffffff, TAG_NEAR = 0x63626160, TAG_WHOLE = 0x70707070, MIXED = 0xfefefefe;

// Whether the byte of a tag has a payload in its slot.
constexpr bool bears(uint32_t t) { return t == F32 + 3 || t == F16 + 1 || t == F8 || t == F64 + 7 || t == PACKED || t == NEAR + 3 || t == WHOLE || t == JUNK; }
// Whether one of the bytes of a tag is WHOLE.
constexpr bool whole_within(uint32_t tag) {
  for (int b = 0; b < 4; ++b)
    if ((tag >> 8 * b & 255) == WHOLE) return true;
  return false;
}
inline unsigned slots_of(uint32_t tag) {
  switch (tag) {
    case PLAIN: return 0;
    case TAG_F32: return 8;
    case TAG_BF16 << 16 | TAG_BF16: case TAG_F16 << 16 | TAG_F16: return 10;
  }
  unsigned r = 0;
  for (int b = 0; b < 4; ++b) r |= unsigned(bears(tag >> 8 * b & 255)) << b;
  return r;
}

// How the bits of a number are read: an element of a tensor, an operand.
enum class Format : uint8_t { F32, BF16, F16, FP8, BF8, FP8_FNUZ, BF8_FNUZ, F64, FP4, FP6, BF6, I8, I32, E8M0 };
constexpr bool is_integer(Format f) { return f == Format::I8 || f == Format::I32; }
// Whether numbers in memory are what they are, and their payloads only say what was rounded to them.
constexpr bool is_plain(Format f) { return is_integer(f) || f == Format::E8M0; }
int width_of(Format f);
double value_of(Format f, uint64_t bits);
Number image_of(Format f, uint64_t bits);

struct Cell {  // of one dword
  uint32_t tag = PLAIN;
  uint32_t p[4], q[4];
};

struct alignas(64) Shadow {  // of one dword of 64 lanes
  uint32_t common = PLAIN;   // the tag of all lanes, or MIXED
  uint32_t tag[LANES];
  uint32_t p[4][LANES], q[4][LANES];

  uint32_t of(int l) const { return common == MIXED ? tag[l] : common; }
  void spread() {  // each lane with a tag of its own
    if (common == MIXED) return;
    for (int l = 0; l < LANES; ++l) tag[l] = common;
    common = MIXED;
  }
  void copy(const Shadow& from) {
    common = from.common;
    if (common == PLAIN) return;
    if (common == MIXED) std::memcpy(tag, from.tag, sizeof tag);
    const unsigned slots = common == MIXED ? 15 : slots_of(common);
    for (int b = 0; b < 4; ++b)
      if (slots >> b & 1) std::memcpy(p[b], from.p[b], sizeof p[b]), std::memcpy(q[b], from.q[b], sizeof q[b]);
  }
  Cell cell(int l) const {
    Cell c;
    c.tag = of(l);
    if (c.tag)
      for (int b = 0; b < 4; ++b) c.p[b] = p[b][l], c.q[b] = q[b][l];
    return c;
  }
  void put(int l, const Cell& c) {  // of a row that is spread
    tag[l] = c.tag;
    const unsigned slots = slots_of(c.tag);
    for (int b = 0; b < 4; ++b)
      if (slots >> b & 1) p[b][l] = c.p[b], q[b][l] = c.q[b];
  }
  void settle();  // the common tag again, where all lanes have it
};

void take(const Shadow& from, int first, int count, uint32_t junk, Shadow& out);

template <typename F>
void each_lane(uint64_t lanes, F f) {
  if (lanes == ~0ull)
    for (int l = 0; l < LANES; ++l) f(l);
  else
    for (; lanes; lanes &= lanes - 1) f(__builtin_ctzll(lanes));
}

struct Registers {  // of a wave
  std::vector<Shadow> rows{ROWS};
  Cell s[SCALARS + 16];
  bool scalars = false;  // whether a scalar register has held a number
  std::vector<Cell> scratch;
};

struct Packed {  // numbers of 4 or 6 bits in a row, from a tensor or made by an instruction
  Format format;
  const uint32_t* payload;
  uint64_t elements;
};

// A whole number that stands for another: what a conversion to integers made of it, or the bits of a float. What is less
// than one of its units, `rest`, is what rounding took. What is added to it, where its bits go and how far they are shifted
// says which number they spell in the end, whoever packs them (algebra_wholes.cpp).
struct Whole {
  Number rest = {0, 0};
  uint32_t value = 0, base = 0;  // `base`: what of the value is not the number's, such as exponents and what was added
  uint8_t cut = 0;       // so many of its lowest bits were rounded and must go
  uint32_t lost = NONE;  // the loss that it becomes where it is taken for something else; NONE: a plain integer
  // The same if something small that was added was there to round, which it was if as many bits are cut off later.
  uint8_t rounds = 0;
  Number rest_rounded = {0, 0};
  uint32_t base_rounded = 0;
};
struct Ref {  // a bit of a `Whole`, or a plain one
  uint32_t whole;
  uint8_t at;
};
struct Spot {  // the same in many lanes: `part` counts the whole numbers that a byte has bits of
  uint8_t part, at;
  bool operator<(Spot o) const { return part != o.part ? part < o.part : at < o.at; }
};
using Pattern = std::array<Spot, 8>;  // of the bits of a byte
constexpr uint8_t NO_PART = 255;
// COMPOSED with the number of a `Pattern`, in place of a first bit: the slot has the place of the pattern's whole numbers.
constexpr uint32_t NO_WHOLE = 0xffffffff, COMPOSED = 0x80000000;

enum class Likeness : uint8_t { FORMATS, PLAIN_BITS, ALL_BITS };  // of lanes, each beside the one before
struct Dwords {  // what an integer instruction reads, two of each source; null where there is nothing
  const Shadow* row[6] = {};
  const uint32_t* bits[6] = {};
};
struct Source32 {  // one of them, of lanes that are alike
  uint32_t tag = PLAIN, known = ~0u, value = 0;  // `known`: bits that are the same in all of them, or say nothing
  uint32_t q[4] = {};                            // of bytes of whole numbers, as in their slots
  const Spot* spots = nullptr;                   // the same of each bit

  bool operator==(const Source32& o) const { return tag == o.tag && known == o.known && value == o.value && !std::memcmp(q, o.q, sizeof q); }
};
struct Origin {  // of a bit: that of a whole number in a byte of a dword that is read, or plain
  int8_t dword = -1;
  uint8_t byte = 0;
  Spot spot = {NO_PART, 0};
};
struct Recipe {  // one dword that it writes
  uint32_t tag = PLAIN;
  uint8_t source[4] = {}, byte[4] = {};  // where the payload of each byte's slot is
  unsigned signs = 0;                    // slots whose number may be negated
  unsigned fresh = 0;                    // slots of JUNK that comes to be here
  bool certain = true;                   // no unknown bit was asked for
  unsigned composed = 0;                 // slots of JUNK that are bits of whole numbers, and plain ones: their origins
  Origin from[4][8];
};
struct Recipes {  // of an instruction that reads this
  Source32 of[6];
  Recipe made[2];
  int rows = 0;
};

struct Loss {
  uint32_t pc;
  const char* reason;
  uint64_t count = 0;  // of numbers stored
};

// 64 numbers of one operand, and whose they are.
struct Numbers {
  const uint32_t *p, *q;
  alignas(64) uint32_t own_p[LANES], own_q[LANES];
};

// One operand of a vector instruction: its bits after all modifiers, and what they are before signs are changed.
struct Operand {
  Lanes bits, raw;           // raw: with its signs, of operands whose absolute value is taken
  const Shadow *low, *high;  // high of 64-bit operands
  bool uniform, neg, abs;
  Shadow own, own_high;
};

// What an instruction does to payloads, worked out when the program is loaded.
enum class Act : uint8_t {
  NOTHING,   // writes no register, or what it writes is plain by then
  DECIDES,   // its result follows the real numbers: comparisons, exponents
  ROUND, TO_INTEGER,  // as DECIDES, and it is remembered which number was rounded
  MEMORY,
  SCALAR,
  INTEGER,
  MOVE, MOVE_PAIR, SELECT, SWAP, SWAP16, SWAP32, READ_LANE, READ_FIRST, WRITE_LANE,
  ADD, SUB, SUBREV, MUL, MULTIPLY_ADD, MIN, MAX, MEDIAN, RECIPROCAL, EXP2, HASH, FRACTION, KEEP, LDEXP, MANTISSA,
  CONVERT_PAIR, FROM_INTEGER, MIX, DOT2, SMALL,
  MATRIX,
};
enum class Third : uint8_t { NONE, SOURCE, DESTINATION, CONSTANT_LAST, CONSTANT_MIDDLE };
enum class Bits : uint8_t {  // integer instructions that may leave the bits of a number together
  OTHER, AND, OR, XOR, XNOR, NOT, AND_NOT, SHIFT_LEFT, SHIFT_RIGHT, SHIFT_RIGHT_SIGNED, REVERSED_LEFT, REVERSED_RIGHT, REVERSED_RIGHT_SIGNED,
  EXTRACT, EXTRACT_SIGNED, EXTRACT_SCALAR, INSERT, ALIGN_BIT, ALIGN_BYTE, PERMUTE, AND_OR, SHIFT_OR, OR3, TABLE, PACK_LL, PACK_LH, PACK_HH,
  MOVE, ADD, SUB, SUBREV, ADD3, SHIFT_ADD, MIN_SIGNED, MAX_SIGNED, MIN_UNSIGNED, MAX_UNSIGNED, MEDIAN_SIGNED,
};
enum class Motion : uint8_t { NONE, LOAD, STORE, TRANSPOSE, PERMUTE, PERMUTE_TO, SCALAR, ADD_F32, ADD_F64, ADD_F16, ADD_BF16, ATOMIC };

struct Shape {  // of a matrix instruction
  int m = 0, k = 0, blocks = 1;
  Format a = Format::F32, b = Format::F32;
  bool integer = false, formats = false;  // formats: CBSZ and BLGP say them
};
struct Rule {
  Act act = Act::INTEGER;
  Format to = Format::F32, from = Format::F32;
  Third third = Third::NONE;
  uint8_t sources = 2;
  bool packed = false;  // two numbers in two registers (f32) or one (f16); of moves, two registers
  bool keeps = false;   // the other half of the destination; of TO_INTEGER: negative numbers
  uint8_t part = 0;     // of MIX: 1 low half, 2 high half; of FROM_INTEGER: the byte, or 8; of TRANSPOSE: bits of an element; of
                        // roundings: n nearest, f floor, c ceiling, h half and above, t toward zero
  Motion motion = Motion::NONE;
  Bits bits = Bits::OTHER;
  uint8_t width = 32;   // of an integer instruction
  uint64_t key[2] = {0, 0};  // of HASH
  Shape shape;
  const char* name = nullptr;
};

struct Side;

struct Taken {  // of a memory instruction: what it stores, and what of it was loaded before it was waited for
  Shadow data[4];
  Cell reached_cells[LANES][4];
  uint64_t reached = 0;  // lanes
};

struct Parts {  // of an element
  uint32_t done = 0, bits = 0, lost = 0;
  Ref refs[8];
};

class Algebra {
 public:
  explicit Algebra(Engine& engine);
  static Rule describe(const Op& op, const Info& info, uint32_t target);
  static bool describe_small(const std::string& name, uint32_t target, Rule& r);

  void begin_block(size_t waves);
  void begin_wave(Wave& w);
  void before(Wave& w, const Op& op, const Use& use);
  void after(Wave& w, const Op& op, const Use& use);

  // Memory: at issue what is stored is taken; when it is performed, payloads move, before the data.
  void takes(Wave& w, MemoryOp& m, uint16_t code, int first, int rows);
  void performing(Wave& w, MemoryOp& m);
  void reaches_memory(Wave& w, MemoryOp& m, int lane);

  std::vector<Rule> rules;  // per dword index
  std::vector<Loss> losses{{NONE, "lost by an earlier kernel", 0}};

 private:
  struct Result {  // one number that the instruction under way makes, of each lane
    uint8_t row, last;  // register of the destination, last byte
    Format format;
    uint64_t special;   // lanes whose payload is that of the real result
    bool vanishes;      // zero where the real result is
  };
  Registers& of(const Wave& w) { return *registers_[w.id]; }
  const Registers& of(const Wave& w) const { return *registers_[w.id]; }
  uint32_t loss(uint32_t pc, const char* reason);
  uint32_t loss(const Wave& w, const char* reason) { return loss(w.pc, reason); }
  bool all_plain(const Wave& w, const Use& use);

  const Shadow& shadow_of(Wave& w, uint16_t code, Shadow& own);
  void operand(Wave& w, const Op& op, int i, Kind kind, Operand& out);
  void numbers(Wave& w, const Shadow& s, const uint32_t* lo, const uint32_t* hi, Format f, int last, bool uniform, Numbers& out);
  void numbers(Wave& w, const Operand& a, Format f, int last, Numbers& out);
  static void blend(Shadow& to, const Shadow& from, uint64_t lanes);
  void commit(Wave& w, uint16_t code, const Shadow& from, uint64_t lanes);
  void becomes_plain(Wave& w, const Use& use, uint64_t lanes);
  void insert(Wave& w, const Op& op);
  void negate(const Operand& a, Shadow& s);
  void finish(Wave& w, const Op& op);

  void moves(Wave& w, const Op& op, const Use& use, const Rule& rule);
  void swap(Wave& w, const Op& op, int width);

  // algebra_vector.cpp
  Result& make(Wave& w, const Op& op, Format f, int row, bool keeps, int half = -1);
  void floats(Wave& w, const Op& op, const Use& use, const Rule& rule);
  void compute(Wave& w, const Op& op, const Rule& rule, const Numbers* s, const double (*real)[LANES], Result& r);
  void choose(const Rule& rule, const Numbers* s, const double (*real)[LANES], uint32_t* p, uint32_t* q);
  void scale(Wave& w, const Op& op, const Rule& rule, const Numbers& a, const double* real, uint32_t* p, uint32_t* q);
  void pair(Wave& w, const Op& op, const Rule& rule);
  void pick(Wave& w, const Op& op, int i, Format f, bool high, bool half, Numbers& out, double* real);
  void mix(Wave& w, const Op& op, const Rule& rule);
  void dot2(Wave& w, const Op& op, const Rule& rule);
  void convert_pair(Wave& w, const Op& op, const Rule& rule);
  void from_integer(Wave& w, const Op& op, const Use& use, const Rule& rule);
  // algebra_small.cpp
  void small(Wave& w, const Op& op, const Rule& rule);
  void to_small(Wave& w, const Op& op, const Rule& rule);
  void from_small(Wave& w, const Op& op, const Rule& rule);
  void keep_pair(Shadow& s, int byte, const Numbers* n);
  uint32_t keep(Format f, const Number* n, int count);
  // algebra_bits.cpp
  void integers(Wave& w, const Op& op, const Use& use, const Rule& rule);
  void scalars(Wave& w, const Op& op, const Use& use, const Rule& rule);
  void junk(Wave& w, int rows);
  void settle_half(Wave& w, const Op& op, const Rule& rule);
  bool chosen(const Rule& rule, const Operand* s);
  bool rounded(Wave& w, const Op& op, const Rule& rule, const Operand* s, const Dwords& dwords);
  const Recipes& recipes(const Wave& w, const Op& op, const Rule& rule, const Source32* s, int rows);
  void apply(Wave& w, const Recipe& recipe, const Dwords& s, uint64_t lanes);
  void follow(Wave& w, const Op& op, const Rule& rule, const Operand* s, int rows);
  void follow_lanes(Wave& w, const Op& op, const Rule& rule, const Dwords& s, uint64_t lanes, int rows, bool cut, Likeness by = Likeness::FORMATS);
  bool follow_alike(Wave& w, const Op& op, const Rule& rule, const Dwords& s, uint64_t lanes, int rows, bool cut, Likeness by);
  void without_near(Operand& a) const;
  void halves(Wave& w, const Op& op, const Rule& rule);
  // algebra_wholes.cpp
  void rounds(Wave& w, const Op& op, const Rule& rule);
  void keep_near(const Operand* a, const double (*real)[LANES], int count, const Result& r);
  bool soft(uint32_t p, uint32_t q) const;
  void bare_cell(Cell& c) const;
  bool is_soft(const Cell& c) const;
  bool bare(const Shadow& s) const;
  bool all_bare(const Wave& w, const Use& use) const;
  void spots_of(uint32_t tag, const uint32_t* q, Spot* out) const;
  uint32_t whole_at(uint32_t p, uint32_t q, Spot spot) const { return q & COMPOSED ? composed_[p + spot.part] : p; }
  void refs_of(const Cell& c, Ref* out) const;
  void compose(const Dwords& s, const Origin* from, int byte, uint64_t lanes, Shadow& out);
  void as_wholes(Wave& w, Dwords& s, uint64_t lanes, Shadow* made);
  Whole& new_whole(Cell& out);
  bool bits_of_f32(Wave& w, Number n, uint32_t b, Whole& out);
  bool bits_of_half(Wave& w, const Cell& c, uint32_t b, Whole& out);
  bool unpacked(const Ref* refs, int width, Whole& out) const;
  bool word_of(Wave& w, const Cell& c, uint32_t b, Whole& out);
  static void may_round(const Whole& of, int32_t added, bool float_alone, Whole& sum);
  bool sum_of(Wave& w, const Rule& rule, const Operand* s, int lane, Cell& out);
  Number spelled(Format f, const Ref* refs, uint32_t b, uint32_t pc);
  Number spelled(Format f, const Cell& c, unsigned first, uint32_t b, uint32_t pc);
  // algebra_matrix.cpp
  void matrix(Wave& w, const Op& op, const Rule& rule);
  void matrix_of_integers(Wave& w, const Op& op, const Rule& rule);
  void gather(Wave& w, const Op& op, const Rule& rule, int i, int block, Side& s);
  void elements(Wave& w, const Op& op, int i, Format f, int count, std::vector<Numbers>& out);
  void packed_numbers(Wave& w, const Shadow* const* rows, const uint32_t* const* bits, Format f, int element, Numbers& out);
  void finish_matrix(Wave& w, const Op& op, const Rule& rule);

  // algebra_memory.cpp
  struct Place;
  const Packed* packed(uint32_t number) const { return number < packed_.size() ? &packed_[number] : nullptr; }
  Place place(Wave& w, const MemoryOp& m, int lane, int part);
  void read(const Place& at, unsigned size, uint32_t pc, Cell* out);
  void write(const Place& at, unsigned size, uint32_t pc, const Cell* from, const uint32_t* data);
  void write_packed(const Place& at, unsigned size, uint32_t pc, const Cell* from, const uint32_t* data);
  void write_part(const Place& at, uint64_t element, unsigned from, unsigned to, const Cell* cells, const Ref* refs, const uint32_t* data, unsigned bit, uint32_t pc);
  Number number_in(const Cell& c, unsigned first, unsigned last, Format f, uint32_t data, uint32_t pc);
  void add_cells(Motion motion, uint32_t pc, const Cell* old, const uint32_t* bits, const Cell* x, const uint32_t* data, unsigned dwords, Cell* now);
  void lane_cells(Wave& w, MemoryOp& m, int l, unsigned parts, Cell* x);
  void load(Wave& w, MemoryOp& m);
  void store(Wave& w, MemoryOp& m);
  void transpose(Wave& w, MemoryOp& m);
  void transposed(Wave& w, MemoryOp& m, const Cell* flat, int base, int l, Cell* out);
  void permute(Wave& w, MemoryOp& m);
  void to_lds(Wave& w, MemoryOp& m);
  void atomic(Wave& w, MemoryOp& m);
  void scalar_load(Wave& w, MemoryOp& m);

  Engine& engine_;
  std::vector<std::unique_ptr<Registers>> registers_;
  std::vector<Cell> lds_;
  std::map<std::pair<uint32_t, const char*>, uint32_t> known_;
  std::pair<std::pair<uint32_t, const char*>, uint32_t> latest_{{NONE, nullptr}, 0};  // of these the last one asked for
  std::vector<std::vector<Recipes>> recipes_;  // per dword index: some that were made last
  size_t replaced_ = 0;                        // how many of them

  // Of the instruction under way: what its destination's registers become.
  Shadow out_[2];
  Result results_[2];
  int rows_ = 0, made_ = 0;
  bool pending_ = false;    // whether its destination has numbers
  uint8_t clamped_ = 0;     // to 0 .. 1
  std::vector<std::pair<uint16_t, uint8_t>> specials_;  // registers and lanes of a matrix result that are what the real one is
  std::vector<Packed> packed_;  // by region, and those that instructions made
  std::vector<uint32_t> kept_[3];  // by format: FP4, FP6, BF6
  bool whole_in_use_ = false;   // a register or LDS has held bits of a `Whole`, or a number NEAR another
  uint8_t chosen_[LANES];       // of a largest, smallest or middle number: which source it is
  std::vector<Whole> wholes_;
  std::vector<uint32_t> composed_;  // whole numbers of bytes that have bits of several
  std::vector<Pattern> patterns_;   // how the bits of such bytes are of them
  std::map<Pattern, uint32_t> pattern_numbers_;
  std::map<std::pair<const TkRegion*, uint64_t>, Parts> parts_;  // elements of packed tensors that are stored in parts
  // Of each slot, lanes whose sign may change: where its bit is not that of `signed_`, the number is negated.
  std::array<uint64_t, 4> signs_{};
  uint8_t signed_[4][LANES];
};

}  // namespace ring
