"""Open questions about instructions, asked of the emulator and of something that answers otherwise."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tinygrad")

from dataclasses import replace

from tkgen.emulate import Buffer, Kind, launch
from tkgen.hardware import instructions, undecided
from tkgen.hardware.assembly import code_of
from tkgen.hardware.tables import tables
from tkgen.targets import load_target
from tkgen.toolchain.discover import find_compiler


def answering(change):
    """A runner whose results are those of `change` for each question: a list of dwords."""

    def run(code, given, rows):
        out = np.zeros((1, rows, 64), np.uint32)
        for row, question in zip(out[0], undecided.questions("gfx942"), strict=True):
            row[: len(question.inputs)] = change(question)
        return out

    return run


@pytest.mark.parametrize("target", ["gfx90a", "gfx942", "gfx950"])
def test_the_emulator_has_its_own_readings(target):
    found = undecided.judged(target, None, instructions.on_emulator)
    assert found["verdict"] == "right"
    assert [a["answer"] for a in found["undecided"]] == ["the emulator's"] * len(undecided.questions(target))


def test_both_results_of_a_question_are_of_its_lanes_and_differ():
    for question in undecided.questions("gfx950"):
        assert len(question.inputs) == len(question.emulator) == len(question.other)
        assert list(question.emulator) != list(question.other) and question.emulator_does != question.other_does


@pytest.mark.parametrize(
    ("change", "verdict", "answer"),
    [
        (lambda q: q.other, "close", "the other"),
        (lambda q: [0xDEAD0000 + lane for lane, _ in enumerate(q.inputs)], "wrong", "neither"),
    ],
)
def test_another_answer_is_named_with_both_meanings(change, verdict, answer):
    found = undecided.judged("gfx942", None, answering(change))
    assert found["verdict"] == verdict
    asked = undecided.questions("gfx942")
    result = {"section": "instructions", "item": undecided.ITEM, "seconds": 1.0} | found
    table = tables({"results": [result]})[-1]
    for row, question in zip(table.rows, asked, strict=True):
        text = "; ".join(question.instruction.strip().splitlines())
        assert row[:4] == (question.name, text, question.emulator_does, question.other_does)
        assert row[4] == answer and f"0x{change(question)[0]:08x}" in row[5]
    of_pairs = "wrong" if verdict == "wrong" else "right"  # neither answer is against the emulator
    assert table.marks == [of_pairs if q.missing else verdict for q in asked]


PAIRS = [q for q in undecided.questions("gfx942") if q.missing]


@pytest.mark.parametrize("question", PAIRS, ids=[q.name for q in PAIRS])
def test_a_pair_lacks_the_wait_states_that_it_says(question):
    """E714 accuses it, and no longer once they are there."""

    def found(asked):
        of = load_target("gfx942")
        code = code_of(undecided.assembly([asked], "gfx942"), of, find_compiler(of))
        given, out = undecided.inputs([asked]), np.zeros((1, 1, 64), np.uint32)
        got = launch(code, grid=(1, 1, 1), block=(64, 1, 1), args=[Buffer(given), Buffer(out)], watch=True)
        assert got.completed and list(out[0, 0, : len(asked.inputs)]) == list(asked.emulator)
        return [(f.kind, f.size) for f in got.findings]

    assert set(found(question)) == {(Kind.WAIT_STATES, question.missing)}
    lines = question.instruction.splitlines()
    at = next(
        n for n, line in enumerate(lines) if line.startswith(("v_cndmask", "v_or_b32", "global_load", "v_mov_b32 v15"))
    )
    lines.insert(at, f"s_nop {question.missing - 1}")
    assert found(replace(question, instruction="\n".join(lines))) == []


def test_one_lane_with_an_old_result_says_that_wait_states_are_needed():
    pair = PAIRS[0]
    assert pair.answer(pair.emulator) == undecided.EMULATOR
    assert pair.answer([pair.emulator[0], pair.other[1]]) == undecided.OTHER == pair.answer(pair.other)
    assert pair.answer([pair.emulator[0], 0xDEAD]) == undecided.NEITHER


def test_the_section_asks_them():
    class Hip:
        device = type("Device", (), {"target": "gfx942", "stand_in": True})

    context = instructions.CheckContext(Hip(), ".")
    assert instructions.items(context)[-1] == undecided.ITEM
