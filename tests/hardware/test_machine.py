"""The measuring kernels: they compile for every target, are sound, and their section runs on the stand-in."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("tinygrad")

from tkgen.emulate import Buffer, Scalar, launch, load
from tkgen.hardware import machine, microkernels
from tkgen.hardware.assembly import code_of
from tkgen.targets import load_target
from tkgen.toolchain.discover import find_compiler

KERNELS = {
    "chained": lambda t: microkernels.chained(t, "v_add_f32 v3, v3, v3", before=("v_mov_b32 v3, 0",)),
    "branches": microkernels.branches,
    "lds_chain": microkernels.lds_chain,
    "lds_read": lambda t: microkernels.lds(t, 128, True),
    "chase": lambda t: microkernels.pointer_chase(t, True),
    "streams": lambda t: microkernels.streams(t, 128),
}


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950"])
def test_measuring_kernels_are_sound_and_leave_their_clocks(target):
    of = load_target(target)
    for name, make in KERNELS.items():
        kernel = make(target)
        waves, iterations = 2 * kernel.threads // 64, 3
        out, data = np.zeros((waves, 4), np.uint64), np.zeros(1 << 14, np.uint8)
        args = [Buffer(out), Buffer(data), Scalar("u64", iterations | (len(data) - 1) << 32), Scalar("u64", 4096)]
        got = launch(
            code_of(kernel.text, of, find_compiler(of)), grid=(2, 1, 1), block=(kernel.threads, 1, 1), args=args,
            watch=True,
        )  # fmt: skip
        assert got.completed and not got.findings, (name, [str(f) for f in got.findings])
        assert (out[:, 1] > out[:, 0]).all() and (out[:, 3] > out[:, 2]).all(), name
        assert got.instructions > waves * iterations * kernel.count


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950"])
def test_every_matrix_instruction_of_a_target_is_measured(target):
    """Each kernel assembles, and has that instruction 64 times."""
    of = load_target(target)
    assert len(of.mfmas) > 7
    for mfma in of.mfmas:
        program = load(code_of(machine.mfma_kernel(target, mfma).text, of, find_compiler(of))).program
        names = [program.mnemonic(i) for i in program.starts()]
        assert sum(name.startswith("v_mfma") for name in names) == 64, mfma


def test_measured_values_are_beside_assumed_ones(checked, tmp_path):
    items = ("compute units", "clock", "LDS read", "v_mfma_f32_16x16x16_bf16", "HBM", "launch")
    got = checked("--stand-in", "--only", "machine", *(w for i in items for w in ("--item", i)), "--into", tmp_path)
    assert got.exit_code == 0, got.output
    results = {r["item"]: r for r in json.loads((tmp_path / "report.json").read_text())["results"]}
    assert set(results) == set(items)
    assert results["compute units"]["measured"] == results["compute units"]["assumed"] == 304
    assert results["v_mfma_f32_16x16x16_bf16"]["assumed"] == 16
    assert all(r["verdict"] == "measured" and r["measured"] > 0 for r in results.values())
