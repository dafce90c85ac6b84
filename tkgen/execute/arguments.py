"""What a generated kernel takes, and the sizes and scalars that it takes them at. Torch is not needed for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from tkgen.ir.launch import Launch, Sizing
from tkgen.ir.limits import Requirement, requirements
from tkgen.ir.types import Program, ScalarArg
from tkgen.schedule import Plan

if TYPE_CHECKING:
    from tkgen.emulate.arguments import Arg, Buffer, Struct
    from tkgen.ir.equation_program import EquationProgram


class SizeError(ValueError):
    """A size or a scalar argument is missing, or is one that the kernel cannot do."""


class Scaled(Protocol):
    """What takes scalars: a kernel, or several."""

    @property
    def scalars(self) -> Sequence[ScalarArg]:
        """Its scalar arguments."""


class Sized(Protocol):
    """A spec of matrix products, for whichever target."""

    @property
    def program(self) -> Program:
        """The typed program."""

    @property
    def requirements(self) -> Sequence[Requirement]:
        """What dynamic sizes must be."""


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
        known = [nothing] * (4 - len(sizes))
        foreign.append(Struct([buffers[tensor.name], *known, *(s or nothing for s in sizes), nothing]))
    rest = [*(Scalar("f32", scalars[s.name]) for s in launch.program.scalars), Scalar("u64", 0)]  # then the stream
    return Struct([*members, *rest], otherwise=[*foreign, *rest])


def launched(spec: Sized, given: Mapping[str, int] | None = None) -> Launch:
    """The launch of `spec` at its own sizes, `given` ones for dynamic dimensions.

    Raises:
        SizeError: a dynamic dimension without a size, or a size the kernel cannot do.
    """
    launch = Launch(spec.program, sizes(spec.program, given))
    check_requirements(spec.program, spec.requirements, launch.extents)
    return launch


def sizes(program: Program | EquationProgram, given: Mapping[str, int] | None = None) -> dict[str, int]:
    """Every dimension's size: the spec's own, or `given` for dynamic ones. Raises SizeError where one has none."""
    found = {}
    for dim in program.dims:
        size = dim.size if dim.size is not None else (given or {}).get(dim.name)
        if size is None:
            raise SizeError(f"{dim.name} is dynamic: give its size")
        found[dim.name] = size
    return found


def check_sizes(plan: Plan, extents: Mapping[str, int]) -> None:
    """What the generated host code checks for dynamic sizes. Raises SizeError naming the requirement."""
    needed = requirements(plan.program, plan.shape.unroll, plan.shape.tail_iterations)
    check_requirements(plan.program, needed, extents)


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
