// What each instruction does to payloads, by its name.
#include <string>

#include "algebra.h"

namespace ring {

namespace {

struct Function {
  const char* name;
  Act act;
  uint8_t sources;
  Third third;
};

// After "v_" and before the type, "v_pk_" among them.
constexpr Function FUNCTIONS[] = {
    {"add", Act::ADD, 2, Third::NONE}, {"sub", Act::SUB, 2, Third::NONE}, {"subrev", Act::SUBREV, 2, Third::NONE},
    {"mul", Act::MUL, 2, Third::NONE}, {"mul_legacy", Act::MUL, 2, Third::NONE},
    {"min", Act::MIN, 2, Third::NONE}, {"max", Act::MAX, 2, Third::NONE},
    {"min3", Act::MIN, 3, Third::SOURCE}, {"max3", Act::MAX, 3, Third::SOURCE}, {"med3", Act::MEDIAN, 3, Third::SOURCE},
    {"minimum3", Act::MIN, 3, Third::SOURCE}, {"maximum3", Act::MAX, 3, Third::SOURCE},
    {"fma", Act::MULTIPLY_ADD, 3, Third::SOURCE}, {"fma_legacy", Act::MULTIPLY_ADD, 3, Third::SOURCE},
    {"mad", Act::MULTIPLY_ADD, 3, Third::SOURCE}, {"mad_legacy", Act::MULTIPLY_ADD, 3, Third::SOURCE},
    {"div_fmas", Act::MULTIPLY_ADD, 3, Third::SOURCE},
    {"fmac", Act::MULTIPLY_ADD, 3, Third::DESTINATION}, {"mac", Act::MULTIPLY_ADD, 3, Third::DESTINATION},
    {"fmamk", Act::MULTIPLY_ADD, 3, Third::CONSTANT_MIDDLE}, {"fmaak", Act::MULTIPLY_ADD, 3, Third::CONSTANT_LAST},
    {"madmk", Act::MULTIPLY_ADD, 3, Third::CONSTANT_MIDDLE}, {"madak", Act::MULTIPLY_ADD, 3, Third::CONSTANT_LAST},
    {"rcp", Act::RECIPROCAL, 1, Third::NONE}, {"rcp_iflag", Act::RECIPROCAL, 1, Third::NONE},
    {"exp", Act::EXP2, 1, Third::NONE}, {"exp_legacy", Act::EXP2, 1, Third::NONE},
    {"log", Act::HASH, 1, Third::NONE}, {"log_legacy", Act::HASH, 1, Third::NONE}, {"rsq", Act::HASH, 1, Third::NONE},
    {"sqrt", Act::HASH, 1, Third::NONE}, {"sin", Act::HASH, 1, Third::NONE}, {"cos", Act::HASH, 1, Third::NONE},
    {"trunc", Act::ROUND, 1, Third::NONE}, {"ceil", Act::ROUND, 1, Third::NONE}, {"rndne", Act::ROUND, 1, Third::NONE},
    {"floor", Act::ROUND, 1, Third::NONE}, {"fract", Act::FRACTION, 1, Third::NONE},
    {"ldexp", Act::LDEXP, 1, Third::NONE}, {"frexp_mant", Act::MANTISSA, 1, Third::NONE},
    {"div_scale", Act::KEEP, 1, Third::NONE}, {"div_fixup", Act::KEEP, 1, Third::NONE}, {"div_fixup_legacy", Act::KEEP, 1, Third::NONE},
};

bool ends(const std::string& s, const char* with) {
  const size_t n = std::strlen(with);
  return s.size() >= n && !s.compare(s.size() - n, n, with);
}
bool has(const std::string& s, const char* part) { return s.find(part) != std::string::npos; }

void hashes(const std::string& name, Rule& r) {
  // One through a root is one through what the root is, so that 1 / sqrt(x) is rsqrt(x).
  const std::string tags = name == "rsq" ? "sqrt" : name == "log_legacy" || name == "log" ? "log2" : name;
  if (name == "rsq") r.part = 'r';
  r.key[0] = tag(tags.c_str()), r.key[1] = tag((tags + "q").c_str());
}

// A float instruction of the types that FUNCTIONS are of; false if it is none of them.
bool describe_function(const std::string& name, Rule& r) {
  struct Type { const char* suffix; Format format; };
  constexpr Type TYPES[] = {{"_f32", Format::F32}, {"_f16", Format::F16}, {"_f64", Format::F64}};
  const bool packed = !name.compare(0, 5, "v_pk_");
  const size_t begin = packed ? 5 : 2;
  for (const Type& type : TYPES) {
    if (!ends(name, type.suffix)) continue;
    const std::string stem = name.substr(begin, name.size() - begin - 4);
    for (const Function& f : FUNCTIONS) {
      if (stem != f.name) continue;
      r.act = f.act, r.sources = f.sources, r.third = f.third, r.to = r.from = type.format, r.packed = packed;
      if (f.act == Act::HASH) hashes(stem, r);
      if (f.act == Act::ROUND && type.format != Format::F32) r.act = Act::DECIDES;
      if (r.act == Act::ROUND) r.part = uint8_t(stem == "rndne" ? 'n' : stem[0]);
      // Those that leave the upper half as it was (LLVM's GCNSubtarget::zeroesHigh16BitsOfDest).
      r.keeps = type.format == Format::F16 && !packed && (stem == "fma" || stem == "mad" || stem == "div_fixup");
      return true;
    }
  }
  return false;
}

bool describe_matrix(const std::string& name, const Op& op, uint32_t target, Rule& r) {
  if (name.compare(0, 7, "v_mfma_")) return false;
  Shape& s = r.shape;
  int n = 0;
  char result[8], rest[32];
  if (std::sscanf(name.c_str(), "v_mfma_%3[a-z0-9]_%dx%dx%d_%31s", result, &s.m, &n, &s.k, rest) != 5) return false;
  std::string types = rest;
  int blocks;
  if (std::sscanf(rest, "%db_", &blocks) == 1 && has(types, "b_")) s.blocks = blocks, types = types.substr(types.find('_') + 1);
  const bool ocp = target == GFX950;
  const auto format = [&](const std::string& t) {
    if (t == "f16") return Format::F16;
    if (t == "bf16") return Format::BF16;
    if (t == "f64") return Format::F64;
    if (t == "fp8") return ocp ? Format::FP8 : Format::FP8_FNUZ;
    if (t == "bf8") return ocp ? Format::BF8 : Format::BF8_FNUZ;
    return Format::F32;
  };
  const size_t two = types.find('_');
  s.a = format(types.substr(0, two)), s.b = two == std::string::npos ? s.a : format(types.substr(two + 1));
  s.integer = result[0] == 'i', s.formats = types == "f8f6f4";
  r.act = Act::MATRIX, r.to = s.a == Format::F64 ? Format::F64 : Format::F32;
  (void)op;
  return true;
}

void describe_memory(const std::string& name, Rule& r) {
  r.act = Act::MEMORY;
  if (has(name, "_tr_b")) {
    r.motion = Motion::TRANSPOSE, r.part = uint8_t(std::atoi(name.c_str() + name.find("_tr_b") + 5));
  } else if (name == "ds_bpermute_b32" || name == "ds_swizzle_b32") {
    r.motion = Motion::PERMUTE;
  } else if (name == "ds_permute_b32") {
    r.motion = Motion::PERMUTE_TO;
  } else if (!name.compare(0, 6, "s_load") || !name.compare(0, 13, "s_buffer_load")) {
    r.motion = Motion::SCALAR;
  } else if (has(name, "atomic_") || (!name.compare(0, 3, "ds_") && !has(name, "read") && !has(name, "write"))) {
    r.motion = Motion::ATOMIC;
    if (has(name, "pk_add") && has(name, "bf16")) r.motion = Motion::ADD_BF16;
    else if (has(name, "pk_add")) r.motion = Motion::ADD_F16;
    else if (has(name, "add") && has(name, "f32")) r.motion = Motion::ADD_F32;
    if (name == "ds_append" || name == "ds_consume" || has(name, "wrxchg2")) r.motion = Motion::NONE;
  } else if (has(name, "store") || has(name, "write")) {
    r.motion = Motion::STORE;
  } else if (has(name, "load") || has(name, "read")) {
    r.motion = Motion::LOAD;
  }
  if (has(name, "memtime") || has(name, "memrealtime")) r.motion = Motion::NONE;
}

struct Named {
  const char* name;
  Act act;
  Format to = Format::F32, from = Format::F32;
  uint8_t part = 0;
};

constexpr Named NAMED[] = {
    {"v_mov_b32", Act::MOVE}, {"v_accvgpr_mov_b32", Act::MOVE}, {"v_accvgpr_read_b32", Act::MOVE}, {"v_accvgpr_write_b32", Act::MOVE},
    {"v_mov_b64", Act::MOVE}, {"v_pk_mov_b32", Act::MOVE_PAIR}, {"v_cndmask_b32", Act::SELECT}, {"v_swap_b32", Act::SWAP},
    {"v_permlane16_swap_b32", Act::SWAP16}, {"v_permlane32_swap_b32", Act::SWAP32}, {"v_readlane_b32", Act::READ_LANE},
    {"v_readfirstlane_b32", Act::READ_FIRST}, {"v_writelane_b32", Act::WRITE_LANE},
    {"v_cvt_f16_f32", Act::KEEP, Format::F16, Format::F32}, {"v_cvt_f32_f16", Act::KEEP, Format::F32, Format::F16},
    {"v_cvt_f32_bf16", Act::KEEP, Format::F32, Format::BF16}, {"v_cvt_f32_f64", Act::KEEP, Format::F32, Format::F64},
    {"v_cvt_f64_f32", Act::KEEP, Format::F64, Format::F32},
    {"v_cvt_pk_bf16_f32", Act::CONVERT_PAIR, Format::BF16}, {"v_cvt_pk_f16_f32", Act::CONVERT_PAIR, Format::F16},
    {"v_cvt_pkrtz_f16_f32", Act::CONVERT_PAIR, Format::F16},
    {"v_cvt_f32_i32", Act::FROM_INTEGER, Format::F32, Format::F32, 8}, {"v_cvt_f32_u32", Act::FROM_INTEGER, Format::F32, Format::F32, 8},
    {"v_cvt_f64_i32", Act::FROM_INTEGER, Format::F64, Format::F32, 8}, {"v_cvt_f64_u32", Act::FROM_INTEGER, Format::F64, Format::F32, 8},
    {"v_cvt_f16_i16", Act::FROM_INTEGER, Format::F16, Format::F32, 8}, {"v_cvt_f16_u16", Act::FROM_INTEGER, Format::F16, Format::F32, 8},
    {"v_cvt_f32_ubyte0", Act::FROM_INTEGER, Format::F32, Format::F32, 0}, {"v_cvt_f32_ubyte1", Act::FROM_INTEGER, Format::F32, Format::F32, 1},
    {"v_cvt_f32_ubyte2", Act::FROM_INTEGER, Format::F32, Format::F32, 2}, {"v_cvt_f32_ubyte3", Act::FROM_INTEGER, Format::F32, Format::F32, 3},
    {"v_fma_mix_f32", Act::MIX, Format::F32, Format::F32, 0}, {"v_fma_mixlo_f16", Act::MIX, Format::F16, Format::F32, 1},
    {"v_fma_mixhi_f16", Act::MIX, Format::F16, Format::F32, 2},
    {"v_dot2_f32_f16", Act::DOT2, Format::F32, Format::F16}, {"v_dot2_f32_bf16", Act::DOT2, Format::F32, Format::BF16},
    {"v_dot2c_f32_f16", Act::DOT2, Format::F32, Format::F16}, {"v_dot2c_f32_bf16", Act::DOT2, Format::F32, Format::BF16},
};

struct Integer {
  const char* name;
  Bits bits;
};

constexpr Integer INTEGERS[] = {
    {"v_and_b32", Bits::AND}, {"v_or_b32", Bits::OR}, {"v_xor_b32", Bits::XOR}, {"v_xnor_b32", Bits::XNOR}, {"v_not_b32", Bits::NOT},
    {"v_lshlrev_b32", Bits::REVERSED_LEFT}, {"v_lshrrev_b32", Bits::REVERSED_RIGHT}, {"v_ashrrev_i32", Bits::REVERSED_RIGHT_SIGNED},
    {"v_lshlrev_b16", Bits::REVERSED_LEFT}, {"v_lshrrev_b16", Bits::REVERSED_RIGHT}, {"v_lshlrev_b64", Bits::REVERSED_LEFT},
    {"v_lshrrev_b64", Bits::REVERSED_RIGHT}, {"v_ashrrev_i64", Bits::REVERSED_RIGHT_SIGNED},
    {"v_bfe_u32", Bits::EXTRACT}, {"v_bfe_i32", Bits::EXTRACT_SIGNED}, {"v_bfi_b32", Bits::INSERT}, {"v_alignbit_b32", Bits::ALIGN_BIT},
    {"v_alignbyte_b32", Bits::ALIGN_BYTE}, {"v_perm_b32", Bits::PERMUTE}, {"v_and_or_b32", Bits::AND_OR}, {"v_lshl_or_b32", Bits::SHIFT_OR},
    {"v_or3_b32", Bits::OR3}, {"v_bitop3_b32", Bits::TABLE}, {"v_bitop3_b16", Bits::TABLE}, {"v_pack_b32_f16", Bits::PACK_LL}, {"v_add_u32", Bits::ADD},
    {"v_add_co_u32", Bits::ADD}, {"v_add_i32", Bits::ADD}, {"v_sub_u32", Bits::SUB}, {"v_sub_i32", Bits::SUB}, {"v_subrev_u32", Bits::SUBREV},
    {"v_add3_u32", Bits::ADD3}, {"v_lshl_add_u32", Bits::SHIFT_ADD}, {"v_min_i32", Bits::MIN_SIGNED}, {"v_max_i32", Bits::MAX_SIGNED},
    {"v_add_u16", Bits::ADD}, {"v_sub_u16", Bits::SUB}, {"v_subrev_u16", Bits::SUBREV}, {"v_pk_add_u16", Bits::ADD},
    {"v_pk_add_i16", Bits::ADD}, {"v_pk_sub_u16", Bits::SUB}, {"v_pk_sub_i16", Bits::SUB}, {"v_pk_lshlrev_b16", Bits::REVERSED_LEFT},
    {"v_pk_lshrrev_b16", Bits::REVERSED_RIGHT}, {"v_min_u32", Bits::MIN_UNSIGNED}, {"v_max_u32", Bits::MAX_UNSIGNED}, {"v_min3_i32", Bits::MIN_SIGNED}, {"v_max3_i32", Bits::MAX_SIGNED},
    {"v_min3_u32", Bits::MIN_UNSIGNED}, {"v_max3_u32", Bits::MAX_UNSIGNED}, {"v_med3_i32", Bits::MEDIAN_SIGNED},
    {"s_mov_b32", Bits::MOVE}, {"s_and_b32", Bits::AND}, {"s_or_b32", Bits::OR}, {"s_xor_b32", Bits::XOR}, {"s_not_b32", Bits::NOT},
    {"s_andn2_b32", Bits::AND_NOT}, {"s_lshl_b32", Bits::SHIFT_LEFT}, {"s_lshr_b32", Bits::SHIFT_RIGHT}, {"s_ashr_i32", Bits::SHIFT_RIGHT_SIGNED},
    {"s_bfe_u32", Bits::EXTRACT_SCALAR}, {"s_pack_ll_b32_b16", Bits::PACK_LL}, {"s_pack_lh_b32_b16", Bits::PACK_LH},
    {"s_pack_hh_b32_b16", Bits::PACK_HH}, {"s_lshr_b64", Bits::SHIFT_RIGHT}, {"s_lshl_b64", Bits::SHIFT_LEFT},
};

void describe_integer(const std::string& name, const Info& info, Rule& r) {
  for (const Integer& i : INTEGERS)
    if (name == i.name) r.bits = i.bits;
  r.sources = uint8_t((info.src[0] != 0) + (info.src[1] != 0) + (info.src[2] != 0));
  r.width = ends(name, "64") ? 64 : ends(name, "16") && name.compare(0, 6, "s_pack") && name != "v_pack_b32_f16" ? 16 : 32;
  r.packed = !name.compare(0, 5, "v_pk_");
  r.part = info.dst;
}

// Conversions of a number to an integer of a register.
bool describe_to_integer(const std::string& name, Rule& r) {
  for (const char* to : {"v_cvt_i32_f", "v_cvt_u32_f", "v_cvt_u16_f", "v_cvt_i16_f", "v_cvt_rpi_i32_f", "v_cvt_flr_i32_f"}) {
    if (name.compare(0, std::strlen(to), to)) continue;
    r.act = Act::TO_INTEGER, r.from = ends(name, "64") ? Format::F64 : ends(name, "16") ? Format::F16 : Format::F32;
    r.part = has(name, "flr") ? 'f' : has(name, "rpi") ? 'h' : 't';
    r.keeps = has(name, "_i");
    return true;
  }
  return false;
}

// Instructions whose result, an integer or a mask, follows the real numbers.
bool decides(const std::string& name) {
  if (!name.compare(0, 5, "v_cmp") || has(name, "frexp_exp")) return true;
  for (const char* to : {"v_cvt_norm", "v_cvt_pknorm", "v_cvt_pk_u8_f32"})
    if (!name.compare(0, std::strlen(to), to)) return true;
  return false;
}

}  // namespace

Rule Algebra::describe(const Op& op, const Info& info, uint32_t target) {
  Rule r;
  r.name = info.name;
  const std::string name = info.name;
  if (info.flags & MEMORY) {
    describe_memory(name, r);
    return r;
  }
  if (op.encoding >= ENC_SOP1 && op.encoding <= ENC_SOPP) {
    r.act = op.encoding == ENC_SOPP || op.encoding == ENC_SOPC ? Act::NOTHING : Act::SCALAR;
    describe_integer(name, info, r);
    return r;
  }
  for (const Named& n : NAMED) {
    if (name != n.name) continue;
    r.act = n.act, r.to = n.to, r.from = n.from, r.part = n.part, r.sources = 1;
    r.packed = name == "v_mov_b64";
    if (!name.compare(0, 7, "v_dot2c")) r.third = Third::DESTINATION;
    if (n.act == Act::MIX || n.act == Act::DOT2) r.sources = 3;
    return r;
  }
  if (name == "v_pk_fmac_f16") {
    r.act = Act::MULTIPLY_ADD, r.to = r.from = Format::F16, r.third = Third::DESTINATION, r.sources = 3, r.packed = true;
    return r;
  }
  if (describe_function(name, r) || describe_matrix(name, op, target, r) || describe_to_integer(name, r)) return r;
  if (decides(name)) r.act = Act::DECIDES;
  else if (describe_small(name, target, r)) r.act = Act::SMALL;
  else if (!info.dst) r.act = Act::NOTHING;
  else describe_integer(name, info, r);
  return r;
}

}  // namespace ring
