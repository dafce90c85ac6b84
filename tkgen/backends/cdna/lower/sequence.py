"""File of a sequence around its kernels: head, one struct of arguments, one `dispatch`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tkgen.backends.cdna.lower.model import Check, ScalarMember
from tkgen.backends.cdna.lower.names import EXTENTS, as_given, comment_text, cpp_name
from tkgen.backends.cdna.lower.origins import NOWHERE, Source, joined
from tkgen.backends.cdna.lower.render import environment, file_text, tidy
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.types import Dim, Program, Tensor

if TYPE_CHECKING:
    from tkgen.sequence.spec import SequenceSpec


@dataclass(frozen=True)
class SharedTensor:
    """A member of the sequence's arguments, of the type that it has in kernel `home`."""

    name: str
    home: str
    between: bool


@dataclass(frozen=True)
class Launched:
    """A kernel, what of the sequence's arguments its own are made of, whether it has sizes to check."""

    name: str
    members: tuple[str, ...]
    checked: bool
    looks: bool


@dataclass(frozen=True)
class SequenceModel:
    """Values that the template prints."""

    tensors: tuple[SharedTensor, ...]
    scalars: tuple[ScalarMember, ...]
    module: str
    kernels: tuple[Launched, ...]
    checks: tuple[Check, ...]

    @property
    def checked(self) -> bool:
        """True if a launch is refused at some sizes."""
        return bool(self.checks) or any(k.checked for k in self.kernels)

    @property
    def looks(self) -> bool:
        """True if a kernel takes what the host can look at: offsets, lengths, pages."""
        return any(k.looks for k in self.kernels)


def joined_source(spec: SequenceSpec[Any]) -> Source:
    """The file of all kernels of a spec: each in its own namespace, and one `dispatch` that launches them."""
    program = spec.program
    kernels: tuple[Any, ...] = spec.kernels
    head, tail = sequence_parts(
        spec.name, program.header.splitlines(), spec.path.name, spec.target.name,
        [(k.program, k.namespace) for k in kernels], program.arguments, program.between,
    )  # fmt: skip
    return joined([head, *(part for k in kernels for part in (k.namespace, "\n")), tail])


def sequence_parts(
    name: str,
    header: Sequence[str],
    spec: str,
    target: str,
    kernels: Sequence[tuple[Program | EquationProgram, Source]],
    tensors: Sequence[Tensor],
    between: Sequence[Tensor],
) -> tuple[str, str]:
    """The text before the kernels' namespaces, which `kernels` has, and after them; `spec` is the path to name."""
    programs = [program for program, _ in kernels]
    homes = {t.name: program.name for program in reversed(programs) for t in program.arguments}
    scalars = {s.name: s for program in programs for s in program.scalars}
    model = SequenceModel(
        tensors=tuple(SharedTensor(cpp_name(t.name), cpp_name(homes[t.name]), t in between) for t in tensors),
        scalars=tuple(ScalarMember(cpp_name(s.name), s.dtype.cpp, NOWHERE) for s in scalars.values()),
        kernels=tuple(
            Launched(cpp_name(p.name), _members(p), CHECKS in source.text, LOOKS in source.text)
            for p, source in kernels
        ),
        module=name,
        checks=tuple(_checks(programs, tensors)),
    )
    inner = environment().get_template("sequence.cpp.jinja").render(m=model, remark=lambda origin: "")
    members = [*(t.name for t in model.tensors), *(s.name for s in model.scalars), "stream"]
    space = cpp_name(name)
    body = f"namespace {space} {{\n\n{KERNELS}\n{inner}}} // namespace {space}\n"
    lines = [comment_text(line) for line in header]
    functions = ("dispatch", "check_offsets") if model.looks else ("dispatch",)
    text = tidy(file_text(body, lines, comment_text(spec), target, name, space, members, functions))
    head, _, tail = text.partition(f"{KERNELS}\n")
    return head, tail


KERNELS = "\0kernels"  # where the namespaces come
CHECKS = "void check_sizes("  # stands in a namespace whose kernel has sizes to check
LOOKS = "void check_offsets("  # the same of offsets, lengths and pages


def _checks(programs: Sequence[Program | EquationProgram], tensors: Sequence[Tensor]) -> Iterator[Check]:
    """That kernels see a dynamic dimension of the same size; each of them checks it of its own tensors."""
    for dim in dict.fromkeys(d for t in tensors for d in t.dims if d.size is None):
        having = [next((t for t in p.arguments if dim in t.dims), None) for p in programs]
        first, *others = dict.fromkeys(t for t in having if t is not None)
        for other in (t for t in others if not any({first, t} <= set(p.arguments) for p in programs)):
            message = f"{other.name} and {first.name} differ in {dim.name}"
            yield Check(f"{as_given(_extent(other, dim))} != {as_given(_extent(first, dim))}", message, NOWHERE)


def _extent(tensor: Tensor, dim: Dim) -> str:
    return f"g.{cpp_name(tensor.name)}.{EXTENTS[4 - len(tensor.dims) + tensor.dims.index(dim)]}()"


def _members(program: Program | EquationProgram) -> tuple[str, ...]:
    names = [*(t.name for t in program.arguments), *(s.name for s in program.scalars)]
    return (*(f"g.{cpp_name(name)}" for name in names), "g.stream")
