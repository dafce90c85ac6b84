"""Harnesses: a Python script and a standalone HIP program that check a built kernel, or several, and time them.

Both compute what the equations say (`tkgen.backends.cdna.lower.reference`) from the exact inputs that the kernel gets,
print for each output the largest and mean error, the elements beyond their bound, whether there are NaNs, and the
speed; both exit with 1 where an element is wrong and with 2 where they cannot run. Of several kernels each is held
against its equations on what those before it have left, all of them once after the launch of all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import lcm, prod
from typing import Any, TypeAlias

from tkgen.backends.cdna.lower.names import cpp_name
from tkgen.backends.cdna.lower.reference import DEVIATIONS, host_reference, places, torch_reference
from tkgen.backends.cdna.lower.reference_elements import combined_over, element, is_gathered
from tkgen.backends.cdna.lower.reference_language import HOST_TYPES, PACKED_FLOATS, TORCH_TYPES, Formula, Reference
from tkgen.backends.cdna.lower.reference_loops import added_over, has_loops, some_store
from tkgen.backends.cdna.lower.reference_loops_host import host_loops, loop_places, reached
from tkgen.backends.cdna.lower.reference_loops_torch import torch_loops
from tkgen.backends.cdna.lower.render import environment
from tkgen.ir.affine import distinct_positions
from tkgen.ir.divided import completed, divided
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.equations import Axis, AxisKind, Kernel, Reduce, When
from tkgen.ir.limits import with_all
from tkgen.ir.products import Sums
from tkgen.ir.types import DType, Tensor
from tkgen.schedule.plan import Plan
from tkgen.targets.model import load_target, round_up

# What dynamic dimensions are unless the command line says otherwise, rounded up to what fits: a product's, and others.
DYNAMIC_SIZE, DYNAMIC_PLACES = 4096, 4
MOST_ELEMENTS = 1 << 28  # of a tensor in a check of rows, whose dynamic dimensions are smaller where they are many
SAMPLES, REDUCED_SAMPLES = 2000, 16  # elements that the HIP program computes; for a reduction it needs whole rows
BLOCKS = 4  # that it computes of a kernel with loops
PYTHON_OPTIONS = frozenset({"help", "repeats", "warmup", "seed"})
# Of each type the bits of its significand (of whole numbers those of the largest), the exponent of its least normal.
DIGITS = {
    DType.BF16: 8, DType.F16: 11, DType.F32: 24, DType.E4M3FN: 4, DType.E4M3FNUZ: 4, DType.E5M2: 3, DType.E5M2FNUZ: 3,
    DType.E8M0: 1, DType.I8: 7, DType.I32: 31, DType.E2M1: 2, DType.E2M3: 4, DType.E3M2: 3,
}  # fmt: skip
LEAST = {
    DType.BF16: -126, DType.F16: -14, DType.F32: -126, DType.E4M3FN: -6, DType.E4M3FNUZ: -7, DType.E5M2: -14,
    DType.E5M2FNUZ: -15, DType.E2M1: 0, DType.E2M3: 0, DType.E3M2: -2,
}  # fmt: skip
CORNERS = {"row": "i / 2", "col": "i % 2"}  # which corner of the matrix sample `i` is, of the first four


@dataclass(frozen=True)
class Kernels:
    """Several kernels that one `dispatch` launches in order, whose tensors `arguments` are."""

    name: str
    kernels: tuple[Plan | EquationProgram, ...]
    arguments: tuple[Tensor, ...]


Checked: TypeAlias = Plan | EquationProgram | Kernels


def harness_python(kernel: Checked, target: str) -> str:
    """A script that loads the built module, compares it with torch on the GPU and times it.

    `python NAME_check.py` runs it beside the module. Sizes known only at run time and scalars are options.
    """
    return _render("harness.py.jinja", kernel, target)


def harness_cpp(kernel: Checked, target: str) -> str:
    """A HIP program that includes NAME.cpp, compares sampled elements with the CPU and times the kernel."""
    return _render("harness.cpp.jinja", kernel, target)


@dataclass(frozen=True)
class Size:
    """A dimension: `size` where it is known at build time, else `default` unless `--option` says otherwise."""

    name: str
    size: int | None
    default: int
    option: str


@dataclass(frozen=True)
class Argument:
    """A tensor of the dispatcher, in its order; `member` is its name in the argument struct.

    `of` is the dimension that is summed over where the contents are exact, that of the groups or places where they are.
    `packed` makes bytes of elements that share them.
    """

    name: str
    member: str
    torch_type: str
    host_type: str
    digits: int
    whole: bool
    packed: str
    dims: tuple[str, ...]
    dynamic: tuple[bool, ...]
    # `exact` factors, `random` numbers, `powers` of two, `offsets` of groups, `places` in a dimension, `distinct` ones,
    # `counts` up to the largest size, `bytes` of anything, or `poison`
    contents: str
    of: str
    byte: int  # of poison, which a kernel overwrites
    given: tuple[str, ...]  # the dimensions that the module takes, where `dims` has them flattened


@dataclass(frozen=True)
class Number:
    """A scalar argument; checked with `value`, which is the spec's default unless that would hide a mistake."""

    name: str
    value: float
    option: str


@dataclass(frozen=True)
class StoreSite:
    """A store of an output: its number among all, the position of an element, and on what condition that exists."""

    number: int
    place: str
    there: str


@dataclass(frozen=True)
class Output:
    """Output that a check compares: a part of a tensor, the position of an element in it, its rounding, as C++.

    Floats that share bytes are `packed`: bits of exponent and fraction, and the bias. `kind` is what Python needs of
    their rounding: bits of the significand, the least normal one, the largest. `some` says that a launch may leave
    elements as they were, or make them of such; `added`, that blocks add to them. Values at equal computed positions
    are combined in a `way`: add, max or min. `puts` are the stores.
    """

    name: str
    label: str
    place: str
    rounds: str
    some: bool
    added: bool = False
    packed: tuple[int, ...] = ()
    kind: tuple[float, ...] = ()
    way: str = ""
    puts: tuple[StoreSite, ...] = ()


@dataclass(frozen=True)
class Place:
    """Position of a sample along an axis: its variable, the dimension, and its end of it in a corner (empty: any)."""

    name: str
    dim: str
    corner: str


@dataclass(frozen=True)
class Walk:
    """An axis of a kernel with loops: its dimension, and elements of a block's tile; none where it is taken whole.

    A ragged one has `offsets` of groups, or their `lengths`, by whose index, the axis of this number, its part is
    known. That index has the `rows` whose groups have tiles: their offsets and dimension. Where blocks add, or combine
    values, along an axis that is `summed`, all of them are computed; `inner` is known only within such a loop.
    """

    dim: str
    tile: int
    offsets: str = ""
    index: int = 0
    lengths: bool = False
    rows: tuple[str, str] = ("", "")
    summed: bool = False
    inner: bool = False


@dataclass(frozen=True)
class Part:
    """Parts of a check for one kernel: its reference, its outputs, the positions of samples.

    Of a kernel with loops samples are blocks, and `walks` are its axes.
    """

    name: str
    function: str
    in_torch: Reference
    on_host: Reference
    outputs: tuple[Output, ...]
    written: tuple[str, ...]
    places: tuple[Place, ...]
    products: bool
    walks: tuple[Walk, ...]


@dataclass(frozen=True)
class Work:
    """Work of a launch, for its speed: `flops` as operands to multiply and to add up, or else the tensors it moves."""

    flops: tuple[tuple[int, tuple[str, ...]], ...]
    moved: tuple[str, ...]


def _render(template: str, kernel: Checked, target: str) -> str:
    several = isinstance(kernel, Kernels)
    kernels = kernel.kernels if isinstance(kernel, Kernels) else (kernel,)
    programs: list[Any] = [k.program if isinstance(k, Plan) else k for k in kernels]
    name = kernel.name if isinstance(kernel, Kernels) else programs[0].name
    arguments = kernel.arguments if isinstance(kernel, Kernels) else programs[0].arguments
    names = {d.name for p in programs for d in p.dims} | {s.name for p in programs for s in p.scalars}
    defaults = _defaults(programs, {k.program.name: k.shape.unroll for k in kernels if isinstance(k, Plan)})
    used = dict.fromkeys(d for t in arguments for d in t.dims)
    used |= dict.fromkeys(a.dim for p in programs for a in p.kernel.axes) | dict.fromkeys(
        d for t in arguments for d in t.declared
    )
    sizes = [Size(d.name, d.size, defaults[d.name], _option(d.name, names)) for d in used]
    given, terms = _given(programs), _terms(programs)
    held = {t.name: dim.name for p in programs for t, dim in p.kernel.held.items()}
    parts, some = list[Part](), set[str]()
    for p in programs:
        parts.append(_part(p, _is_exact(p, terms), several, some))
        some |= {o.name for o in parts[-1].outputs if o.some}
    formulas = [Formula.of(_equations(p)) for p in programs]
    reduces = any(isinstance(op, Reduce) for f in formulas for op in f.body)
    written = dict.fromkeys(name for part in parts for name in part.written)
    types = {t.dtype for t in arguments}
    text = (
        environment()
        .get_template(template)
        .render(
            name=name,
            space=cpp_name(name),
            largest=max((s.size or s.default for s in sizes), default=1),
            target=target,
            define=load_target(target).kittens_define,
            sizes=sizes,
            dynamic=[s for s in sizes if s.size is None],
            tensors=[_argument(t, _contents(t, programs, given, terms), held | terms) for t in arguments],
            scalars=[
                Number(s.name, _check_value(s.default), _option(s.name, names))
                for s in {s.name: s for p in programs for s in p.scalars}.values()
            ],
            parts=parts,
            several=several,
            torch_lines="\n".join(line for part in parts for line in part.in_torch.lines),
            torch_helpers=list(dict.fromkeys(h for part in parts for h in part.in_torch.helpers)),
            host_lines="\n".join(line for part in parts for line in part.on_host.lines),
            host_helpers=list(dict.fromkeys(h for part in parts for h in part.on_host.helpers)),
            kept=[name for name in written if name in given or name in some],
            saturates=any(d.bits <= 8 or d.whole for d in types),
            digits=[(TORCH_TYPES[d], DIGITS[d]) for d in DIGITS if d is DType.F32 or d in types - set(PACKED_FLOATS)],
            packs=any(o.packed for part in parts for o in part.outputs),
            directions=max(len(part.walks) for part in parts),
            blocks=BLOCKS,
            samples=REDUCED_SAMPLES if reduces else SAMPLES,
            deviations=DEVIATIONS,
            work=_work(programs),
        )
    )
    return text.rstrip("\n") + "\n"


def _equations(program: Any) -> Sums | Kernel:
    """Source of a reference: the sums, if they are of tiles of tensors as they are in memory; otherwise the kernel."""
    kernel: Kernel = program.kernel
    if program.contraction is None:
        return kernel
    found: Sums = program.equations
    plain = not any(s.scaled or s.scales or s.made or is_gathered(s.left) for s in found.sums)
    plain = plain and not any(s.target.computed for s in found.stores)
    decides = any(isinstance(op, When) for op in kernel.body)
    return found if plain and not decides and not kernel.ragged else kernel


def _given(programs: Sequence[Any]) -> set[str]:
    """The tensors that are read before a kernel writes them."""
    given, written = set[str](), set[str]()
    for p in programs:
        given |= {t.name for t in p.reads} - written
        written |= {t.name for t in p.outputs}
    return given


def _terms(programs: Sequence[Any]) -> dict[str, str]:
    """For each tensor that holds exact factors how many of them are summed: the first product of given ones says it."""
    found, written = dict[str, str](), set[str]()
    for p in programs:
        if p.contraction and not written & {o.name for o in p.operands}:
            found |= {o.name: p.k.name for o in p.operands if o.name not in found}
        written |= {t.name for t in p.outputs}
    return found


def _is_exact(program: Any, terms: Mapping[str, str]) -> bool:
    """Return True if its sums of products do not round."""
    return program.contraction is None or all(terms.get(o.name) == program.k.name for o in program.operands)


def _part(program: Any, exact: bool, several: bool, left: set[str]) -> Part:
    """A kernel's part; of the tensors `left` some elements are as they were before all kernels."""
    found = _equations(program)
    loops = isinstance(found, Kernel) and has_loops(found)
    formula, reads = Formula.of(found), {t.name for t in program.reads}
    some = {t.name for t in program.outputs} if reads & left else some_store(program.kernel)
    over = added_over(found) if isinstance(found, Kernel) else None
    summed = combined_over(found) if isinstance(found, Kernel) else frozenset()
    summed |= {over} if over is not None else set()
    labels = {formula.label(s.target): s for s in formula.stores}
    if isinstance(found, Kernel) and loops:
        at, in_torch, on_host = loop_places(found), torch_loops(found), host_loops(found)
    else:
        at, in_torch, on_host = places(found), torch_reference(found, exact), host_reference(found, exact)
    return Part(
        name=program.name,
        function=f"reference_{program.name}" if several else "reference",
        in_torch=in_torch,
        on_host=on_host,
        outputs=tuple(
            Output(
                o.tensor,
                o.label,
                element(s.target, at),
                _rounds(s.target.tensor.dtype),
                o.tensor in some,
                s.adds and not s.target.computed,
                *_packed(s.target.tensor.dtype),
                s.update.name.lower() if s.combines else "",
                tuple(
                    StoreSite(n, element(each.target, at), reached(program.kernel, each.target))
                    for n, each in enumerate(formula.stores)
                    if formula.label(each.target) == o.label
                ),
            )
            for s, o in zip(labels.values(), on_host.outputs, strict=True)
        ),
        written=tuple(dict.fromkeys(s.target.tensor.name for s in formula.stores)),
        places=()
        if loops
        else tuple(Place(at[a.name], a.dim.name, CORNERS.get(at[a.name], "")) for a in formula.order),
        products=bool(formula.sums),
        walks=tuple(_walk(a, formula.order, summed) for a in formula.order) if loops else (),
    )


def _walk(axis: Axis, order: Sequence[Axis], over: Collection[Axis]) -> Walk:
    tile = (axis.tile or 1) if axis.kind is AxisKind.PARALLEL else 0
    if axis.within is not None:
        index = next(n for n, a in enumerate(order) if axis.within.of == a.name)
        inner = order[index] in over
        return Walk(axis.dim.name, tile, axis.within.offsets.name, index, axis.within.lengths, summed=axis in over,
                    inner=inner)  # fmt: skip
    ragged = (a for a in order if a.kind is AxisKind.PARALLEL and a.within and a.within.of == axis.name)
    rows = next(((a.within.offsets.name, a.dim.name) for a in ragged if a.within), ("", ""))
    return Walk(axis.dim.name, tile, rows=rows, summed=axis in over)


def _packed(dtype: DType) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """`packed` and `kind` of an Output."""
    if dtype not in PACKED_FLOATS:
        return (), ()
    return PACKED_FLOATS[dtype], (DIGITS[dtype], float(2.0 ** LEAST[dtype]), _largest(dtype))


def _largest(dtype: DType) -> float:
    """The largest value of a type; of floats that share bytes the one whose bits are all set."""
    if dtype not in PACKED_FLOATS:
        return dtype.largest
    exponent, fraction, bias = PACKED_FLOATS[dtype]
    return float((2 - 2.0**-fraction) * 2.0 ** (2**exponent - 1 - bias))


def _rounds(dtype: DType) -> str:
    """The rounding of a type as C++: bits of its significand (0: integers), its least exponent, its largest value."""
    stops = repr(_largest(dtype)) if dtype.bits <= 8 or dtype.whole else "HUGE_VAL"
    return f"{{{0 if dtype.whole else DIGITS[dtype]}, {LEAST.get(dtype, 0)}, {stops}}}"


def _work(programs: Sequence[Any]) -> Work:
    flops, moved = list[tuple[int, tuple[str, ...]]](), list[str]()
    for p in programs:
        moved += [t.name for t in (*p.reads, *p.outputs)]
        if p.contraction:
            formula = Formula.of(p.equations)
            groups = {a.within.of for a in p.kernel.ragged if a.within}  # which divide rows, or what is summed
            batch = [axis.dim.name for axis in formula.batch if axis != p.part and axis.name not in groups]
            flops.append((2 * len(formula.sums), (p.m.name, p.n.name, p.k.name, *batch)))
    return Work(tuple(flops), tuple(moved))


def _defaults(programs: Sequence[Any], unrolls: Mapping[str, int]) -> dict[str, int]:
    """The sizes of a check: DYNAMIC_SIZE rounded up to what all kernels take, DYNAMIC_PLACES of an index."""
    units: dict[str, int] = {}
    stepped = [p for p in programs if p.contraction]
    for p in stepped:
        tiles = (*p.block[:2], p.block[2] * unrolls[p.name])
        for dim, unit in zip((p.m, p.n, p.k), tiles, strict=True):
            units[dim.name] = lcm(units.get(dim.name, 1), unit)
    found: dict[str, int] = {}
    for p in stepped:
        sizes = {d.name: d.size or round_up(DYNAMIC_SIZE, units[d.name]) for d in (p.m, p.n, p.k)}
        found |= with_all(p, sizes, DYNAMIC_PLACES)
    for p in programs:
        if p.contraction is None:
            found |= _row_defaults(p, found)
    return found


def _row_defaults(program: EquationProgram, given: Mapping[str, int]) -> dict[str, int]:
    """The same where any size will do: as large as tensors of MOST_ELEMENTS allow; `given` ones are kept."""
    size, known = DYNAMIC_SIZE, {d.name: given[d.name] for d in program.dims if d.name in given}
    while True:
        found = completed(program.dims, divided(program.kernel), known, size)
        if size == 1 or all(prod(found[d.name] for d in t.dims) <= MOST_ELEMENTS for t in program.arguments):
            return found
        size //= 2


def _option(name: str, names: set[str]) -> str:
    """The command line option for a name of the spec, unlike the harness's own options and all others."""
    option = name
    while option in PYTHON_OPTIONS or (option != name and option in names):
        option += "_"
    return option


def _check_value(default: float | None) -> float:
    """A default of zero would hide a forgotten addend, and there may be none."""
    return default if default else 0.5


def _contents(tensor: Tensor, programs: Sequence[Any], given: set[str], terms: Mapping[str, str]) -> str:
    kernels = [p.kernel for p in programs]
    ragged = [a.within for k in kernels for a in k.ragged if a.within and a.within.offsets == tensor]
    if ragged:
        return "lengths" if ragged[0].lengths else "offsets"
    if any(tensor in distinct_positions(k) for k in kernels):
        return "distinct"
    if any(tensor in k.held for k in kernels):
        return "places"
    if tensor.name not in given:
        return "poison"
    if tensor.dtype.packed:
        return "bytes"
    if tensor.dtype is DType.I32:
        return "counts"
    if tensor.dtype is DType.E8M0:
        return "powers"
    return "exact" if tensor.name in terms else "random"


def _argument(tensor: Tensor, contents: str, of: Mapping[str, str]) -> Argument:
    whole, unsigned_zero = tensor.dtype.whole, tensor.dtype in (DType.E4M3FNUZ, DType.E5M2FNUZ)
    return Argument(
        tensor.name,
        cpp_name(tensor.name),
        TORCH_TYPES[tensor.dtype],
        HOST_TYPES[tensor.dtype],
        DIGITS.get(tensor.dtype, 0),
        whole or tensor.dtype.packed,
        {4: " / 2", 6: " * 3 / 4"}.get(tensor.dtype.bits, ""),
        tuple(d.name for d in tensor.dims),
        tuple(d.size is None for d in tensor.dims),
        contents,
        of.get(tensor.name, ""),
        0x80 if whole or unsigned_zero else 0xFF,  # NaN, of whole numbers the least one
        tuple(d.name for d in tensor.declared),
    )
