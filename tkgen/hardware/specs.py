"""Section `specs`: every spec that the GPU's target takes, built, launched at several sizes, compared with torch."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tkgen.emulate import EmulateError
from tkgen.hardware.context import RIGHT, SKIPPED, WRONG, CheckContext
from tkgen.hardware.hip import HipError
from tkgen.hardware.state import Result
from tkgen.packages import install_line

if TYPE_CHECKING:
    from tkgen.backends import protocol
    from tkgen.backends.spec import AnySpec

NAME = "specs"
TITLE = "Specs beside torch"
TORCH_INSTALL = install_line("emulate")


def missing() -> Sequence[tuple[str, str]]:
    """Torch, for the expected numbers; a build for the CPU will do."""
    absent = [name for name in ("numpy", "torch", "tinygrad") if importlib.util.find_spec(name) is None]
    return [(", ".join(absent), TORCH_INSTALL)] if absent else []


def items(context: CheckContext) -> Sequence[str]:
    """The shipped specs, those of other machines left out, by their paths without the ending."""
    folder = context.specs
    names = [str(path.relative_to(folder).with_suffix("")) for path in sorted(folder.rglob("*.tk"))]
    return [name for name in names if not name.startswith("hopper")]


def run(context: CheckContext, item: str) -> Result:
    """Build a spec and compare its numbers at each size; a spec that is refused for the target is left out."""
    from tkgen.execute import gpu_suite
    from tkgen.execute.cases import size_cases
    from tkgen.execute.suites import Work, attempted

    path, target = context.specs / f"{item}.tk", context.target.name

    def numbers(values: Mapping[str, int]) -> str:
        try:
            return _wrong(context, path, values)
        except (HipError, EmulateError) as error:
            return str(error)

    def shipped(spec: protocol.Spec) -> Iterator[tuple[str, Work]]:
        return iter(()) if context.stand_in else gpu_suite.shipped(spec, numbers)

    def sizes(spec: AnySpec) -> list[dict[str, int]]:
        cases = size_cases(spec)
        return cases[:1] if context.stand_in else cases  # there it is the way to the kernel that is tried

    found = attempted(path, target, context.cxx, sizes, numbers, shipped, None)
    cases = [{"case": r.case, "failure": r.failure, "seconds": round(r.seconds, 3)} for r in found]
    if found[0].failure and found[0].diagnostics:
        first = found[0].diagnostics[0]
        return {"verdict": SKIPPED, "said": f"refused for {target}: {first.code} {first.message}", "cases": []}
    wrong = [r for r in found if r.failure]
    said = f"{wrong[0].case}: {wrong[0].failure}" if wrong else f"{len(found)} cases"
    return {"verdict": WRONG if wrong else RIGHT, "said": said, "cases": cases}


def _wrong(context: CheckContext, path: Path, values: Mapping[str, int]) -> str:
    """Compare the numbers at these sizes with the equations; return an empty text where they are right."""
    from tkgen.api import load
    from tkgen.execute.arguments import check_scalars
    from tkgen.execute.compare import Inputs, compared, random_inputs, references, worst
    from tkgen.execute.given import Asked
    from tkgen.execute.launch import check_memory
    from tkgen.hardware.launching import LoadedKernels

    target = context.target
    scalars = check_scalars(load(path, None, target.name).program)
    found = Asked(path, {**scalars, **values}, target.name).chosen()
    loaded = LoadedKernels.of(context.hip, found.spec.build(cxx=context.cxx))
    check_memory(found.launch)
    for kind in Inputs:
        inputs = random_inputs(found.launch, context.seed, kind)
        wanted = references(found.launch, inputs, found.scalars, flushes_f16=target.flushes_f16)
        got = loaded.run(found.launch, inputs, found.scalars)
        comparison = worst(compared(got, wanted, found.launch.written).values())
        if not comparison.right:
            return f"{kind.value} inputs: {comparison}"
    return ""
