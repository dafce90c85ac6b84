"""Hopper as the library and its commands see it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tkgen.backends import protocol
from tkgen.backends.hopper.machine import Hopper, load_hopper
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.functions import HOPPER
from tkgen.ir.types import Program
from tkgen.targets import hopper_names

if TYPE_CHECKING:
    import torch

    from tkgen.backends.cdna.lower.origins import Source
    from tkgen.backends.hopper.spec import HopperSpec
    from tkgen.backends.spec import AnySpec
    from tkgen.ir.sizing import Sizing
    from tkgen.sequence.spec import SequenceSpec

OUTPUTS = {"cpp": "cu", "asm": "sass", "hsaco": "cubin", "report": "report"}
"""Hopper's name for each output of AMD's tools."""


class HopperBackend:
    """NVIDIA Hopper."""

    functions = HOPPER
    suffix = "cu"
    emits = tuple(OUTPUTS)
    own_headers = "its kernels are launched with the arguments of tkgen's own headers (see docs/limits.md)"
    emulated = False

    @property
    def interpreter(self) -> protocol.Interpreter:
        """The model of its schedules."""
        from tkgen.backends.hopper.interpreter import HopperInterpreter  # which wants torch

        return HopperInterpreter()

    @property
    def executors(self) -> Mapping[str, protocol.Interpreter]:
        """The generated C++ on the CPU, and the model of its schedules."""
        from tkgen.backends.hopper.host.executor import HostExecutor  # which wants torch
        from tkgen.backends.hopper.interpreter import HopperInterpreter

        return {"host": HostExecutor(), "model": HopperInterpreter()}

    def targets(self) -> tuple[str, ...]:
        """The names of its targets, sorted."""
        return hopper_names()

    def described(self, target: str) -> str:
        """Its products, and the shared memory they have."""
        found = load_hopper(target)
        products = ", ".join(p.name for p in found.products)
        return f"{found.architecture}: {products}. {found.shared_bytes_per_block:,} B of shared memory per block."

    def spec(
        self, path: Path, program: Program | EquationProgram, target: str, defines: Mapping[str, int | None]
    ) -> HopperSpec[Any]:
        """A typed kernel."""
        from tkgen.backends.hopper.order import longest_first
        from tkgen.backends.hopper.spec import HopperSpec

        return HopperSpec(path, longest_first(program), load_hopper(target), defines)

    def in_order(self, specs: Sequence[AnySpec]) -> tuple[AnySpec, ...]:
        """The kernels of a sequence: one that follows products of a tile for each block begins before these end.

        Not where memory is set between the two. After other kernels it would be slower: nothing says when blocks are
        about to end (H200, 2026-11-30: 0.96 of the speed without overlap).
        """
        from tkgen.backends.hopper.neighbours import Neighbours

        each = cast("Sequence[HopperSpec[Any]]", specs)
        early = [one.form.lets_next(one) and not other.program.starts for one, other in pairwise(each)]
        places = zip([False, *early], [*early, False], strict=True)
        return tuple(replace(spec, beside=Neighbours(*place)) for spec, place in zip(each, places, strict=True))

    def joined(self, spec: SequenceSpec[Hopper]) -> Source:
        """The file of several kernels: each in its own namespace, and one `launch` that launches them in order."""
        from tkgen.backends.hopper.sequence import joined_source

        return joined_source(spec)

    def produce(
        self, spec: protocol.Spec, directory: Path, emit: Collection[str], *, cxx: str | None, kittens: Path | None,
        watch: bool,
    ) -> tuple[protocol.Build, dict[str, Path]]:  # fmt: skip
        """Build one of its specs and write what is asked for; nothing watches its machine code."""
        built = spec.build(cxx=cxx)
        return built, self.write(built, directory, emit)

    def write(self, build: protocol.Build, directory: Path, emit: Collection[str]) -> dict[str, Path]:
        """Write what is asked for of one of its builds."""
        from tkgen.backends.hopper.build import write

        return write(build, directory, [OUTPUTS[kind] for kind in emit if kind in OUTPUTS])

    def need_gpu(self) -> None:
        """Raises ToolchainError where torch has no Hopper GPU here."""
        from tkgen.backends.hopper.launch import need_gpu

        need_gpu()

    def launcher(
        self, spec: protocol.Spec, launch: Sizing, tensors: Mapping[str, torch.Tensor], scalars: Mapping[str, float],
        cxx: str | None,
    ) -> Callable[[], None]:  # fmt: skip
        """A function that launches the kernel through the CUDA driver."""
        from tkgen.backends.hopper.launch import launcher

        return launcher(spec.build(cxx=cxx), launch, tensors, scalars)
