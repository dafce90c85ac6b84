/// The types of CUDA's header of this name, for the host: their sizes count, not their numbers.
#pragma once

struct __nv_fp8_e4m3 {
    unsigned char __x = 0;
    __nv_fp8_e4m3() = default;
    explicit __nv_fp8_e4m3(float) {}
    explicit operator float() const { return 1; }
};
struct __nv_fp8_e5m2 : __nv_fp8_e4m3 {
    using __nv_fp8_e4m3::__nv_fp8_e4m3;
};
