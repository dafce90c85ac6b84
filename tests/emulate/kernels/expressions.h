// One expression each, E(name, type, value of a and b), for the emulator and for the host: both must give the same bits.
// Nothing in here is undefined behaviour in C++ with -fwrapv.
typedef long long i64; typedef unsigned long long u64; typedef int i32; typedef unsigned u32; typedef short i16;
typedef unsigned short u16; typedef signed char i8; typedef unsigned char u8; typedef __int128 i128;
typedef _Float16 f16; typedef __bf16 bf16; typedef float f32; typedef double f64;
typedef f16 f16x2 __attribute__((ext_vector_type(2))); typedef i16 i16x2 __attribute__((ext_vector_type(2)));
typedef u16 u16x2 __attribute__((ext_vector_type(2))); typedef f32 f32x2 __attribute__((ext_vector_type(2)));
typedef f32 f32x3 __attribute__((ext_vector_type(3))); typedef i8 i8x4 __attribute__((ext_vector_type(4)));

#define INTEGER(T)                                                                                                     \
  E(sum_##T, T, T(a + b)) E(product_##T, T, T(a * b)) E(quotient_##T, T, T(a == T(-1) ? b : a / T(b == 0 || b == T(-1) ? 3 : b))) \
  E(remainder_##T, T, T(a % T(b == 0 || b == T(-1) ? 5 : b))) E(left_##T, T, T(a << (b & 7))) E(right_##T, T, T(a >> (b & 7))) \
  E(smaller_##T, T, a < b ? a : b) E(larger_##T, T, a > b ? a : b) E(magnitude_##T, T, T(a < 0 ? -a : a))                \
  E(bits_##T, T, T((a ^ b) | (a & ~b))) E(select_##T, T, (a > b) != (a == T(3)) ? a : T(b + 1))                         \
  E(counts_##T, T, T(__builtin_clzll(u64(a) | 1) + 3 * __builtin_ctzll(u64(b) | 256) + 5 * __builtin_popcountll(u64(a)))) \
  E(reversed_##T, T, __builtin_elementwise_bitreverse(a)) E(sum_saturated_##T, T, __builtin_elementwise_add_sat(a, b))  \
  E(difference_saturated_##T, T, __builtin_elementwise_sub_sat(a, b)) E(to_float_##T, T, T(i64(f32(a) * 0.25f) & 0x7fffff)) \
  E(to_double_##T, T, T(i64(f64(a) * 0.25) & 0x7fffffffffff)) E(by_constant_##T, T, T(a / 7 + b % 10))                  \
  E(looped_##T, T, ({ T r = 0; for (int i = 0; i < int(a & 15); ++i) r = T(r * 3 + b + i); r; }))

#define FLOATING(T)                                                                                                    \
  E(sum_##T, T, a + b) E(difference_##T, T, a - b) E(product_##T, T, a * b) E(quotient_##T, T, a / b)                   \
  E(chain_##T, T, (a * b + a) * (b - a)) E(smaller_##T, T, a < b ? a : b) E(unordered_##T, T, !(a <= b) ? a : b)        \
  E(rounded_##T, T, __builtin_elementwise_floor(a) + 2 * __builtin_elementwise_ceil(b))                                 \
  E(nearest_##T, T, __builtin_elementwise_rint(a) - __builtin_elementwise_trunc(b))                                     \
  E(signed_as_##T, T, __builtin_elementwise_copysign(a, b)) E(magnitude_##T, T, __builtin_elementwise_abs(a))           \
  E(to_int_##T, T, T(i32(f32(b) > 1e6f || f32(b) < -1e6f || b != b ? f32(7) : f32(b)))) E(minimum_##T, T, b != b || a != a ? b : __builtin_elementwise_min(a, b))

INTEGER(i32) INTEGER(u32) INTEGER(i64) INTEGER(u64) INTEGER(i16) INTEGER(u16) INTEGER(i8) INTEGER(u8)
FLOATING(f32) FLOATING(f64) FLOATING(f16)
E(sum_bf16, bf16, a + b) E(product_bf16, bf16, a * b) E(quotient_bf16, bf16, a / b) E(chain_bf16, bf16, a * b + a)
E(root_f32, f32, __builtin_elementwise_sqrt(__builtin_elementwise_abs(a))) E(root_f64, f64, __builtin_elementwise_sqrt(__builtin_elementwise_abs(a)))
E(fused_f32, f32, __builtin_elementwise_fma(a, b, a)) E(fused_f64, f64, __builtin_elementwise_fma(a, b, a)) E(fused_f16, f16, __builtin_elementwise_fma(a, b, a))
E(packed_f16, f16x2, a * b + a - b) E(packed_fused_f16, f16x2, __builtin_elementwise_fma(a, b, b)) E(packed_i16, i16x2, a * b + a)
E(packed_shift, u16x2, (a << (b & u16(7))) + (a >> (b & u16(15)))) E(packed_order, i16x2, __builtin_elementwise_max(a, b) - __builtin_elementwise_min(a, b))
E(packed_f32, f32x2, a * b + a) E(three, f32x3, a * b.zxy + a.yzx) E(four_bytes, i8x4, a * b + i8x4(a.wzyx))
E(to_half, f32, f32(f16(a)) + f32(f16(b))) E(to_bfloat, f32, f32(bf16(a)) - f32(bf16(b))) E(to_single, f64, f64(f32(a)) + f64(f32(b)))
E(half_to_double, f16, f16(f64(a) * 3 + f64(b))) E(long_to_float, i64, i64(f64(f32(a)) * 0x1p-8) + i64(f64(u64(b) >> 12)))
E(wide_product, i64, i64((i128(a) * b) >> 64)) E(wide_quotient, i64, i64((i128(a) << 20) / (b == 0 || b == -1 ? 3 : b)))
E(rotated, u64, a << (b & 63) | a >> (-b & 63)) E(bytes, u32, __builtin_bswap32(a) ^ (a >> 8 & 0xff) << 16 ^ (b & 0xff00) >> 8)
E(overflowed, i32, ({ i32 r; bool o = __builtin_mul_overflow(a, b, &r); r + o; }))

// Calls, the stack, indexed arrays.
FUNCTION u32 fibonacci(u32 n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
FUNCTION i32 add_one(i32 x) { return x + 1; }
FUNCTION i32 seven_times(i32 x) { return x * 7; }
FUNCTION i32 less_nine(i32 x) { return x - 9; }
struct Large { i32 part[24]; };
FUNCTION Large turned(Large x, int by) { Large r; for (int i = 0; i < 24; ++i) r.part[i] = x.part[(i * by + 5) % 24] + i; return r; }
struct Shape { METHOD virtual i64 area(i64 x) const { return x; } i64 side; };
struct Square : Shape { METHOD i64 area(i64 x) const override { return side * side + x; } };
struct Line : Shape { METHOD i64 area(i64 x) const override { return side ^ x; } };
E(recursion, u32, fibonacci(a & 7) + b)
E(pointer_to_function, i32, ({ i32 (*table[3])(i32) = {add_one, seven_times, less_nine}; table[u32(a) % 3](b); }))
E(by_value, i32, ({ Large x; for (int i = 0; i < 24; ++i) x.part[i] = a + i * b; Large y = turned(x, 1 + (b & 3)); y.part[a & 15] + y.part[23]; }))
E(virtual_call, i64, ({ Square s; s.side = a; Line l; l.side = b; const Shape *p = a & 1 ? (const Shape*)&s : &l; p->area(b); }))
E(indexed_i32, i32, ({ i32 v[19]; for (int i = 0; i < 19; ++i) v[i] = a * i + b; for (int i = 0; i < 9; ++i) v[(u32(a) + i * 3) % 19] += v[(u32(b) + i) % 19]; v[u32(a) % 19]; }))
E(indexed_i8, i8, ({ i8 v[40]; for (int i = 0; i < 40; ++i) v[i] = i8(a * i + b); i32 r = 0; for (int i = 0; i < 40; ++i) r += v[(i * u8(b)) % 40] * i; r; }))
E(indexed_i16, i16, ({ i16 v[9]; for (int i = 0; i < 9; ++i) v[i] = i16(a * i); v[u16(b) % 9] = b; i16(v[u16(a) % 9] + v[4]); }))
E(indexed_f64, f64, ({ f64 v[11]; for (int i = 0; i < 11; ++i) v[i] = a * i; v[u32(i32(__builtin_elementwise_abs(b) < 1e6 ? b : 3)) % 11] = b; f64 s = 0; for (int i = 0; i < 11; ++i) s += v[i]; s; }))
E(copied, u64, ({ u8 v[48]; for (int i = 0; i < 48; ++i) v[i] = u8(a >> (i & 31)); __builtin_memmove(v + 1, v, 40); __builtin_memset(v + (b & 15), 7, 9); u64 r; __builtin_memcpy(&r, v + (a & 31), 8); r; }))
E(many_ways, i32, ({ i32 r; switch (a & 15) { case 0: r = 1; break; case 1: r = b * 2; break; case 2: r = b / 3; break; case 3: r = -b; break; case 4: r = b % 7; break; case 5: r = b ^ a; break; case 9: r = 99; break; default: r = a; } r; }))
E(nested_loops, u32, ({ u32 r = a; for (u32 i = 0; i < (b & 7); ++i) { if (r & 1) continue; for (u32 j = i; j < 9; ++j) { r += i * j; if (r % 11 == 3) break; } if (r > 4000000000u) break; } r; }))
E(local_pool, u32, ({ u32* p = (u32*)__builtin_alloca(4 * ((b & 7) + 1)); for (u32 i = 0; i <= (b & 7); ++i) p[i] = a + i; p[a % ((b & 7) + 1)]; }))
E(volatile_stack, f32, ({ volatile f32 x = a; volatile f64 y = b; volatile u8 z = 200; f32(x * f32(y) + z); }))
E(exchanged, i32, ({ i32 x = a; i32 old = __atomic_fetch_add(&x, b, __ATOMIC_RELAXED); i32 want = a; __atomic_compare_exchange_n(&x, &want, 5, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); x ^ old ^ want; }))
E(atomics_wide, u64, ({ u64 x = a; __atomic_fetch_max(&x, b, __ATOMIC_RELAXED); __atomic_fetch_xor(&x, a, __ATOMIC_RELAXED); __atomic_fetch_nand(&x, b, __ATOMIC_RELAXED); __atomic_exchange_n(&x, x + 1, __ATOMIC_RELAXED) + x; }))
E(atomics_float, f32, ({ f32 x = a; __atomic_fetch_add(&x, b, __ATOMIC_RELAXED); x; }))
E(large_offsets, i32, ({ i32 v[1200]; v[1150] = a; v[u32(b) % 7] = 3; v[1100 + u32(b) % 7] = b; v[1100 + u32(a) % 7] = 1; v[1150] + v[1100 + u32(b) % 7]; }))
E(many_values, f32, ({ f32 v[200]; for (int i = 0; i < 200; ++i) v[i] = a * i + b; f32 s = 0; for (int k = 0; k < 3; ++k) for (int i = 0; i < 200; ++i) s += v[i] * v[199 - i] * (k + 1); s; }))
E(many_values_f64, f64, ({ f64 v[90]; for (int i = 0; i < 90; ++i) v[i] = a * i + b; f64 s = 0; for (int k = 0; k < 3; ++k) for (int i = 0; i < 90; ++i) s += v[i] * v[89 - i]; s; }))
E(long_shifts, i64, (a >> (b & 63)) + (i64)((u64)a >> (a & 63)) + (b << (a & 31)))
E(comparisons, i64, (a < b) + 2 * (u64(a) < u64(b)) + 4 * (a == b) + 8 * (i32(a) >= i32(b)) + 16 * (i16(a) > i16(b)) + 32 * (u8(a) <= u8(b)))
E(classes, f64, f64(__builtin_isnan(a) + 2 * __builtin_isinf(b) + 4 * __builtin_isnormal(a) + 8 * __builtin_signbit(b) + 16 * __builtin_isfinite(a)))
E(scaled, f64, __builtin_ldexp(a, i32(__builtin_elementwise_abs(b) < 300 ? b : 2)))
E(scaled_f32, f32, __builtin_ldexpf(a, i32(__builtin_elementwise_abs(b) < 200 ? b : 2)))
E(parts_f32, f32, ({ int e = 0; f32 m = __builtin_isfinite(a) ? __builtin_frexpf(a, &e) : b; m + e; }))
E(parts_f64, f64, ({ int e = 0; f64 m = __builtin_isfinite(a) ? __builtin_frexp(a, &e) : b; m + e; }))
E(float_to_long, f64, __builtin_elementwise_abs(a) < 1e18 ? f64(i64(a)) + f64(u64(__builtin_elementwise_abs(a))) : b)
E(float_to_long_f32, f32, __builtin_elementwise_abs(a) < 1e18f ? f32(i64(a)) + f32(u64(__builtin_elementwise_abs(b) < 1e18f ? __builtin_elementwise_abs(b) : 1.f)) : b)
E(saturating_shift, u32, __builtin_elementwise_min(a >> 3, 255u) | __builtin_elementwise_max(b & 0xffff, 77u) << 16)
E(dot_bytes, i32, ({ i32 r = b; for (int i = 0; i < 4; ++i) r += i8(a >> 8 * i) * i8(b >> 8 * i); r; }))
E(dot_halves, u32, (a & 0xffff) * (b & 0xffff) + (a >> 16) * (b >> 16) + (a & 0xffffff) * (b & 0xffffff))
E(fields, u32, (a >> 5 & 0x3ff) << 9 | (b & 0x1ff) | (i32(a << 7) >> 25 & 3) << 20)
E(three_way, i32, ({ i32 lo = a < b ? a : b, hi = a < b ? b : a; i32 m = (a ^ 77) < lo ? lo : (a ^ 77) > hi ? hi : (a ^ 77); m + lo; }))
E(ternary_logic, u32, ((a & b) | (~a & (b << 1))) ^ ((a | b) + (a ^ b)) ^ ((a << 3) + b) ^ ((a + b) << 2) ^ ((a << 4) | b) ^ (a + b + 77))
E(multiply_add, u64, a * b + (u64)(u32)a * (u32)b + (u64)((i64)(i32)a * (i32)b))
E(narrow_mix, u8, u8((u16(a) * 257u + b) >> 5) ^ u8(i8(a) >> 2))
E(half_vector, f16x2, f16x2{a.y, b.x} * f16x2{f16(2), f16(0.5)} + a.yx)
E(half_compare, f16x2, f16x2{a.x > b.y ? a.x : b.x, a.y < b.x ? a.y : b.y})
E(half_order, f16x2, __builtin_elementwise_max(__builtin_elementwise_min(a, f16x2(f16(3))), f16x2(f16(-3))))
E(half_int, f16, ({ f32 x = f32(a); x != x || x > 30000 || x < -30000 ? b : f16(i16(x)) + f16(u16(x < 0 ? -x : x)); }))
E(int_half, i16, ({ f16 x = f16(a) * f16(0.125); i16(x) + i16(f16(u16(b) >> 6)); }))
E(carry_chain, u64, ({ unsigned __int128 x = (unsigned __int128)a << 64 | b; x = x * 3 + a; x -= b; u64(x >> 64) ^ u64(x); }))
E(single_bits, u32, ({ f32 x = __builtin_bit_cast(f32, a & 0x7f7fffff); __builtin_bit_cast(u32, x + 1.0f) ^ (x < 2.0f ? b : 1); }))
E(double_bits, u64, ({ f64 x = __builtin_bit_cast(f64, a & 0x7fdfffffffffffffull); __builtin_bit_cast(u64, x * 0.5) ^ (b >> 60); }))
E(reciprocal, f32, 1.0f / a + b / 3.0f)
E(reciprocal_f64, f64, 1.0 / a - b / 3.0)
E(polynomial, f64, ((a * 0.1 + b) * a - 3.25) * b + 0.5)
E(polynomial_f32, f32, ((a * 0.1f + b) * a - 3.25f) * b + 0.5f)
E(clamped, f32, ({ f32 x = a * b; x < 0 ? 0.0f : x > 1 ? 1.0f : x; }))
E(negated, f32, -a * __builtin_elementwise_abs(b) - -b * 2.0f)
E(negated_f64, f64, -a * __builtin_elementwise_abs(b) - -b * 0.5)
E(byte_floats, u32, u32(f32(a & 255) + f32(a >> 8 & 255) * f32(b >> 16 & 255) + f32(b >> 24)))
E(unsigned_float, u32, u32(f64(a) * 0.75) ^ u32(f32(b >> 9)))
E(sad, u32, (a > b ? a - b : b - a) + a)
E(middle, f32, ({ f32 lo = a < b ? a : b, hi = a < b ? b : a; 1.0f < lo ? lo : 1.0f > hi ? hi : 1.0f; }))
#undef INTEGER
#undef FLOATING
