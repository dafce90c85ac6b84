"""The stages after a spec is scheduled: proof, C++, machine code. `tkgen.pipeline` lists all stages, these last."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    from tkgen.backends.protocol import Build
    from tkgen.backends.spec import AnySpec

A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True)
class Stage(Generic[A, B]):
    """A stage: its name, a sentence about it, its function, and its value as text.

    `views` are further texts of the same value, by name.
    """

    name: str
    docs: str
    run: Callable[[A], B]
    text: Callable[[B], str]
    views: Mapping[str, Callable[[B], str]] = field(default_factory=dict)

    @property
    def prints(self) -> dict[str, Callable[[B], str]]:
        """All texts of the value, by the name that `--print-after` takes."""
        return {self.name: self.text, **self.views}


AnyStage: TypeAlias = Stage[Any, Any]


@dataclass(frozen=True)
class Compiling:
    """Options of the stage `compile`.

    `cxx` is the compiler, `kittens` a ThunderKittens checkout to compile against, `log` a file for what the compiler
    prints. The machine code is watched if `watch` says so and something can. Source and assembly that are refused then
    are kept in files with the stem `kept`.
    """

    cxx: str | None = None
    kittens: Path | None = None
    log: Path | None = None
    watch: bool = True
    kept: Path | None = None


@dataclass(frozen=True)
class Lowered:
    """A proven spec, its generated C++, and how that is compiled."""

    spec: AnySpec
    source: str
    compiling: Compiling = Compiling()


def prove(spec: AnySpec) -> AnySpec:
    """Run every check: the kernel cannot race or deadlock, stores what its equations say, and fits the machine."""
    return spec.check()


def lower(spec: AnySpec) -> Lowered:
    """Generate C++ from the proven schedule."""
    return Lowered(spec, spec.text)


def compile_source(lowered: Lowered) -> Build:
    """Compile the C++ to machine code and check that the machine code keeps what the spec promises."""
    return lowered.spec.compiled(lowered.compiling)


def _proof_text(spec: AnySpec) -> str:
    """Each kernel, and what its checks report: warnings, as errors end the stage."""
    said = [f"  {d.severity.value} {d.code}: {d.message}" for d in spec.diagnostics]
    return "\n".join([*(f"proven: {kernel.name} for {spec.target.name}" for kernel in spec.kernels), *said])


PROVE = Stage(
    "prove", "The checks prove that the tile program cannot race or deadlock and stores what the equations say.",
    prove, _proof_text,
)  # fmt: skip
LOWER = Stage("lower", "The proven tile program becomes C++.", lower, lambda lowered: lowered.source)
COMPILE = Stage(
    "compile", "The C++ becomes machine code, which is checked against the promises of the spec.", compile_source,
    lambda build: build.line(),
)  # fmt: skip

BUILDING: tuple[AnyStage, ...] = (PROVE, LOWER, COMPILE)


def through(
    stages: Sequence[AnyStage], value: Any, to: AnyStage, after: AnyStage | None = None
) -> Iterator[tuple[AnyStage, Any]]:
    """Run `stages` up to `to`: each with its value. `value` is that of the stage `after`, or what the first takes."""
    first = stages.index(after) + 1 if after else 0
    for stage in stages[first : stages.index(to) + 1]:
        value = stage.run(value)
        yield stage, value


def built(spec: AnySpec, compiling: Compiling) -> Build:
    """The build of a scheduled spec, after all stages. Raises SpecError or ToolchainError."""
    *_, (_, lowered) = through(BUILDING, spec, LOWER)
    result: Build
    *_, (_, result) = through(BUILDING, replace(lowered, compiling=compiling), COMPILE, after=LOWER)
    return result
