"""Whole kernels: right on the emulator under unfriendly wave orders, and tight in the main loop at full size."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from kittens_support import BF16, numbers

from tkgen.backends.cdna.kittens import include_dir
from tkgen.emulate import Buffer, Policy, Struct, launch
from tkgen.targets import load_target
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.compiler import Compiler
from tkgen.toolchain.isa import instruction_mix, main_loop, parse_asm
from tkgen.toolchain.metadata import read_resources

SOURCE = Path(__file__).parent / "kernels" / "gemm_double_buffer.cpp"


@pytest.mark.parametrize("policy", [Policy.BARRIER, Policy.ADVERSARIAL], ids=lambda p: p.name.lower())
@pytest.mark.parametrize("product", ["ABt", "AB"])
def test_gemm_is_right(compiler: Compiler, target: str, product: str, policy: Policy) -> None:
    m, n, k = 128, 256, 192
    sizes = {"SIZE_M": str(m), "SIZE_N": str(n), "SIZE_K": str(k)}
    made = compile_device(SOURCE, load_target(target), compiler, include_dirs=[include_dir()], defines=sizes)
    assert made.hsaco is not None
    a, b = numbers((m, k), 1, 9), numbers((k, n), 2, 9)
    c = np.zeros((m, n), np.float32)
    operands = [BF16.pack(a), BF16.pack(b.T if product == "ABt" else b)]
    outcome = launch(
        made.hsaco,
        kernel=f"gemm_{product}",
        args=[Struct([*(Buffer(x, writable=False) for x in operands), Buffer(c)])],
        grid=(n // 128, m // 128, 1),
        block=(256, 1, 1),
        lds_bytes=65536,
        policy=policy,
        seed=3,
        watch=True,
    )
    assert not outcome.findings, [str(f) for f in outcome.findings]
    np.testing.assert_array_equal(c, a @ b)


@pytest.fixture(scope="module")
def full_size(compiler: Compiler) -> tuple[str, bytes]:
    made = compile_device(SOURCE, load_target("gfx942"), compiler, include_dirs=[include_dir()])
    assert made.asm is not None and made.hsaco is not None
    return made.asm, made.hsaco


@pytest.mark.parametrize(("product", "others"), [("ABt", 1.25), ("AB", 2.85)])
def test_the_main_loop_is_tight(full_size: tuple[str, bytes], product: str, others: float) -> None:
    asm, hsaco = full_size
    resources = read_resources(hsaco)[f"gemm_{product}"]
    assert resources.clean and resources.total_vgpr <= 160
    loop = main_loop(parse_asm(asm)[f"gemm_{product}"])
    assert loop is not None
    counts = Counter(i.mnemonic for i in loop.instructions)
    mix = instruction_mix(loop.instructions)
    steps = counts["s_barrier"]  # the compiler may unroll
    assert mix.mfma_total == 64 * steps
    assert counts["buffer_load_dwordx4"] == 8 * steps  # 2 x 128 x 64 x 2 bytes by 256 threads
    assert counts["ds_read_b128"] == (16 if product == "ABt" else 8) * steps
    assert counts["ds_write2st64_b64"] == 8 * steps
    if product == "ABt":
        assert not any(m.startswith("ds_read") and m != "ds_read_b128" for m in counts)
        # one addition per LDS buffer and direction that the loop alternates; no 64-bit arithmetic
        assert sum(n for m, n in counts.items() if m.startswith("v_") and "mfma" not in m) <= 6 * steps
    assert not any("u64" in m or "mul_hi" in m or "addc" in m for m in counts), counts
    assert mix.others_per_mfma is not None and mix.others_per_mfma <= others
