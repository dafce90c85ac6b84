"""The tile IR: what a kernel computes, as equations over named axes; nothing here knows of waves, LDS or a GPU.

    Kernel   tensors, scalars, axes, and a body of operations in an order that respects their values
    Axis     PARALLEL (one block each tile), SEQUENTIAL (a loop), WHOLE (a tensor's extent that a tile spans whole)
    Value    a tile over axes, defined once (SSA)
    Access   a tensor at an index of each of its dimensions
    Op       Load | Store | Constant | Argument | Coordinate | Extent | Map | Convert | Reduce | Scan | Sort |
             Product | Loop | When

An operation on several values broadcasts by the names of axes, as einsum does: o[q, D] / l[q] divides rows. Numbers of
a computation are f32 (predicates and coordinates aside): a load widens, a store and a `Convert` round to the type that
they name. `tkgen.ir.verifier` states what must hold, `tkgen.ir.meaning` what it means.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from math import inf

from tkgen.ir.axes import Axis as Axis
from tkgen.ir.axes import AxisKind as AxisKind
from tkgen.ir.axes import Bound as Bound
from tkgen.ir.axes import Digit as Digit
from tkgen.ir.axes import Term as Term
from tkgen.ir.axes import Within as Within
from tkgen.ir.coverage import cover_all
from tkgen.ir.hashing import hashed_once
from tkgen.ir.tensors import Dim, DType, ScalarArg, Tensor
from tkgen.source import Span


@hashed_once
@dataclass(frozen=True)
class Index:
    """The place in one dimension of a tensor: along an axis (an index may be divided: `h / 8`), or the number `at`.

    An affine index, `X[2 * p + r - 1]`, is the sum of its `terms` and of `at`, and has no `axis` of its own. Positions
    along axes are counted as coordinates are. Where the sum is no position of the dimension, the element is zero.

    An axis with tiles is divided by its tile: `n / 128` is the number of the tile, the same for all of it, and where
    tiles are of one place `numbered` tells `h / 1` from the tile `h`. Or it is
    divided into several blocks a tile, each of which has one place: `k / 32`.
    `through` says that the places are what a tensor of i32 holds there (`X[ROW[m], k]`), of whose indices `axis` is the
    one along which it extends; a place that is none reads zeros. Or that tensor has a place for each page of an axis,
    `K[PAGES[b, j / 64], j % 64]`: the second index is the `remainder`, the place in the page.
    """

    axis: Axis | None
    divisor: int = 1
    at: int = 0
    through: Access | None = None
    numbered: bool = False
    remainder: bool = False
    terms: tuple[Term, ...] = ()

    @property
    def is_constant(self) -> bool:
        """True if it is the number `at`."""
        return self.axis is None and not self.terms

    @property
    def digit(self) -> Digit | None:
        """The part of a flattened axis that the index is, with nothing added; None if it is another one."""
        of = self.terms[0].of if len(self.terms) == 1 and self.terms[0].factor == 1 and not self.at else None
        return of if isinstance(of, Digit) else None

    @property
    def shifted(self) -> Axis | None:
        """The ragged axis that an affine index shifts: outside of the group at hand elements are zero."""
        return next((a for a in self.axes if a.is_moved), None) if self.terms else None

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes along which the index changes, those without tiles too."""
        if self.axis is not None:
            return (self.axis,)
        along = dict.fromkeys(term.axis for term in self.terms if term.axis is not None)
        return tuple(sorted(along, key=lambda axis: axis.kind is AxisKind.SEQUENTIAL))

    @property
    def ways(self) -> tuple[Axis | Digit, ...]:
        """The axes and the parts of flattened ones whose positions it has."""
        if self.axis is not None:
            return (self.axis,)
        return tuple(term.of for term in self.terms if not isinstance(term.of, Dim))

    @property
    def of_tile(self) -> bool:
        """True if it is the number of a tile, `n / 128`."""
        whole = self.axis is not None and not self.axis.is_index and not self.of_blocks and not self.remainder
        return self.numbered or (self.divisor != 1 and whole)

    @property
    def of_page(self) -> bool:
        """True if it is the one page that a tensor holds for a tile."""
        return self.through is not None and not self.through.axes

    @property
    def of_blocks(self) -> bool:
        """True if it is the number of one of the blocks that a tile is divided into, `k / 32`."""
        return self.divisor != 1 and self.axis is not None and self.divisor < (self.axis.tile or 1)

    @property
    def extends(self) -> bool:
        """True if a tile has an extent along this dimension, not one place."""
        along = self.axis is not None and not self.axis.is_index
        aside = self.numbered or self.of_page
        return along and not aside and (self.divisor == 1 or self.of_blocks or self.remainder)


@hashed_once
@dataclass(frozen=True)
class Access:
    """The part of a tensor that an op touches: an index for each of its dimensions."""

    tensor: Tensor
    indices: tuple[Index, ...]

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes of the tile that is touched: those along which it has an extent."""
        found = (a for i in self.indices for a in (i.axes if i.extends or i.terms else ()) if not a.is_index)
        return tuple(dict.fromkeys(found))

    @property
    def flattens(self) -> bool:
        """Return True if an index has the position along one of the axes that a flattened axis combines."""
        return any(isinstance(term.of, Digit) for index in self.indices for term in index.terms)

    @property
    def innermost(self) -> Axis | None:
        """The axis whose neighbors are neighbors in memory, if there is one."""
        return None if self.indices[-1].through is not None else self.indices[-1].axis

    @property
    def computed(self) -> bool:
        """True if a position is computed: held by a tensor, or a sum of axes."""
        return any(index.through is not None or (index.terms and index.digit is None) for index in self.indices)


class Kind(Enum):
    """The kind of the elements of a value."""

    NUMBER = "number"  # f32, or rounded to `Value.dtype`
    COORDINATE = "coordinate"  # a place along an axis, a whole number
    PREDICATE = "predicate"  # true or false


@hashed_once
@dataclass(frozen=True)
class Value:
    """A tile, defined once. `number` is its identity in the kernel, `name` what the spec calls it (or empty)."""

    number: int
    axes: tuple[Axis, ...]
    name: str = ""
    kind: Kind = Kind.NUMBER
    dtype: DType = DType.F32
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"%{self.number}{'.' + self.name if self.name else ''}"


@hashed_once
@dataclass(frozen=True)
class Load:
    """`result` = the tile of a tensor, widened to f32; elements outside of the tensor are zero."""

    result: Value
    source: Access


class Update(Enum):
    """The effect of a store on an element. All but SET combine the value with the element, one store at a time."""

    SET = "="
    ADD = "+="
    MAX = "max="
    MIN = "min="

    def start(self, dtype: DType) -> float:
        """The element before the first store, set by the launch: the value that changes nothing."""
        least, largest = dtype.range if dtype.whole else (-inf, inf)
        return {Update.SET: 0.0, Update.ADD: 0.0, Update.MAX: float(least), Update.MIN: float(largest)}[self]


@hashed_once
@dataclass(frozen=True)
class Store:
    """The tile of a tensor = `value`, rounded to the tensor's type. Elements outside of the tensor are dropped.

    `distinct` is a promise of the spec: no two elements of a launch have the same computed position.
    """

    target: Access
    value: Value
    update: Update = Update.SET
    distinct: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def adds(self) -> bool:
        """True if blocks add to what is there."""
        return self.update is Update.ADD

    @property
    def combines(self) -> bool:
        """True if values at equal computed positions are combined."""
        return self.target.computed and self.update is not Update.SET


@hashed_once
@dataclass(frozen=True)
class Constant:
    """`result` = a number everywhere; no axes."""

    result: Value
    value: float


@hashed_once
@dataclass(frozen=True)
class Argument:
    """`result` = a scalar argument of the launch; no axes."""

    result: Value
    scalar: ScalarArg


@hashed_once
@dataclass(frozen=True)
class Coordinate:
    """`result` = the place of each element along `axis`, counted over the whole tensor; its one axis is that axis."""

    result: Value
    axis: Axis


@hashed_once
@dataclass(frozen=True)
class Extent:
    """`result` = how many places `axis` has, an integer; of a ragged one those of the group at hand. No axes."""

    result: Value
    axis: Axis


@hashed_once
@dataclass(frozen=True)
class Map:
    """`result` = `function` (one of `tkgen.ir.functions`) of the arguments, element by element, broadcast by axes."""

    result: Value
    function: str
    arguments: tuple[Value, ...]


@hashed_once
@dataclass(frozen=True)
class Convert:
    """`result` = the argument rounded to `result.dtype`, to nearest even."""

    result: Value
    argument: Value


@hashed_once
@dataclass(frozen=True)
class Reduce:
    """`result` = `function` (`sum`, `max` or `min`) of the argument along `axis`, which the result has not.

    Elements outside of the tensor's extent take no part.
    """

    result: Value
    function: str
    axis: Axis
    argument: Value


@hashed_once
@dataclass(frozen=True)
class Scan:
    """`result` = at each place `function` (`sum`, `prod`, `max`, `min`) of the argument from the start of `axis` to it.

    The result has the axes of the argument. Along the axis of a loop it is of the tile of an iteration alone.
    """

    result: Value
    function: str
    axis: Axis
    argument: Value


@hashed_once
@dataclass(frozen=True)
class Sort:
    """`result` = the argument in order along `axis`: its `values`, or their `positions` as coordinates count them.

    NaN is the greatest, and of equal elements the one at the lower position comes first. `first` has the axis of the
    result: `axis` for all of them; another, WHOLE one for as many as that has, at most those of `axis`; None for one.
    """

    result: Value
    function: str
    axis: Axis
    argument: Value
    first: Axis | None
    descending: bool = True


@hashed_once
@dataclass(frozen=True)
class Product:
    """`result` = the sum over `axis`, which both factors have, of left times right: exact products, summed in f32."""

    result: Value
    left: Value
    right: Value
    axis: Axis


@hashed_once
@dataclass(frozen=True)
class Carry:
    """A value handed from iteration to iteration: `initial` before the first, `inside` within an iteration, `update` at
    its end, `result` after the loop. `initial` may lack axes of `inside`: it is the same along them."""

    initial: Value
    inside: Value
    update: Value
    result: Value


@hashed_once
@dataclass(frozen=True)
class Loop:
    """`body` for each tile of the SEQUENTIAL `axis`, in order."""

    axis: Axis
    carries: tuple[Carry, ...]
    body: tuple[Op, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@hashed_once
@dataclass(frozen=True)
class Chosen:
    """A value that `When` gives anew: `result` is `update` where the condition holds, `otherwise` elsewhere."""

    otherwise: Value
    update: Value
    result: Value


@hashed_once
@dataclass(frozen=True)
class When:
    """`body`, for tiles with any element of which `condition`, a predicate, is true: all of a block's tile, or none."""

    condition: Value
    chosen: tuple[Chosen, ...]
    body: tuple[Op, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


Op = (
    Load
    | Store
    | Constant
    | Argument
    | Coordinate
    | Extent
    | Map
    | Convert
    | Reduce
    | Scan
    | Sort
    | Product
    | Loop
    | When
)


@hashed_once
@dataclass(frozen=True)
class Kernel:
    """The equations of one launch: arguments, axes and ops in order."""

    name: str
    tensors: tuple[Tensor, ...]
    scalars: tuple[ScalarArg, ...]
    axes: tuple[Axis, ...]
    body: tuple[Op, ...]

    @property
    def ragged(self) -> tuple[Axis, ...]:
        """The axes whose extents a tensor holds; all of them are of one index."""
        return tuple(a for a in self.axes if a.within is not None)

    @property
    def groups(self) -> Axis | None:
        """The index whose places are groups, where axes are ragged."""
        of = {a.within.of for a in self.axes if a.within is not None}
        return next((a for a in self.axes if a.name in of), None)

    @property
    def offsets(self) -> dict[Tensor, Axis]:
        """The tensors that hold where groups begin, each with an axis that goes by it."""
        return {a.within.offsets: a for a in reversed(self.axes) if a.within is not None}

    @property
    def numbers(self) -> frozenset[Tensor]:
        """The tensors of which a tile takes one number each time, such as how many keys a sequence has."""
        loads = [op.source for op in walk(self.body) if isinstance(op, Load)]
        tiled = {access.tensor for access in loads if access.axes} | {s.target.tensor for s in self.stores}
        return frozenset(access.tensor for access in loads if access.tensor not in tiled)

    @property
    def places(self) -> tuple[Access, ...]:
        """The accesses that read indices: of tensors that hold positions in other tensors."""
        indices = (index for access in accesses(self) for index in access.indices)
        return tuple(dict.fromkeys(i.through for i in indices if i.through is not None))

    @property
    def tables(self) -> frozenset[Tensor]:
        """The tensors that list pages."""
        return frozenset(access.tensor for access in self.places if not access.axes)

    @property
    def held(self) -> dict[Tensor, Dim]:
        """The tensors that hold places, and of which dimension."""
        found = {a.within.offsets: a.dim for a in self.axes if a.within}
        for access in accesses(self):
            pairs = zip(access.tensor.dims, access.indices, strict=True)
            found |= {i.through.tensor: dim for dim, i in pairs if i.through is not None}
        return found

    @property
    def stores(self) -> tuple[Store, ...]:
        """All stores, in order."""
        return tuple(op for op in walk(self.body) if isinstance(op, Store))

    @property
    def added(self) -> frozenset[str]:
        """The tensors that stores combine with what is there, which the launch sets to a start."""
        return frozenset(self.starts)

    @property
    def starts(self) -> dict[str, float]:
        """The elements of these tensors before the first store."""
        combined = (s for s in self.stores if s.update is not Update.SET)
        return {s.target.tensor.name: s.update.start(s.target.tensor.dtype) for s in combined}

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Tensors that the kernel reads, in the order of their declaration."""
        read = {op.source.tensor.name for op in walk(self.body) if isinstance(op, Load)}
        read |= {a.within.offsets.name for a in self.axes if a.within}
        read |= {access.tensor.name for access in self.places} | {t.name for t in partly_stored(self)}
        return tuple(t for t in self.tensors if t.name in read)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """Tensors that the kernel writes, in the order of their declaration."""
        written = {store.target.tensor.name for store in self.stores}
        return tuple(t for t in self.tensors if t.name in written)

    @property
    def arguments(self) -> tuple[Tensor, ...]:
        """Tensors that the kernel reads or writes, in the order of their declaration."""
        taken = {t.name for t in (*self.inputs, *self.outputs)}
        return tuple(t for t in self.tensors if t.name in taken)


def walk(body: tuple[Op, ...]) -> Iterator[Op]:
    """Every operation, those within another after it."""
    for op in body:
        yield op
        if isinstance(op, Loop | When):
            yield from walk(op.body)


def accesses(kernel: Kernel) -> tuple[Access, ...]:
    """Return the accesses of all loads and stores of the kernel, in order."""
    ops = list(walk(kernel.body))
    return tuple(op.source if isinstance(op, Load) else op.target for op in ops if isinstance(op, Load | Store))


def partly_stored(kernel: Kernel) -> frozenset[Tensor]:
    """The tensors of which stores to computed positions may leave elements as they are."""
    found = dict[Tensor, list[Access]]()
    for store in kernel.stores:
        if store.update is Update.SET and store.target.computed:
            found.setdefault(store.target.tensor, []).append(store.target)
    return frozenset(tensor for tensor, targets in found.items() if not cover_all(tensor, targets))


def reads(op: Op) -> tuple[Value, ...]:
    """The values that an operation itself takes (not those within a loop's body)."""
    match op:
        case Store(value=value):
            return (value,)
        case Convert(argument=value) | Reduce(argument=value) | Scan(argument=value) | Sort(argument=value):
            return (value,)
        case Map(arguments=arguments):
            return arguments
        case Product(left=left, right=right):
            return (left, right)
        case Loop(carries=carries):
            return tuple(c.initial for c in carries)
        case When(condition=condition, chosen=chosen):
            return (condition, *(c.otherwise for c in chosen))
    return ()


def writes(op: Op) -> tuple[Value, ...]:
    """The values that an operation defines for those after it."""
    match op:
        case Store():
            return ()
        case Loop(carries=carries):
            return tuple(c.result for c in carries)
        case When(chosen=chosen):
            return tuple(c.result for c in chosen)
        case _:
            return (op.result,)


def joined(*axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    """The axes of an element-wise result: each once, in order of first appearance, those of the widest value first."""
    widest = max(axes, key=len, default=())
    return tuple(dict.fromkeys([*widest, *(a for group in axes for a in group)]))
