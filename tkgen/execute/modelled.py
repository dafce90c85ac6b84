"""A launch without a GPU where nothing emulates the machine code, compared: by one of the back end's executors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from tkgen.backends.protocol import Backend
from tkgen.execute import gpu
from tkgen.execute.compare import Comparison, Inputs, compared, worst
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
        """What is not right; empty where all is."""
        numbers = [] if self.comparison.right else [str(self.comparison)]
        return "\n".join([*numbers, *self.findings])


def trials(
    backend: Backend, found: gpu.Prepared, count: int, seed: int = 0,
    progress: Callable[[int, int], None] | None = None, executor: str = "",
) -> Iterator[Trial]:  # fmt: skip
    """Launches in so many orders, on both kinds of inputs in turn; `progress` is told blocks done of all launches.
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
        made = interpreter.run(found.spec, found.launch, wanted(kind).inputs, found.scalars, order, told)
        comparison = worst(compared(made.outputs, wanted(kind).outputs).values())
        yield Trial(order, kind, comparison, made.findings, made.steps)
