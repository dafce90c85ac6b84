"""Operators of the pseudo-code, slices of bits, and assignments to registers."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

from pcode.values import FRACTION, B, Env, Expr, F, Power, Value, bits_of, exactly, number, raw, rounded, truth, typed


def narrowed(value: Value, kind: str, e: Env | None) -> Value:
    """The value as one of type `kind`: floats rounded, integers of a clamped instruction saturated."""
    match = re.match(r"([a-z]+)(\d+)$", kind)
    if match is None:
        return value
    name, width = match[1], int(match[2])
    if name == "f":
        if isinstance(value, F) and value.nan:
            return resized(value, width)
        return rounded(value.value, width) if isinstance(value, F) else B(width, raw(value, width))
    if name == "bf" and kind == "bf16":
        return bfloat(value) if isinstance(value, F) else B(width, raw(value, width))
    if e is not None and e.get("CLAMP") and name in "ui" and not isinstance(value, (F, B)):
        low, high = (0, (1 << width) - 1) if name == "u" else (-(1 << width - 1), (1 << width - 1) - 1)
        return max(low, min(high, int(value)))
    return value


def bfloat(x: F) -> B:
    bits = raw(x, 32)
    if math.isnan(x.value):
        return B(16, bits >> 16 | 0x40)
    return B(16, bits + 0x7FFF + (bits >> 16 & 1) >> 16)


class Memory(dict[int, int]):
    """Bytes at addresses, as MEM of the pseudo-code; those that nobody wrote are zero."""

    def read(self, address: int, count: int) -> int:
        return sum(self.get(address + i, 0) << 8 * i for i in range(count))

    def write(self, address: int, bits: int, count: int) -> None:
        for i in range(count):
            self[address + i] = bits >> 8 * i & 255


def write(e: Env, name: str, path: list[tuple[str, Any]], value: Value) -> None:
    if not path:
        old = e.get(name)
        # D0 = ... of fewer bits than the register has: the rest is zero.
        e[name] = B(old.width, raw(value, old.width)) if name == "D0" and isinstance(old, B) else value
        return
    if name == "MEM":
        address, kind = number(path[0][1][1](e)), path[1][1] if len(path) > 1 else ""
        width = int(re.sub(r"\D", "", kind)) if kind else getattr(value, "width", 32)
        e[name].write(address, raw(narrowed(value, kind, e), width), width // 8)
        return
    if name == "VGPR":  # VGPR[lane][register][high : low].type
        lane, register = (number(step[1][1](e)) for step in path[:2])
        rest = path[2:] if any(step[0] == "slice" for step in path[2:]) else []
        inner = Env(e, D0=e[name][lane][register])
        write(inner, "D0", rest or [("type", "u32")], value)
        e[name][lane][register] = inner["D0"]
        return
    if path[0][0] == "type" and len(path) == 1:
        width = int(re.sub(r"\D", "", path[0][1]))
        value = narrowed(value, path[0][1], e if name.startswith("D0") else None)
        old = e.get(name)
        total = old.width if isinstance(old, B) else width
        bits = raw(value, width)
        if isinstance(old, B) and total > width and name.startswith("D"):
            bits |= raw(old, total) & ~((1 << width) - 1)
        e[name] = B(max(total, width), bits)
        return
    if path[0][0] == "type":  # D0.u64[laneId] = x, S0.u32[31 : 0]
        path = path[1:]
    (_, s), *rest = path
    old = e.get(name, B(64, 0))
    if isinstance(old, list):
        items = list(old)
        items[number(s[1](e))] = value
        e[name] = items
        return
    low, width = bounds(s, e)
    width_written = int(re.sub(r"\D", "", rest[0][1])) if rest else width
    total = max(old.width if isinstance(old, B) else 64, low + width)
    mask = ((1 << width) - 1) << low
    if rest:
        value = narrowed(value, rest[0][1], e if name.startswith(("D0", "tmp")) else None)
    bits = (raw(old, total) & ~mask) | (raw(value, min(width, max(width_written, width))) << low & mask)
    e[name] = B(total, bits)


def bounds(s: tuple[str, Expr, Expr | None], e: Env) -> tuple[int, int]:
    how, first, second = s
    a = number(first(e))
    if how == "bit":
        return a, 1
    b = number(second(e))
    if how == "width":
        return a, b
    return (b, a - b + 1) if a >= b else (a, b - a + 1)


def pick(x: Value, s: tuple[str, Expr, Expr | None], e: Env) -> Value:
    if isinstance(x, list):
        return x[number(s[1](e))]
    if isinstance(x, Memory):
        return B(32, x.read(number(s[1](e)), 16))
    low, width = bounds(s, e)
    bits = raw(x, 1 << 10) >> low & ((1 << width) - 1)
    if s[0] == "range" and number(s[1](e)) < number(s[2](e)):  # reversed bits
        bits = int(f"{bits:0{width}b}"[::-1], 2)
    return B(width, bits)


def concatenate(parts: list[Value]) -> B:
    bits = width = 0
    for p in parts:
        w = getattr(p, "width", 32)
        bits = bits << w | raw(p, w)
        width += w
    return B(width, bits)


def resized(x: F, width: int) -> F:
    """A NaN in another width, its payload kept as far as there is room."""
    if not x.nan or width == x.width:
        return F(width, x.value, x.nan)
    payload = x.nan & (1 << FRACTION[x.width]) - 1
    shift = FRACTION[width] - FRACTION[x.width]
    payload = payload << shift if shift > 0 else payload >> -shift | 1 << FRACTION[width] - 1  # quiet
    sign, ones = x.nan >> x.width - 1, (1 << width - 1 - FRACTION[width]) - 1
    return F(width, x.value, sign << width - 1 | ones << FRACTION[width] | payload)


def cast(x: Value, width: int, target: str) -> Value:
    if isinstance(x, Power):
        return Power(width, x.exponent)
    if target == "F":
        if isinstance(x, F):
            return resized(x, width) if math.isnan(x.value) else rounded(x.value, width)
        return typed(raw(x, width), f"f{width}")
    if target == "BF":
        return x
    if isinstance(x, F):
        x = bits_of(x.value, x.width)
    value = number(x)
    if target == "B":
        return B(width, value & ((1 << width) - 1))
    if target == "U":
        return value & ((1 << width) - 1)
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


def negate(x: Value) -> Value:
    return F(x.width, -x.value, x.nan and x.nan ^ 1 << x.width - 1) if isinstance(x, F) else -number(x)


def invert(x: Value) -> Value:
    return B(x.width, ~x.value & ((1 << x.width) - 1)) if isinstance(x, B) else ~number(x)


def is_denormal(x: F) -> bool:
    least = {16: 2.0**-14, 32: 2.0**-126, 64: 2.0**-1022}[x.width]
    return x.value != 0 and abs(x.value) < least


def divide(a: float, b: float) -> float:
    if b == 0:
        return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)
    return a / b


def binary(op: str, a: Value, b: Value) -> Value:
    if isinstance(b, tuple):  # == DENORM
        return is_denormal(a)
    if isinstance(a, (F, Power)) or isinstance(b, (F, Power)):
        return float_binary(op, a, b)
    if op in ("&&", "||"):
        return truth(a) and truth(b) if op == "&&" else truth(a) or truth(b)
    x, y = number(a), number(b)
    match op:
        case "+":
            return x + y
        case "-":
            return x - y
        case "*":
            return x * y
        case "/":
            return x // y
        case "%":
            return x % y
        case "&":
            return x & y
        case "|":
            return x | y
        case "^":
            return x ^ y
        case "<<":
            return x << y
        case ">>":
            return x >> y
        case "==":
            return x == y
        case "!=" | "<>":
            return x != y
        case "<":
            return x < y
        case ">":
            return x > y
        case "<=":
            return x <= y
        case ">=":
            return x >= y
        case "**":
            return x**y
    raise NotImplementedError(op)


def float_binary(op: str, a: Value, b: Value) -> Value:
    if op == "**":
        assert a.value == 2, "powers of two only"
        return Power(a.width, number(b))
    if isinstance(a, Power) or isinstance(b, Power):  # exponents are unbounded until the product is rounded
        assert op == "*", op
        power, x = (a, b) if isinstance(a, Power) else (b, a)
        if x.value == 0 or not math.isfinite(x.value):
            return F(x.width, x.value)
        return exactly(Fraction(x.value) * Fraction(2) ** max(-5000, min(5000, power.exponent)), x.width)
    w = max(x.width for x in (a, b) if isinstance(x, F))
    x = a.value if isinstance(a, F) else float(number(a))
    y = b.value if isinstance(b, F) else float(number(b))
    match op:
        case "+":
            return rounded(x + y, w)
        case "-":
            return rounded(x - y, w)
        case "*":
            return rounded(x * y, w)
        case "/":
            return rounded(divide(x, y), w)
        case "==":
            return x == y
        case "!=":
            return x != y
        case "<>":
            return x < y or x > y
        case "<":
            return x < y
        case ">":
            return x > y
        case "<=":
            return x <= y
        case ">=":
            return x >= y
    raise NotImplementedError(op)
