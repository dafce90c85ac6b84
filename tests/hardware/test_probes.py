"""Probes of instructions: which there are, that they obey the hardware's rules, and that a difference is named."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("tinygrad")

from dataclasses import replace
from pathlib import Path

from sampling import only

from tkgen.emulate import Buffer, code_object, launch
from tkgen.emulate.decode import decode
from tkgen.hardware import instructions
from tkgen.hardware.assembly import code_of
from tkgen.hardware.probes import assembling
from tkgen.hardware.probes.frame import kernel, rows_out
from tkgen.hardware.probes.inputs import inputs
from tkgen.targets import load_target
from tkgen.toolchain.discover import find_compiler

TARGETS = ("gfx90a", "gfx942", "gfx950")
# What AMD's tables have for all of CDNA, and no assembler takes for the target.
ELSEWHERE = {
    "gfx942": {"buffer_atomic_pk_add_bf16", "v_cvt_f32_bf16", "v_permlane16_swap_b32", "v_permlane32_swap_b32",
               "v_prng_b32"},
    "gfx950": {"v_mfma_f32_16x16x8_xf32", "v_mfma_f32_32x32x4_xf32"},
}  # fmt: skip


def all_probes(target):
    return [p for group in instructions.groups(target, None).values() for p in group]


@pytest.mark.parametrize("target", sorted(ELSEWHERE))
def test_every_instruction_has_a_probe_or_a_reason(target):
    names = set(decode(b"\0" * 4, target).names) & assembling.names()
    probed = {p.name for p in all_probes(target)}
    lacking = {n for n in names - probed if not assembling.reason_without(n)}
    assert lacking == ELSEWHERE[target]
    assert {"v_cvt_rpi_i32_f32", "v_cvt_pk_u8_f32"} <= probed


def test_the_page_has_the_number_of_probes():
    found = all_probes("gfx942")
    page = " ".join((Path(__file__).parents[2] / "docs" / "hardware-check.md").read_text().split())
    assert f"For gfx942 there are {len(found):,} probes of {len({p.name for p in found})} instructions." in page


GROUPS = ("vector-01", "vector-40", "matrix-03", "scalar-02", "memory-04")


@pytest.mark.parametrize("target", only(TARGETS, ("gfx942",)))
def test_probes_keep_wait_states_and_their_own_memory(target):
    """The referee watches them: what it would find, hardware would make of it what it likes."""
    for name in GROUPS:
        probes = instructions.groups(target, None)[name]
        of = load_target(target)
        code = code_of(kernel(probes, target), of, find_compiler(of))
        given, out = inputs(probes, 0)[:1], np.zeros((1, sum(map(rows_out, probes)), 64), np.uint32)
        got = launch(code, grid=(1, 1, 1), block=(64, 1, 1), args=[Buffer(given), Buffer(out)], watch=True, poison=True)
        assert got.completed and not got.findings, (name, [str(f) for f in got.findings])


def one_group(name, target="gfx942"):
    return next(g for g in instructions.groups(target, None).values() if name in {p.name for p in g})


@pytest.mark.parametrize(
    ("name", "other"),
    [("v_max_u32", "v_min_u32"), ("s_bcnt1_i32_b32", "s_bcnt0_i32_b32"), ("ds_max_rtn_i32", "ds_min_rtn_i32"),
     ("v_mfma_f32_16x16x16_bf16", "v_mfma_f32_16x16x16_f16")],
)  # fmt: skip
def test_an_instruction_that_does_something_else_is_named(name, other):
    probes = one_group(name)

    def wrong(code, given, rows):
        swapped = [replace(p, text=p.text.replace(name, other)) if p.name == name else p for p in probes]
        of = load_target("gfx942")
        made = code_of(kernel(swapped, "gfx942"), of, find_compiler(of))
        return instructions.on_emulator(made, given, rows)

    got = instructions.judged(probes, "gfx942", None, 0, wrong)
    assert got["verdict"] == "wrong" and got["said"] == f"differs: {name}"
    assert {r["name"] for r in got["unequal"]} == {name}
    example = got["unequal"][0]["examples"][0]
    assert example["GPU"] != example["emulator"]
    right = instructions.judged(probes, "gfx942", None, 0, instructions.on_emulator)
    assert right["verdict"] == "right" and not right["unequal"]


def test_one_unit_in_the_last_place_is_close_where_the_instruction_is_approximate():
    probes = [p for p in all_probes("gfx942") if p.text.startswith("v_exp_f32_e32 v20, v10")]
    exact = [p for p in all_probes("gfx942") if p.text.startswith("v_add_f32_e32 v20, v10, v12")]

    def off_by_one(code, given, rows):
        found = instructions.on_emulator(code, given, rows)
        found[0, 0, 0] += 1  # of zero, first of the edges: 1.0, or 0.0
        return found

    got = instructions.judged(probes, "gfx942", None, 0, off_by_one)
    assert got["verdict"] == "close" and got["unequal"][0]["ulps"] == 1.0
    assert instructions.judged(exact, "gfx942", None, 0, off_by_one)["verdict"] == "wrong"


def test_another_meaning_on_the_stand_in_is_in_the_report(checked, tmp_path, monkeypatch):
    """The GPU of the stand-in is this process: here v_bfrev_b32 is v_not_b32. The worker's emulator is as it was."""

    def swapped(code, target):
        program = decode(code, target)
        other = {"v_bfrev_b32": "v_not_b32", "v_not_b32": "v_bfrev_b32"}
        return replace(program, names=tuple(other.get(n, n) for n in program.names))

    monkeypatch.setattr(code_object, "decode", swapped)
    groups = instructions.groups("gfx942", None)
    wanted = next(g for g, probes in groups.items() if "v_bfrev_b32" in {p.name for p in probes})
    got = checked("--stand-in", "--only", "instructions", "--item", wanted, "--into", tmp_path)
    assert got.exit_code == 1, got.output
    (result,) = json.loads((tmp_path / "report.json").read_text())["results"]
    assert result["verdict"] == "wrong" and "v_bfrev_b32" in result["said"]
