"""Verdicts on a spec: refused with diagnostics, or built, run under the referee at several sizes, and compared."""

from __future__ import annotations

import random
import resource
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuzzing.specs import Sample

if TYPE_CHECKING:
    from tkgen.api import Spec
    from tkgen.build import Build
    from tkgen.sequence.spec import SequenceSpec
    from tkgen.toolchain.compiler import Compiler

MANY = 9  # K-steps: enough for every prologue, some passes of the loop, and every epilogue
HOPPER, MODEL = "sm_90a", "model"
HOST_ORDERS = 2  # in which generated C++ for Hopper runs on the CPU, thread by thread
REFUSED_BUILDS = {"E404", "E405"}  # registers are counted only in machine code
KINDS = (
    "wrong", "machine check", "unchecked", "wait states", "toolchain", "exception", "silent", "timeout", "crash",
)  # fmt: skip


@dataclass(frozen=True)
class Depth:
    """Depth of the runs of an accepted spec: `orders` of the waves at each size; `quick` runs static sizes as drawn
    only; `build_only` compiles and checks the machine code, and launches nothing.
    """

    orders: int = 5
    quick: bool = False
    build_only: bool = False


@dataclass(frozen=True)
class Result:
    """Outcome of a seed.

    `verdict` is `accepted`, `rejected` or `FAILED`; `kind` of a failure is one of `KINDS`, that of a rejection
    `registers` where only the compiled kernel shows that it needs too many; `detail` the codes of a rejection, or what
    failed. `runs` counts launches. `family` and `seed` draw the spec again.
    """

    seed: int
    verdict: str
    detail: str
    seconds: float
    instructions: int = 0
    runs: int = 0
    kind: str = ""
    features: frozenset[str] = frozenset()
    family: str = "matrix"
    cpu: float = 0.0  # seconds of this process and of its compilers


class Failure(Exception):
    """A failure of tkgen: its kind, and what happened."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


@dataclass
class Tally:
    """Counts of the outcomes."""

    instructions: int = 0
    runs: int = 0
    builds: int = 0
    sizes: list[Mapping[str, int]] = field(default_factory=list)
    registers: bool = False  # the compiled kernel needs too many


def attempt(made: Sample, orders: int = 5, quick: bool = False, build_only: bool = False) -> Result:
    """Check a spec and, if it is accepted, build, emulate and compare it. Never raises."""
    start, cpu = time.perf_counter(), _cpu()
    tally, kind = Tally(), ""
    try:
        codes = judge(made, Depth(orders, quick, build_only), tally)
        verdict, detail = ("rejected", codes) if codes else ("accepted", "")
        kind = "registers" if tally.registers else ""
    except Failure as failure:
        verdict, kind, detail = "FAILED", failure.kind, str(failure)
    except Exception as error:
        places = [f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)[-3:]]
        verdict, kind, detail = "FAILED", "exception", f"{type(error).__name__}: {error} ({', '.join(places)})"
    seconds = time.perf_counter() - start
    return Result(
        made.seed, verdict, detail, seconds, tally.instructions, tally.runs, kind, made.features, made.family,
        _cpu() - cpu,
    )  # fmt: skip


def _cpu() -> float:
    """Seconds of processor time of this process and of those that it started."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in used)


def judge(made: Sample, depth: Depth, tally: Tally) -> str:
    """The codes with which a spec is refused, none where it is accepted and right. Raises Failure where it is not."""
    from tkgen.diagnostics import SpecError
    from tkgen.toolchain.compiler import ToolchainError

    with tempfile.TemporaryDirectory(prefix="tkgen-fuzz-") as folder:
        path = write(made, Path(folder))
        try:
            spec = loaded(made, path)
        except SpecError as error:
            return _codes(error)
        try:
            if made.only:
                _some_blocks(made, spec, depth, tally)
            elif spec.target.name == HOPPER:
                _on_hopper(made, spec, depth, tally)
            elif spec.plan is None:
                _whole(made, spec, depth, tally)
            else:
                for build, extents in _launches(made, path, spec, depth.quick):
                    tally.builds += 1
                    if not depth.build_only:
                        _run(made, build, extents, depth.orders, tally)
        except SpecError as error:
            codes = _codes(error)
            if not REFUSED_BUILDS.issuperset(codes.split()):
                raise Failure("wait states" if "wait state" in str(error) else "machine check", f"{error}") from error
            tally.registers = True
            return codes
        except ToolchainError as error:
            raise Failure("toolchain", error.message) from error
    return "" if tally.builds else "no size"


def _whole(made: Sample, spec: Spec | SequenceSpec, depth: Depth, tally: Tally) -> None:
    """Build kernels of rows, or a sequence, and run them at their sizes, or several if known only at run time."""
    from tkgen.build import Build
    from tkgen.execute.launch import run, trials
    from tkgen.machine_check import RIGHT

    build = spec.build()
    kernels = (build,) if isinstance(build, Build) else build.kernels
    for kernel in kernels:
        kernel.check()
        if kernel.machine_check.outcome != RIGHT:
            raise Failure("unchecked", kernel.machine_check.reason)
    tally.builds += 1
    if depth.build_only:
        return
    for sizes in zip(*made.extents.values(), strict=True) if made.extents else [()]:
        extents = dict(zip(made.extents, sizes, strict=True))
        for order, kind in trials(depth.orders):
            if isinstance(build, Build):
                tried = run(build, extents=extents, seed=made.seed, kind=kind, order=order)
                outcomes = tried.outcomes
                failure = tried.failure
            else:
                ran = run(build, extents=extents, seed=made.seed, kind=kind, order=order)
                outcomes, failure = ran.outcomes, ran.failure
            tally.runs += 1
            tally.instructions += sum(outcome.instructions for outcome in outcomes)
            if failure:
                raise Failure("wrong", f"{extents}, {order}, {kind.value}: {failure}")


def _some_blocks(made: Sample, spec: Any, depth: Depth, tally: Tally) -> None:
    """Build a kernel, and run a few of its blocks at its own sizes, the last one among them."""
    from tkgen.execute.launch import run, trials
    from tkgen.machine_check import RIGHT

    build = spec.build().check()
    watched = build.machine_check
    endless = made.only == "build" and "instructions that are watched" in watched.reason  # of so large sizes a block is
    if watched.outcome != RIGHT and not endless:
        raise Failure("unchecked", watched.reason)
    tally.builds += 1
    if depth.build_only or made.only == "build":
        return
    blocks = spec.launch().sample()
    for order, kind in trials(depth.orders):
        tried = run(build, blocks, seed=made.seed, kind=kind, order=order)
        tally.runs += 1
        tally.instructions += tried.instructions
        if tried.failure:
            raise Failure("wrong", f"blocks {blocks}, {order}, {kind.value}: {tried.failure}")


def _on_hopper(made: Sample, spec: Any, depth: Depth, tally: Tally) -> None:
    """Compile with nvcc, where it is there; run the generated C++ on the CPU and the model of the schedule."""
    from tkgen.backends.hopper.toolchain import find_nvcc
    from tkgen.backends.registry import backend_of
    from tkgen.execute.given import Chosen
    from tkgen.execute.modelled import trials
    from tkgen.toolchain.compiler import NoCompilerError

    try:
        find_nvcc()
    except NoCompilerError:
        pass
    else:
        spec.build()
    tally.builds += 1
    if depth.build_only:
        return
    backend = backend_of(spec.target.name)
    scalars = {s.name: 0.75 if s.default is None else s.default for s in spec.program.scalars}
    for sizes in zip(*made.extents.values(), strict=True) if made.extents else [()]:
        extents = dict(zip(made.extents, sizes, strict=True))
        found = Chosen(spec, spec.launch(extents), extents, scalars)
        for executor in backend.executors:
            orders = depth.orders if executor == MODEL else min(depth.orders, HOST_ORDERS)
            for trial in trials(backend, found, orders, made.seed, executor=executor):
                tally.runs += 1
                tally.instructions += trial.steps
                if trial.failure:
                    where = f"{executor}, {extents}, {trial.order}, {trial.inputs.value}"
                    raise Failure("wrong", f"{where}: {trial.failure}")


def write(made: Sample, folder: Path) -> Path:
    """The spec, and the files that it includes, in `folder`."""
    for name, text in made.files.items():
        (folder / name).write_text(text)
    path = folder / f"fuzz_{made.seed}.tk"
    path.write_text(made.text)
    return path


def loaded(made: Sample, path: Path, steps: int | None = None) -> Any:
    """The checked spec, with another number of K-steps if it is static."""
    from tkgen.api import load

    defines: dict[str, int | None] | None = None if steps is None else {"K": _k(made, steps)}
    return load(path, defines, made.target).check()


def _codes(error: Exception) -> str:
    from tkgen.diagnostics import Severity, SpecError

    assert isinstance(error, SpecError)
    codes = sorted({d.code for d in error.diagnostics if d.severity is Severity.ERROR})
    if not codes or not all(d.message and (d.primary or d.code in REFUSED_BUILDS) for d in error.diagnostics):
        raise Failure("silent", f"a rejection that says nothing: {error}")
    return " ".join(codes)


def _k(made: Sample, steps: int) -> int:
    return max(made.step * steps - made.ragged, 1)


def _launches(made: Sample, path: Path, spec: Spec, quick: bool) -> Iterator[tuple[Build, dict[str, int]]]:
    """Builds and sizes to run them at: 1, 2, 3 and many K-steps where K is dynamic, else its own number and another."""
    from tkgen.diagnostics import SpecError
    from tkgen.execute.arguments import SizeError

    rng = random.Random(made.seed)
    shape = spec.plan.shape
    if made.dynamic_k:
        build = _built(spec)
        least, unroll = max(shape.tail_iterations, 1), shape.unroll
        wanted = {-(-max(n, least) // unroll) * unroll for n in (1, 2, 3, MANY)}
        for steps in sorted(wanted):
            extents = {n: rng.choice(values) for n, values in made.extents.items()} | {"K": _k(made, steps)}
            try:
                spec.launch(extents)
            except SizeError:
                continue
            yield build, extents
        return
    others = [] if quick else [rng.choice([1, 2, 3, 3, MANY]) * shape.unroll]
    for steps in (None, *others):  # each costs a compilation, and many seeds make up for few sizes
        extents = {n: rng.choice(values) for n, values in made.extents.items()}
        try:
            fixed = spec if steps is None else loaded(made, path, steps)
            fixed.launch(extents)
        except SizeError:
            continue
        except SpecError:
            if steps is None:
                raise
            continue
        yield _built(fixed), extents


@cache
def compiler_for(target: str) -> Compiler:
    """The compiler for a target, found once."""
    from tkgen.targets import load_target
    from tkgen.toolchain.discover import find_compiler

    return find_compiler(load_target(target))


def _built(spec: Spec) -> Build:
    """The compiled spec, watched. (`Spec.build` also asks for a compiler, each time anew where nothing is cached.)"""
    from tkgen.build.compiling import compiled, watched
    from tkgen.machine_check import RIGHT

    build = watched(compiled(spec, compiler_for(spec.target.name)).check()).check()
    if build.machine_check.outcome != RIGHT:
        raise Failure("unchecked", build.machine_check.reason)
    return build


def _run(made: Sample, build: Build, extents: dict[str, int], orders: int, tally: Tally) -> None:
    """Launches under several orders of the waves, in turn with both kinds of inputs."""
    from tkgen.emulate import Kind
    from tkgen.execute.launch import run, trials

    scalars = {s.name: 0.75 for s in build.spec.program.scalars if s.default is None}
    for order, kind in trials(orders):
        tried = run(build, extents=extents, seed=made.seed, kind=kind, scalars=scalars, order=order)
        tally.runs += 1
        tally.instructions += tried.instructions
        shown = " ".join(f"{name}={size}" for name, size in tried.sizes.items())
        if tried.findings:
            found = "\n".join(str(f) for f in tried.findings[:3])
            all_waits = all(f.kind is Kind.WAIT_STATES for o in tried.outcomes for f in o.findings)
            raise Failure("wait states" if all_waits and tried.comparison.right else "wrong",
                          f"{shown}, {order}: {len(tried.findings)} findings\n{found}")  # fmt: skip
        if not tried.comparison.right:
            raise Failure("wrong", f"{shown}, {order}: {tried.comparison}")
        outputs = {t.name for t in build.spec.program.outputs if build.spec.program.ragged is None}  # in no group: left
        for buffer in {w.buffer.name: w.buffer for w in tried.outcomes[0].written}.values():
            if buffer.name in outputs and tried.outcomes[0].unwritten(buffer):
                raise Failure("wrong", f"{shown}, {order}: bytes of {buffer.name} are never written")
