"""One candidate: checked, compiled and predicted, verified on the emulator, timed. Runs in worker processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tkgen.api import load, load_products
from tkgen.backends import protocol
from tkgen.backends.hopper.backend import ON_HOPPER
from tkgen.backends.registry import backend_of
from tkgen.backends.spec import AnySpec
from tkgen.build.model import Compiled
from tkgen.diagnostics import Severity, SpecError
from tkgen.ir.launch import Launch
from tkgen.ir.types import Program
from tkgen.targets.model import Product, Target
from tkgen.toolchain.compiler import ToolchainError
from tkgen.tune import hopper
from tkgen.tune.space import Candidate
from tkgen.tune.trial import Status, Trial


@dataclass(frozen=True)
class Setting:
    """What all candidates share: how to build, `-D` values per spec (`fixed`), and `sizes` of dynamic dimensions."""

    fixed: Mapping[str, Mapping[str, int | None]]
    sizes: Mapping[str, int]
    target: str | None
    product: str | None
    include_roots: tuple[Path, ...]
    cxx: str | None

    def load(self, candidate: Candidate, sizes: Mapping[str, int] | None = None) -> AnySpec:
        """The candidate's spec, for other `sizes` where given. Raises as `api.load` and `taken` do."""
        defines: dict[str, int | None] = {**self.fixed[candidate.spec], **dict(candidate.values), **(sizes or {})}
        spec = load(candidate.spec, defines, self.target, self.include_roots)
        return spec if isinstance(spec, ON_HOPPER) else taken(spec)


def taken(spec: protocol.Spec) -> AnySpec:
    """The spec, where it is of a kind that is tuned.

    Raises UnknownTargetError where nothing predicts it for its target.
    """
    if backend_of(spec.target.name).emulated:
        return spec
    return load_products(spec.path, spec.defines, spec.target.name)  # which says what it is not


def check(setting: Setting, candidate: Candidate) -> Trial:
    """Resolve, schedule and prove `candidate`: REJECTED with its first error, or BOUNDED from below, not compiled."""
    try:
        spec = setting.load(candidate).check()
    except SpecError as error:
        return rejected(candidate, error)
    if isinstance(spec, ON_HOPPER):
        device = hopper.product_of(spec.target.name, setting.product)
        return Trial(candidate, Status.BOUNDED, bound_seconds=hopper.bound(spec, device, setting.sizes))
    product = spec.target.product_named(setting.product) if setting.product else spec.target.product
    bound = sum(
        lower_bound(k.program, k.target, product, setting.sizes) if k.divides else copy_bound(k, product, setting.sizes)
        for k in spec.kernels
    )
    return Trial(candidate, Status.BOUNDED, bound_seconds=bound)


def rejected(candidate: Candidate, error: SpecError) -> Trial:
    """The trial of a candidate that is refused, with its first error."""
    first = next((d for d in error.diagnostics if d.severity is Severity.ERROR), error.diagnostics[0])
    return Trial(candidate, Status.REJECTED, first.code, first.message)


def lower_bound(program: Program, target: Target, product: Product, sizes: Mapping[str, int]) -> float:
    """Seconds that no kernel of this grid can beat: launching, then the busiest CU's matrix units at the peak clock.

    A compute unit gets at least the blocks divided by the compute units, rounded up; `persistent` and `stream_k` grids
    hand out tiles and K-steps instead.
    """
    launch = Launch(program, {d.name: d.size if d.size is not None else sizes[d.name] for d in program.dims})
    rows, cols, _ = program.block
    tiles = launch.all_tiles * launch.parts
    share = tiles / product.compute_units
    busiest = share if program.grid.name == "stream_k" else float(-(-tiles // product.compute_units))
    rates = [i.flops_per_cycle for i in target.mfma_shapes(program.a.dtype.spelling)]
    launches = 2 if program.added else 1  # the output is cleared first where blocks add to it
    launching = launches * target.timing.launch_us * 1e-6 if target.timing else 0.0
    rate = max(rates) * target.simds_per_cu * product.clock_mhz * 1e6
    shared = launch.parts * (
        launch.matrices // max(launch.factors, 1)
    )  # blocks that sum a part of one contraction each
    return launching + busiest * 2 * rows * cols * (launch.extents[program.k.name] / max(shared, 1)) / rate


def copy_bound(spec: AnySpec, product: Product, sizes: Mapping[str, int]) -> float:
    """Seconds that no kernel of rows can beat: launching, then moving its tensors once at the copy rate."""
    timing = spec.target.timing
    if timing is None:
        return 0.0
    rate = product.hbm_tbps * timing.hbm_efficiency * 1e12
    return float(timing.launch_us * 1e-6 + spec.launch(sizes).moved_bytes / rate)


def measure(setting: Setting, candidate: Candidate) -> Trial:
    """Check, compile and predict `candidate`."""
    from tkgen.predict import PredictError, predict

    found = check(setting, candidate)
    if found.status is Status.REJECTED:
        return found
    try:
        spec = setting.load(candidate)
        if isinstance(spec, ON_HOPPER):
            return hopper.predicted(found, spec, setting.sizes, setting.product, setting.cxx)
        build = spec.build(cxx=setting.cxx, machine_check=False).check()
        prediction = predict(build, setting.sizes, setting.product, what_if=False)
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
        registers=max(map(registers, build.kernels)),
        lds_bytes=max(k.lds_bytes for k in build.kernels),
        waves_per_simd=min(k.occupancy.waves_per_simd for k in build.kernels),
    )


def registers(build: Compiled) -> int:
    """Registers per lane that one wave is allotted, VGPR and AGPR together."""
    return build.spec.target.allotted_registers(build.resources.vgpr, build.resources.agpr)


def verify(setting: Setting, trial: Trial) -> Trial:
    """Run the candidate at a small size, under three orders of the waves: right numbers, and nothing found.

    The machine code for the sizes of the request is watched, too (`tkgen.machine_check`). Where nothing emulates it,
    its schedule is carried out instead.
    """
    from tkgen.execute.arguments import check_scalars
    from tkgen.execute.cases import size_cases
    from tkgen.execute.launch import run, trials

    try:
        whole = setting.load(trial.candidate)
        if isinstance(whole, ON_HOPPER):
            wrong = hopper.unsound(whole, setting.include_roots)
            return replace(trial, verified=not wrong, message=wrong)
        whole.build(cxx=setting.cxx)
        sizes = size_cases(whole)
        small = sizes[min(2, len(sizes) - 1)]
        static = {d.name: small[d.name] for d in whole.program.dims if d.size is not None and d.name in small}
        smaller = setting.load(trial.candidate, static)
        assert not isinstance(smaller, ON_HOPPER)
        build = smaller.build(cxx=setting.cxx).check()
        for order, kind in trials(3):
            scalars = check_scalars(build.spec.program)
            tried = run(build, extents=small, kind=kind, scalars=scalars, order=order)
            if not tried.ok:
                return replace(trial, verified=False, message=f"{order}: {tried.failure}")
    except (SpecError, ToolchainError, ValueError) as error:
        return replace(trial, verified=False, message=str(error))
    return replace(trial, verified=True)


def time_on_gpu(setting: Setting, trial: Trial) -> Trial:
    """Launch the candidate on the GPU at the sizes of the request; median of 20 launches.

    Raises:
        ToolchainError: there is no GPU here, or its module cannot be built.
    """
    from tkgen.execute.arguments import check_scalars
    from tkgen.execute.rows import run_spec

    candidate = trial.candidate
    scalars = check_scalars(setting.load(candidate).program)
    defines = {**scalars, **setting.fixed[candidate.spec], **dict(candidate.values), **setting.sizes}
    row = run_spec(
        Path(candidate.spec), defines, setting.target, setting.include_roots, "gpu", 0, 1, 1, setting.cxx
    )[0]  # fmt: skip
    if not row.comparison.right or row.milliseconds is None:
        return replace(trial, verified=False, message="wrong numbers on the GPU")
    return replace(trial, gpu_seconds=row.milliseconds * 1e-3)
