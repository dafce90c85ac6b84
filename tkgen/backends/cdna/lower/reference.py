"""What equations compute, as text: the references that generated checks carry, in torch and in C++.

Torch computes all elements at once, C++ one, both in f64. Beside each value stands a bound on how far f32 arithmetic
may be from it: `apply` takes a function at the corners of what its arguments may be, and adds what
`tkgen.ir.functions` states; `reduced` adds the rounding of a sum. The sums are of exact inputs
(`tkgen.execute.compare`), so they have no error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace

from tkgen.backends.cdna.lower.elements import literal
from tkgen.ir.equations import (
    Access,
    Argument,
    Axis,
    Constant,
    Convert,
    Coordinate,
    Index,
    Load,
    Map,
    Op,
    Reduce,
    Store,
    Value,
    access_text,
    reads,
)
from tkgen.ir.functions import FUNCTIONS, HOST, TORCH, Function, helpers
from tkgen.ir.products import Sum, Sums
from tkgen.ir.types import DType

TORCH_TYPES = {DType.BF16: "bfloat16", DType.F16: "float16", DType.F32: "float32"}
HOST_TYPES = {DType.BF16: "brain", DType.F16: "_Float16", DType.F32: "float"}
LETTERS = "abcdefghijklmnopqrstuvwxyz"

Names = Mapping[int, str]
"""The variable of each value, by its number."""


@dataclass(frozen=True)
class Reference:
    """Lines that define values, the outputs in order, and the functions that the lines call."""

    lines: tuple[str, ...]
    outputs: tuple[Output, ...]
    helpers: tuple[str, ...]
    extents: tuple[str, ...] = ()  # of a value with all directions, in torch


@dataclass(frozen=True)
class Output:
    """What a store leaves: in which tensor, the variable of its value, how a report calls it.

    In torch `index` picks the part of the tensor that is stored (empty for all of it), `shaped` brings a value with a
    direction for each axis, of the extents `whole`, to the form of that part.
    """

    tensor: str
    value: str
    label: str
    index: str = ""
    shaped: str = ""


def torch_reference(sums: Sums) -> Reference:
    """All elements at once: `tensors` and `scalars` are dictionaries, a value is a pair of numbers and bounds."""
    names = _names(sums)
    lines = [line for s in sums.sums for line in _torch_sum(sums, s, names[s.result.number])]
    for op in sums.epilogue:
        if not isinstance(op, Store):
            lines.append(f"{names[_number(op)]} = {_torch(op, sums, names)}")
    found = _reference(sums, names, lines, TORCH)
    parts = [_torch_part_stored(s.target, sums) for s in sums.stores]
    shaped = tuple(replace(o, index=i, shaped=s) for o, (i, s) in zip(found.outputs, parts, strict=True))
    return replace(found, outputs=shaped, extents=tuple(_torch_extent(a, sums) for a in _order(sums)))


def host_reference(sums: Sums) -> Reference:
    """One element, whose place along each axis is the variable of `places`."""
    names, at = _names(sums), places(sums)
    made = _made_of([s.value for s in sums.stores], sums)
    return _reference(sums, names, _host_lines(sums, made, at, names), HOST)


def _host_lines(sums: Sums, made: Set[Value], at: Mapping[str, str], names: Names) -> list[str]:
    """C++ that defines these values at a place."""
    lines = list[str]()
    for s in sums.sums:
        if s.result in made:
            left, right = (_element(access, at) for access in (s.left, s.right))
            name = names[s.result.number]
            lines.append(f"number {name}{{0.0}};")
            lines.append(f"for (int k = {_first(sums, at)}; k < {_end(sums, at)}; ++k)")
            lines.append(f"    {name}.value += double({left}) * {right};")
    for op in sums.epilogue:
        if isinstance(op, Reduce) and op.result in made:
            lines += _host_reduced(op, sums, at, names)
        elif not isinstance(op, Store) and op.result in made:  # type: ignore[union-attr]
            lines.append(f"const number {names[_number(op)]} = {_host(op, at, names)};")
    return lines


def _host_reduced(op: Reduce, sums: Sums, at: Mapping[str, str], names: Names) -> list[str]:
    """C++ of a reduction: what changes along its axis is computed anew at each place of it."""
    place, extent = at[op.axis.name], f"extent_{op.axis.dim.name}"
    first, last = "0", extent
    if not op.axis.is_one_tile:
        first = f"{place} / {op.axis.tile} * {op.axis.tile}"
        last = f"std::min({first} + {op.axis.tile}, {extent})"
    inside = {v for v in _made_of([op.argument], sums) if op.axis in v.axes}
    body = [f"    {line}" for line in _host_lines(sums, inside, at, names)]
    head = f"const number {names[op.result.number]} = reduced<'{op.function[-1]}'>({first}, {last}, [&](int {place}) {{"
    return [head, *body, f"    return {names[op.argument.number]};", "});"]


def _made_of(values: Iterable[Value], sums: Sums) -> set[Value]:
    """What is computed for values at a place; of what is reduced only that which stays the same along the way."""
    found = set(values)
    for op in reversed(sums.epilogue):
        if isinstance(op, Store) or op.result not in found:  # type: ignore[union-attr]
            continue
        if isinstance(op, Reduce):
            found |= {v for v in _made_of([op.argument], sums) if op.axis not in v.axes}
        else:
            found.update(reads(op))
    return found


def _run(sums: Sums) -> tuple[Axis, int, int] | None:
    """Where the contraction is divided: the index of the parts, how many there are, and elements of each."""
    axis = sums.contraction
    index = next((a for a in sums.batch if a.name == axis.part), None)
    if index is None:
        return None
    assert axis.dim.size is not None and index.dim.size is not None  # `tkgen.ir.resolve.matrix` has seen to it
    return index, index.dim.size, axis.part_length(axis.dim.size, index.dim.size)


def _first(sums: Sums, at: Mapping[str, str]) -> str:
    run = _run(sums)
    return "0" if run is None else f"{at[run[0].name]} * {run[2]}"


def _end(sums: Sums, at: Mapping[str, str]) -> str:
    run, extent = _run(sums), f"extent_{sums.contraction.dim.name}"
    return extent if run is None else f"std::min<int>({extent}, ({at[run[0].name]} + 1) * {run[2]})"


def places(sums: Sums) -> dict[str, str]:
    """The variable of the C++ check that is the place along each axis."""
    batch = {axis.name: f"index_{number}" for number, axis in enumerate(sums.batch)}
    return batch | {sums.rows.name: "row", sums.cols.name: "col", sums.contraction.name: "k"}


def _reference(sums: Sums, names: Names, lines: list[str], language: str) -> Reference:
    several = {name for name, count in Counter(s.target.tensor.name for s in sums.stores).items() if count > 1}
    outputs = tuple(
        Output(name := s.target.tensor.name, names[s.value.number], access_text(s.target) if name in several else name)
        for s in sums.stores
    )
    functions = [op.function for op in sums.epilogue if isinstance(op, Map)]
    return Reference(tuple(lines), outputs, helpers(functions, language))


def _names(sums: Sums) -> dict[int, str]:
    values = [s.result for s in sums.sums] + [op.result for op in sums.epilogue if not isinstance(op, Store)]  # type: ignore[union-attr]
    return {v.number: f"{v.name or 't'}_{v.number}" for v in values}


def _number(op: Op) -> int:
    return op.result.number  # type: ignore[union-attr]


def _own(function: Function) -> str:
    """What a function is off, as arguments of `apply`."""
    return f"{function.ulps!r}, {function.growth!r}, {function.below!r}"


# ---------------------------------------------------------------- torch


def _torch(op: Op, sums: Sums, names: Names) -> str:
    match op:
        case Load(source=source):
            return f"certain({_torch_part(source, sums)})"
        case Constant(value=value):
            return f"number({float(value)!r}, device)"
        case Argument(scalar=scalar):
            return f'number(scalars["{scalar.name}"], device)'
        case Coordinate(axis=axis):
            numbers = f"torch.arange({_torch_extent(axis, sums)}, device=device).double()"
            return f"certain({numbers}{_shaped((axis,), sums)})"
        case Convert(result=result, argument=argument):
            rounded = f"lambda a: a.to(torch.{TORCH_TYPES[result.dtype]}).double()"
            return f"apply({rounded}, 0.0, 0.0, 0.0, {names[argument.number]})"
        case Reduce(function=name, axis=axis, argument=argument):
            dim = -1 if axis == sums.cols else -2
            tile = "None" if axis.is_one_tile else str(axis.tile)
            return f'reduced("{name}", {names[argument.number]}, {dim}, {tile})'
        case Map(function=name, arguments=arguments):
            function, given = FUNCTIONS[name], [names[a.number] for a in arguments]
            if function.predicate:
                return f"certain({function.torch.format(*(f'{v}[0]' for v in given))})"
            parameters = LETTERS[: len(given)]
            body = function.torch.format(*parameters)
            return f"apply(lambda {', '.join(parameters)}: {body}, {_own(function)}, {', '.join(given)})"
    raise ValueError(f"{op} is no operation of an epilogue")


def _order(sums: Sums) -> tuple[Axis, ...]:
    """The directions of every value."""
    return (*sums.batch, sums.rows, sums.cols)


def _torch_sum(sums: Sums, s: Sum, name: str) -> Iterator[str]:
    letters = dict(zip((a.name for a in (*_order(sums), sums.contraction)), LETTERS, strict=False))
    sides, run = [], _run(sums)
    for name_of, access in (("left", s.left), ("right", s.right)):
        axes = [i.axis for i in access.indices if i.axis is not None]
        text = f"{name_of} = {_indexed(access, sums)}.float()"
        if run is not None:  # zeros up to whole parts, then a direction of parts
            index, parts, length = run
            axes = [*(a for a in axes if a != sums.contraction), index, sums.contraction]
            at = next(n for n, i in enumerate(x for x in access.indices if x.axis) if i.axis == sums.contraction)
            beyond = f"{parts * length} - {name_of}.shape[-1]"
            text += f".movedim({at}, -1)"
            yield text
            text = f"{name_of} = torch.nn.functional.pad({name_of}, (0, {beyond})).unflatten(-1, ({parts}, {length}))"
        yield text
        sides.append("".join(letters[a.name] for a in axes))
    out = "".join(letters[a.name] for a in _order(sums))
    yield f'{name} = certain(torch.einsum("{",".join(sides)}->{out}", left, right).double())'


def _torch_part(access: Access, sums: Sums) -> str:
    axes = tuple(i.axis for i in access.indices if i.axis is not None)
    order = [a for a in _order(sums) if a in axes]
    turned = "" if list(axes) == order else f".permute({', '.join(str(axes.index(a)) for a in order)})"
    return f"{_indexed(access, sums)}.double(){turned}{_shaped(tuple(order), sums)}"


def _shaped(axes: tuple[Axis, ...], sums: Sums) -> str:
    """An index that puts the directions of a tensor in their places among all."""
    every = _order(sums)
    inner = every[every.index(axes[0]) :] if axes else ()
    return "" if inner == axes else f"[{', '.join(':' if a in axes else 'None' for a in inner)}]"


def _indexed(access: Access, sums: Sums) -> str:
    """A tensor with a direction for each axis that an index names."""
    text, at = f'tensors["{access.tensor.name}"]', 0
    for index in access.indices:
        if index.axis is None:
            text += f".select({at}, {index.at})"
            continue
        if index.divisor != 1:
            size = _torch_extent(index.axis, sums)
            text += f".repeat_interleave({index.divisor}, {at}).narrow({at}, 0, {size})"
        at += 1
    return text


def _torch_extent(axis: Axis, sums: Sums) -> str:
    """How far an axis goes: a size of some tensor that has a place for each."""
    accesses = [s.target for s in sums.stores] + [a for s in sums.sums for a in (s.left, s.right)]
    target, at = next((a, n) for a in accesses for n, i in enumerate(a.indices) if i.axis == axis and i.divisor == 1)
    return f'tensors["{target.tensor.name}"].shape[{at}]'


def _torch_part_stored(target: Access, sums: Sums) -> tuple[str, str]:
    """The index of the part of a tensor that is stored, and what brings a value with all directions to its form."""
    order = _order(sums)
    picks = [i.axis if i.axis is not None else i.at for i in target.indices]
    index = (
        ""
        if all(isinstance(p, Axis) for p in picks)
        else ", ".join(":" if isinstance(p, Axis) else str(p) for p in picks)
    )
    axes = [p for p in picks if isinstance(p, Axis)]
    if axes == list(order) and all(i.divisor == 1 for i in target.indices):
        return index, ""
    steps = {i.axis: i.divisor for i in target.indices if i.axis is not None}
    cut = ", ".join((f"::{steps[a]}" if steps[a] != 1 else ":") if a in steps else "0" for a in order)
    left = [a for a in order if a in steps]
    turned = "" if left == axes else f".permute({', '.join(str(left.index(a)) for a in axes)})"
    return index, f".expand(whole)[{cut}]{turned}"


# ---------------------------------------------------------------- C++


def _host(op: Op, at: Mapping[str, str], names: Names) -> str:
    match op:
        case Load(source=source):
            return f"{{{_element(source, at)}}}"
        case Constant(value=value):
            return f"{{{literal(value)}}}"
        case Argument(scalar=scalar):
            return f"{{scalar_{scalar.name}}}"
        case Coordinate(axis=axis):
            return f"{{double({at[axis.name]})}}"
        case Convert(result=result, argument=argument):
            rounded = f"[](double a) {{ return double(float({HOST_TYPES[result.dtype]}(float(a)))); }}"
            return f"apply({rounded}, 0.0, 0.0, 0.0, {names[argument.number]})"
        case Map(function=name, arguments=arguments):
            function, given = FUNCTIONS[name], [names[a.number] for a in arguments]
            if function.predicate:
                return f"{{double({function.cpp[HOST].format(*(f'{v}.value' for v in given))})}}"
            parameters = LETTERS[: len(given)]
            taken = ", ".join(f"double {p}" for p in parameters)
            body = f"[]({taken}) {{ return {function.cpp[HOST].format(*parameters)}; }}"
            return f"apply({body}, {_own(function)}, {', '.join(given)})"
    raise ValueError(f"{op} is no operation of an epilogue")


def element(access: Access, at: Mapping[str, str]) -> str:
    """The number of the element of a row-major tensor that an access picks at a place."""
    text = ""
    for dim, index in zip(access.tensor.dims, access.indices, strict=True):
        place = _place(index, at)
        text = (
            f"size_t({place})"
            if not text
            else f"{text if '+' not in text else f'({text})'} * extent_{dim.name} + {place}"
        )
    return text


def _element(access: Access, at: Mapping[str, str]) -> str:
    return f"float(tensor_{access.tensor.name}.host[{element(access, at)}])"


def _place(index: Index, at: Mapping[str, str]) -> str:
    if index.axis is None:
        return str(index.at)
    return at[index.axis.name] + (f" / {index.divisor}" if index.divisor != 1 else "")
