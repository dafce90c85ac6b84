"""Loops of a kernel of rows, brought into one form: all walk along one axis, and what is the same in each iteration is
computed before the first.

    each j in VOCAB by 512                            s = scale * ln2            outside: it depends on no loop
      x = X[t, j] * (scale * ln2)          ->         each j in VOCAB by 512
      l = l + rowsum(x)                                 x = X[t, j] * s
    each i in VOCAB by 512                              l = l + rowsum(x)
      Y[t, i] = X[t, i] / l                           each j in VOCAB by 512     the same tiles, so the same lanes
                                                        Y[t, j] = X[t, j] / l
"""

from __future__ import annotations

from dataclasses import replace

from tkgen.ir.equations import (
    Access,
    Axis,
    Coordinate,
    Extent,
    Index,
    Kernel,
    Load,
    Loop,
    Op,
    Reduce,
    Scan,
    Store,
    Value,
    reads,
    walk,
    writes,
)


def loops(kernel: Kernel) -> tuple[Loop, ...]:
    """All loops of a kernel, those within another after it."""
    return tuple(op for op in walk(kernel.body) if isinstance(op, Loop))


def along_one(kernel: Kernel) -> Kernel:
    """The kernel with all loops along the axis of the first.

    The loops do not stand in one another, and their axes go over one dimension in the same tiles.
    """
    found = loops(kernel)
    if not found:
        return kernel
    first = found[0].axis
    others = {loop.axis for loop in found} - {first}
    renamed = tuple(_renamed(op, others, first) for op in kernel.body)
    return replace(kernel, axes=tuple(a for a in kernel.axes if a not in others), body=renamed)


def gathered(kernel: Kernel) -> Kernel:
    """The kernel, whose loops go along one axis, with what depends on no loop in front of them."""
    return replace(kernel, body=_invariant_first(kernel.body)) if loops(kernel) else kernel


def _invariant_first(body: tuple[Op, ...]) -> tuple[Op, ...]:
    """The operations that depend on no loop, then the others, with what is left in the loops."""
    varying: set[Value] = set()
    before, rest = list[Op](), list[Op]()
    for op in body:
        if isinstance(op, Loop):
            varying |= {value for c in op.carries for value in (c.inside, c.result)}
            inside = list[Op]()
            for inner in op.body:
                (inside if _varies(inner, op.axis, varying) else before).append(inner)
            rest.append(replace(op, body=tuple(inside)))
        else:
            (rest if _varies(op, None, varying) else before).append(op)
    return (*before, *rest)


def _varies(op: Op, axis: Axis | None, varying: set[Value]) -> bool:
    """Return True if an operation stays where it is; what it makes of what varies is noted as varying."""
    stays = isinstance(op, Store) or any(value in varying for value in reads(op))
    if axis is not None:
        stays |= any(axis in value.axes for value in writes(op)) or (isinstance(op, Coordinate) and op.axis == axis)
        stays |= isinstance(op, Load) and _moves(op.source, axis)
    if stays:
        varying.update(writes(op))
    return stays


def _moves(access: Access, axis: Axis) -> bool:
    """Return True if what an access touches changes along an axis, also one without tiles."""
    return any(axis in i.axes or (i.through is not None and _moves(i.through, axis)) for i in access.indices)


def _renamed(op: Op, others: set[Axis], axis: Axis) -> Op:
    """The operation with `axis` in place of the others."""
    if not others:
        return op

    def of_value(value: Value) -> Value:
        return replace(value, axes=tuple(axis if a in others else a for a in value.axes))

    def of_access(access: Access) -> Access:
        return Access(access.tensor, tuple(map(of_index, access.indices)))

    def of_index(index: Index) -> Index:
        terms = (replace(term, of=axis) if term.of in others else term for term in index.terms)
        through = index.through and of_access(index.through)
        return replace(index, axis=axis if index.axis in others else index.axis, terms=tuple(terms), through=through)

    match op:
        case Loop():
            return replace(op, axis=axis, body=tuple(_renamed(inner, others, axis) for inner in op.body))
        case Store():
            return replace(op, target=of_access(op.target), value=of_value(op.value))
        case Load():
            return replace(op, result=of_value(op.result), source=of_access(op.source))
        case Coordinate() | Extent():
            return replace(op, result=of_value(op.result), axis=axis if op.axis in others else op.axis)
        case Reduce() | Scan():
            along = axis if op.axis in others else op.axis
            return replace(op, result=of_value(op.result), axis=along, argument=of_value(op.argument))
    made: dict[str, object] = {}
    for name, value in vars(op).items():
        if isinstance(value, Value):
            made[name] = of_value(value)
        elif name == "arguments":
            made[name] = tuple(map(of_value, value))
    return replace(op, **made)  # type: ignore[arg-type]
