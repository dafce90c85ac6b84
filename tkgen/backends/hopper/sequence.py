"""The file of several kernels for Hopper: each in a namespace, and one function that launches them in order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tkgen.backends.cdna.lower.names import comment_text
from tkgen.backends.cdna.lower.origins import Source, joined
from tkgen.backends.hopper.file import PACKAGE
from tkgen.backends.hopper.file import name as cpp_name
from tkgen.execute.arguments import SizeError

if TYPE_CHECKING:
    from tkgen.backends.hopper.machine import Hopper
    from tkgen.sequence.spec import SequenceSpec

KERNELS = "\0kernels"  # where the namespaces come
NAMESPACE = re.compile(r"^namespace (\w+) \{$", re.MULTILINE)


@dataclass(frozen=True)
class Launched:
    """A kernel as the file launches it: its namespace, what it is launched with, and what it adds to."""

    name: str
    blocks: int | None  # None where only run time knows
    dynamic_bytes: int
    added: tuple[str, ...]
    filled: tuple[tuple[str, str], ...]  # tensors, and the word that all of their elements start as
    early: bool  # begins while the one before it ends


def joined_source(spec: SequenceSpec[Hopper]) -> Source:
    """The generated CUDA C++ of all kernels."""
    from tkgen.backends.cdna.lower.elements import word_of  # no check needs it

    parts: list[Source | str] = []
    kernels = []
    each: tuple[Any, ...] = spec.kernels
    for kernel, source in zip(each, map(_namespace, each), strict=True):
        found = NAMESPACE.search(source.text)
        assert found is not None
        starts = {t: kernel.program.starts.get(t.name) for t in kernel.program.outputs}
        added = tuple(cpp_name(t.name) for t, start in starts.items() if start == 0)
        filled = tuple((cpp_name(t.name), word_of(start, t.dtype)) for t, start in starts.items() if start)
        kernels.append(Launched(found[1], _blocks(kernel), kernel.dynamic_bytes, added, filled, kernel.beside.before))
        parts += [source, "\n"]
    header = [comment_text(line) for line in spec.program.header.splitlines()]
    model = {
        "header": header, "spec": comment_text(spec.path.name), "target": spec.target.name,
        "name": cpp_name(spec.name), "kernels": kernels, "mark": KERNELS,
    }  # fmt: skip
    from tkgen.backends.cdna.lower.render import environment, tidy  # no check needs it

    text = tidy(environment(PACKAGE).get_template("sequence.cu.jinja").render(m=model)).rstrip("\n") + "\n"
    head, _, tail = text.partition(f"{KERNELS}\n")
    return joined([head, *parts, tail])


def _namespace(kernel: Any) -> Source:
    """The namespace of a kernel, without the file around it."""
    source: Source = kernel.source
    found = NAMESPACE.search(source.text)
    assert found is not None
    above = source.text.count("\n", 0, found.start())
    operations = {name: tuple(_below(lines, above)) for name, lines in source.operations.items()}
    return Source(source.text[found.start() :], source.origins[above:], operations, source.equations[above:])


def _below(lines: tuple[int, ...], above: int) -> Iterator[int]:
    yield from (line - above for line in lines if line > above)


def _blocks(kernel: Any) -> int | None:
    """Blocks of a launch; None where its sizes are not known."""
    try:
        return int(kernel.blocks(kernel.launch()))
    except SizeError:
        return None
