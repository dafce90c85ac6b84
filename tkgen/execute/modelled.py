"""A launch without a GPU where nothing emulates the machine code, compared: by one of the back end's executors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import torch

from tkgen.backends.protocol import Backend, Interpreter, Modelled
from tkgen.backends.spec import AnySpec
from tkgen.execute import gpu
from tkgen.execute.compare import Comparison, Inputs, compared, worst
from tkgen.execute.given import Chosen
from tkgen.ir.sizing import Sizing
from tkgen.proof.execution import Order

KINDS = (Inputs.EXACT, Inputs.NORMAL)  # in turn


@dataclass(frozen=True)
class Trial:
    """One launch in one order: how its numbers compare with the equations, what was seen, the steps of all agents."""

    order: Order
    inputs: Inputs
    comparison: Comparison
    findings: tuple[str, ...]
    steps: int

    @property
    def failure(self) -> str:
        """The failures of the numbers and of the model, an empty text where all is right."""
        numbers = [] if self.comparison.right else [str(self.comparison)]
        return "\n".join([*numbers, *self.findings])


def in_order(
    interpreter: Interpreter, spec: AnySpec, launch: Sizing, inputs: Mapping[str, torch.Tensor],
    scalars: Mapping[str, float], order: Order, progress: Callable[[int, int], None] | None = None,
) -> Modelled:  # fmt: skip
    """One launch of every kernel of a checked spec, each on what those before it have written.

    `progress` is told blocks done, of how many. Raises as `Interpreter.run`.
    """
    written: dict[str, torch.Tensor] = {}
    findings: list[str] = []
    steps = 0
    for number, (kernel, one) in enumerate(zip(spec.kernels, launch.launches, strict=True)):

        def told(done: int, blocks: int, before: int = number, of: int = len(spec.kernels)) -> None:
            if progress is not None:
                progress(before * blocks + done, of * blocks)

        wanted = {t.name for t in one.program.reads} | ({t.name for t in one.program.outputs} - one.program.added)
        memory = {name: t for name, t in (dict(inputs) | written).items() if name in wanted}
        made = interpreter.run(kernel, one, memory, {s.name: scalars[s.name] for s in one.program.scalars}, order, told)
        written |= made.outputs
        findings += made.findings if kernel is spec else (f"{kernel.name}: {found}" for found in made.findings)
        steps += made.steps
    return Modelled(written, tuple(findings), steps)


def trials(
    backend: Backend, found: Chosen, count: int, seed: int = 0,
    progress: Callable[[int, int], None] | None = None, executor: str = "",
) -> Iterator[Trial]:  # fmt: skip
    """Launches in several orders, on both kinds of inputs in turn; `progress` is told blocks done of all launches.
    `executor` is a name of `Backend.executors`, the first of them where it is empty.

    Raises:
        ToolchainError: the executor needs a compiler that is not here, or that fails.
        SizeError: tensors of such sizes do not fit the memory that is free here.
    """
    interpreter = backend.executors[executor or next(iter(backend.executors))]

    @cache
    def wanted(kind: Inputs) -> gpu.Expected:
        return gpu.expected(backend, found.launch, found.scalars, seed, kind)

    for number, order in enumerate(interpreter.orders(count)):

        def told(done: int, blocks: int, before: int = number) -> None:
            if progress is not None:
                progress(before * blocks + done, count * blocks)

        kind = KINDS[number % 2]
        made = in_order(interpreter, found.spec, found.launch, wanted(kind).inputs, found.scalars, order, told)
        comparison = worst(compared(made.outputs, wanted(kind).outputs, found.launch.written).values())
        yield Trial(order, kind, comparison, made.findings, made.steps)
