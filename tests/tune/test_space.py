"""Search spaces: clauses, ranges, variants, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tunable_specs import SMALL

from tkgen.diagnostics import SpecError
from tkgen.tune import Candidate, Space, TuneError

Write = Callable[[str, str], Path]


def test_clauses_span_the_space(small: Path) -> None:
    space = Space.of([small], {}, {})
    assert space.size == len(list(space)) == 6
    assert next(iter(space)) == Candidate(str(small), (("ROWS", 32), ("BUFFERS", 1)))
    assert {dict(c.values)["ROWS"] for c in space} == {32, 64, 96}


def test_a_range_replaces_a_clause_and_a_fixed_parameter_has_none(small: Path) -> None:
    space = Space.of([small], {"ROWS": [128]}, {"BUFFERS": 2})
    assert [c.values for c in space] == [(("ROWS", 128),)]


def test_variants_are_joined_and_ranges_go_where_the_parameter_is(small: Path, write: Write) -> None:
    other = write("other.tk", SMALL.replace("BUFFERS", "DEPTH").replace("kernel small", "kernel other"))
    space = Space.of([small, other], {"DEPTH": [1, 2, 3]}, {})
    assert [v.size for v in space.variants] == [6, 9]
    assert {c.spec for c in space} == {str(small), str(other)}


def test_a_spec_without_parameters_is_one_candidate(write: Write) -> None:
    lines = [line for line in SMALL.split("\n") if "tune" not in line and "    96" not in line]
    assert [c.values for c in Space.of([write("plain.tk", "\n".join(lines))], {}, {})] == [()]


@pytest.mark.parametrize(
    ("ranges", "fixed", "message"),
    [
        ({"ROWZ": [1]}, {}, "did you mean `ROWS`"),
        ({"M": [256]}, {}, "is a dimension of the problem"),
        ({"ROWS": []}, {}, "no value"),
        ({"ROWS": [32, 32]}, {}, "is repeated"),
        ({"ROWS": [0]}, {}, "0 is no size"),
        ({"ROWS": [1 << 31]}, {}, "fit 31 bits"),
        ({"ROWS": [32]}, {"ROWS": 32}, "leave one out"),
        ({}, {"NOPE": 1}, "is nothing in these specs"),
    ],
)
def test_wrong_ranges(small: Path, ranges: dict[str, list[int]], fixed: dict[str, int | None], message: str) -> None:
    with pytest.raises(TuneError, match=message):
        Space.of([small], ranges, fixed)


@pytest.mark.parametrize(
    ("clause", "code"),
    [("tune NOPE in 1, 2", "E200"), ("tune M in 1, 2", "E200"), ("tune BUFFERS in 1, 2 * 2", "E203"),
     ("tune BUFFERS in 1, 1.5", "E203"), ("tune BUFFERS in 1\n  tune BUFFERS in 2", "E202")],
)  # fmt: skip
def test_wrong_clauses_are_diagnosed(write: Write, clause: str, code: str) -> None:
    path = write("wrong.tk", SMALL.replace("tune BUFFERS in 1, 2", clause))
    with pytest.raises(SpecError) as error:
        Space.of([path], {}, {})
    assert [d.code for d in error.value.diagnostics] == [code]


def test_the_same_file_twice_is_refused(small: Path) -> None:
    with pytest.raises(TuneError, match="twice"):
        Space.of([small, small], {}, {})
