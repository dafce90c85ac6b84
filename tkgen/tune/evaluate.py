"""One candidate: checked, compiled and predicted, verified on the emulator, timed. Runs in worker processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tkgen.api import load
from tkgen.backends import protocol
from tkgen.backends.registry import backend_of
from tkgen.backends.spec import AnySpec
from tkgen.diagnostics import Severity, SpecError
from tkgen.targets import load_target
from tkgen.toolchain.compiler import ToolchainError
from tkgen.tune.space import Candidate
from tkgen.tune.trial import Status, Trial

ORDERS = 3  # in which a schedule is carried out


@dataclass(frozen=True)
class Setting:
    """The common settings of all candidates: how to build, `-D` values per spec (`fixed`), and `sizes` of dynamic
    dimensions.
    """

    fixed: Mapping[str, Mapping[str, int | None]]
    sizes: Mapping[str, int]
    target: str | None
    product: str | None
    include_roots: tuple[Path, ...]
    cxx: str | None

    def load(self, candidate: Candidate, sizes: Mapping[str, int] | None = None) -> AnySpec:
        """The candidate's spec, for other `sizes` where given. Raises as `api.load`."""
        defines: dict[str, int | None] = {**self.fixed[candidate.spec], **dict(candidate.values), **(sizes or {})}
        return load(candidate.spec, defines, self.target, self.include_roots)


def editable(spec: protocol.Spec) -> AnySpec:
    """The spec, where edits of it are tried. Raises UnknownTargetError where its machine code is not emulated."""
    if not backend_of(spec.target.name).emulated:
        load_target(spec.target.name)  # which says what targets there are
    return spec


def check(setting: Setting, candidate: Candidate) -> Trial:
    """Resolve, schedule and prove `candidate`: REJECTED with its first error, or BOUNDED from below, not compiled."""
    from tkgen.predict import lower_bound

    try:
        spec = setting.load(candidate).check()
    except SpecError as error:
        return rejected(candidate, error)
    bound = lower_bound(spec, setting.sizes, setting.product)
    return Trial(candidate, Status.BOUNDED, bound_seconds=bound)


def rejected(candidate: Candidate, error: SpecError) -> Trial:
    """The trial of a candidate that is refused, with its first error."""
    first = next((d for d in error.diagnostics if d.severity is Severity.ERROR), error.diagnostics[0])
    return Trial(candidate, Status.REJECTED, first.code, first.message)


def measure(setting: Setting, candidate: Candidate) -> Trial:
    """Check, compile and predict `candidate`."""
    from tkgen.predict import PredictError, predict, taken

    found = check(setting, candidate)
    if found.status is Status.REJECTED:
        return found
    try:
        build = setting.load(candidate).build(cxx=setting.cxx, machine_check=False).check()
        prediction = predict(build, setting.sizes, setting.product, what_if=False)
        resources = taken(build, prediction)
    except SpecError as error:
        return rejected(candidate, error)
    except (ToolchainError, PredictError, ValueError) as error:
        return replace(found, status=Status.FAILED, message=str(error))
    return replace(
        found,
        status=Status.PREDICTED,
        seconds=prediction.seconds,
        tflops=prediction.tflops,
        gbps=prediction.gbps if prediction.tflops is None else None,
        limiter=prediction.limiter,
        registers=resources.registers,
        lds_bytes=resources.shared_bytes,
        waves_per_simd=resources.waves,
    )


def verify(setting: Setting, trial: Trial) -> Trial:
    """Run the candidate at a small size, under three orders of the waves: right numbers, and nothing found.

    The machine code for the sizes of the request is watched, too (`tkgen.machine_check`). Where nothing emulates it,
    its schedule is executed instead.
    """
    from tkgen.execute.admitted import small
    from tkgen.execute.arguments import check_scalars
    from tkgen.execute.launch import run, trials

    try:
        whole = setting.load(trial.candidate)
        if not backend_of(whole.target.name).emulated:
            wrong = _unsound(whole, setting.include_roots)
            return replace(trial, verified=not wrong, message=wrong)
        whole.build(cxx=setting.cxx)
        sizes = small(whole, lambda static: setting.load(trial.candidate, static).check())
        static = {d.name: sizes[d.name] for d in whole.program.dims if d.size is not None and d.name in sizes}
        build = setting.load(trial.candidate, static).build(cxx=setting.cxx).check()
        for order, kind in trials(3):
            scalars = check_scalars(build.spec.program)
            tried = run(build, extents=sizes, kind=kind, scalars=scalars, order=order)
            if not tried.ok:
                return replace(trial, verified=False, message=f"{order}: {tried.failure}")
    except SpecError as error:
        return replace(trial, verified=False, message=error.sentences)
    except (ToolchainError, ValueError) as error:
        return replace(trial, verified=False, message=str(error))
    return replace(trial, verified=True)


def _unsound(spec: AnySpec, roots: Sequence[Path]) -> str:
    """Describe what is wrong with its results at a small size, in several orders; empty where they are right.

    Raises SpecError or ValueError where it has no such size.
    """
    from tkgen.execute import modelled
    from tkgen.execute.admitted import small
    from tkgen.execute.arguments import check_scalars
    from tkgen.execute.given import Asked
    from tkgen.execute.modelled_suite import one_matrix

    asked = Asked(spec.path, target=spec.target.name, roots=roots)
    sizes = small(spec, lambda static: asked.load({**spec.defines, **static}).check())
    given = {**check_scalars(spec.program), **spec.defines, **one_matrix(spec), **sizes}
    found = replace(asked, defines=given).chosen()
    tried = modelled.trials(backend_of(spec.target.name), found, ORDERS, executor="model")
    return next((f"{t.order}: {t.failure}" for t in tried if t.failure), "")


def time_on_gpu(setting: Setting, trial: Trial) -> Trial:
    """Launch the candidate on the GPU at the sizes of the request; median of 20 launches.

    Raises:
        ToolchainError: there is no GPU here, or its module cannot be built.
    """
    from tkgen.execute.arguments import check_scalars
    from tkgen.execute.given import Asked
    from tkgen.execute.rows import run_spec

    candidate = trial.candidate
    scalars = check_scalars(setting.load(candidate).program)
    defines = {**scalars, **setting.fixed[candidate.spec], **dict(candidate.values), **setting.sizes}
    asked = Asked(Path(candidate.spec), defines, setting.target, setting.include_roots)
    (row,) = run_spec(asked, "gpu", 0, 1, 1, setting.cxx)
    if not row.comparison.right or row.milliseconds is None:
        return replace(trial, verified=False, message="wrong numbers on the GPU")
    return replace(trial, gpu_seconds=row.milliseconds * 1e-3)
