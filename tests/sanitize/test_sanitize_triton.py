"""A Triton GEMM's code object: right on the emulator, and clean under the referee."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from tkgen.emulate import Arg, Buffer, Outcome, Scalar
from tkgen.sanitize import Arguments, Launch, Output, from_code_object, sanitize

pytest.importorskip("triton", reason="needs the extra `peer`: pip install --no-deps triton==3.9.0")
ROWS, COLS, DEPTH = 256, 128, 192


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("block", "warps"), [((64, 64, 32), 4), ((128, 128, 64), 8), ((32, 64, 64), 2)])
def test_a_triton_gemm_is_right_and_clean(block: tuple[int, int, int], warps: int, tmp_path: Path) -> None:
    from triton_gemm import compile_gemm

    built = compile_gemm("gfx942", block, warps)
    path = tmp_path / "gemm.hsaco"
    path.write_bytes(built.hsaco)
    subject = from_code_object(path)
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(n, DEPTH, generator=generator).bfloat16() for n in (ROWS, COLS))
    # Triton appends pointers to scratch memory that this kernel does not use.
    spare = len(subject.code.kernel().explicit_arguments) - 6

    def make() -> Sequence[Arg]:
        c = np.full((ROWS, COLS), np.nan, dtype=np.float32)
        sizes = [Scalar("i32", n) for n in (ROWS, COLS, DEPTH)]
        data = [Buffer(a, "a", writable=False), Buffer(b, "b", writable=False), Output(c, "c")]
        return [*data, *sizes, *[Scalar("u64", 0)] * spare]

    def check(outcome: Outcome, args: Sequence[Arg]) -> str:
        assert isinstance(args[2], Output) and "v_mfma" in " ".join(outcome.opcodes)
        error = (torch.from_numpy(args[2].data) - a.float() @ b.float().T).abs().max()
        return "" if error < 1e-4 else f"largest error {error}"

    blocks = (ROWS // block[0]) * (COLS // block[1])
    static = subject.code.kernel().descriptor.group_bytes
    launch = Launch((blocks, 1, 1), (64 * warps, 1, 1), Arguments(make, check), built.lds_bytes - static)
    verdict = sanitize(subject, launch, schedules=5)
    assert verdict.diagnostics == () and verdict.schedules == 5
