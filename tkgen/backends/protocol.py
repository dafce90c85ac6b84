"""The interface of a kind of machine: a `Backend`, and the specs and builds that it makes.

A back end is a folder beside this file and its place in `tkgen/backends/registry.py`. Code that shows further parts,
such as a proven plan, an emulator or predictions, asks the classes of the back end for them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

from tkgen.backends.spec import AnySpec
from tkgen.diagnostics import Diagnostic
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.launch import Launch
from tkgen.ir.sizing import Sizing
from tkgen.ir.types import Program
from tkgen.proof.execution import Order

if TYPE_CHECKING:
    import torch

    from tkgen.backends.cdna.lower.origins import Source
    from tkgen.sequence.spec import SequenceSpec


Spec: TypeAlias = AnySpec
"""Any spec, of which only what all have in common is known."""


class Build(Protocol):
    """A compiled spec."""

    @property
    def spec(self) -> Spec:
        """The spec from which it was built."""

    @property
    def kernels(self) -> Sequence[Any]:
        """The builds of its kernels, in order: itself alone, where it has one."""

    @property
    def code(self) -> bytes:
        """The machine code, of all kernels."""

    @property
    def diagnostics(self) -> Sequence[Diagnostic]:
        """The diagnostics of the spec and of the machine code."""

    @property
    def unwatched(self) -> str:
        """Why the machine code was not watched although it should have been; empty where it was."""

    def check(self) -> Self:
        """This build. Raises SpecError where the machine code breaks what was promised."""

    def report(self) -> dict[str, object]:
        """All figures as plain data."""

    def line(self) -> str:
        """The figures in one line."""

    def named_figures(self) -> dict[str, int]:
        """The numbers that a spec's `# expect` line can name; those of a sequence are called `KERNEL/FIGURE`."""


@dataclass(frozen=True)
class Modelled:
    """The results of a launch without its machine: outputs by name, errors seen, steps of all agents."""

    outputs: Mapping[str, torch.Tensor]
    findings: tuple[str, ...]
    steps: int


class Interpreter(Protocol):
    """Runs the kernels of a back end whose machine code nothing emulates: their generated C++, or their schedules."""

    @property
    def caption(self) -> str:
        """The thing that it runs, for readers of its results."""

    def orders(self, count: int) -> Sequence[Order]:
        """`count` orders to try."""

    def run(
        self, spec: Spec, launch: Launch[Any], inputs: Mapping[str, torch.Tensor], scalars: Mapping[str, float],
        order: Order, progress: Callable[[int, int], None] | None = None,
    ) -> Modelled:  # fmt: skip
        """One launch of a kernel that is checked.

        `progress` is told blocks done, of how many that have something to do.
        """


class Backend(Protocol):
    """One kind of machine."""

    @property
    def functions(self) -> str:
        """Whose C++ of functions its code has: a key of `tkgen.ir.functions.Function.cpp`."""

    @property
    def suffix(self) -> str:
        """Of files of generated source, without a dot."""

    @property
    def emits(self) -> Collection[str]:
        """The outputs of `tkgen build --emit` that it can write."""

    @property
    def own_headers(self) -> str:
        """Why it compiles against no ThunderKittens checkout (`--kittens`); empty where it does."""

    @property
    def emulated(self) -> bool:
        """True if its machine code runs without a GPU, and builds watch it."""

    @property
    def interpreter(self) -> Interpreter | None:
        """The interpreter of its schedules where nothing emulates its machine code; None where it is emulated."""

    @property
    def executors(self) -> Mapping[str, Interpreter]:
        """The executors of its kernels without a GPU, by name, the first by default; none if
        machine code is emulated.
        """

    def targets(self) -> tuple[str, ...]:
        """The names of its targets, sorted."""

    def described(self, target: str) -> str:
        """A sentence or two about one of them."""

    def spec(
        self, path: Path, program: Program | EquationProgram, target: str, defines: Mapping[str, int | None]
    ) -> Spec:
        """A typed kernel for one of its targets.

        Raises:
            SpecError: there is no schedule for it.
            UnknownTargetError: no such target, or none for kernels of its kind.
        """

    def in_order(self, specs: Sequence[AnySpec]) -> tuple[AnySpec, ...]:
        """The kernels of a sequence, each as it is launched beside the others."""

    def joined(self, spec: SequenceSpec[Any]) -> Source:
        """The file of several kernels: each in a namespace, and one function that launches them in order."""

    def produce(
        self, spec: Spec, directory: Path, emit: Collection[str], *, cxx: str | None, kittens: Path | None, watch: bool
    ) -> tuple[Build, dict[str, Path]]:
        """Build one of its specs and write what is asked for: the build, and the paths.

        Raises:
            SpecError: the spec is wrong, or its machine code is.
            ToolchainError: there is no compiler, or it fails.
        """

    def write(self, build: Build, directory: Path, emit: Collection[str]) -> dict[str, Path]:
        """Write what is asked for of one of its builds, each file whole or not at all; the paths."""

    def need_gpu(self) -> None:
        """Raises ToolchainError where torch has no such GPU here."""

    def launcher(
        self, spec: Spec, launch: Sizing, tensors: Mapping[str, torch.Tensor], scalars: Mapping[str, float],
        cxx: str | None,
    ) -> Callable[[], None]:  # fmt: skip
        """Return a function that launches a kernel, or all of a sequence, on these tensors of the GPU.

        Raises:
            SpecError, ToolchainError: as `produce`.
        """
