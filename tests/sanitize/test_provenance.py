"""Findings in code without debug lines say what their registers and bytes are: which rows and columns of a tensor."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tkgen.backends.cdna import kittens
from tkgen.diagnostics import Diagnostic
from tkgen.sanitize import Launch, from_code_object, from_source, parse, sanitize
from tkgen.targets import load_target
from tkgen.toolchain.checkout import STAND_INS
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.discover import find_compiler

# Each lane reads what one of the other wave has stored, without a barrier; the input is taken backwards.
RACE = """
__global__ __launch_bounds__(128) void k(const float *in, float *out) {
    __shared__ float tile[128];
    const int t = threadIdx.x;
    tile[t] = in[127 - t];
    MEND
    out[t] = tile[t ^ 64];
}
"""
# A load whose wait is for another one.
EARLY = """
__global__ __launch_bounds__(64) void k(const float *in, float *out) {
    const float *p = in + 2 * threadIdx.x;
    float2 a, b;
    asm volatile("global_load_dwordx2 %0, %2, off\\nglobal_load_dwordx2 %1, %2, off offset:512\\n"
                 "s_waitcnt vmcnt(1)\\nWORK\\ns_waitcnt vmcnt(0)"
                 : "=&v"(a), "=&v"(b) : "v"(p) : "v20", "v21", "v22", "v23");
    out[threadIdx.x] = a.x + b.y;
}
"""
# The same, through LDS and a conversion.
THROUGH_LDS = """
__global__ __launch_bounds__(128) void k(const float *in, float *out) {
    __shared__ float tile[128];
    const int t = threadIdx.x;
    tile[t] = -__builtin_rintf(in[(t + 32) % 128]);
    __syncthreads();
    float x;
    const unsigned at = (unsigned)(unsigned long)(__attribute__((address_space(3))) float *)(tile + (t ^ 64));
    asm volatile("ds_read_b32 %0, %1\\nv_add_f32 %0, %0, %0\\ns_waitcnt lgkmcnt(0)" : "=&v"(x) : "v"(at));
    out[t] = x;
}
"""
COPY = """
__global__ __launch_bounds__(128) void k(const float *in, float *out) {
    __shared__ float tile[128];
    const int t = threadIdx.x;
    auto *to = (__attribute__((address_space(3))) void *)(tile + t / 64 * 64);
    __builtin_amdgcn_global_load_lds((__attribute__((address_space(1))) void *)(in + 127 - t), to, 4, 0, 0);
    __builtin_amdgcn_s_waitcnt(0);
    out[t] = tile[t ^ 64];
}
"""


def found(text: str, folder: Path, arguments: Sequence[str], threads: int, lines: bool = False) -> list[Diagnostic]:
    """Findings in a kernel, compiled without debug lines or with them."""
    gpu = load_target("gfx942")
    source = '#include "host.cuh"\n#include <hip/hip_runtime.h>\n' + text
    headers = [STAND_INS, kittens.include_dir()]
    made = compile_device(source, gpu, find_compiler(gpu), include_dirs=headers, debug_lines=lines, outputs=["hsaco"])
    assert made.hsaco is not None
    path = folder / "kernel.hsaco"
    path.write_bytes(made.hsaco)
    launch = Launch((1, 1, 1), (threads, 1, 1), parse(list(arguments)))
    return list(sanitize(from_code_object(path), launch, schedules=3).diagnostics)


def notes(diagnostics: Sequence[Diagnostic], word: str) -> list[str]:
    return [n for d in diagnostics for n in d.notes if word in n]


IN_ROWS = ("X:f32[8,16]=randn:in", "Y:f32[128]=nan:out")


@pytest.mark.parametrize("text", [RACE.replace("MEND", ""), COPY], ids=["through registers", "straight into LDS"])
def test_the_bytes_of_a_race_are_elements_of_a_tensor(text: str, tmp_path: Path) -> None:
    races = [d for d in found(text, tmp_path, IN_ROWS, 128) if d.code == "E701"]
    assert races
    for race in races:
        (where,) = notes([race], "LDS bytes ")
        (byte,) = re.findall(r"^LDS bytes (\d+)\.\.", where)
        element = 127 - int(byte) // 4  # of the input, which is taken backwards
        told = notes([race], "there: ")
        assert told
        for note in told:
            expected = f"loaded from `X`, bytes {4 * element}..{4 * element + 3}, row {element // 16} x columns "
            assert f"{expected}{element % 16}..{element % 16}, by `" in note


@pytest.mark.parametrize(
    ("work", "verb"),
    [
        ("v_pk_add_f32 %0, %0, %1", "is read before the wait"),
        ("v_mfma_f32_16x16x16_f16 v[20:23], %0, %1, v[20:23]", "is multiplied before the wait"),
        ("v_pk_mul_f32 %1, %0, %0", "is overwritten before the wait"),
    ],
)
def test_a_register_that_is_not_there_yet(work: str, verb: str, tmp_path: Path) -> None:
    text = EARLY.replace("WORK", work)
    early = [d for d in found(text, tmp_path, ("X:f32[256]=randn:in", "Y:f32[64]=nan:out"), 64) if d.code == "E705"]
    assert early
    (note,) = {n for n in notes(early, "before the wait") if "loaded" in n}
    expected = (
        r"v\[\d+:\d+\], loaded from `X`, bytes 512..1023, elements 128..255, by `global_load_dwordx2 .* at 0x\w+, "
    )
    assert re.fullmatch(expected + verb, note)


def test_through_lds_and_a_conversion(tmp_path: Path) -> None:
    """Wave 0 reads what wave 1 stored first: lane 64, whose value was rounded, of element 96."""
    early = [d for d in found(THROUGH_LDS, tmp_path, IN_ROWS, 128) if d.code == "E705"]
    (note,) = notes(early, "before the wait")
    assert "read from LDS bytes 256..511 by `ds_read_b32" in note and "written by wave 1 with `ds_write_b32" in note
    assert "loaded from `X`, bytes 384..387, row 6 x columns 0..0, by `" in note


def test_where_there_are_lines_the_lines_say_it(tmp_path: Path) -> None:
    text = RACE.replace("MEND", "")
    assert not notes(found(text, tmp_path, IN_ROWS, 128, lines=True), "loaded from")
    (tmp_path / "kernel.cpp").write_text("#include <hip/hip_runtime.h>\n" + text)
    launch = Launch((1, 1, 1), (128, 1, 1), parse(list(IN_ROWS)))
    shown = sanitize(from_source(tmp_path / "kernel.cpp", "gfx942"), launch, schedules=1).diagnostics
    assert [d.code for d in shown] == ["E701"] and not notes(shown, "loaded from")


def test_the_right_kernel_is_left_alone(tmp_path: Path) -> None:
    assert found(RACE.replace("MEND", "__syncthreads();"), tmp_path, IN_ROWS, 128) == []
