"""The regression run of a kernel suite on a GPU: every spec at several sizes, on outputs that hold NaN, against its
equations.

For each spec: the checks pass; the generated source equals the checked-in one, where there is one; it compiles, with
the figures of its `# expect` line on AMD's GPUs; each size gives the right numbers on both kinds of inputs; so does the
code as it is shipped at its own sizes, where its reference, which the CPU works out, takes seconds and not minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from tkgen.api import load, target_of
from tkgen.backends import protocol
from tkgen.backends.registry import backend_of
from tkgen.execute import gpu
from tkgen.execute.arguments import check_scalars
from tkgen.execute.cases import size_cases
from tkgen.execute.compare import Inputs
from tkgen.execute.given import Asked
from tkgen.execute.suites import Result, Work, attempted
from tkgen.ir.products import has_products

MOST_FLOPS, MOST_BYTES = 2**35, 2**27
"""Limits of a launch at shipped sizes whose reference the CPU computes in seconds."""


def regression(
    path: Path, *, target: str | None = None, generated: Path | None = None, cxx: str | None = None, seed: int = 0
) -> list[Result]:
    """Everything the regression run tries on one spec.

    Raises:
        SpecError: it cannot be said which target the spec is for.
        ToolchainError: there is no such GPU here.
    """
    name = target_of(path, target)
    backend_of(name).need_gpu()

    def numbers(values: Mapping[str, int]) -> str:
        return _wrong(path, name, values, cxx, seed)

    return attempted(path, name, cxx, size_cases, numbers, partial(shipped, numbers=numbers), generated)


def shipped(spec: protocol.Spec, numbers: Callable[[Mapping[str, int]], str]) -> Iterator[tuple[str, Work]]:
    """The case of a spec's own sizes, where the CPU soon knows what it computes at these."""
    if is_small(spec.path, spec.target.name, spec):
        yield "as shipped", partial(numbers, {})


def is_small(path: Path, target: str, spec: protocol.Spec) -> bool:
    """Return True if a kernel has sizes of its own, and the CPU soon knows what it computes at these."""
    if any(d.size is None for d in spec.program.dims):
        return False
    launch = Asked(path, check_scalars(spec.program), target).chosen().launch
    nested = any(has_products(one.program.kernel) and not one.summed[0] for one in launch.launches)
    return not nested and launch.flops <= MOST_FLOPS and launch.moved_bytes <= MOST_BYTES


def _wrong(path: Path, target: str, values: Mapping[str, int], cxx: str | None, seed: int) -> str:
    """Compare the numbers at these sizes; return an empty text where they are right."""
    found = Asked(path, {**check_scalars(load(path, None, target).program), **values}, target).chosen()
    for kind in Inputs:
        wanted = gpu.expected(backend_of(target), found.launch, found.scalars, seed, kind)
        comparison, _ = gpu.compared_launch(backend_of(target), found.spec, found.launch, found.scalars, wanted, cxx)
        if not comparison.right:
            return f"{kind.value} inputs: {comparison}"
    return ""
