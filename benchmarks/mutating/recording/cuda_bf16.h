/// The types of CUDA's header of this name, for the host: their sizes count, not their numbers.
#pragma once

struct __nv_bfloat16 {
    unsigned short bits = 0;
    __nv_bfloat16() = default;
    explicit __nv_bfloat16(float) {}
    explicit operator float() const { return 1; }
};
struct __nv_bfloat162 {
    __nv_bfloat16 x, y;
};
inline __nv_bfloat16 __float2bfloat16_rn(float v) { return __nv_bfloat16(v); }
inline float __bfloat162float(__nv_bfloat16 v) { return float(v); }
