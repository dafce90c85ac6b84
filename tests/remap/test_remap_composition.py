"""Composition: what may follow what, how arguments bind, and what is said about mistakes."""

from __future__ import annotations

import pickle
import sys

import pytest

from tkgen.remap import REMAPS, NamedInt, Parameter, RemapCall, RemapError, compose, problems

CHUNKED = RemapCall("xcd", {"chunk": 16}, (8,))
GROUPED = RemapCall("group", {"rows": 4})


def test_the_text_of_a_composition():
    assert str(compose([CHUNKED, GROUPED])) == "xcd(n = 8, chunk = 16) | group(rows = 4)"


@pytest.mark.parametrize("calls", [[], [RemapCall("row_major")]])
def test_row_major_is_the_default(calls):
    assert compose(calls) == compose([])
    assert compose(calls).order(2, 3) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


def test_stages_apply_left_to_right():
    # 2 XCDs, 8 tiles: blocks 0, 1, 2, ... -> linear 0, 4, 1, 5, ... and then pairs within the rounds of 4.
    ids = [col for _, col in compose([RemapCall("xcd", {"n": 2}), RemapCall("xcd", {"n": 2, "chunk": 2})]).order(1, 8)]
    first, second = [0, 4, 1, 5, 2, 6, 3, 7], [0, 2, 1, 3, 4, 6, 5, 7]
    assert ids == [second[i] for i in first]


@pytest.mark.parametrize(
    ("calls", "message", "call", "parameter", "suggestion"),
    [
        ([RemapCall("hilbrt")], "there is no remap `hilbrt`", 0, None, "hilbert"),
        ([RemapCall("qqq")], "there is no remap `qqq`", 0, None, None),
        ([GROUPED, CHUNKED], "`xcd` permutes the linear index, so it must stand before `group`", 1, None, None),
        ([GROUPED, RemapCall("row_major")], "`row_major` follows `group`: the index is placed", 1, None, None),
        ([RemapCall("group")], "`rows` of `group` is missing: height of a band in tiles", 0, "rows", None),
        ([RemapCall("group", {"rows": 0})], "`rows` of `group` is 0, it must be from 1 to 65536", 0, "rows", None),
        ([RemapCall("group", {"row": 4})], "`group` has no parameter `row`", 0, "row", "rows"),
        ([RemapCall("group", {"rows": True})], "`rows` of `group` must be an integer, not True", 0, "rows", None),
        ([RemapCall("xcd", {"n": 8}, (8,))], "`n` of `xcd` is given twice", 0, "n", None),
        ([RemapCall("xcd", {}, (8, 4, 2))], "`xcd` takes `n`, `chunk`, but 3 values are given", 0, None, None),
        ([RemapCall("morton", {}, (8,))], "`morton` takes no arguments, but 1 values are given", 0, None, None),
        ([CHUNKED, RemapCall("xcd", {"n": -1})], "`n` of `xcd` is -1", 1, "n", None),
    ],
)
def test_mistakes(calls, message, call, parameter, suggestion):
    with pytest.raises(RemapError) as caught:
        compose(calls)
    error = caught.value
    assert error.message.startswith(message)
    assert (error.call, error.parameter, error.suggestion) == (call, parameter, suggestion)


def test_all_mistakes_at_once():
    calls = [RemapCall("group", {"rows": 0}), RemapCall("nothing"), RemapCall("xcd", {"chunk": 0})]
    found = [(p.call, p.parameter) for p in problems(calls)]
    assert found == [(0, "rows"), (1, None), (2, None), (2, "n"), (2, "chunk")]
    assert problems([CHUNKED, GROUPED]) == []


@pytest.mark.parametrize(("rows", "cols"), [(0, 4), (4, 0), (-1, 4), (1 << 16, 1 << 16)])
def test_grids_that_cannot_be(rows, cols):
    with pytest.raises(ValueError, match="is empty or has more than"):
        compose([]).order(rows, cols)


@pytest.mark.parametrize("index", [-1, 12])
def test_indices_outside_the_grid(index):
    with pytest.raises(ValueError, match=f"tile {index} is outside a grid of 3 x 4"):
        compose([]).place(index, 3, 4)


@pytest.mark.parametrize(
    "arguments",
    [
        {"index": "block; system()"},
        {"index": "blockIdx.x)"},
        {"grid_rows": "int"},
        {"grid_rows": 0},
        {"grid_rows": 1 << 16, "grid_cols": 1 << 16},
        {"grid_cols": NamedInt("cols", 0)},
        {"grid_cols": NamedInt("a b", 4)},
        {"row": "g.row"},
        {"row": "block"},
        {"row": "tile_col"},
    ],
)
def test_names_and_numbers_that_cannot_be_emitted(arguments):
    with pytest.raises(ValueError, match=r"cannot name|at least one row|has more than|must differ"):
        compose([GROUPED]).cpp(**arguments)


def test_reserved_names_are_left_alone():
    block = compose([GROUPED]).cpp(reserved={"group_slot"}, row="r", col="c")
    text = "\n".join(block.statements)
    assert "int group_slot =" not in text and "int group_slot_2 =" in text


@pytest.mark.parametrize("calls, read", [([], {"grid_cols"}), ([GROUPED], {"grid_rows", "grid_cols"})])
def test_a_remap_says_which_extents_it_reads(calls, read):
    assert read == {"grid_rows", "grid_cols"} & {*compose(calls).cpp().reads}


def test_a_remap_travels_to_other_processes():
    remap = compose([CHUNKED, RemapCall("hilbert")])
    order = remap.order(5, 7)
    assert pickle.loads(pickle.dumps(remap)).order(5, 7) == order


def test_numpy_is_not_needed(monkeypatch):
    remap = compose([CHUNKED, RemapCall("hilbert")])
    expected = remap.order(100, 90)
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert remap.order(100, 90) == expected
    assert all(type(row) is int and type(col) is int for row, col in expected)


def test_every_remap_says_what_it_is():
    for name, spec in REMAPS.items():
        assert spec.name == name
        assert spec.doc.endswith(".") and spec.source.endswith(".")
        assert spec.kind in ("placement", "permutation")
        assert all(isinstance(p, Parameter) and p.doc and p.minimum <= p.maximum for p in spec.parameters)
    assert REMAPS["xcd"].signature == "xcd(n, chunk)"
    assert REMAPS["hilbert"].signature == "hilbert"
