"""Parser of the pseudo-code: a text becomes a Python function that changes an environment."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from pcode.functions import FUNCTIONS, OF_MODE
from pcode.operations import binary, cast, concatenate, invert, negate, pick, resized, write
from pcode.small_floats import CONVERSIONS
from pcode.values import TYPE, B, Break, Env, Expr, F, Return, Stmt, Value, number, raw, rounded, truth, typed

IN_CONTEXT = OF_MODE | CONVERSIONS  # functions that depend on the mode or the target
TOKEN = re.compile(
    r"""\s*(?:
      (?P<cast>\d+'(?:BF|[UIFB])(?![0-9A-Za-z]))
    | (?P<sized>\d+'(?:0x[0-9a-fA-F]+|\d+\.\d+|\d+)U?)
    | (?P<hex>0x[0-9a-fA-F]+(?:ULL|LL|U|L)?)
    | (?P<float>\d+\.\d+F?|\d+F(?![A-Za-z0-9]))
    | (?P<int>\d+(?:ULL|LL|U|L)?)
    | (?P<name>[A-Za-z_][A-Za-z_0-9]*)
    | (?P<op>\*\*|<>|<<|>>|<=|>=|==|!=|&&|\|\||\+=|-=|\+:|[-+*/%&|^~!<>=?:;,.(){}\[\]])
    )""",
    re.X,
)


class Parser:
    def __init__(self, text: str):
        text = re.sub(r"//[^\n]*", "", text)
        self.tokens: list[tuple[str, str]] = []
        at = 0
        text = text.rstrip()
        while at < len(text):
            m = TOKEN.match(text, at)
            if not m:
                raise SyntaxError(f"pseudocode: {text[at : at + 30]!r}")
            self.tokens.append((m.lastgroup, m.group(m.lastgroup)))
            at = m.end()
        self.i = 0

    def peek(self, k: int = 0) -> str:
        return self.tokens[self.i + k][1] if self.i + k < len(self.tokens) else ""

    def next(self) -> tuple[str, str]:
        token = self.tokens[self.i]
        self.i += 1
        return token

    def take(self, text: str) -> bool:
        if self.peek() == text:
            self.i += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise SyntaxError(f"pseudocode: expected {text!r}, found {self.peek()!r}")

    # Statements ---------------------------------------------------------------

    def block(self, *ends: str) -> Stmt:
        body = []
        while self.i < len(self.tokens) and self.peek() not in ends:
            if self.take(";"):
                continue
            body.append(self.statement())

        def run(e: Env) -> None:
            for s in body:
                s(e)

        return run

    def statement(self) -> Stmt:
        head = self.peek()
        if head == "if":
            return self.conditional()
        if head == "for":
            return self.loop()
        if head == "declare":
            return self.declaration()
        if head == "break":
            self.next()

            def stop(e: Env) -> None:
                raise Break

            return stop
        if head == "return":
            self.next()
            value = self.expression()

            def give(e: Env) -> None:
                raise Return(value(e))

            return give
        if head == "{":
            return self.split_assignment()
        return self.assignment()

    def conditional(self) -> Stmt:
        branches: list[tuple[Expr, Stmt]] = []
        self.next()
        condition = self.expression()
        self.expect("then")
        branches.append((condition, self.block("elsif", "else", "endif")))
        otherwise: Stmt = lambda e: None  # noqa: E731
        while not self.take("endif"):
            if self.take("elsif"):
                condition = self.expression()
                self.expect("then")
                branches.append((condition, self.block("elsif", "else", "endif")))
            else:
                self.expect("else")
                otherwise = self.block("endif")

        def run(e: Env) -> None:
            for c, body in branches:
                if truth(c(e)):
                    body(e)
                    return
            otherwise(e)

        return run

    def loop(self) -> Stmt:
        self.next()
        name = self.next()[1]
        self.expect("in")
        first = self.expression()
        self.expect(":")
        last = self.expression()
        self.expect("do")
        body = self.block("endfor")
        self.expect("endfor")

        def run(e: Env) -> None:
            for i in range(number(first(e)), number(last(e)) + 1):
                e[name] = i
                try:
                    body(e)
                except Break:
                    break

        return run

    def declaration(self) -> Stmt:
        self.next()
        name = self.next()[1]
        self.expect(":")
        width, kind = re.match(r"(\d+)'([A-Z]+)", self.next()[1]).groups()
        array = None
        if self.take("["):
            array = int(self.next()[1])
            self.expect("]")
        zero: Value = F(int(width), 0.0) if kind == "F" else B(int(width), 0)

        def run(e: Env) -> None:
            if not (name.isupper() and name in e):  # fields of the instruction, and tables, are given
                e[name] = [zero] * array if array else zero

        return run

    def split_assignment(self) -> Stmt:
        self.expect("{")
        targets = [self.target()]
        while self.take(","):
            targets.append(self.target())
        self.expect("}")
        self.expect("=")
        value = self.expression()

        def run(e: Env) -> None:
            x = number(value(e))
            for t in reversed(targets):
                x = t(e, x)

        return run

    def target(self) -> Callable[[Env, int], int]:
        name = self.next()[1]
        self.expect(".")
        width = int(re.sub(r"\D", "", self.next()[1]))

        def assign(e: Env, x: int) -> int:
            e[name] = B(width, x & ((1 << width) - 1))
            return x >> width

        return assign

    def assignment(self) -> Stmt:
        name = self.next()[1]
        if self.peek() == "=" and self.peek(1) == "lambda":
            return self.function(name)
        path: list[tuple[str, Any]] = []
        while True:
            if self.take("."):
                path.append(("type", self.next()[1]))
            elif self.take("["):
                path.append(("slice", self.slice()))
            else:
                break
        op = self.next()[1]
        if name == "EXEC" and path[-1][0] == "slice":  # v_cmpx: EXEC.u64[laneId] = D0.u64[laneId] = ...
            inner = self.assignment()
            compared = self.reader("D0", path)

            def both(e: Env) -> None:
                inner(e)
                write(e, name, path, compared(e))

            return both
        value = self.expression()
        if op in ("+=", "-="):
            read = self.reader(name, path)

            def run(e: Env) -> None:
                now = binary(op[0], read(e), value(e))
                write(e, name, path, now)

            return run
        assert op == "=", op
        return lambda e: write(e, name, path, value(e))

    def function(self, name: str) -> Stmt:
        self.next()
        self.next()
        self.expect("(")
        parameters = []
        while not self.take(")"):
            if not self.take(","):
                parameters.append(self.next()[1])
        self.expect("(")
        while self.take(";"):
            pass
        if self.peek() in ("declare", "if", "for", "return"):
            body = self.block(")")

            def call(e: Env, *args: Value) -> Value:
                inner = Env(e)
                inner.update(zip(parameters, args, strict=True))
                try:
                    body(inner)
                except Return as r:
                    return r.value
                return None

        else:
            value = self.expression()

            def call(e: Env, *args: Value) -> Value:
                inner = Env(e)
                inner.update(zip(parameters, args, strict=True))
                return value(inner)

        self.expect(")")

        def define(e: Env) -> None:
            e[name] = call

        return define

    def slice(self) -> tuple[str, Expr, Expr | None]:
        first = self.expression()
        if self.take(":"):
            second = self.expression()
            self.expect("]")
            return "range", first, second
        if self.take("+:"):
            second = self.expression()
            self.expect("]")
            return "width", first, second
        self.expect("]")
        return "bit", first, None

    # Expressions --------------------------------------------------------------

    PRECEDENCE = (
        ("||",),
        ("&&",),
        ("|",),
        ("^",),
        ("&",),
        ("==", "!=", "<>"),
        ("<", ">", "<=", ">="),
        ("<<", ">>"),
        ("+", "-"),
        ("*", "/", "%"),
        ("**",),
    )

    def expression(self) -> Expr:
        condition = self.level(0)
        if not self.take("?"):
            return condition
        yes = self.expression()
        self.expect(":")
        no = self.expression()
        return lambda e: yes(e) if truth(condition(e)) else no(e)

    def level(self, n: int) -> Expr:
        if n == len(self.PRECEDENCE):
            return self.unary()
        left = self.level(n + 1)
        while self.peek() in self.PRECEDENCE[n]:
            op = self.next()[1]
            right = self.level(n + 1)
            left = self.combine(op, left, right)
        return left

    @staticmethod
    def combine(op: str, left: Expr, right: Expr) -> Expr:
        return lambda e: binary(op, left(e), right(e))

    def unary(self) -> Expr:
        if self.take("-"):
            x = self.unary()
            return lambda e: negate(x(e))
        if self.take("+"):
            return self.unary()
        if self.take("~"):
            x = self.unary()
            return lambda e: invert(x(e))
        if self.take("!"):
            x = self.unary()
            return lambda e: not truth(x(e))
        return self.postfix()

    def postfix(self) -> Expr:
        x = self.primary()
        while True:
            if self.peek() == "." and TYPE.match(self.peek(1)):
                self.next()
                x = self.retype(x, self.next()[1])
            elif self.take("["):
                x = self.index(x, self.slice())
            else:
                return x

    @staticmethod
    def retype(x: Expr, name: str) -> Expr:
        def read(e: Env) -> Value:
            value = x(e)
            if isinstance(value, F) and re.match(r"f\d+$", name) and int(name[1:]) != value.width:
                return resized(value, int(name[1:])) if value.nan else rounded(value.value, int(name[1:]))
            return typed(raw(value, 1 << 10), name)

        return read

    @staticmethod
    def index(x: Expr, s: tuple[str, Expr, Expr | None]) -> Expr:
        return lambda e: pick(x(e), s, e)

    def reader(self, name: str, path: list[tuple[str, Any]]) -> Expr:
        x: Expr = lambda e: e[name]  # noqa: E731
        for what, detail in path:
            x = self.retype(x, detail) if what == "type" else self.index(x, detail)
        return x

    def primary(self) -> Expr:
        kind, text = self.next()
        if text == "(":
            x = self.expression()
            self.expect(")")
            return x
        if text == "{":
            parts = [self.expression()]
            while self.take(","):
                parts.append(self.expression())
            self.expect("}")
            return lambda e: concatenate([p(e) for p in parts])
        if kind == "cast":
            width, target = re.match(r"(\d+)'([A-Z]+)", text).groups()
            self.expect("(")
            x = self.expression()
            self.expect(")")
            return lambda e: cast(x(e), int(width), target)
        if kind == "sized":
            width, value = text.split("'")
            if "." in value:
                constant: Value = F(int(width), float(value))
            else:
                constant = B(int(width), int(value.rstrip("U"), 0))
            return lambda e: constant
        if kind in ("hex", "int"):
            integer = int(re.sub(r"[UL]+$", "", text), 0)
            return lambda e: integer
        if kind == "float":
            f = F(32, float(text[:-1])) if text.endswith("F") else F(64, float(text))
            return lambda e: f
        return self.name(text)

    def name(self, name: str) -> Expr:
        if self.peek() == "(":
            self.next()
            args = []
            while not self.take(")"):
                if not self.take(","):
                    args.append(self.expression())
            if name in IN_CONTEXT:
                g = IN_CONTEXT[name]
                return lambda e: g(e, *(a(e) for a in args))
            if name in FUNCTIONS:
                f = FUNCTIONS[name]
                return lambda e: f(*(a(e) for a in args))
            return lambda e: e[name](e, *(a(e) for a in args))
        if name in ("INF", "NAN", "PI", "DENORM", "OVERFLOW_F32", "UNDERFLOW_F32", "OVERFLOW_F64", "UNDERFLOW_F64"):
            return self.constant(name)
        if name in ("WAVE_MODE", "INST"):
            self.expect(".")
            member = f"{name}.{self.next()[1]}"
            return lambda e: e[member]
        return lambda e: e[name]

    def constant(self, name: str) -> Expr:
        width = 64
        if self.peek() == "." and TYPE.match(self.peek(1)):
            self.next()
            width = int(self.next()[1][1:])
        value: Value
        if name == "PI":
            value = F(64, math.pi)
        elif name == "DENORM":
            value = ("denorm", width)
        elif name.startswith(("OVERFLOW", "UNDERFLOW")):
            w = int(name[-2:])
            value = F(w, (math.inf if name[0] == "O" else 0.0))
        else:
            value = F(width, math.inf if name == "INF" else math.nan)
        return lambda e: value
