"""Element-wise equations as C++: a statement for each value, in their order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from math import inf, isinf, isnan
from struct import pack

from tkgen.backends.cdna.lower.names import cpp_name
from tkgen.ir.equations import Access, Argument, Axis, Constant, Convert, Coordinate, Kind, Load, Map, Op, Value, reads
from tkgen.ir.functions import CDNA, FUNCTIONS, HOPPER
from tkgen.ir.integers import Widths
from tkgen.ir.tensors import DType

ROUNDED = {  # an f32 expression, to the type t and back
    CDNA: "base_types::convertor<float, {t}>::convert(base_types::convertor<{t}, float>::convert({0}))",
    HOPPER: "float({t}({0}))",
}
SATURATED = {  # the same on Hopper of types whose conversion in C++ is another beyond their ends
    DType.I8: "fminf(fmaxf(rintf({0}), -128.0f), 127.0f)",
    DType.I32: "float(isnan({0}) ? int(0x80000000) : __float2int_rn({0}))",
    DType.E4M3FN: "float(fp8e4m3(isinf({0}) ? NAN : {0}))",
    DType.E5M2: "(isinf({0}) ? {0} : float(fp8e5m2({0})))",
}  # fmt: skip
INDENT = "    "
UNROLL = "#pragma unroll"
TYPES = {Kind.NUMBER: "float", Kind.COORDINATE: "int", Kind.PREDICATE: "bool"}
NARROW = Widths(())  # of no integers but coordinates


def type_of(value: Value, widths: Widths) -> str:
    """The C++ type of an element."""
    return "int64_t" if widths.is_wide(value) else TYPES[value.kind]


def statements(
    ops: Iterable[Op], known: MutableMapping[Value, str], back_end: str = CDNA, widths: Widths = NARROW
) -> list[str]:
    """The C++ of `ops`: Map, Convert and Constant, for a back end.

    `known` has an expression (a name or literal) for every value from elsewhere, and gets those of all `ops`.
    """
    lines = []
    for op in ops:
        match op:
            case Constant(result=result, value=value):
                known[result] = constant(result, value)
            case Convert(result=result, argument=argument):
                text = SATURATED.get(result.dtype, ROUNDED[HOPPER]) if back_end == HOPPER else ROUNDED[back_end]
                lines.append(_defined(result, text.format(known[argument], t=result.dtype.cpp), known, widths))
            case Map(result=result):
                text = applied(op, known.__getitem__, back_end=back_end, widths=widths)
                lines.append(_defined(result, text, known, widths))
            case _:
                raise ValueError(f"{op} is not element-wise")
    return lines


def functions(ops: Iterable[Op]) -> frozenset[str]:
    """The functions that `ops` call."""
    return frozenset(op.function for op in ops if isinstance(op, Map))


def applied(
    op: Map, text: Callable[[Value], str], divisor: str = "", back_end: str = CDNA, widths: Widths = NARROW
) -> str:
    """The C++ of a function of one element: `text` says its arguments, `divisor` the second, where that is another.

    Integers stay such where the function takes them, 64 bits wide where their result may need that.
    """
    function = FUNCTIONS[op.function]
    whole = function.whole and all(v.kind is Kind.COORDINATE for v in op.arguments)
    whole = whole or function.takes == "place"
    texts = [f"float({text(v)})" if v.kind is Kind.COORDINATE and not whole else text(v) for v in op.arguments]
    if widths.first_wide(op):
        texts[0] = f"int64_t({texts[0]})"
    if divisor:
        texts[1] = divisor
    texts += ["0"] * (function.arity - len(texts))
    return function.cpp[back_end].format(*texts)


def axes_named(ops: Iterable[Op], inside: Collection[Op], value: Value) -> frozenset[Axis]:
    """The axes whose indices a function names: `inside` are the operations that it computes `value` with.

    It loads elements along these axes, or reads a coordinate; `ops` are the operations that make coordinates.
    """
    read = {value, *(v for op in inside for v in reads(op))}
    coordinates = (op.axis for op in ops if isinstance(op, Coordinate) and op.result in read)
    return frozenset({*coordinates, *(axis for op in inside if isinstance(op, Load) for axis in op.source.axes)})


def parameters(named: Collection[str], *names: str) -> tuple[str, ...]:
    """Integer parameters of a function, without names where its body names them not."""
    return tuple(f"int {name}" if name in named else "int" for name in names)


def nest(heads: Sequence[str], body: Sequence[str]) -> list[str]:
    """Unrolled loops, one inside of the other."""
    lines: list[str] = []
    for depth, head in enumerate(heads):
        brace = " {" if depth == len(heads) - 1 and len(body) > 1 else ""
        lines += [f"{INDENT * depth}{UNROLL}", f"{INDENT * depth}{head}{brace}"]
    inner = INDENT * len(heads)
    lines += [inner + line for line in body]
    if len(body) > 1:
        lines.append(f"{INDENT * (len(heads) - 1)}}}")
    return lines


def literal(value: float) -> str:
    """A number as a C++ float."""
    if isnan(value):
        return '__builtin_nanf("")'
    if isinf(value):
        return "__builtin_inff()" if value == inf else "-__builtin_inff()"
    return f"{float(value)!r}f"


def word_of(start: float, dtype: DType) -> str:
    """The 32 bits of a number in memory, as C++."""
    if not start:
        return "0"
    memory = int(start).to_bytes(4, "little", signed=True) if dtype.whole else pack("<f", start)
    return f"0x{int.from_bytes(memory, 'little'):08x}"


def constant(value: Value, number: float) -> str:
    """A constant where it is used: a float, or an integer beside coordinates."""
    if value.kind is not Kind.COORDINATE:
        return literal(number)
    return f"({int(number)})" if number < 0 else str(int(number))


def rounded(expression: str, value: Value) -> str:
    """An f32 expression rounded to the type of `value`, as an f32."""
    return ROUNDED[CDNA].format(expression, t=value.dtype.cpp)


def _defined(value: Value, expression: str, known: MutableMapping[Value, str], widths: Widths) -> str:
    known[value] = local(value, known)
    return f"const {type_of(value, widths)} {known[value]} = {expression};"


def of_element(
    op: Op, known: MutableMapping[Value, str], load: Callable[[Access, str], str], place: Callable[[Axis], str],
    widths: Widths = NARROW,
) -> list[str]:  # fmt: skip
    """The C++ of an operation of an epilogue or of a factor, for CDNA: of any that `statements` takes, and of what is
    given.

    `load` has the expression of a tensor's element, for a variable of that name, `place` that of a coordinate.
    """
    match op:
        case Load(result=result, source=source):
            known[result] = local(result, known)
            return [f"const float {known[result]} = {load(source, known[result])};"]
        case Argument(result=result, scalar=scalar):
            known[result] = f"g.{cpp_name(scalar.name)}"
            return []
        case Coordinate(result=result, axis=axis):
            known[result] = place(axis)
            return []
    return statements([op], known, widths=widths)


def local(value: Value, known: Mapping[Value, str]) -> str:
    """The C++ variable of a value: what the spec calls it, numbered where it is not the first of that name."""
    if not value.name:
        return f"t{value.number}"
    name = f"{cpp_name(value.name)}_e"
    return name if name not in known.values() else f"{name}{value.number}"
