// What the programs share: calls that must succeed, and a verdict.
#pragma once
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>

#define HIP_CHECK(call)                                                                                     \
    do {                                                                                                    \
        const hipError_t status_ = (call);                                                                  \
        if (status_ != hipSuccess) {                                                                        \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, hipGetErrorString(status_)); \
            std::exit(2);                                                                                   \
        }                                                                                                   \
    } while (0)

inline int verdict(bool right) {
    std::puts(right ? "right" : "WRONG");
    return right ? 0 : 1;
}
