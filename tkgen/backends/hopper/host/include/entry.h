/// The way into a kernel: what `run.py` calls.
#pragma once

#include "tkgen_host.h"

#define TKGEN_HOST_ENTRY(name)                                                                                         \
    namespace {                                                                                                        \
    void tkgen_host_kernel(const void *argument) { name::kernel(*static_cast<const name::globals *>(argument)); }      \
    }                                                                                                                  \
    extern "C" int tkgen_host_run(const ::tkgen_host::request *what, int (*told)(uint64_t)) {                          \
        return ::tkgen_host::run(*what, tkgen_host_kernel, told);                                                      \
    }                                                                                                                  \
    extern "C" int tkgen_host_cluster() { return name::tkgen_host_cluster; }                                           \
    extern "C" int tkgen_host_threads() { return name::tkgen_host_threads; }                                           \
    extern "C" uint64_t tkgen_host_argument_bytes() { return sizeof(name::globals); }
