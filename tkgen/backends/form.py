"""A spec of one kernel, for whichever machine, and what the ops of the kernel decide about it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tkgen.backends.spec import K, T, TypedSpec
from tkgen.diagnostics import Diagnostic, SpecError
from tkgen.ir.launch import Launch
from tkgen.ir.limits import places_of
from tkgen.ir.products import has_products
from tkgen.ir.types import Dim

if TYPE_CHECKING:
    from networkx import MultiDiGraph

    from tkgen.backends.cdna.lower.origins import Source
    from tkgen.tile.scheduled import Footprint, Scheduled


V = TypeVar("V")


def by_ops(program: Any, staged: V, fused: V, lanes: V) -> V:
    """The value for what a kernel does: products summed over K-steps, products in a loop of equations, or neither."""
    if program.contraction is not None:
        return staged
    return fused if has_products(program.kernel) else lanes


def form_of(program: Any, machine: str) -> Any:
    """The form of a kernel on `machine`, `cdna` or `hopper`. Imports the stages of kernels with such ops alone."""
    sort = by_ops(program, "staged", "fused", "lanes")
    return getattr(import_module(f"tkgen.backends.{machine}.{sort}"), sort.upper())


def _tile_graph(spec: Any) -> MultiDiGraph:
    from tkgen.schedule.tile_graph import tile_graph  # no check needs it

    return tile_graph(spec.tiles, spec.name)


def unchanged(spec: Any, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes as they are: any will do."""
    return dict(sizes)


@dataclass(frozen=True, kw_only=True)
class Form:
    """The stages of kernels with certain ops on a machine: each is a function of the spec."""

    suffix: str = "cpp"  # of a file of its source
    layout: Callable[[Any], Any]  # where tiles lie; raises SpecError where nothing carries the equations out
    check: Callable[[Any], Iterable[Diagnostic]]  # what there is to say, where there is a layout; may raise SpecError
    tiles: Callable[[Any], Scheduled]  # the tile program, to look at
    footprint: Callable[[Any], Footprint]  # what a block takes
    text: Callable[[Any], str] = lambda spec: str(spec.tiles.text)  # the schedule, as text
    source: Callable[[Any], Source]
    launch: Callable[[Any, Mapping[str, int] | None], Launch[Any]]
    size_cases: Callable[[Any], Iterable[dict[str, int]]]
    fitting: Callable[[Any, Mapping[str, int]], dict[str, int]] = unchanged
    graph: Callable[[Any], MultiDiGraph] = _tile_graph  # of an iteration's dataflow


@dataclass(frozen=True)
class KernelSpec(TypedSpec[K, T], Generic[K, T]):
    """A spec of one kernel."""

    @cached_property
    @abstractmethod
    def form(self) -> Form:
        """The stages for its ops."""

    @cached_property
    def layout(self) -> Any:
        """The layout of its tiles. Raises SpecError where the machine has none for the equations."""
        return self.form.layout(self)

    def found(self) -> Iterator[Diagnostic]:
        """The diagnostics of its layout and of its schedule; without a layout, the reasons."""
        try:
            self.layout  # noqa: B018
            yield from self.form.check(self)
        except SpecError as error:
            yield from error.diagnostics

    @cached_property
    def tiles(self) -> Scheduled:
        """The tile program of a block. Raises SpecError as `layout`."""
        return self.form.tiles(self)

    @cached_property
    def footprint(self) -> Footprint:
        """Memory and registers of a block, as predicted. Raises SpecError as `layout`."""
        return self.form.footprint(self)

    @property
    def graph(self) -> MultiDiGraph:
        """The dataflow graph of an iteration, with the barriers of it."""
        return self.form.graph(self)

    @property
    def scheduled(self) -> str:
        """The schedule of its waves, or other agents, as text. Raises SpecError as `layout`."""
        return self.form.text(self)

    @cached_property
    def source(self) -> Source:
        """The generated C++."""
        return self.form.source(self)

    @property
    def text(self) -> str:
        """The text of it."""
        return self.source.text

    def launch(self, given: Mapping[str, int] | None = None) -> Launch[K]:
        """The launch at the spec's own sizes, `given` ones for dynamic dimensions. Raises SizeError."""
        return self.form.launch(self, given)

    def size_cases(self) -> Iterator[dict[str, int]]:
        """Sizes worth trying: whole tiles and steps, and ragged ones."""
        yield from self.form.size_cases(self)

    @property
    def places(self) -> set[Dim]:
        """The dynamic dimensions that blocks take one place of."""
        program: Any = self.program
        return set() if program.contraction is None else places_of(program)

    @property
    def divides(self) -> bool:
        """Sizes are multiples of its block and steps, where it has any."""
        return self.program.contraction is not None

    def fitting(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """`sizes`, those changed that the kernel cannot do."""
        return self.form.fitting(self, sizes)
