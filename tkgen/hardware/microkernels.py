"""Small kernels that measure: bodies in assembly around one kind of instruction, with clocks before and after.

Arguments of all: the address of the results, an address of data, a number of iterations, a mask of bytes, the distance
of two accesses of a thread. Every wave leaves s_memtime before and after, then s_memrealtime before and after, at its
place in the results: 4 x u64 for wave `threads / 64 * block + wave of the block`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tkgen.hardware.assembly import kernel

NAME: Final = "measure"
WORDS: Final = 8
RESULT_BYTES: Final = 32

_PROLOGUE: Final = """\
  s_load_dwordx8 s[8:15], s[0:1], 0x0
  v_and_b32 v0, 0x3ff, v0
  s_waitcnt lgkmcnt(0)
  v_lshrrev_b32 v1, 6, v0
  s_nop 4
  v_readfirstlane_b32 s3, v1
  s_mul_i32 s4, s2, {waves}
  s_add_u32 s3, s3, s4
  s_lshl_b32 s3, s3, 5
  s_add_u32 s8, s8, s3
  s_addc_u32 s9, s9, 0
  v_and_b32 v1, 63, v0
  v_lshlrev_b32 v2, 4, v0
{before}
  s_waitcnt vmcnt(0) lgkmcnt(0)
  s_barrier
  s_memtime s[20:21]
  s_memrealtime s[24:25]
  s_waitcnt lgkmcnt(0)
{loop}
  s_waitcnt vmcnt(0) lgkmcnt(0)
  s_nop 15
  s_nop 15
  s_memtime s[22:23]
  s_memrealtime s[26:27]
  s_waitcnt lgkmcnt(0)
"""
_EPILOGUE: Final = """\
  v_mov_b32 v40, 0
  v_mov_b32 v41, s20
  v_mov_b32 v42, s21
  v_mov_b32 v43, s22
  v_mov_b32 v44, s23
  v_mov_b32 v45, s24
  v_mov_b32 v46, s25
  v_mov_b32 v47, s26
  v_mov_b32 v48, s27
  v_cmp_eq_u32 vcc, 0, v1
  s_and_b64 exec, exec, vcc
  global_store_dword v40, v41, s[8:9]
  global_store_dword v40, v42, s[8:9] offset:4
  global_store_dword v40, v43, s[8:9] offset:8
  global_store_dword v40, v44, s[8:9] offset:12
  global_store_dword v40, v45, s[8:9] offset:16
  global_store_dword v40, v46, s[8:9] offset:20
  global_store_dword v40, v47, s[8:9] offset:24
  global_store_dword v40, v48, s[8:9] offset:28
  s_waitcnt vmcnt(0)
"""


@dataclass(frozen=True)
class Micro:
    """A measuring kernel: `count` instructions of interest in each iteration of its loop."""

    text: str
    count: int
    threads: int


def looped(
    target: str, instructions: Sequence[str], count: int, *, before: Sequence[str] = (), each: Sequence[str] = (),
    threads: int = 64, lds: int = 0,
) -> Micro:  # fmt: skip
    """A kernel that repeats `instructions`, of which `count` are of interest, as often as it is told.

    `each` are instructions at the end of each iteration.
    """
    loop = ["1:", *instructions, *each, "s_sub_u32 s12, s12, 1", "s_cmp_lg_u32 s12, 0", "s_cbranch_scc1 1b"]
    body = _PROLOGUE.format(waves=threads // 64, before=_indented(before), loop=_indented(loop)) + _EPILOGUE
    return Micro(kernel(target, NAME, body, lds=lds, words=WORDS, threads=threads), count, threads)


def _indented(lines: Sequence[str]) -> str:
    return "\n".join(f"  {line}" for line in lines)


def chained(target: str, instruction: str, count: int = 64, before: Sequence[str] = ()) -> Micro:
    """One wave, one instruction again and again; its text decides whether the next one needs its result."""
    return looped(target, [instruction] * count, count, before=before)


def rotating(target: str, text: Callable[[int], str], count: int = 64, before: Sequence[str] = ()) -> Micro:
    """One wave, instructions that differ by a number, which counts up."""
    return looped(target, [text(n) for n in range(count)], count, before=before)


def branches(target: str) -> Micro:
    """One wave, branches to the instruction after the next."""
    lines = [line for n in range(2, 34) for line in (f"s_branch {n}f", "s_nop 0", f"{n}:")]
    return looped(target, lines, 32)


def lds(target: str, threads: int, write: bool) -> Micro:
    """Waves that read or write 16 bytes a lane of LDS, neighbouring lanes at neighbouring places."""
    access = (
        [f"ds_write_b128 v2, v[{4 + 4 * (n % 4)}:{7 + 4 * (n % 4)}]" for n in range(16)]
        if write
        else [f"ds_read_b128 v[{4 + 4 * (n % 4)}:{7 + 4 * (n % 4)}], v2" for n in range(16)]
    )
    before = [f"v_mov_b32 v{n}, 0" for n in range(4, 20)]
    return looped(target, access, 16, before=before, each=["s_waitcnt lgkmcnt(0)"], threads=threads, lds=16 * threads)


def lds_chain(target: str) -> Micro:
    """One wave that reads LDS at the address that it read before."""
    before = ["v_mov_b32 v2, 0", "v_mov_b32 v3, 0", "ds_write_b32 v2, v3", "s_waitcnt lgkmcnt(0)"]
    return looped(target, ["ds_read_b32 v2, v2", "s_waitcnt lgkmcnt(0)"] * 16, 16, before=before, lds=256)


def pointer_chase(target: str, loads: bool) -> Micro:
    """One wave that loads from lines of memory in a scattered order; without `loads` it only computes the places.

    Numbers of lines are those of a linear congruential generator (Numerical Recipes), to which the number that was
    loaded, a zero, is added: each load waits for the one before.
    """
    load = ["global_load_dword v5, v4, s[10:11]", "s_waitcnt vmcnt(0)"] if loads else ["v_mov_b32 v5, 0"]
    step = ["v_mul_lo_u32 v3, v3, v6", "v_add_u32 v3, v3, v7", "v_lshlrev_b32 v4, 7, v3", "v_and_b32 v4, s13, v4"]
    step += [*load, "v_add_u32 v3, v3, v5"]
    before = ["v_mov_b32 v3, 1", "v_mov_b32 v5, 0", "v_mov_b32 v6, 0x19660d", "v_mov_b32 v7, 0x3c6ef35f"]
    return looped(target, step, 1, before=before)


def streams(target: str, threads: int = 256) -> Micro:
    """Blocks whose threads load 16 bytes eight times an iteration, all together memory from end to end."""
    before = [
        f"s_mul_i32 s5, s2, {16 * threads}", "v_add_u32 v2, s5, v2", "v_and_b32 v2, s13, v2",
    ]  # fmt: skip
    lines = []
    for n in range(8):
        first = 4 + 4 * n
        lines += [f"global_load_dwordx4 v[{first}:{first + 3}], v2, s[10:11]", "v_add_u32 v2, s14, v2"]
        lines += ["v_and_b32 v2, s13, v2"]
    return looped(target, lines, 8, before=before, each=["s_waitcnt vmcnt(0)"], threads=threads)


def empty(target: str) -> str:
    """A kernel that does nothing."""
    return kernel(target, NAME, "  s_nop 0", words=WORDS)
