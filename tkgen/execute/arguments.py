"""Arguments of a generated kernel, and the sizes and scalars of a launch. This module does not need torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from tkgen.ir.divided import divided
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.equations import Kernel, accesses
from tkgen.ir.launch import Launch
from tkgen.ir.limits import BUFFER_BYTES, LAUNCH_THREADS, Requirement
from tkgen.ir.sizing import Sizing
from tkgen.ir.tensors import GLOBAL_DIMENSIONS
from tkgen.ir.types import Program, ScalarArg

if TYPE_CHECKING:
    from tkgen.emulate.arguments import Arg, Buffer, Struct


class SizeError(ValueError):
    """A size or a scalar argument is missing, or is one that the kernel cannot do."""


class Scaled(Protocol):
    """A program that takes scalars: one kernel, or several."""

    @property
    def scalars(self) -> Sequence[ScalarArg]:
        """Its scalar arguments."""


class Layout(Protocol):
    """A layout of a block's tile over its lanes, with the parts that a launch needs."""

    @property
    def kernel(self) -> Kernel:
        """The equations, in the form that is laid out."""

    @property
    def threads(self) -> int:
        """Threads of a block."""

    @property
    def registers(self) -> int:
        """VGPRs of a lane, as predicted."""

    @property
    def meets(self) -> bool:
        """Return True if its waves synchronise in every loop."""

    def largest(self, dim: str) -> int:
        """The largest size of a dimension known only at run time."""

    def describe(self) -> str:
        """One line for people."""


def packed(launch: Sizing, buffers: Mapping[str, Buffer], scalars: Mapping[str, float]) -> Struct:
    """The kernel's one argument, laid out as the generated `globals` is, over a buffer for every tensor it takes.

    In a checkout of ThunderKittens-HIP (July 2025) or HipKittens (November 2025) extents that are known at compile time
    take a byte each, and so does the empty dictionary at the end of each tensor (`include/types/global/gl.cuh`).
    """
    from tkgen.emulate.arguments import Bytes, Scalar, Struct

    members: list[Arg] = []
    foreign: list[Arg] = []
    for tensor in launch.program.arguments:
        sizes = [None if d.size is not None else Scalar("u64", launch.extents[d.name]) for d in tensor.dims]
        nothing = Bytes(b"\0")
        members += [buffers[tensor.name], *(s for s in sizes if s)]
        known = [nothing] * (GLOBAL_DIMENSIONS - len(sizes))
        global_sizes = sizes[-GLOBAL_DIMENSIONS:]  # of more than that the first ones are one, of known size
        foreign.append(Struct([buffers[tensor.name], *known, *(s or nothing for s in global_sizes), nothing]))
    rest = [*(Scalar("f32", scalars[s.name]) for s in launch.program.scalars), Scalar("u64", 0)]  # then the stream
    return Struct([*members, *rest], otherwise=[*foreign, *rest])


def launched(
    program: Program, needed: Sequence[Requirement], given: Mapping[str, int] | None = None
) -> Launch[Program]:
    """The launch of `program` at its own sizes, `given` ones for dynamic dimensions, of which all this is `needed`.

    Raises:
        SizeError: a dynamic dimension without a size, or a size the kernel cannot do.
    """
    launch = Launch(program, sizes(program, given), meets=program.waves > 1)
    check_requirements(program, needed, launch.extents)
    return launch


def launched_in(
    layout: Layout, program: EquationProgram, given: Mapping[str, int] | None = None
) -> Launch[EquationProgram]:
    """The launch of `program`, laid out like this, at its own sizes, `given` ones for dynamic dimensions.

    Raises:
        SizeError: a dynamic dimension without a size, or a size that the kernel cannot do.
    """
    extents = sizes(program, given)
    for name, size in extents.items():
        if not 1 <= size <= layout.largest(name):
            raise SizeError(f"{program.name}: {name} must be from 1 to {layout.largest(name)}")
    for found in divided(program.kernel):
        large, small = found.large.name, found.small.name
        if found.of(extents[large]) != extents[small] or (not found.by_tile and extents[large] % found.count):
            raise SizeError(f"{program.name}: {small} must be {large} / {found.count}{', rounded up' * found.by_tile}")
    launch, most = Launch(program, extents, meets=layout.meets), LAUNCH_THREADS // layout.threads
    if launch.tile_count > most:
        raise SizeError(f"{program.name}: there must be at most {most} blocks")
    from tkgen.schedule.rows import reach_bytes  # only launches of kernels that are laid out need it

    for access in accesses(layout.kernel) if program.dynamic else ():
        if reach_bytes(access, extents) > BUFFER_BYTES:
            raise SizeError(f"{program.name}: a tile of {access.tensor.name} spans more than {BUFFER_BYTES} bytes")
    return launch


def sizes(program: Program | EquationProgram, given: Mapping[str, int] | None = None) -> dict[str, int]:
    """Every dimension's size: the spec's own, or `given` for dynamic ones. Raises SizeError where one has none."""
    found = {}
    for dim in program.dims:
        size = dim.size if dim.size is not None else (given or {}).get(dim.name)
        if size is None:
            raise SizeError(f"{dim.name} is dynamic: give it a size")
        found[dim.name] = size
    return found


def check_requirements(program: Program, needed: Sequence[Requirement], extents: Mapping[str, int]) -> None:
    """Raises SizeError for the first of `needed` that does not hold."""
    for requirement in needed:
        if not requirement.holds(program, extents):
            raise SizeError(f"{program.name}: {requirement.message}")


def scalar_values(program: Scaled, given: Mapping[str, float] | None = None) -> dict[str, float]:
    """A value for every scalar argument: given, or its default. Raises SizeError where neither is there."""
    values = {}
    for scalar in program.scalars:
        value = (given or {}).get(scalar.name, scalar.default)
        if value is None:
            raise SizeError(f"scalar {scalar.name} has no default: give it a value, such as -D {scalar.name}=0.5")
        values[scalar.name] = float(value)
    return values


def check_scalars(program: Scaled) -> dict[str, float]:
    """Values for a check that nobody gives any: the defaults, and a half where there is none."""
    return {s.name: 0.5 if s.default is None else s.default for s in program.scalars}
