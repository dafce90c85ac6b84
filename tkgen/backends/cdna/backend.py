"""CDNA as the library and its commands see it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tkgen.backends import protocol
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.functions import CDNA
from tkgen.ir.types import Program
from tkgen.targets import Target, load_target, target_names

if TYPE_CHECKING:
    import torch

    from tkgen.backends.cdna.lower.origins import Source
    from tkgen.backends.cdna.spec import Spec
    from tkgen.backends.spec import AnySpec
    from tkgen.ir.sizing import Sizing
    from tkgen.sequence.spec import SequenceSpec


class Cdna:
    """AMD CDNA."""

    functions = CDNA
    suffix = "cpp"
    own_headers = ""
    emits = ("cpp", "asm", "hsaco", "module", "harness", "report", "html")
    emulated = True
    interpreter = None

    @property
    def executors(self) -> Mapping[str, protocol.Interpreter]:
        """None: the emulator runs its machine code."""
        return {}

    def targets(self) -> tuple[str, ...]:
        """The names of its targets, sorted."""
        return target_names()

    def described(self, target: str) -> str:
        """Its products, and the LDS they have."""
        found = load_target(target)
        products = ", ".join(p.name for p in found.products)
        return f"{found.architecture}: {products}. {found.lds_bytes_per_block:,} B of LDS per block."

    def spec(
        self, path: Path, program: Program | EquationProgram, target: str, defines: Mapping[str, int | None]
    ) -> Spec[Any]:
        """A typed kernel for one of its targets, with the plan of its K-steps where it has any."""
        from tkgen.backends.cdna.spec import Spec

        found = Spec(path, program, load_target(target), defines)
        found.plan  # noqa: B018
        return found

    def in_order(self, specs: Sequence[AnySpec]) -> tuple[AnySpec, ...]:
        """The kernels of a sequence, as each one alone is."""
        return tuple(specs)

    def joined(self, spec: SequenceSpec[Target]) -> Source:
        """The file of several kernels: each in its own namespace, and one `dispatch` that launches them."""
        from tkgen.backends.cdna.lower.sequence import joined_source

        return joined_source(spec)

    def produce(
        self, spec: protocol.Spec, directory: Path, emit: Collection[str], *, cxx: str | None, kittens: Path | None,
        watch: bool,
    ) -> tuple[protocol.Build, dict[str, Path]]:  # fmt: skip
        """Build one of its specs and write what is asked for."""
        from tkgen.build.outputs import produce

        return produce(spec, directory, emit, cxx=cxx, kittens=kittens, watch=watch)

    def write(self, build: protocol.Build, directory: Path, emit: Collection[str]) -> dict[str, Path]:
        """Write what is asked for of one of its builds."""
        from tkgen.build.outputs import write

        return write(build, directory, emit)

    def need_gpu(self) -> None:
        """Raises ToolchainError where torch has no AMD GPU here."""
        from tkgen.backends.cdna.launch import need_gpu

        need_gpu()

    def launcher(
        self, spec: protocol.Spec, launch: Sizing, tensors: Mapping[str, torch.Tensor], scalars: Mapping[str, float],
        cxx: str | None,
    ) -> Callable[[], None]:  # fmt: skip
        """A function that launches the kernel through its Python module, which knows the launch itself."""
        from tkgen.backends.cdna.launch import launcher

        return launcher(spec.build(cxx=cxx), tensors, scalars)
