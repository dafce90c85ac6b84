"""Integer programs: folding, naming, and that both printed forms compute what the program says."""

from __future__ import annotations

import numpy
import pytest

from tkgen.remap import cpp, model
from tkgen.remap.expr import Const, Op, Program, Ref, divides, known, minimum, select

X = Ref("x")


def run(program: Program, result, **inputs):
    code = model.compiled(list(inputs), program.statements([result]), [result])
    return model.function(code, model.SCALAR)(**inputs)[0]


def test_known_operands_fold():
    assert Const(7) // 2 * 2 + 1 == Const(7)
    assert Const(9) % 4 == Const(1)
    assert known(Ref("rows", 12) * 4) == 48
    assert minimum(Const(3), 5) == Const(3)
    assert select(Const(2) > 1, X, 0) == X
    assert -Const(3) == Const(-3)


@pytest.mark.parametrize("expr", [X + 0, X * 1, X // 1, X - 0, X >> 0, select(X > 1, X, X)])
def test_neutral_operands_vanish(expr):
    assert expr is X


def test_absorbing_operands_win():
    assert known(X * 0) == 0
    assert known(X % 1) == 0
    assert known((X > 1) & Const(0)) == 0
    assert known((X > 1) | Const(1)) == 1


def test_unknown_operands_stay():
    expr = X + 1
    assert expr == Op("+", (X, Const(1)))
    assert known(expr) is None


def test_divides_only_when_certain():
    assert divides(Const(4), Const(64))
    assert not divides(Const(4), Const(63))
    assert not divides(Const(4), Ref("rows"))


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        ((X + 1) * 2, "(x + 1) * 2"),
        (X - (X - 1), "x - (x - 1)"),
        (X // 2 * 2, "x / 2 * 2"),
        (X * (X // 2), "x * (x / 2)"),
        ((X + 1) >> 1, "(x + 1) >> 1"),
        (((X > 1) & (X < 9)) | X.equals(4), "(x > 1 && x < 9) || x == 4"),
        (~((X > 1) | (X >= 9)), "!(x > 1 || x >= 9)"),
        (-(X * 2) + 1, "-(x * 2) + 1"),
        (X * -1, "x * -1"),
        (minimum(X, 4) + 1, "(x < 4 ? x : 4) + 1"),
        (select(X > 1, select(X > 2, 5, 6), select(X > 0, 7, 8)), "x > 1 ? (x > 2 ? 5 : 6) : x > 0 ? 7 : 8"),
    ],
)
def test_cpp_parentheses(expr, text):
    assert cpp.expression(expr) == text


def test_names_are_unique_and_dead_ones_dropped():
    program = Program(inputs={"x", "a_half"})
    program.stage("a")
    half = program.let("half", X >> 1)
    program.let("unused", half + 1)
    again = program.let("half", half >> 1, "a quarter")
    assert cpp.lines(program.statements([again]), "  ") == [
        "  const int a_half_2 = x >> 1;",
        "  const int a_half_3 = a_half_2 >> 1;  // a quarter",
    ]


def test_known_values_become_constexpr_and_what_they_came_from_goes():
    program = Program()
    program.stage("a")
    side = program.let("side", Const(8))
    area = program.let("area", side * side)
    assert cpp.lines(program.statements([X // area]), "") == ["constexpr int a_area = 64;"]


def test_long_comments_stand_above_their_line():
    program = Program()
    comment = "words " * 20
    value = program.let("v", X + 1, comment)
    assert cpp.lines(program.statements([value]), "") == [f"// {comment}", "const int v = x + 1;"]


def collatz() -> tuple[Program, Ref]:
    """Steps until 1: a loop with a choice in a choice."""
    program = Program(inputs={"x"})
    n = program.variable("n", X)
    steps = program.variable("steps", 0)
    with program.loop(n > 1):
        with program.when((n % 2).equals(0)):
            program.set(n, n >> 1)
        with program.otherwise():
            with program.when(n > 100):
                program.set(n, n * 3)
            with program.otherwise():
                program.set(n, n + n + n)
            program.set(n, n + 1)
        program.set(steps, steps + 1)
    return program, steps


def collatz_by_hand(n: int) -> int:
    steps = 0
    while n > 1:
        n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
    return steps


def test_loops_and_choices_agree_on_numbers_and_arrays():
    program, steps = collatz()
    code = model.compiled(["x"], program.statements([steps]), [steps])
    scalar = model.function(code, model.SCALAR)
    expected = [collatz_by_hand(n) for n in range(1, 200)]
    assert [scalar(n)[0] for n in range(1, 200)] == expected
    (vector,) = model.function(code, model.vector_runtime(numpy))(numpy.arange(1, 200))
    assert vector.tolist() == expected


def test_loops_and_choices_read_like_code():
    program, steps = collatz()
    assert "\n".join(cpp.lines(program.statements([steps]), "")) == (
        "int n = x;\n"
        "int steps = 0;\n"
        "while (n > 1) {\n"
        "    if (n % 2 == 0) {\n"
        "        n = n >> 1;\n"
        "    } else {\n"
        "        if (n > 100) {\n"
        "            n = n * 3;\n"
        "        } else {\n"
        "            n = n + n + n;\n"
        "        }\n"
        "        n += 1;\n"
        "    }\n"
        "    steps += 1;\n"
        "}"
    )


def test_a_let_of_a_variable_keeps_its_value_of_that_moment():
    program = Program(inputs={"x"})
    v = program.variable("v", X)
    before = program.let("before", v)
    program.set(v, v + 5)
    assert run(program, v * 100 + before, x=2) == 702


def test_misuse_is_refused():
    program = Program()
    with pytest.raises(ValueError, match="outside of loops"), program.loop(X > 1):
        program.variable("v", 0)
    program = Program()
    with pytest.raises(ValueError, match="no other loop"), program.when(X > 1), program.loop(X > 1):
        pass
    program = Program()
    program.variable("v", 0)
    with pytest.raises(ValueError, match="right after its `when`"), program.otherwise():
        pass
    with pytest.raises(ValueError, match="cannot name"):
        Program().let("a b", X + 1)


@pytest.mark.parametrize("name", ["", "1x", "x y", "x;", "int", "while", "a..b", "a.int", "é", "x\n"])
def test_names_that_are_no_cpp_names(name):
    with pytest.raises(ValueError, match="cannot name"):
        cpp.check_name(name, dotted=True)


def test_member_paths_only_where_allowed():
    assert cpp.check_name("g.rows", dotted=True) == "g.rows"
    with pytest.raises(ValueError, match="cannot name"):
        cpp.check_name("g.rows")
