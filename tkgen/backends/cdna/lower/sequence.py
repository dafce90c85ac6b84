"""What stands around the kernels of a sequence in its file: head, one struct of arguments, one `dispatch`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tkgen.backends.cdna.lower.model import ScalarMember
from tkgen.backends.cdna.lower.names import comment_text, cpp_name
from tkgen.backends.cdna.lower.origins import NOWHERE
from tkgen.backends.cdna.lower.render import environment, file_text, tidy
from tkgen.ir.equation_program import EquationProgram
from tkgen.ir.types import Program, Tensor


@dataclass(frozen=True)
class SharedTensor:
    """A member of the sequence's arguments, of the type that it has in kernel `home`."""

    name: str
    home: str
    between: bool


@dataclass(frozen=True)
class Launched:
    """A kernel, and what of the sequence's arguments its own are made of."""

    name: str
    members: tuple[str, ...]


@dataclass(frozen=True)
class SequenceModel:
    """What the template prints."""

    tensors: tuple[SharedTensor, ...]
    scalars: tuple[ScalarMember, ...]
    kernels: tuple[Launched, ...]
    dynamic: bool


def sequence_parts(
    name: str,
    header: Sequence[str],
    spec: str,
    target: str,
    kernels: Sequence[tuple[str, Program | EquationProgram]],
    tensors: Sequence[Tensor],
    between: Sequence[Tensor],
) -> tuple[str, str]:
    """The text before the kernels' namespaces and behind them; `spec` is the path that comments name."""
    homes = {t.name: kernel for kernel, program in reversed(kernels) for t in program.arguments}
    scalars = {s.name: s for _, program in kernels for s in program.scalars}
    model = SequenceModel(
        tensors=tuple(SharedTensor(cpp_name(t.name), cpp_name(homes[t.name]), t in between) for t in tensors),
        scalars=tuple(ScalarMember(cpp_name(s.name), s.dtype.cpp, NOWHERE) for s in scalars.values()),
        kernels=tuple(Launched(cpp_name(kernel), _members(program)) for kernel, program in kernels),
        dynamic=any(d.size is None for _, program in kernels for d in program.dims),
    )
    inner = environment().get_template("sequence.cpp.jinja").render(m=model)
    members = [*(t.name for t in model.tensors), *(s.name for s in model.scalars), "stream"]
    space = cpp_name(name)
    body = f"namespace {space} {{\n\n{KERNELS}\n{inner}}} // namespace {space}\n"
    lines = [comment_text(line) for line in header]
    text = tidy(file_text(body, lines, comment_text(spec), target, name, space, members))
    head, _, tail = text.partition(f"{KERNELS}\n")
    return head, tail


KERNELS = "\0kernels"  # where the namespaces come


def _members(program: Program | EquationProgram) -> tuple[str, ...]:
    names = [*(t.name for t in program.arguments), *(s.name for s in program.scalars)]
    return (*(f"g.{cpp_name(name)}" for name in names), "g.stream")
