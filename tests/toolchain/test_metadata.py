"""Resources of real code objects, and damaged ones."""

from __future__ import annotations

import random

import pytest
from toolchain_kernels import KERNEL, MANY_REGISTERS

from tkgen.targets import Target, load_target
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.compiler import Compiler, ToolchainError
from tkgen.toolchain.metadata import read_resources, read_target


def build(source: str, target: Target, compiler: Compiler) -> bytes:
    hsaco = compile_device(source, target, compiler, outputs=("hsaco",), debug_lines=False).hsaco
    assert hsaco is not None
    return hsaco


@pytest.fixture(scope="module")
def tiny(clang: Compiler, gfx942: Target) -> bytes:
    return build(KERNEL, gfx942, clang)


def test_spills_and_scratch_are_seen(compiler: Compiler, gfx942: Target) -> None:
    many = read_resources(build(MANY_REGISTERS.replace("THREADS", "1024"), gfx942, compiler))["many"]
    assert many.total_vgpr == 128 and many.vgpr_spills > 100 and many.scratch_bytes > 400
    assert not many.clean


@pytest.mark.parametrize("name", ["gfx90a", "gfx942"])
def test_accumulation_registers_are_counted_apart(clang: Compiler, name: str) -> None:
    target = load_target(name)
    many = read_resources(build(MANY_REGISTERS.replace("THREADS", "256"), target, clang))["many"]
    assert many.vgpr == 256 and many.agpr > 100 and many.total_vgpr == many.vgpr + many.agpr
    assert many.clean and many.max_workgroup == 256
    assert target.waves_per_simd(many.vgpr, many.agpr) == 1


def test_scratch_without_spills_is_not_clean(clang: Compiler, gfx942: Target) -> None:
    source = (
        'extern "C" __attribute__((global)) void k(int* p, int n) {\n'
        "  int x[100]; for (int i = 0; i < 100; ++i) x[i] = p[i];\n  p[0] = x[n];\n}\n"
    )
    k = read_resources(build(source, gfx942, clang))["k"]
    assert k.scratch_bytes >= 400 and k.vgpr_spills == 0 and not k.clean


def test_several_kernels_in_order(clang: Compiler, gfx942: Target) -> None:
    two = KERNEL + KERNEL.replace("tiny", "second").split("ext_vector_type(4)));\n", 2)[2]
    assert list(read_resources(build(two, gfx942, clang))) == ["tiny", "second"]


@pytest.mark.parametrize("damage", [b"", b"\x7fELF", b"not an object at all" * 50, b"\0" * 4096])
def test_no_code_object(damage: bytes) -> None:
    with pytest.raises(ToolchainError):
        read_resources(damage)


def test_a_host_object_is_refused(clang: Compiler) -> None:
    with open("/proc/self/exe", "rb") as file, pytest.raises(ToolchainError, match="not an AMDGPU code object"):
        read_resources(file.read())


def test_truncated_code_objects(tiny: bytes) -> None:
    for size in (16, 63, 64, 100, 300, 600, len(tiny) // 2):
        with pytest.raises(ToolchainError):
            read_resources(tiny[:size])


def test_damaged_bytes_end_in_an_answer_or_a_clean_error(tiny: bytes) -> None:
    chance = random.Random(5)
    refused = 0
    for _ in range(300):
        data = bytearray(tiny)
        for _ in range(chance.choice((1, 4, 64))):
            data[chance.randrange(1400)] = chance.randrange(256)  # headers and notes come first
        try:
            read_resources(bytes(data))
            read_target(bytes(data))
        except ToolchainError:
            refused += 1
    assert refused > 50
