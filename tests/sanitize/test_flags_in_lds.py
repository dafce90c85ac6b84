"""Waves that pass data by flags in LDS: right programs are clean, and each mistake in one is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tkgen.sanitize import Launch, Subject, from_source, parse, sanitize

# Blocks of four waves; each kernel writes `out`, 256 words, of which `in` are the data.
KERNELS = """
#include <hip/hip_runtime.h>
#define WORKGROUP __HIP_MEMORY_SCOPE_WORKGROUP
#define GIVE(flag, value) __hip_atomic_store(&(flag), value, __ATOMIC_RELEASE, WORKGROUP)
#define GIVE_RELAXED(flag, value) __hip_atomic_store(&(flag), value, __ATOMIC_RELAXED, WORKGROUP)
#define TAKE(flag) __hip_atomic_load(&(flag), __ATOMIC_ACQUIRE, WORKGROUP)
#define ADD(flag, order) __hip_atomic_fetch_add(&(flag), 1u, order, WORKGROUP)
#define CLOSE(flag, open) \\
  __hip_atomic_compare_exchange_strong(&(flag), &open, 1u, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED, WORKGROUP)
#define KERNEL(NAME, FLAGS)                                                                          \\
  __device__ void NAME##_body(const unsigned *in, unsigned *out, unsigned wave, unsigned lane,       \\
                              unsigned *box, unsigned (&flag)[FLAGS]);                               \\
  extern "C" __global__ __launch_bounds__(256) void NAME(const unsigned *in, unsigned *out) {        \\
    __shared__ unsigned box[256];                                                                    \\
    __shared__ unsigned flag[FLAGS];                                                                 \\
    if (threadIdx.x < FLAGS) flag[threadIdx.x] = 0;                                                  \\
    __syncthreads();                                                                                 \\
    NAME##_body(in, out, threadIdx.x / 64, threadIdx.x % 64, box, flag);                             \\
  }                                                                                                  \\
  __device__ __forceinline__ void NAME##_body(const unsigned *in, unsigned *out, unsigned wave,      \\
                                              unsigned lane, unsigned *box, unsigned (&flag)[FLAGS])

KERNEL(published, 1) {
  if (wave == 0) {
    box[lane] = in[lane];
    if (lane == 0) GIVE(flag[0], 1u);
  } else {
    while (TAKE(flag[0]) != 1u) {}
    out[64 * wave + lane] = box[63 - lane];
  }
}
KERNEL(fenced, 1) {
  volatile unsigned *ready = flag;
  if (wave == 0) {
    box[lane] = in[lane];
    __threadfence_block();
    if (lane == 0) *ready = 1;
  } else {
    while (*ready == 0) __builtin_amdgcn_s_sleep(1);
    __threadfence_block();
    out[64 * wave + lane] = box[63 - lane];
  }
}
KERNEL(counted, 1) {
  if (wave) {
    box[64 * wave + lane] = in[lane];
    if (lane == 0) ADD(flag[0], __ATOMIC_RELEASE);
  } else {
    while (TAKE(flag[0]) < 3u) {}
    out[lane] = box[64 + lane] + box[128 + lane] + box[192 + lane];
  }
}
KERNEL(last_of_all, 1) {
  box[64 * wave + lane] = in[lane];
  unsigned before = 0;
  if (lane == 0) before = ADD(flag[0], __ATOMIC_ACQ_REL);
  if (__builtin_amdgcn_readfirstlane(before) == 3)
    out[lane] = box[lane] + box[64 + lane] + box[128 + lane] + box[192 + lane];
}
KERNEL(locked, 1) {
  if (wave == 0) box[lane] = 0;
  __syncthreads();
  if (lane == 0) {
    unsigned open = 0;
    while (!CLOSE(flag[0], open)) open = 0;
    box[0] += in[wave];
    box[1] += 1;
    GIVE(flag[0], 0u);
  }
  __syncthreads();
  out[64 * wave + lane] = box[lane];
}
KERNEL(ring, 2) {
  if (wave > 1) return;
  for (unsigned i = 1; i < 7; ++i) {
    if (wave == 0) {
      while (TAKE(flag[1]) + 1 != i) {}
      box[lane] = in[lane] + i;
      if (lane == 0) GIVE(flag[0], i);
    } else {
      while (TAKE(flag[0]) != i) {}
      out[lane] = box[63 - lane];
      if (lane == 0) GIVE(flag[1], i);
    }
  }
}
KERNEL(handed_back, 1) {
  if (wave > 1) return;
  for (unsigned i = 0; i < 4; ++i) {
    if (wave == 0) {
      while (TAKE(flag[0]) != 0) {}
      box[lane] = in[lane] + i;
      if (lane == 0) GIVE(flag[0], 1u);
    } else {
      while (TAKE(flag[0]) != 1) {}
      out[lane] = box[63 - lane];
      if (lane == 0) GIVE(flag[0], 0u);
    }
  }
}
KERNEL(one_for_each_lane, 64) {
  if (wave == 0) {
    box[lane] = in[lane];
    GIVE(flag[lane], 1u);
  } else {
    while (TAKE(flag[63 - lane]) != 1u) {}
    out[64 * wave + lane] = box[63 - lane];
  }
}
KERNEL(a_byte, 1) {
  __shared__ unsigned char ready;
  if (threadIdx.x == 0) ready = 0;
  __syncthreads();
  if (wave == 0) {
    box[lane] = in[lane];
    if (lane == 0) GIVE(ready, (unsigned char)1);
  } else {
    while (TAKE(ready) == 0) {}
    out[64 * wave + lane] = box[63 - lane];
  }
}
KERNEL(of_global_memory, 1) {
  if (wave == 0) {
    out[lane] = in[lane];
    if (lane == 0) GIVE(flag[0], 1u);
  } else if (wave == 1) {
    while (TAKE(flag[0]) != 1u) {}
    out[64 + lane] = out[63 - lane];
  }
}

KERNEL(flag_first, 1) {
  if (wave == 0) {
    if (lane == 0) GIVE(flag[0], 1u);
    box[lane] = in[lane];
  } else {
    while (TAKE(flag[0]) != 1u) {}
    out[64 * wave + lane] = box[63 - lane];
  }
}
KERNEL(relaxed, 1) {
  if (wave == 0) {
    box[lane] = in[lane];
    if (lane == 0) GIVE_RELAXED(flag[0], 1u);
  } else {
    while (TAKE(flag[0]) != 1u) {}
    out[64 * wave + lane] = box[63 - lane];
  }
}
KERNEL(not_waited_for, 1) {
  if (wave == 0) box[lane] = in[lane];
  else out[64 * wave + lane] = box[63 - lane];
  if (wave == 0 && lane == 0) GIVE(flag[0], 1u);
  while (TAKE(flag[0]) != 1u) {}
}
KERNEL(asked_once, 1) {
  if (wave == 0) {
    box[lane] = in[lane];
    if (lane == 0) GIVE(flag[0], 1u);
  } else if (TAKE(flag[0]) == 1u) {
    out[64 * wave + lane] = box[63 - lane];
  }
}
KERNEL(another_flag, 2) {
  if (wave == 0) {
    box[lane] = in[lane];
    if (lane == 0) GIVE(flag[0], 1u);
  } else if (wave == 1) {
    if (lane == 0) GIVE(flag[1], 1u);
  } else {
    while (TAKE(flag[1]) != 1u) {}
    out[64 * wave + lane] = box[63 - lane];
  }
}
KERNEL(counted_two_of_three, 1) {
  if (wave) {
    box[64 * wave + lane] = in[lane];
    if (lane == 0) ADD(flag[0], __ATOMIC_RELEASE);
  } else {
    while (TAKE(flag[0]) < 2u) {}
    out[lane] = box[64 + lane] + box[128 + lane] + box[192 + lane];
  }
}
KERNEL(first_of_all, 1) {
  box[64 * wave + lane] = in[lane];
  unsigned before = 0;
  if (lane == 0) before = ADD(flag[0], __ATOMIC_ACQ_REL);
  if (__builtin_amdgcn_readfirstlane(before) == 0)
    out[lane] = box[lane] + box[64 + lane] + box[128 + lane] + box[192 + lane];
}
KERNEL(lock_given_back_early, 1) {
  if (wave == 0) box[lane] = 0;
  __syncthreads();
  if (lane == 0) {
    unsigned open = 0;
    while (!CLOSE(flag[0], open)) open = 0;
    GIVE(flag[0], 0u);
    box[0] += in[wave];
  }
  __syncthreads();
  out[64 * wave + lane] = box[lane];
}
KERNEL(ring_overrun, 1) {
  if (wave > 1) return;
  for (unsigned i = 1; i < 7; ++i) {
    if (wave == 0) {
      box[lane] = in[lane] + i;
      if (lane == 0) GIVE(flag[0], i);
    } else {
      while (TAKE(flag[0]) < i) {}
      out[lane] = box[63 - lane];
    }
  }
}
KERNEL(counter_reset_late, 1) {
  if (threadIdx.x == 0) flag[0] = 0;
  if (wave && lane == 0) ADD(flag[0], __ATOMIC_RELEASE);
  if (wave == 0) {
    while (TAKE(flag[0]) < 3u) {}
    out[lane] = in[lane];
  }
}
#if __gfx942__
// The wait for LDS that a release has says nothing of a load straight into LDS, which counts in vmcnt.
KERNEL(loaded_straight, 1) {
  if (wave == 0) {
    const unsigned *from = in + lane;
    const unsigned to = (unsigned)(unsigned long)(__attribute__((address_space(3))) unsigned *)box;
    asm volatile("s_mov_b32 m0, %1\\n s_nop 0\\n global_load_lds_dword %0, off" :: "v"(from), "s"(to) : "memory");
    asm volatile("WAIT" ::: "memory");
    if (lane == 0) GIVE(flag[0], 1u);
  } else {
    while (TAKE(flag[0]) != 1u) {}
    out[64 * wave + lane] = box[63 - lane];
  }
}
#endif
"""
CLEAN = (
    "published", "fenced", "counted", "last_of_all", "locked", "ring", "handed_back", "one_for_each_lane", "a_byte",
    "of_global_memory",
)  # fmt: skip
RACY = (
    "flag_first", "relaxed", "not_waited_for", "asked_once", "another_flag", "counted_two_of_three", "first_of_all",
    "lock_given_back_early", "ring_overrun", "counter_reset_late",
)  # fmt: skip
ARGUMENTS = ("in:u32[256]=arange:in", "out:u32[256]=0")


def compiled(folder: Path, target: str, wait: str = "s_waitcnt vmcnt(0)") -> Subject:
    path = folder / "kernel.hip"
    path.write_text(KERNELS.replace("WAIT", wait))
    return from_source(path, target)


def codes(subject: Subject, kernel: str) -> set[str]:
    launch = Launch((1, 1, 1), (256, 1, 1), parse(list(ARGUMENTS)), kernel=kernel)
    return {d.code for d in sanitize(subject, launch, schedules=5, budget=100_000).diagnostics}


@pytest.mark.parametrize(
    "target", ["gfx942", pytest.param("gfx90a", marks=pytest.mark.slow), pytest.param("gfx950", marks=pytest.mark.slow)]
)
def test_flags_in_lds_order_what_was_waited_for(tmp_path: Path, target: str) -> None:
    subject = compiled(tmp_path, target)
    found = {name: codes(subject, name) for name in CLEAN + RACY}
    assert {name: found[name] for name in CLEAN} == {name: set() for name in CLEAN}
    assert {name for name in RACY if "E701" not in found[name]} == set()


def test_a_flag_says_nothing_of_a_load_into_lds_that_is_on_its_way(tmp_path: Path) -> None:
    assert codes(compiled(tmp_path, "gfx942"), "loaded_straight") == set()
    assert "E701" in codes(compiled(tmp_path, "gfx942", "s_nop 0"), "loaded_straight")
