// VOPC and its VOP3 form: one bit per lane into a scalar pair; v_cmpx also writes EXEC.
#include "lanes.h"

namespace {

template <class A, class F>
void compare(Wave& w, const Op& op, bool write_exec, F f) {
  Source<A> a(w, op, 0), b(w, op, 1);
  uint64_t mask = 0;
  for (int l = 0; l < LANES; ++l) mask |= uint64_t(f(a[l], b[l])) << l;
  mask &= w.exec();
  w.set64(op.dst, mask);
  if (write_exec) w.set64(EXEC, mask);
}

template <class U, int EXPONENT, int FRACTION>
bool is_class(U x, uint32_t wanted) {
  const bool negative = x >> (EXPONENT + FRACTION) & 1;
  const U exponent = x >> FRACTION & ((U(1) << EXPONENT) - 1), fraction = x & ((U(1) << FRACTION) - 1);
  int bit;
  if (exponent == (U(1) << EXPONENT) - 1) bit = fraction ? (fraction >> (FRACTION - 1) ? 1 : 0) : (negative ? 2 : 9);
  else if (exponent) bit = negative ? 3 : 8;
  else if (fraction) bit = negative ? 4 : 7;
  else bit = negative ? 5 : 6;
  return wanted >> bit & 1;
}

template <class A, class U, int EXPONENT, int FRACTION>
void classify(Wave& w, const Op& op, bool write_exec) {
  const uint32_t mode = w.mode;
  w.mode |= 0xf0;  // a subnormal is one, whatever the mode says of those
  Source<A> a(w, op, 0);
  w.mode = mode;
  Source<U32> b(w, op, 1);
  uint64_t mask = 0;
  for (int l = 0; l < LANES; ++l) {
    const U x = A::rows == 2 ? U(uint64_t(a.hi[l]) << 32 | a.lo[l]) : U(a.lo[l]);
    mask |= uint64_t(is_class<U, EXPONENT, FRACTION>(x, b[l])) << l;
  }
  mask &= w.exec();
  w.set64(op.dst, mask);
  if (write_exec) w.set64(EXEC, mask);
}

#define COMPARE(NAME, TYPE, ROWS, EXPR)                                                                          \
  {"v_cmp_" NAME, [](Wave& w, const Op& op) { compare<TYPE>(w, op, false, [](auto a, auto b) { (void)a; (void)b; return EXPR; }); }, 2, {ROWS, ROWS, 0}, 0}, \
  {"v_cmpx_" NAME, [](Wave& w, const Op& op) { compare<TYPE>(w, op, true, [](auto a, auto b) { (void)a; (void)b; return EXPR; }); }, 2, {ROWS, ROWS, 0}, 0}

#define INTEGERS(SUFFIX, TYPE, ROWS)                                                                     \
  COMPARE("f_" SUFFIX, TYPE, ROWS, false), COMPARE("lt_" SUFFIX, TYPE, ROWS, a < b),                     \
  COMPARE("eq_" SUFFIX, TYPE, ROWS, a == b), COMPARE("le_" SUFFIX, TYPE, ROWS, a <= b),                  \
  COMPARE("gt_" SUFFIX, TYPE, ROWS, a > b), COMPARE("ne_" SUFFIX, TYPE, ROWS, a != b),                   \
  COMPARE("ge_" SUFFIX, TYPE, ROWS, a >= b), COMPARE("t_" SUFFIX, TYPE, ROWS, true)

#define FLOATS(SUFFIX, TYPE, ROWS)                                                                       \
  COMPARE("f_" SUFFIX, TYPE, ROWS, false), COMPARE("lt_" SUFFIX, TYPE, ROWS, a < b),                     \
  COMPARE("eq_" SUFFIX, TYPE, ROWS, a == b), COMPARE("le_" SUFFIX, TYPE, ROWS, a <= b),                  \
  COMPARE("gt_" SUFFIX, TYPE, ROWS, a > b), COMPARE("lg_" SUFFIX, TYPE, ROWS, a < b || a > b),           \
  COMPARE("ge_" SUFFIX, TYPE, ROWS, a >= b), COMPARE("o_" SUFFIX, TYPE, ROWS, a == a && b == b),         \
  COMPARE("u_" SUFFIX, TYPE, ROWS, a != a || b != b), COMPARE("nge_" SUFFIX, TYPE, ROWS, !(a >= b)),     \
  COMPARE("nlg_" SUFFIX, TYPE, ROWS, !(a < b || a > b)), COMPARE("ngt_" SUFFIX, TYPE, ROWS, !(a > b)),   \
  COMPARE("nle_" SUFFIX, TYPE, ROWS, !(a <= b)), COMPARE("neq_" SUFFIX, TYPE, ROWS, !(a == b)),          \
  COMPARE("nlt_" SUFFIX, TYPE, ROWS, !(a < b)), COMPARE("tru_" SUFFIX, TYPE, ROWS, true)

#define CLASS(SUFFIX, TYPE, ROWS, U, EXPONENT, FRACTION)                                                                     \
  {"v_cmp_class_" SUFFIX, [](Wave& w, const Op& op) { classify<TYPE, U, EXPONENT, FRACTION>(w, op, false); }, 2, {ROWS, 1, 0}, 0}, \
  {"v_cmpx_class_" SUFFIX, [](Wave& w, const Op& op) { classify<TYPE, U, EXPONENT, FRACTION>(w, op, true); }, 2, {ROWS, 1, 0}, 0}

const Info TABLE[] = {
    INTEGERS("i16", I16, 1), INTEGERS("u16", U16, 1), INTEGERS("i32", I32, 1),
    INTEGERS("u32", U32, 1), INTEGERS("i64", I64, 2), INTEGERS("u64", U64, 2),
    FLOATS("f16", F16, 1), FLOATS("f32", F32, 1), FLOATS("f64", F64, 2),
    CLASS("f16", H16, 1, uint32_t, 5, 10), CLASS("f32", F32, 1, uint32_t, 8, 23), CLASS("f64", F64, 2, uint64_t, 11, 52),
};

}  // namespace

Table compare_table() { return {TABLE, sizeof TABLE / sizeof *TABLE}; }
