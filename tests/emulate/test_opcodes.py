"""Opcodes beside AMD's pseudo-code in all their forms (`benchmarks/opcodes.py`), and what is left to a GPU."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tinygrad.runtime.autogen.amd.cdna.str_pcode")

from instructions import checks, encode, lds, machine, matrix_models, order, page, registers
from instructions.table import opcodes, readings, texts

from tests.emulate.test_order import ORDERS
from tests.sampling import slow

ROOT = Path(__file__).parent.parent.parent
PROBES = tomllib.loads((ROOT / "tkgen/emulate/undecided.toml").read_text())["probe"]


@pytest.mark.parametrize(("every", "targets", "count"), [(9, ("gfx942",), 2), slow(1, checks.TARGETS, 7)])
def test_opcodes_agree_with_their_texts(every, targets, count):
    found = checks.records(opcodes()[::every], targets, count)
    wrong = {r.key: r.samples[:2] for r in found if r.samples}
    assert not wrong
    assert all(
        r.cases for r in found if not order.NOT_RUN.match(r.opcode.name) and set(targets) & set(r.opcode.targets)
    )


@pytest.mark.parametrize("name", ["v_add_f32", "v_cmp_class_f32", "v_pk_add_f16", "s_cbranch_scc0", "s_load_dwordx2"])
def test_a_wrong_text_is_found(name, monkeypatch):
    """Another text for an opcode: the comparison sees it in every form."""
    real = checks.vector.pcode.run
    instead = {
        "v_add_f32": ("+", "-"),
        "v_cmp_class_f32": ("S1.u32[0]", "S1.u32[1]"),
        "v_pk_add_f16": ("+", "-"),
        "s_cbranch_scc0": ("SCC == 1'0U", "SCC == 1'1U"),
        "s_load_dwordx2": ("addr + 4U", "addr + 8U"),
    }[name]
    monkeypatch.setattr(checks.vector.pcode, "run", lambda text, **e: real(text.replace(*instead), **e))
    found = checks.records([o for o in opcodes() if o.name == name], ("gfx950",), 2)
    assert found and all(r.samples for r in found)


@pytest.mark.parametrize(
    ("name", "target", "arithmetic", "other"),
    [
        ("v_mfma_f32_16x16x16_f16", "gfx942", "cdna3", 4),  # groups of four
        ("v_mfma_f32_16x16x16_bf16", "gfx90a", "cdna2", 2),
        ("v_mfma_f32_16x16x4_f32", "gfx942", "fused", 16),  # sums in f16
    ],
)
def test_another_arithmetic_of_a_matrix_is_found(name, target, arithmetic, other, monkeypatch):
    chosen, real = [o for o in opcodes() if o.name == name], getattr(matrix_models, arithmetic)
    assert not any(r.samples for r in checks.records(chosen, (target,), 2))
    monkeypatch.setattr(matrix_models, arithmetic, lambda terms, c, _: real(terms, c, other))
    assert any(r.samples for r in checks.records(chosen, (target,), 2))


def test_subnormal_numbers_of_multiply_add_on_gfx90a():
    """v_mad_f32 flushes them even where MODE keeps them: 2^-130 * 1 + 0."""
    (mad,) = [o for o in opcodes() if o.name == "v_mad_f32"]
    rows = np.zeros((12, 64), dtype=np.uint32)
    rows[0], rows[2] = 1 << 19, 0x3F800000
    words = encode.vop3(mad.number, 256 + 20, (256 + 10, 256 + 12, 256 + 14))
    (after,) = machine.run([(words, machine.State(rows, mode=0b11_1111))], "gfx90a")
    assert not after.rows[8].any()


def test_readings_change_the_texts_they_name():
    any_ = texts()[1]
    for reading in readings():
        assert not reading.like or reading.like in any_
        if reading.like:  # where there is no text to change
            assert [o for o in opcodes() if reading.opcodes.match(o.name) and o.text], reading.opcodes.pattern
            continue
        some = [n for n in any_ if reading.opcodes.match(n.replace("v_mad_mix", "v_fma_mix"))]
        assert some, reading.opcodes.pattern
        for n in some:
            assert reading.of(n.replace("v_mad_mix", "v_fma_mix"), any_[n][0]) != any_[n][0], n
        assert bool(reading.source) != bool(reading.probe)
        assert not reading.probe or reading.probe in {p["name"] for p in PROBES}


def test_the_page_has_the_readings_and_the_probes():
    text = (ROOT / "docs/opcodes.md").read_text()
    assert "No opcode differs from its text or its reading." in text
    assert all(p["name"] in text and p["source"].replace("|", "\\|") in text for p in page.probes())
    assert all(r.emulator in text for r in readings())
    assert all(model in text and source in text for _, model, source in page.MODELS)
    assert all(p.does in text for p in order.purposes())


def test_every_instruction_without_a_result_has_a_purpose_and_most_a_test():
    """None of them has a text that gives a result; those that order others are in `test_order`."""
    names = {o.name for o in opcodes() if order.purpose(o.name)}
    assert all(any(p.opcodes.match(n) for n in names) for p in order.purposes())
    ordered = {n for n in names if (p := order.purpose(n)) and p.seen}
    assert ordered == set(ORDERS)
    assert not [o for o in opcodes() if o.name in names and o.text and "D0" in o.text]


@pytest.mark.parametrize(
    ("name", "where", "what", "instead"),
    [
        ("ds_swizzle_b32", lds, "reads_lane", lambda offset, lane: lane),
        ("global_load_lds_sbyte", lds, "extended", lambda data, kind: data.ljust(4, b"\0")),
        ("s_getreg_b32", registers, "mode_of", lambda state: 0),
        ("s_set_gpr_idx_mode", registers, "on_text", lambda: "M0 = M0"),
    ],
)
def test_another_model_is_found(name, where, what, instead, monkeypatch):
    monkeypatch.setattr(where, what, instead)
    found = checks.records([o for o in opcodes() if o.name == name], ("gfx950",), 7)
    assert found and all(r.samples for r in found)


def test_a_case_leaves_other_registers_alone():
    state = machine.State(np.arange(12 * 64, dtype=np.uint32).reshape(12, 64), [1, 2, 3, 4], 5, 6, 7, 1, 8, 9)
    (after,) = machine.run([([0xBF800000], state)], "gfx942")  # s_nop 0
    np.testing.assert_array_equal(after.rows, state.rows)
    assert (after.vcc, after.exec, after.m0, after.scc, after.low, after.high) == (5, 6, 7, 1, 8, 9)
