"""Integer programs: the one form in which a remap's arithmetic is written.

A program is a list of named values, where needed with a `while` loop over mutable variables. `cpp.py` prints it as C++
for a kernel's prologue and `model.py` as Python for the checks, so neither can drift from the other.

Values are 32-bit signed in the kernel. Division, remainder and shift are used on non-negative operands only, where C++
and Python agree. Both arms of a `select` and both bodies of a choice may be evaluated, so none may divide by zero.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace


class Expr:
    """An integer or boolean expression; Python's operators build bigger ones and fold what is known."""

    def __add__(self, other: Expr | int) -> Expr:
        return operation("+", self, other)

    def __sub__(self, other: Expr | int) -> Expr:
        return operation("-", self, other)

    def __mul__(self, other: Expr | int) -> Expr:
        return operation("*", self, other)

    def __floordiv__(self, other: Expr | int) -> Expr:
        return operation("/", self, other)

    def __mod__(self, other: Expr | int) -> Expr:
        return operation("%", self, other)

    def __rshift__(self, other: Expr | int) -> Expr:
        return operation(">>", self, other)

    def __lt__(self, other: Expr | int) -> Expr:
        return operation("<", self, other)

    def __gt__(self, other: Expr | int) -> Expr:
        return operation(">", self, other)

    def __ge__(self, other: Expr | int) -> Expr:
        return operation(">=", self, other)

    def __and__(self, other: Expr) -> Expr:
        return operation("&&", self, other)

    def __or__(self, other: Expr) -> Expr:
        return operation("||", self, other)

    def __neg__(self) -> Expr:
        return operation("negate", self)

    def __invert__(self) -> Expr:
        return operation("!", self)

    def equals(self, other: Expr | int) -> Expr:
        """The comparison `self == other` (the operator itself compares the trees)."""
        return operation("==", self, other)


@dataclass(frozen=True)
class Const(Expr):
    """A literal."""

    value: int


@dataclass(frozen=True)
class Ref(Expr):
    """A named value; `value` is what it is known to be, None where that is decided at run time."""

    name: str
    value: int | None = None
    boolean: bool = False
    constant: bool = True


@dataclass(frozen=True)
class Op(Expr):
    """An operator of `OPERATORS` on its operands."""

    op: str
    args: tuple[Expr, ...]


OPERATORS: dict[str, Callable[..., int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    ">>": lambda a, b: a >> b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "&&": lambda a, b: a and b,
    "||": lambda a, b: a or b,
    "!": lambda a: not a,
    "negate": lambda a: -a,
    "min": min,
    "select": lambda condition, then, other: then if condition else other,
}
_BOOLEAN = frozenset(["<", ">", ">=", "==", "&&", "||", "!"])


def known(expr: Expr) -> int | None:
    """The value of `expr` where it is fixed when the program is built, else None."""
    return expr.value if isinstance(expr, Const | Ref) else None


def is_boolean(expr: Expr) -> bool:
    """Return True if `expr` is a truth value rather than a number."""
    if isinstance(expr, Op):
        return expr.op in _BOOLEAN or (expr.op == "select" and is_boolean(expr.args[1]))
    return isinstance(expr, Ref) and expr.boolean


def operation(op: str, *operands: Expr | int) -> Expr:
    """`op` applied to the operands, folded where they are known and simplified where one is neutral."""
    args = tuple(Const(a) if isinstance(a, int) else a for a in operands)
    values = [known(a) for a in args]
    if None not in values:
        return Const(int(OPERATORS[op](*values)))
    return _simplified(op, args, values) or Op(op, args)


def _simplified(op: str, args: tuple[Expr, ...], values: list[int | None]) -> Expr | None:
    """Simplify `op` where one operand is neutral or absorbing; None where it cannot be simplified."""
    if op == "select":
        if values[0] is not None:
            return args[1] if values[0] else args[2]
        return args[1] if args[1] == args[2] else None
    if len(args) < 2:
        return None
    left, right = values
    if (op in ("-", ">>") and right == 0) or (op == "/" and right == 1):
        return args[0]
    if op in ("+", "*", "&&", "||"):
        neutral = 1 if op in ("*", "&&") else 0
        absorbing = {"*": 0, "&&": 0, "||": 1}.get(op)
        if absorbing is not None and absorbing in (left, right):
            return Const(absorbing)
        if neutral in (left, right):
            return args[0] if right == neutral else args[1]
    if op == "%" and right == 1:
        return Const(0)
    return None


def minimum(a: Expr | int, b: Expr | int) -> Expr:
    """The smaller of two numbers; name an operand that is more than a name first, C++ prints it twice."""
    return operation("min", a, b)


def select(condition: Expr, then: Expr | int, other: Expr | int) -> Expr:
    """`then` where `condition` holds, else `other`."""
    return operation("select", condition, then, other)


def divides(divisor: Expr, number: Expr) -> bool:
    """Return True if `divisor` is known now to divide `number`: the ragged case then needs no code."""
    a, b = known(divisor), known(number)
    return a is not None and b is not None and b % a == 0


@dataclass(frozen=True)
class Let:
    """A named value that never changes."""

    name: str
    value: Expr
    comment: str


@dataclass(frozen=True)
class Variable:
    """A mutable variable and its first value."""

    name: str
    value: Expr
    comment: str


@dataclass(frozen=True)
class Set:
    """A variable's next value; statements take effect one after the other."""

    name: str
    value: Expr


@dataclass(frozen=True)
class If:
    """A choice between two bodies."""

    condition: Expr
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


@dataclass(frozen=True)
class While:
    """A loop; it stands in no other loop and no choice."""

    condition: Expr
    body: tuple[Statement, ...]


Statement = Let | Variable | Set | If | While


class Program:
    """Builds the statements of one program; every name is made unique.

    `inputs` are names the surroundings already declare; they are never declared again. The names of a stage carry its
    name in front (`group_rows`), set by `stage`.
    """

    def __init__(self, inputs: Collection[str] = ()):
        self._taken = set(inputs)
        self._prefix = ""
        self._statements: list[Statement] = []  # of the body being built
        self._depth = 0
        self.read: set[str] = set()

    def stage(self, name: str) -> None:
        """From here on, names begin with `name` and an underscore."""
        self._prefix = f"{name}_"

    def let(self, name: str, value: Expr, comment: str = "") -> Expr:
        """Name `value` and return the reference to use in its place."""
        if isinstance(value, Ref) and value.constant:
            return value
        statement = Let(self._declare(name), value, comment)
        self._statements.append(statement)
        return Ref(statement.name, known(value), is_boolean(value))

    def variable(self, name: str, value: Expr | int, comment: str = "") -> Ref:
        """Declare a mutable variable, before the loop whose state it is."""
        if self._depth:
            raise ValueError("variables are declared outside of loops and choices")
        statement = Variable(self._declare(name), Const(value) if isinstance(value, int) else value, comment)
        self._statements.append(statement)
        return Ref(statement.name, constant=False)

    def set(self, variable: Ref, value: Expr) -> None:
        """Give a variable its next value."""
        self._statements.append(Set(variable.name, value))

    @contextmanager
    def loop(self, condition: Expr) -> Iterator[None]:
        """Repeat what is built inside while `condition`, over variables declared before, holds."""
        if self._depth:
            raise ValueError("loops stand in no other loop and no choice")
        with self._body() as body:
            yield
        self._statements.append(While(condition, tuple(body)))

    @contextmanager
    def when(self, condition: Expr) -> Iterator[None]:
        """Do what is built inside only where `condition` holds."""
        with self._body() as body:
            yield
        self._statements.append(If(condition, tuple(body)))

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """Do what is built inside where the condition of the `when` just before did not hold."""
        choice = self._statements.pop()
        if not isinstance(choice, If) or choice.otherwise:
            raise ValueError("`otherwise` comes right after its `when`")
        with self._body() as body:
            yield
        self._statements.append(replace(choice, otherwise=tuple(body)))

    def statements(self, results: Sequence[Expr]) -> list[Statement]:
        """The program in order, without the named values that neither `results` nor a variable needs.

        `read` then has the names that these and `results` read.
        """
        self.read = {name for result in results for name in names_in(result)}
        return _live(self._statements, self.read)

    @contextmanager
    def _body(self) -> Iterator[list[Statement]]:
        """Collect what is built inside as a separate body."""
        outer, self._statements = self._statements, []
        self._depth += 1
        yield self._statements
        self._depth -= 1
        self._statements = outer

    def _declare(self, name: str) -> str:
        full = wanted = self._prefix + name
        if not full.isidentifier():
            raise ValueError(f"`{full}` cannot name a value")
        count = 1
        while full in self._taken:
            count += 1
            full = f"{wanted}_{count}"
        self._taken.add(full)
        return full


def _live(statements: Sequence[Statement], needed: set[str]) -> list[Statement]:
    """Drop the lets nobody reads, from the last statement to the first; adds what the rest reads to `needed`."""
    kept: list[Statement] = []
    for statement in reversed(statements):
        if isinstance(statement, While):
            needed.update(names_in(statement.condition))
            kept.append(replace(statement, body=tuple(_live(statement.body, needed))))
        elif isinstance(statement, If):
            needed.update(names_in(statement.condition))
            then, otherwise = _live(statement.then, needed), _live(statement.otherwise, needed)
            kept.append(replace(statement, then=tuple(then), otherwise=tuple(otherwise)))
        elif not isinstance(statement, Let) or statement.name in needed:
            needed.update(names_in(statement.value))
            kept.append(statement)
    return kept[::-1]


def names_in(expr: Expr) -> set[str]:
    """The names that `expr` reads."""
    if isinstance(expr, Op):
        return {name for arg in expr.args for name in names_in(arg)}
    return {expr.name} if isinstance(expr, Ref) else set()
