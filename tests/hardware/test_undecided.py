"""Open questions about instructions, asked of the emulator and of something that answers otherwise."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tinygrad")

from tkgen.hardware import instructions, undecided
from tkgen.hardware.tables import tables


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
    result = {"section": "instructions", "item": undecided.ITEM, "seconds": 1.0} | found
    table = tables({"results": [result]})[-1]
    for row, question in zip(table.rows, undecided.questions("gfx942"), strict=True):
        assert row[:4] == (question.name, question.instruction, question.emulator_does, question.other_does)
        assert row[4] == answer and f"0x{change(question)[0]:08x}" in row[5]
    assert set(table.marks) == {verdict}


def test_the_section_asks_them():
    class Hip:
        device = type("Device", (), {"target": "gfx942", "stand_in": True})

    context = instructions.CheckContext(Hip(), ".")
    assert instructions.items(context)[-1] == undecided.ITEM
