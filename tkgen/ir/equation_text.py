"""The stable text form of a kernel of equations, of its operations, and of the parts of tensors that they touch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tkgen.ir.equations import (
    Access,
    Argument,
    Axis,
    Constant,
    Convert,
    Coordinate,
    Extent,
    Index,
    Kernel,
    Kind,
    Load,
    Loop,
    Map,
    Op,
    Product,
    Reduce,
    Scan,
    Sort,
    Store,
    Value,
    When,
)


def to_text(kernel: Kernel) -> str:
    """The stable text form: axes, then an operation a line."""
    lines = [f"kernel {kernel.name}"]
    lines += [f"  tensor {t.name} : {t.dtype.spelling}[{', '.join(d.name for d in t.dims)}]" for t in kernel.tensors]
    lines += [f"  scalar {s.name} : {s.dtype.spelling}" for s in kernel.scalars]
    lines += [f"  axis {axis_text(a)}" for a in kernel.axes]
    return "\n".join([*lines, *body_text(kernel.body, "  ")]) + "\n"


def axis_text(axis: Axis) -> str:
    """`over q in LENGTH by 256`."""
    by = "" if axis.tile is None else f" by {axis.tile}"
    ends = {"from": axis.since, "to": axis.until, "part": axis.part}
    end = "".join(f" {word} {what}" for word, what in ends.items() if what is not None)
    part = f" within {axis.within.offsets.name}[{axis.within.of}]" if axis.within else ""
    return f"{axis.kind.value} {axis.name} in {axis.dim.name}{part}{by}{end}"


def body_text(body: tuple[Op, ...], indent: str) -> Iterator[str]:
    """Operations, each in a line, and the operations within them."""
    for op in body:
        if isinstance(op, Loop):
            yield f"{indent}each {op.axis.name}"
            yield from (f"{indent}  carry {_typed(c.inside)} = {c.initial}" for c in op.carries)
            yield from body_text(op.body, indent + "  ")
            yield from (f"{indent}  next {c.inside} = {c.update} -> {c.result}" for c in op.carries)
        elif isinstance(op, When):
            yield indent + op_text(op)
            yield from body_text(op.body, indent + "  ")
            yield from (f"{indent}  {_typed(c.result)} = {c.update} else {c.otherwise}" for c in op.chosen)
        else:
            yield indent + op_text(op)


def op_text(op: Op) -> str:
    """One operation, a loop as its head."""
    match op:
        case Load(result=result, source=source):
            return f"{_typed(result)} = load {access_text(source)}"
        case Store(target=target, value=value, update=update, distinct=distinct):
            return f"store {'distinct ' * distinct}{access_text(target)} {update.value} {value}"
        case Constant(result=result, value=value):
            return f"{_typed(result)} = {value!r}"
        case Argument(result=result, scalar=scalar):
            return f"{_typed(result)} = argument {scalar.name}"
        case Coordinate(result=result, axis=axis):
            return f"{_typed(result)} = coordinate {axis.name}"
        case Extent(result=result, axis=axis):
            return f"{_typed(result)} = extent {axis.name}"
        case Map(result=result, function=function, arguments=arguments):
            return f"{_typed(result)} = {function} {', '.join(map(str, arguments))}"
        case Convert(result=result, argument=argument):
            return f"{_typed(result)} = convert {argument}"
        case Reduce(result=result, function=function, axis=axis, argument=argument):
            return f"{_typed(result)} = {function} over {axis.name} of {argument}"
        case Scan(result=result, function=function, axis=axis, argument=argument):
            return f"{_typed(result)} = running {function} over {axis.name} of {argument}"
        case Sort(result=result, function=function, axis=axis, argument=argument, first=first, descending=descending):
            which = "largest first" if descending else "least first"
            along = "the first" if first is None else "all" if first == axis else first.name
            return f"{_typed(result)} = sorted {function} over {axis.name} of {argument}, {which}, {along}"
        case Product(result=result, left=left, right=right, axis=axis):
            return f"{_typed(result)} = product over {axis.name} of {left}, {right}"
        case When(condition=condition):
            return f"when any {condition}"
    return f"each {op.axis.name}"


def access_text(access: Access) -> str:
    """`K[b, h / 8, j]`."""
    return f"{access.tensor.name}[{', '.join(map(_index_text, access.indices))}]"


def _index_text(index: Index) -> str:
    if index.terms:
        return affine_text([(term.of.name, term.factor) for term in index.terms], index.at)
    if index.axis is None:
        return str(index.at)
    if index.through is not None:
        return access_text(index.through)
    how = "%" if index.remainder else "/"
    return index.axis.name + (f" {how} {index.divisor}" if index.divisor != 1 or index.numbered else "")


def affine_text(terms: Sequence[tuple[str, int]], at: int) -> str:
    """`2 * p - q + 1`: each name times its factor, and a number. Expressions of C++ and Python have the same form."""
    parts = [(factor < 0, f"{abs(factor)} * {name}" if abs(factor) != 1 else name) for name, factor in terms]
    parts += [(at < 0, str(abs(at)))] if at or not parts else []
    parts.sort(key=lambda part: part[0])  # what is subtracted comes last
    first = "-" if parts[0][0] else ""
    return first + parts[0][1] + "".join(f" {'-' if minus else '+'} {text}" for minus, text in parts[1:])


def _typed(value: Value) -> str:
    return f"{value} : {value_text(value)}"


def value_text(value: Value) -> str:
    """`f32[q, D]`."""
    what = value.dtype.spelling if value.kind is Kind.NUMBER else value.kind.value
    return f"{what}[{', '.join(a.name for a in value.axes)}]"
