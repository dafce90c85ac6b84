"""Waves that wait for a flag in global memory: what it orders, of every scope, and what waiting costs."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tkgen.sanitize import Launch, Subject, Verdict, from_source, parse, sanitize

# Half of the block writes LDS and sets a flag; the other half waits for the flag, then reads.
PASSED = """
template <int SCOPE, int GIVE, int TAKE> __device__ void pass(unsigned *flag, unsigned *out) {
  __shared__ unsigned box[64];
  const unsigned t = threadIdx.x % 64;
  if (threadIdx.x < 64) {
    box[t] = 3 * t;
    if (t == 0) __hip_atomic_store(flag, 7u, GIVE, SCOPE);
  } else {
    while (__hip_atomic_load(flag, TAKE, SCOPE) != 7u) {}
    out[t] = box[t];
  }
}
#define KERNEL(NAME, SCOPE, GIVE, TAKE)                                                     \\
  extern "C" __global__ __launch_bounds__(128) void NAME(unsigned *flag, unsigned *out) { \\
    pass<__HIP_MEMORY_SCOPE_##SCOPE, __ATOMIC_##GIVE, __ATOMIC_##TAKE>(flag, out);         \\
  }
KERNEL(agent, AGENT, RELEASE, ACQUIRE)
KERNEL(system, SYSTEM, RELEASE, ACQUIRE)
KERNEL(workgroup, WORKGROUP, RELEASE, ACQUIRE)
KERNEL(wavefront, WAVEFRONT, RELEASE, ACQUIRE)
KERNEL(agent_without_release, AGENT, RELAXED, ACQUIRE)
KERNEL(agent_without_acquire, AGENT, RELEASE, RELAXED)
KERNEL(workgroup_without_release, WORKGROUP, RELAXED, ACQUIRE)
// The data in global memory, several times, and the flag handed back; the other block of a grid is not in that scope.
template <int SCOPE, bool GIVE, bool TAKE> __device__ void hand_over(unsigned *flag, unsigned *box, unsigned *out) {
  const unsigned t = threadIdx.x % 64;
  for (unsigned i = 0; i < 3; ++i) {
    const unsigned mine = threadIdx.x < 64 ? 0u : 1u;
    while (__hip_atomic_load(flag, TAKE ? __ATOMIC_ACQUIRE : __ATOMIC_RELAXED, SCOPE) != 2 * i + mine) {}
    if (mine) out[t] = box[63 - t];
    else box[t] = 3 * t + i;
    if (t == 0) __hip_atomic_store(flag, 2 * i + mine + 1, GIVE ? __ATOMIC_RELEASE : __ATOMIC_RELAXED, SCOPE);
  }
}
extern "C" __global__ __launch_bounds__(128) void handed_back(unsigned *flag, unsigned *box, unsigned *out) {
  hand_over<__HIP_MEMORY_SCOPE_WORKGROUP, true, true>(flag, box, out);
}
extern "C" __global__ __launch_bounds__(128) void early(unsigned *flag, unsigned *box, unsigned *out) {
  const unsigned t = threadIdx.x % 64;
  if (threadIdx.x < 64) {
    if (t == 0) __hip_atomic_store(flag, 1u, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_WORKGROUP);
    box[t] = 3 * t;
  } else {
    while (__hip_atomic_load(flag, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_WORKGROUP) != 1u) {}
    out[t] = box[63 - t];
  }
}
extern "C" __global__ __launch_bounds__(64) void to_another_block(unsigned *flag, unsigned *box, unsigned *out) {
  const unsigned t = threadIdx.x;
  if (blockIdx.x == 0) {
    box[t] = 3 * t;
    if (t == 0) __hip_atomic_store(flag, 1u, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_WORKGROUP);
  } else {
    while (__hip_atomic_load(flag, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_WORKGROUP) != 1u) {}
    out[t] = box[63 - t];
  }
}
"""
# The wave that waits looks with relaxed loads; then it has a fence, or acquires by another word.
ACQUIRED = """
template <bool FENCE> __device__ void pass(unsigned *flag, unsigned *out) {
  __shared__ unsigned box[64];
  const unsigned t = threadIdx.x % 64;
  if (threadIdx.x < 64) {
    box[t] = 3 * t;
    if (t == 0) __hip_atomic_fetch_or(flag, 7u, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
  } else {
    while (__hip_atomic_load(flag, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT) != 7u) {}
    if (FENCE) __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
    else if (__hip_atomic_fetch_or(flag + 1, 0u, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT) == 9) return;
    out[t] = box[t];
  }
}
extern "C" __global__ __launch_bounds__(128) void fenced(unsigned *flag, unsigned *out) { pass<true>(flag, out); }
extern "C" __global__ __launch_bounds__(128) void by_another(unsigned *flag, unsigned *out) { pass<false>(flag, out); }
"""
# The advice for such kernels, tried: fences on either side of relaxed accesses. `late` writes after it set the flag.
ADVISED = """
template <int SCOPE, bool WIDE, bool GIVE, bool TAKE, bool LATE> __device__ void pass(unsigned *flag, unsigned *out) {
  __shared__ unsigned box[64];
  const unsigned t = threadIdx.x % 64;
  if (threadIdx.x < 64) {
    if (!LATE) box[t] = 3 * t;
    if (GIVE) WIDE ? __threadfence() : __threadfence_block();
    if (t == 0) __hip_atomic_store(flag, 7u, __ATOMIC_RELAXED, SCOPE);
    if (LATE) box[t] = 3 * t;
  } else {
    while (__hip_atomic_load(flag, __ATOMIC_RELAXED, SCOPE) != 7u) {}
    if (TAKE) WIDE ? __threadfence() : __threadfence_block();
    out[t] = box[t];
  }
}
#define KERNEL(NAME, SCOPE, ...)                                                            \\
  extern "C" __global__ __launch_bounds__(128) void NAME(unsigned *flag, unsigned *out) { \\
    pass<__HIP_MEMORY_SCOPE_##SCOPE, __VA_ARGS__>(flag, out);                              \\
  }
KERNEL(wide, AGENT, true, true, true, false)
KERNEL(wide_without_release, AGENT, true, false, true, false)
KERNEL(wide_without_acquire, AGENT, true, true, false, false)
KERNEL(wide_without_both, AGENT, true, false, false, false)
KERNEL(narrow, WORKGROUP, false, true, true, false)
KERNEL(narrow_without_release, WORKGROUP, false, false, true, false)
KERNEL(late, AGENT, true, true, true, true)
"""
# The first column is what the fix must name, the second what it must not.
ADVICE = {
    "wide_without_release": (("release is missing", "SCOPE_AGENT", "__threadfence()"), ("acquire", "barrier")),
    "wide_without_acquire": (("acquire is missing", "SCOPE_AGENT", "__threadfence()"), ("a release", "barrier")),
    "wide_without_both": (("release is missing", "acquire is missing"), ("barrier",)),
    "narrow_without_release": (("release is missing", "SCOPE_WORKGROUP", "__threadfence_block()"), ("acquire",)),
    "late": (("barrier",), ("missing",)),
}
WAITS = """
extern "C" __global__ __launch_bounds__(128) void waits(unsigned *flag, unsigned *beat, unsigned *out) {
  if (threadIdx.x < 64) {
    unsigned n = 0;
    while (__hip_atomic_load(flag, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) != 7u)
      __hip_atomic_store(beat, ++n, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
    out[threadIdx.x] = n;
  } else if (threadIdx.x == 64) {
    __hip_atomic_store(flag, 7u, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT);
  }
}
extern "C" __global__ __launch_bounds__(128) void waits_in_lds(unsigned *flag, unsigned *beat, unsigned *out) {
  __shared__ volatile unsigned ready;
  if (threadIdx.x == 0) ready = flag[0];
  __syncthreads();
  if (threadIdx.x < 64) {
    while (ready != 7u) {}
    out[threadIdx.x] = beat[0];
  } else if (threadIdx.x == 64) {
    ready = 7u;
  }
}
extern "C" __global__ __launch_bounds__(128) void takes_turns(unsigned *flag, unsigned *beat, unsigned *out) {
  const unsigned wave = threadIdx.x / 64;
  if (threadIdx.x % 64) return;
  for (unsigned i = 0; i < 1000; ++i) {
    while (__hip_atomic_fetch_add(flag, 0u, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT) % 2 != wave) {}
    out[0] += beat[0] + 1;
    __hip_atomic_fetch_add(flag, 1u, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT);
  }
}
extern "C" __global__ __launch_bounds__(128) void never(unsigned *flag, unsigned *beat, unsigned *out) {
  while (__hip_atomic_load(flag, __ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_AGENT) != 7u) {}
  out[threadIdx.x] = beat[0];
}
"""


def compiled(folder: Path, text: str, target: str) -> Subject:
    path = folder / "kernel.hip"
    path.write_text("#include <hip/hip_runtime.h>\n" + text)
    return from_source(path, target)


def ran(subject: Subject, kernel: str, *arguments: str, schedules: int = 5, budget: int = 50_000_000) -> Verdict:
    launch = Launch((1, 1, 1), (128, 1, 1), parse(list(arguments)), kernel=kernel)
    return sanitize(subject, launch, schedules=schedules, budget=budget)


BEFORE = "wave 1 may read bytes of LDS before wave 0 has written them: no barrier between"


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_flags_of_every_scope_that_covers_the_waves_order_lds(tmp_path: Path, target: str) -> None:
    """On gfx90a an atomic store and a load of workgroup scope look like plain ones: loads that poll are flags."""
    subject = compiled(tmp_path, PASSED, target)
    clean = ["agent", "system", "workgroup"]
    broken = ["wavefront", "agent_without_release", "agent_without_acquire", "workgroup_without_release"]
    for name in clean + broken:
        found = ran(subject, name, "flag:u32[1]", "out:u32[64]=0:out").diagnostics
        assert {d.code for d in found} == (set() if name in clean else {"E701"}), name
        assert (BEFORE in {d.message for d in found}) == (name in broken), (
            name
        )  # not that wave 0 overwrites what is read


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_flags_of_workgroup_scope_order_global_memory_within_the_block_alone(tmp_path: Path, target: str) -> None:
    subject = compiled(tmp_path, PASSED, target)
    arguments = "flag:u32[1]=0", "box:u32[64]=0", "out:u32[64]=0:out"
    assert not ran(subject, "handed_back", *arguments).diagnostics
    assert {d.code for d in ran(subject, "early", *arguments).diagnostics} == {"E701"}
    launch = Launch((2, 1, 1), (64, 1, 1), parse(list(arguments)), kernel="to_another_block")
    found = sanitize(subject, launch, schedules=3).diagnostics
    assert found and {d.code for d in found} <= {"E701", "E702", "E703"}, found


def test_a_missing_release_or_acquire_is_named(tmp_path: Path) -> None:
    """With the scope of the flag; kernels that follow the advice are clean. Others are told of a barrier."""
    subject = compiled(tmp_path, ADVISED, "gfx942")
    for name in ("wide", "narrow"):
        assert not ran(subject, name, "flag:u32[1]", "out:u32[64]=0:out").diagnostics, name
    for name, (named, other) in ADVICE.items():
        (found,) = ran(subject, name, "flag:u32[1]", "out:u32[64]=0:out").diagnostics
        assert found.code == "E701" and found.fix is not None, name
        assert all(text in found.fix.text for text in named), (name, found.fix.text)
        assert not any(text in found.fix.text for text in other), (name, found.fix.text)


def test_a_flag_that_is_a_plain_access_is_advised_to_be_atomic(tmp_path: Path) -> None:
    found = ran(compiled(tmp_path, PASSED, "gfx942"), "wavefront", "flag:u32[1]", "out:u32[64]=0:out").diagnostics
    (flag,) = [d for d in found if "of flag" in d.message]
    assert flag.fix is not None and "__ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_WORKGROUP" in flag.fix.text


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_an_acquire_is_of_its_own_word_and_a_fence_of_all(tmp_path: Path, target: str) -> None:
    subject = compiled(tmp_path, ACQUIRED, target)
    for name, codes in (("fenced", set()), ("by_another", {"E701"})):
        found = ran(subject, name, "flag:u32[2]", "out:u32[64]=0:out").diagnostics
        assert {d.code for d in found} == codes, name


def test_a_wave_that_waits_lets_the_others_run(tmp_path: Path) -> None:
    """Neither takes it long, nor does a small budget accuse it; what really never ends is still found."""
    subject = compiled(tmp_path, WAITS, "gfx942")
    arguments = "flag:u32[1]", "beat:u32[1]", "out:u32[128]"
    verdict = ran(subject, "waits", *arguments, budget=2000)
    assert not verdict.diagnostics and verdict.instructions < 1000
    assert {d.code for d in ran(subject, "waits_in_lds", *arguments, budget=2000).diagnostics} <= {"E701"}
    (endless,) = ran(subject, "never", *arguments, budget=2000).diagnostics
    assert endless.code == "E710" and endless.fix is not None and "--budget" in endless.fix.text
    assert endless.primary is not None
    assert endless.primary.span.text.startswith("while")  # the loop, not where another wave begins


def test_waves_that_take_turns_two_thousand_times(tmp_path: Path) -> None:
    """Each turn is a release; what the waves know of each other stays as large as it is."""
    subject = compiled(tmp_path, WAITS, "gfx942")
    begin = time.process_time()
    assert not ran(subject, "takes_turns", "flag:u32[1]", "beat:u32[1]", "out:u32[1]", schedules=3).diagnostics
    assert time.process_time() - begin < 20  # 1 s here; a list of all releases at each took minutes
