"""Statistics of machine code, on assembly that is compiled here and on text whose counts are known."""

from __future__ import annotations

from pathlib import Path

import pytest
from toolchain_kernels import KERNEL, MANY_REGISTERS

from tkgen.targets import Target, load_target
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.compiler import Compiler, Location
from tkgen.toolchain.isa import Instruction, classify, instruction_mix, loops, main_loop, parse_asm


def asm(source: str, target: Target, compiler: Compiler, include: Path | None = None) -> str:
    dirs = [include] if include else []
    result = compile_device(source, target, compiler, outputs=("asm",), include_dirs=dirs, source_name="k.cpp")
    assert result.asm is not None
    return result.asm


@pytest.mark.parametrize("name", ["gfx90a", "gfx942", "gfx950"])
def test_the_main_loop_of_a_small_kernel(compiler: Compiler, name: str) -> None:
    kernel = parse_asm(asm(KERNEL, load_target(name), compiler))["tiny"]
    loop = main_loop(kernel)
    assert loop is not None and loop.innermost and loop.depth == 0
    mix = instruction_mix(loop.instructions)
    assert mix.mfma == {"16x16x16_bf16": 1}
    assert (mix.barriers, mix.lds_reads, mix.lds_writes, mix.global_loads) == (2, {64: 1}, {64: 1}, {64: 2})
    assert mix.branches == 1 and mix.flat == 0 and mix.scratch == 0 and mix.waits >= 1
    assert mix.total == len(loop.instructions) and mix.others_per_mfma == mix.total - 1
    assert not kernel.flat_accesses


def test_every_instruction_is_counted_once(clang: Compiler, gfx942: Target) -> None:
    kernel = parse_asm(asm(MANY_REGISTERS.replace("THREADS", "1024"), gfx942, clang))["many"]
    mix = instruction_mix(kernel.instructions)
    tables = (mix.mfma, mix.lds_reads, mix.lds_writes, mix.global_loads, mix.global_to_lds, mix.global_stores)
    singles = (mix.valu, mix.salu, mix.scalar_loads, mix.lds_other, mix.global_other, mix.scratch, mix.flat)
    rest = mix.barriers + mix.waits + mix.branches + mix.other
    assert sum(sum(t.values()) for t in tables) + sum(singles) + rest == mix.total == len(kernel.instructions)
    assert mix.mfma == {"32x32x8_bf16": 20} and mix.scratch > 100


def test_instructions_know_their_line_behind_inlined_calls(clang: Compiler, gfx942: Target, tmp_path: Path) -> None:
    (tmp_path / "ops.h").write_text(
        "__attribute__((device)) inline void inner(float* p) {\n  *p = *p * 3.0f;\n}\n"
        "__attribute__((device)) inline void outer(float* p) {\n  inner(p);\n}\n"
    )
    source = '#include "ops.h"\nextern "C" __attribute__((global)) void k(float* p) {\n  outer(p);\n}\n'
    kernel = parse_asm(asm(source, gfx942, clang, tmp_path))["k"]
    multiply = next(i for i in kernel.instructions if i.mnemonic.startswith("v_mul_f32"))
    assert [(s.file, s.line) for s in multiply.sources] == [("include/ops.h", 2), ("include/ops.h", 5), ("k.cpp", 3)]
    assert multiply.origin is not None and multiply.origin.line == 3


def test_barriers_of_a_single_wave_are_dropped_by_the_compiler(clang: Compiler, gfx942: Target) -> None:
    kernel = parse_asm(asm(KERNEL.replace("(1, 256)", "(1, 64)"), gfx942, clang))["tiny"]
    assert instruction_mix(kernel.instructions).barriers == 0


def test_flat_accesses_are_found(clang: Compiler, gfx942: Target) -> None:
    source = (
        'extern "C" __attribute__((global)) void k(int* p, int n) {\n'
        "  __attribute__((shared)) static int tile[64];\n  tile[n] = n;\n"
        "  int* q = n > p[1] ? tile : p;\n  q[p[2]] = 1;\n}\n"
    )
    kernel = parse_asm(asm(source, gfx942, clang))["k"]
    assert [i.mnemonic for i in kernel.flat_accesses] == ["flat_store_dword"]
    assert instruction_mix(kernel.instructions).flat == 1


NESTED = """\
	.type	nested,@function
nested:                                 ; @nested
	.file	0 "." "n.cpp"
	.loc	0 3 1                           ; n.cpp:3:1
	s_mov_b32 s0, 0
.LBB0_1:                                ; outer loop
	v_mfma_f32_16x16x16_bf16 v[0:3], v[4:5], v[6:7], v[0:3]
	buffer_load_dwordx4 v[8:11], v12, s[4:7], 0 offen
.LBB0_2:
	ds_read2st64_b64 v[4:7], v13 offset1:1
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x8_f16 a[0:15], v[4:5], v[6:7], a[0:15]
	v_mfma_f32_32x32x8_f16 a[16:31], v[4:5], v[6:7], a[16:31]
	s_cbranch_scc1 .LBB0_2
; %bb.3:
	s_cbranch_vccnz .LBB0_5
; %bb.4:
	s_barrier
	s_branch .LBB0_1
.LBB0_5:
	s_branch .LBB0_7
.LBB0_6:                                ; loads, multiplies nothing
	global_load_ushort v1, v[2:3], off
	s_cbranch_scc0 .LBB0_6
.LBB0_7:
	s_cbranch_execz .LBB0_6
	s_endpgm
.Lfunc_end0:
	.size	nested, .Lfunc_end0-nested
	.type	other,@function
other:
	s_endpgm
	.size	other, .Lfunc_end0-other
"""


def test_nested_loops() -> None:
    functions = parse_asm(NESTED)
    assert list(functions) == ["nested", "other"]
    found = loops(functions["nested"])
    assert [(x.header, x.depth, x.innermost, x.mfma_count) for x in found] == [
        (".LBB0_1", 0, False, 3),
        (".LBB0_2", 1, True, 2),
        (".LBB0_6", 1, True, 0),
        (".LBB0_7", 0, False, 0),
    ]
    main = main_loop(functions["nested"])
    assert main is not None and main.header == ".LBB0_2"
    mix = instruction_mix(main.instructions)
    assert (mix.mfma, mix.lds_reads, mix.total, mix.others_per_mfma) == ({"32x32x8_f16": 2}, {128: 1}, 5, 1.5)
    assert instruction_mix(found[0].instructions).barriers == 1  # the outer loop's body holds the inner one's
    assert functions["nested"].instructions[0].origin == Location("n.cpp", 3, 1)
    assert main_loop(functions["other"]) is None and loops(functions["other"]) == ()


@pytest.mark.parametrize(
    ("mnemonic", "operands", "expected"),
    [
        ("v_mfma_f32_16x16x16bf16_1k", "", ("mfma", "16x16x16_bf16")),
        ("v_mfma_f32_16x16x32_bf16", "", ("mfma", "16x16x32_bf16")),
        ("v_mfma_f32_32x32x2f32", "", ("mfma", "32x32x2_f32")),
        ("v_mfma_f32_16x16x4_f32", "", ("mfma", "16x16x4_f32")),
        ("v_mfma_f32_16x16x16_f16", "", ("mfma", "16x16x16_f16")),
        ("v_accvgpr_write_b32", "", ("valu", "")),
        ("v_fma_f32", "", ("valu", "")),
        ("v_mov_b64_e32", "", ("valu", "")),
        ("ds_read_b128", "", ("lds read", "128")),
        ("ds_read2_b32", "", ("lds read", "64")),
        ("ds_read2st64_b64", "", ("lds read", "128")),
        ("ds_read_u16_d16_hi", "", ("lds read", "16")),
        ("ds_read_b64_tr_b16", "", ("lds read", "64")),
        ("ds_write_b96", "", ("lds write", "96")),
        ("ds_write2st64_b64", "", ("lds write", "128")),
        ("ds_bpermute_b32", "", ("lds", "")),
        ("buffer_load_dwordx4", "v[0:3], v4, s[0:3], 0 offen", ("global load", "128")),
        ("buffer_load_dword", "v4, s[0:3], 0 offen lds", ("global to lds", "32")),
        ("buffer_load_dwordx4", "v4, s[0:3], 0 offen sc0 lds", ("global to lds", "128")),
        ("global_load_lds_dwordx3", "v[0:1], off", ("global to lds", "96")),
        ("global_load_ushort", "v1, v[2:3], off", ("global load", "16")),
        ("global_load_sbyte_d16", "v1, v[2:3], off", ("global load", "8")),
        ("global_store_dwordx2", "", ("global store", "64")),
        ("buffer_store_short", "", ("global store", "16")),
        ("global_atomic_add_f32", "", ("global", "")),
        ("buffer_inv", "", ("global", "")),
        ("scratch_load_dword", "", ("scratch", "")),
        ("flat_load_ushort", "", ("flat", "")),
        ("s_barrier", "", ("barrier", "")),
        ("s_waitcnt", "", ("wait", "")),
        ("s_waitcnt_vscnt", "", ("wait", "")),
        ("s_cbranch_execz", "", ("branch", "")),
        ("s_endpgm", "", ("branch", "")),
        ("s_load_dwordx4", "", ("scalar load", "")),
        ("s_buffer_load_dword", "", ("scalar load", "")),
        ("s_nop", "", ("other", "")),
        ("s_setprio", "", ("other", "")),
        ("s_add_u32", "", ("salu", "")),
        ("s_and_saveexec_b64", "", ("salu", "")),
    ],
)
def test_classes(mnemonic: str, operands: str, expected: tuple[str, str]) -> None:
    parts = tuple(p.strip() for p in operands.split(",")) if operands else ()
    assert classify(Instruction(mnemonic, parts, 1, "")) == expected


def test_empty_and_foreign_text() -> None:
    assert parse_asm("") == {}
    assert parse_asm("hello; world\n\x00\n.loc nonsense\n") == {}
    assert instruction_mix(()).others_per_mfma is None
