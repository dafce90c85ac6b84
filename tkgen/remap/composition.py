"""Composes remaps left to right: permutations of the linear index, then one placement onto the grid."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType, MappingProxyType

from tkgen.diagnostics.text import nearest
from tkgen.packages import modules_of
from tkgen.remap import cpp, definitions, model
from tkgen.remap.cpp import check_name
from tkgen.remap.expr import Const, Expr, Program, Ref
from tkgen.remap.spec import Grid, Parameter, Permutation, Placement, RemapSpec

MAX_TILES = 2**31 - 1  # the kernel counts tiles in an `int`

# From this many tiles on NumPy, if there, saves more than importing it costs.
_VECTOR_FROM = 1 << 13


class RemapError(Exception):
    """A composition that cannot be: which call (0-based), which of its parameters if one, and a near name if any.

    `remedy` says what to write instead.
    """

    def __init__(
        self, message: str, call: int, remedy: str, *, parameter: str | None = None, suggestion: str | None = None
    ):
        self.message = message
        self.remedy = f"did you mean `{suggestion}`?" if suggestion else remedy
        self.call = call
        self.parameter = parameter
        self.suggestion = suggestion
        super().__init__(f"{message}; {self.remedy}")


@dataclass(frozen=True)
class RemapCall:
    """`name(positional..., keyword = value...)` as written, its values already numbers."""

    name: str
    args: Mapping[str, int] = field(default_factory=dict)
    positional: tuple[int, ...] = ()


@dataclass(frozen=True)
class NamedInt:
    """A constant that the kernel has already declared under `name`."""

    name: str
    value: int


@dataclass(frozen=True)
class CppBlock:
    """C++ lines that declare the tile's coordinates, and the names that they read."""

    statements: list[str]
    reads: Collection[str]


@dataclass(frozen=True)
class _Stage:
    spec: Permutation | Placement
    args: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Remap:
    """A bijection from the linear indices [0, rows * cols) onto the tiles of a rows x cols grid."""

    stages: tuple[_Stage, ...]

    def __str__(self) -> str:
        """The composition in the language, such as `xcd(n = 8, chunk = 16) | group(rows = 4)`."""
        calls = ((s.spec.name, ", ".join(f"{name} = {value}" for name, value in s.args)) for s in self.stages)
        return " | ".join(f"{name}({args})" if args else name for name, args in calls)

    def place(self, index: int, grid_rows: int, grid_cols: int) -> tuple[int, int]:
        """The (row, col) of the tile with linear index `index`; ValueError outside the grid."""
        if not 0 <= index < _tiles(grid_rows, grid_cols):
            raise ValueError(f"tile {index} is outside a grid of {grid_rows} x {grid_cols}")
        row, col = model.function(_model(self), model.SCALAR)(index, grid_rows, grid_cols)
        return row, col

    def order(self, grid_rows: int, grid_cols: int, indices: Sequence[int] | None = None) -> list[tuple[int, int]]:
        """The (row, col) of every tile, by linear index; with `indices`, of these alone."""
        tiles = _tiles(grid_rows, grid_cols)
        wanted = range(tiles) if indices is None else indices
        if len(wanted) >= _VECTOR_FROM:
            try:
                import numpy
            except ImportError:
                pass
            else:
                program = model.function(_model(self), model.vector_runtime(numpy))
                rows, cols = program(numpy.asarray(wanted, dtype=numpy.int64), grid_rows, grid_cols)
                return list(zip(rows.tolist(), cols.tolist(), strict=True))
        program = model.function(_model(self), model.SCALAR)
        return [(row, col) for row, col in (program(i, grid_rows, grid_cols) for i in wanted)]

    def cpp(
        self,
        index: str = "block",
        grid_rows: int | str | NamedInt = "grid_rows",
        grid_cols: int | str | NamedInt = "grid_cols",
        indent: str = "    ",
        row: str = "tile_row",
        col: str = "tile_col",
        reserved: Collection[str] = (),
    ) -> CppBlock:
        """C++ that declares `const int {row}` and `{col}` from the `int` called `index`, which is below rows * cols.

        The grid's extents are numbers, constants of the kernel, or names of `int`s known at run time. Names in
        `reserved` are not declared. ValueError for a name that is no C++ name, two that are the same, or a grid that is
        empty or too large to count.
        """
        extents = [_extent(grid_rows), _extent(grid_cols)]
        known_extents = [e.value for e in extents if e.value is not None]
        if len(known_extents) == 2:
            _tiles(*known_extents)
        inputs = [check_name(index, dotted=True), *(e.name for e in extents if isinstance(e, Ref))]
        results = [check_name(row), check_name(col)]
        if row == col or {row, col} & set(inputs):
            raise ValueError(f"the names of the results must differ: {', '.join([*inputs, *results])}")
        program = Program({*inputs, *results, *reserved})
        coordinates = self.build(program, Ref(index), *extents)
        lines = cpp.lines(program.statements(coordinates), indent)
        lines.extend(indent + cpp.declaration(n, value) for n, value in zip(results, coordinates, strict=True))
        return CppBlock(lines, program.read)

    def build(self, program: Program, index: Expr, rows: Expr, cols: Expr) -> tuple[Expr, Expr]:
        """Write every stage into `program`; returns the tile's row and column."""
        program.stage("grid")
        grid = Grid(rows, cols, program.let("tiles", rows * cols))
        for stage in self.stages:
            program.stage(stage.spec.name)
            if isinstance(stage.spec, Placement):
                return stage.spec.define(program, index, grid, dict(stage.args))
            index = stage.spec.define(program, index, grid, dict(stage.args))
        raise AssertionError("compose() ends every remap with a placement")


@lru_cache(maxsize=64)
def _model(remap: Remap) -> CodeType:
    """The program of `remap` for any grid, as Python."""
    parameters = ("index", "grid_rows", "grid_cols")
    program = Program(parameters)
    results = remap.build(program, *(Ref(p) for p in parameters))
    return model.compiled(parameters, program.statements(results), results)


def compose(calls: Sequence[RemapCall]) -> Remap:
    """The remap that applies `calls` left to right; without a placement it ends in `row_major`.

    Raises the first `RemapError` of `problems(calls)`.
    """
    for problem in problems(calls):
        raise problem
    stages = []
    for call in calls:
        spec = REMAPS[call.name]
        given = {**dict(zip((p.name for p in spec.parameters), call.positional, strict=False)), **call.args}
        stages.append(_Stage(spec, tuple((p.name, given[p.name]) for p in spec.parameters if p.name in given)))
    if not stages or isinstance(stages[-1].spec, Permutation):
        stages.append(_Stage(REMAPS["row_major"], ()))
    return Remap(tuple(stages))


def problems(calls: Sequence[RemapCall]) -> list[RemapError]:
    """Everything that is wrong with a composition, in the order of the calls; empty if it can be composed."""
    found: list[RemapError] = []
    placement: str | None = None
    for i, call in enumerate(calls):
        spec = REMAPS.get(call.name)
        if spec is None:
            near = nearest(call.name, REMAPS)
            remedy = f"the remaps are {_listed(REMAPS)}"
            found.append(RemapError(f"there is no remap `{call.name}`", i, remedy, suggestion=near))
            continue
        if placement is not None:
            remedy = f"write it before `{placement}`" if isinstance(spec, Permutation) else "keep one of the two"
            found.append(RemapError(_after_placement(spec, placement), i, remedy))
        elif isinstance(spec, Placement):
            placement = call.name
        found.extend(_argument_problems(i, call, spec))
    return found


def _after_placement(spec: RemapSpec, placement: str) -> str:
    if isinstance(spec, Placement):
        return f"`{spec.name}` follows `{placement}`: the index is placed on the grid only once"
    return (
        f"`{spec.name}` permutes the linear index, so it must stand before `{placement}`, which places it on the grid"
    )


def _argument_problems(i: int, call: RemapCall, spec: RemapSpec) -> list[RemapError]:
    """Report problems with the arguments of call `i`."""
    found: list[RemapError] = []
    names = [p.name for p in spec.parameters]
    if len(call.positional) > len(names):
        takes = f"takes {_listed(names)}" if names else "takes no arguments"
        found.append(
            RemapError(f"`{spec.name}` {takes}, but {len(call.positional)} values are given", i, "leave some out")
        )
    by_position = dict(zip(names, call.positional, strict=False))
    for name in call.args:
        if name not in names:
            remedy = f"it takes {_listed(names)}" if names else "it takes none"
            message = f"`{spec.name}` has no parameter `{name}`"
            found.append(RemapError(message, i, remedy, parameter=name, suggestion=nearest(name, names)))
        elif name in by_position:
            found.append(RemapError(f"`{name}` of `{spec.name}` is given twice", i, "keep one of them", parameter=name))
    given = {**by_position, **call.args}
    for parameter in spec.parameters:
        problem = _value_problem(parameter, given)
        if problem:
            remedy = f"write `{parameter.name} = N` with {parameter.minimum} to {parameter.maximum} for N"
            message = f"`{parameter.name}` of `{spec.name}` {problem}"
            found.append(RemapError(message, i, remedy, parameter=parameter.name))
    return found


def _value_problem(parameter: Parameter, given: Mapping[str, int]) -> str | None:
    if parameter.name not in given:
        return f"is missing: {parameter.doc}" if parameter.required else None
    value = given[parameter.name]
    if type(value) is not int:
        return f"must be an integer, not {value!r}"
    if not parameter.minimum <= value <= parameter.maximum:
        return f"is {value}, it must be from {parameter.minimum} to {parameter.maximum}"
    return None


def _listed(names: Collection[str]) -> str:
    return ", ".join(f"`{n}`" for n in names)


def _extent(extent: int | str | NamedInt) -> Const | Ref:
    """A side of the grid as an expression."""
    value = extent.value if isinstance(extent, NamedInt) else extent
    if isinstance(value, int) and not 1 <= value <= MAX_TILES:
        raise ValueError(f"a grid has at least one row and column of tiles, not {value}")
    if isinstance(extent, NamedInt):
        return Ref(check_name(extent.name, dotted=True), extent.value)
    return Const(extent) if isinstance(extent, int) else Ref(check_name(extent, dotted=True))


def _tiles(rows: int, cols: int) -> int:
    """The number of tiles of a grid that a kernel can count."""
    if rows < 1 or cols < 1 or rows * cols > MAX_TILES:
        raise ValueError(f"a grid of {rows} x {cols} tiles is empty or has more than {MAX_TILES}")
    return rows * cols


REMAPS: Mapping[str, Permutation | Placement] = MappingProxyType(
    {module.SPEC.name: module.SPEC for module in modules_of(definitions)}
)
