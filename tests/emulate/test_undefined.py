"""Registers that nobody has written: what compilers do with them is no defect, what others could see of them is."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulate import frame
from tkgen.emulate import Kind

TARGETS = {  # a store to scratch and a load from it; gfx90a: test_compiled_code.py
    "gfx942": ("scratch_store_dwordx2 off, {0}, off offset:{1}", "scratch_load_dword {0}, off, off offset:{1}"),
    "gfx950": ("scratch_store_dwordx2 off, {0}, off offset:{1}", "scratch_load_dword {0}, off, off offset:{1}"),
}
STORE = "\n  global_store_dword v1, {0}, s[10:11]\n"


def findings(assemble, body: str, target: str = "gfx942", **options) -> list[tuple[Kind, str]]:
    outcome = frame.run_body(
        assemble,
        body,
        np.zeros(64, np.uint32),
        np.zeros(256, np.uint32),
        target,
        lds=4096,
        scratch=64,
        watch=True,
        **options,
    )
    assert outcome.completed
    return [(f.kind, f.first.text.split()[0]) for f in outcome.findings]


@pytest.mark.parametrize("poison", [False, True])
@pytest.mark.parametrize("target", TARGETS)
def test_a_spilled_pair_of_which_one_half_counts(assemble, target, poison):
    """Compilers spill v[20:21] when they need v20 alone; v21 is as undefined when it comes back as it was before."""
    store, load = TARGETS[target]
    spill = "  v_mov_b32 v20, 1\n  " + store.format("v[20:21]", 0) + "\n"
    good = spill + "  " + load.format("v30", 0) + "\n  s_waitcnt vmcnt(0)" + STORE.format("v30")
    assert findings(assemble, good, target, poison=poison) == []
    bad = spill + "  " + load.format("v30", 4) + "\n  s_waitcnt vmcnt(0)" + STORE.format("v30")
    assert findings(assemble, bad, target, poison=poison) == [(Kind.UNINITIALISED_REGISTER, "global_store_dword")]


@pytest.mark.parametrize("poison", [False, True])
def test_scratch_that_nobody_wrote(assemble, poison):
    load = "  scratch_load_dword v30, off, off offset:8\n  s_waitcnt vmcnt(0)\n"
    assert findings(assemble, load, poison=poison) == []
    assert findings(assemble, load + STORE.format("v30"), poison=poison) == [
        (Kind.UNINITIALISED_REGISTER, "global_store_dword")
    ]
    # Overwritten by a load of something that is there, it is defined again.
    again = "  scratch_load_dword v30, off, off offset:8\n  global_load_dword v30, v1, s[8:9]\n  s_waitcnt vmcnt(0)\n"
    assert findings(assemble, again + STORE.format("v30"), poison=poison) == []


def test_scratch_through_a_generic_pointer(assemble):
    body = """
  s_mov_b64 s[20:21], src_private_base
  v_mov_b32 v4, 16
  v_mov_b32 v5, s21
  flat_store_dword v[4:5], v40
  s_waitcnt vmcnt(0) lgkmcnt(0)
  flat_load_dword v30, v[4:5]
  s_waitcnt vmcnt(0) lgkmcnt(0)
"""
    assert findings(assemble, body) == []
    assert findings(assemble, body + STORE.format("v30")) == [(Kind.UNINITIALISED_REGISTER, "global_store_dword")]


def test_half_of_a_pair_in_lds(assemble):
    """Of a pair in LDS the half that was defined may be read."""
    write = "  v_lshlrev_b32 v2, 1, v1\n  v_mov_b32 v20, 1\n  ds_write_b64 v2, v[20:21]\n  s_waitcnt lgkmcnt(0)\n"
    assert findings(assemble, write + "  ds_read_b32 v30, v2\n  s_waitcnt lgkmcnt(0)" + STORE.format("v30")) == []
    other = write + "  ds_read_b32 v30, v2 offset:4\n  s_waitcnt lgkmcnt(0)" + STORE.format("v30")
    assert (Kind.UNINITIALISED_LDS, "ds_read_b32") in findings(assemble, other)
    pair = "  v_mov_b32 v20, 1\n  ds_write2_b32 v1, v20, v21 offset0:0 offset1:64\n  s_waitcnt lgkmcnt(0)\n"
    assert findings(assemble, pair + "  ds_read_b32 v30, v1\n  s_waitcnt lgkmcnt(0)" + STORE.format("v30")) == []
    second = pair + "  ds_read_b32 v30, v1 offset:256\n  s_waitcnt lgkmcnt(0)" + STORE.format("v30")
    assert (Kind.UNINITIALISED_LDS, "ds_read_b32") in findings(assemble, second)


@pytest.mark.parametrize("text", ["global_store_dword v1, v40, s[10:11]", "global_atomic_add v1, v40, s[10:11]"])
def test_stored_for_others_to_see(assemble, text):
    assert findings(assemble, f"  {text}\n") == [(Kind.UNINITIALISED_REGISTER, text.split()[0])]
    # Lanes that store nothing do not count.
    lanes = f"  v_mov_b32 v40, 0\n  s_mov_b64 exec, 0xf\n  v_mov_b32 v41, 0\n  {text.replace('v40', 'v41')}\n"
    assert findings(assemble, lanes) == []


@pytest.mark.parametrize("target", ["gfx90a", *TARGETS])
@pytest.mark.parametrize(
    ("pair", "defined"),
    [
        ("v_pk_mov_b32 v[30:31], v[20:21], v[20:21] op_sel:[0,1]", (True, False)),
        ("v_pk_mov_b32 v[30:31], v[20:21], v[20:21] op_sel:[0,0]", (True, True)),
        ("v_pk_mov_b32 v[30:31], v[20:21], v[20:21] op_sel:[1,0]", (False, True)),
        ("v_pk_mov_b32 v[20:21], v[20:21], v[20:21] op_sel:[1,0]", (False, True)),
        ("v_pk_add_f32 v[30:31], v[20:21], v[22:23]", (True, False)),
        ("v_pk_mul_f32 v[30:31], v[20:21], v[22:23] op_sel_hi:[0,1]", (True, True)),
        ("v_pk_fma_f32 v[30:31], v[22:23], v[22:23], v[20:21] op_sel:[0,0,1] op_sel_hi:[1,1,0]", (False, True)),
    ],
)
def test_half_of_a_pair_of_registers(assemble, target, pair, defined):
    """Compilers copy v20 with what happens to stand beside it: v21, which nobody has written."""
    body = f"  v_mov_b32 v20, 1\n  v_mov_b32 v22, 1\n  v_mov_b32 v23, 1\n  {pair}\n"
    first = int(pair.split("v[")[1].split(":")[0])
    for half, good in enumerate(defined):
        found = findings(assemble, body + STORE.format(f"v{first + half}"), target)
        assert found == ([] if good else [(Kind.UNINITIALISED_REGISTER, "global_store_dword")])


def test_a_pair_waits_for_the_half_that_it_takes(assemble):
    load = "  v_mov_b32 v20, 1\n  v_mov_b32 v21, 1\n  global_load_dword v21, v1, s[8:9]\n"
    wait = "  s_waitcnt vmcnt(0)\n"
    low = load + "  v_pk_mov_b32 v[30:31], v[20:21], v[20:21] op_sel:[0,0]\n" + wait
    assert findings(assemble, low + STORE.format("v30")) == []
    high = load + "  v_pk_mov_b32 v[30:31], v[20:21], v[20:21] op_sel:[0,1]\n" + wait
    assert findings(assemble, high + STORE.format("v30")) == [(Kind.READ_BEFORE_WAIT, "v_pk_mov_b32")]


@pytest.mark.parametrize("target", TARGETS)
def test_half_of_a_pair_that_is_copied(assemble, target):
    body = "  v_mov_b32 v20, 1\n  v_mov_b64 v[30:31], v[20:21]\n"
    assert findings(assemble, body + STORE.format("v30"), target) == []
    assert findings(assemble, body + STORE.format("v31"), target) == [
        (Kind.UNINITIALISED_REGISTER, "global_store_dword")
    ]


@pytest.mark.parametrize("half", ["lo", "hi"])
def test_an_instruction_that_keeps_half_of_its_result(assemble, half):
    """Its result is defined where its sources are, whatever the other half was."""
    store = "  global_store_short{} v1, v30, s[10:11]\n".format("_d16_hi" if half == "hi" else "")
    good = f"  v_mov_b32 v20, 1.0\n  v_fma_mix{half}_f16 v30, v20, v20, v20\n" + store
    assert findings(assemble, good, "gfx950") == []
    bad = f"  v_mov_b32 v20, 1.0\n  v_fma_mix{half}_f16 v30, v20, v40, v20\n" + store
    assert [kind for kind, _ in findings(assemble, bad, "gfx950")] == [Kind.UNINITIALISED_REGISTER]
