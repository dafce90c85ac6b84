"""Kernels in assembly: the frame around their instructions, and the code object that the target's assembler makes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from tkgen.targets import Target
from tkgen.toolchain.compile import assemble_commands, read_output, run_step
from tkgen.toolchain.compiler import Compiler

SECONDS: Final = 120.0  # that an assembler may take


def code_of(assembly: str, target: Target, compiler: Compiler) -> bytes:
    """The code object of an assembly text. Raises ToolchainError where the assembler refuses it."""
    with tempfile.TemporaryDirectory(prefix="tkgen-") as folder:
        work = Path(folder)
        (work / "out.s").write_text(assembly, encoding="utf-8")
        commands = assemble_commands(compiler, target)
        for command in commands:
            run_step(command, work, SECONDS, "kernel.s", None)
        return read_output(work / "out.hsaco", commands[-1])


def kernel(
    target: str, name: str, body: str, *, lds: int = 0, scratch: int = 0, words: int = 4, threads: int = 64,
    vgprs: int = 128,
) -> str:  # fmt: skip
    """One kernel as assembly.

    It starts with its arguments, `words` dwords, at s[0:1], the number of the block in s2 and that of the thread in the
    low ten bits of v0. It may use `vgprs` vector and as many accumulation registers.
    """
    private = "" if target == "gfx90a" else f".amdhsa_enable_private_segment {int(bool(scratch))}"
    pointers = "".join(_ARGUMENT.format(offset=8 * n) for n in range(words // 2))
    return _FRAME.format(
        target=target, name=name, body=body.rstrip(), lds=lds, scratch=scratch, private=private, bytes=4 * words,
        threads=threads, vgprs=vgprs, all_vgprs=2 * vgprs, arguments=pointers.rstrip("\n"),
    )  # fmt: skip


_ARGUMENT: Final = "      - {{.offset: {offset}, .size: 8, .value_kind: by_value}}\n"
_FRAME: Final = """\
.amdgcn_target "amdgcn-amd-amdhsa--{target}"
.amdhsa_code_object_version 5
.text
.globl {name}
.p2align 8
.type {name},@function
{name}:
{body}
  s_endpgm
.Lend:
  .size {name}, .Lend-{name}
.rodata
.p2align 6
.amdhsa_kernel {name}
  .amdhsa_group_segment_fixed_size {lds}
  .amdhsa_private_segment_fixed_size {scratch}
  .amdhsa_kernarg_size {bytes}
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_system_sgpr_workgroup_id_x 1
  .amdhsa_next_free_vgpr {all_vgprs}
  .amdhsa_next_free_sgpr 96
  .amdhsa_accum_offset {vgprs}
  .amdhsa_ieee_mode 1
  .amdhsa_dx10_clamp 1
  .amdhsa_float_denorm_mode_32 3
  .amdhsa_float_denorm_mode_16_64 3
  {private}
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: {name}
    .symbol: {name}.kd
    .kernarg_segment_size: {bytes}
    .kernarg_segment_align: 8
    .group_segment_fixed_size: {lds}
    .private_segment_fixed_size: {scratch}
    .wavefront_size: 64
    .sgpr_count: 96
    .vgpr_count: {vgprs}
    .agpr_count: {vgprs}
    .max_flat_workgroup_size: {threads}
    .args:
{arguments}
...
.end_amdgpu_metadata
"""
