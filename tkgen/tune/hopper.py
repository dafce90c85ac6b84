"""One candidate for a Hopper GPU: bounded from below, built and predicted, its schedule carried out at a small size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tkgen.backends.hopper.backend import ON_HOPPER
from tkgen.backends.hopper.build import CudaBuild
from tkgen.backends.hopper.machine import HopperProduct, load_hopper
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.backends.hopper.toolchain import find_nvcc
from tkgen.backends.registry import backend_of
from tkgen.execute.arguments import check_scalars, launched
from tkgen.packages import install_line
from tkgen.predict import predict
from tkgen.toolchain.compiler import ToolchainError
from tkgen.tune.trial import Status, Trial

ORDERS = 3  # in which a schedule is carried out


def product_of(target: str, name: str | None) -> HopperProduct:
    """The device to predict for. Raises UnknownTargetError."""
    machine = load_hopper(target)
    return machine.product_named(name) if name else machine.product


def need_tools(cxx: str | None) -> None:
    """Raises ToolchainError where nothing compiles, or disassembles what was compiled."""
    if find_nvcc(cxx).disassembler is None:
        raise ToolchainError(f"a prediction reads the machine code, and there is no cuobjdump; {install_line('cuda')}")


def bound(spec: ON_HOPPER, product: HopperProduct, sizes: Mapping[str, int]) -> float:
    """Seconds that no schedule beats: the busiest block's matrix units at the peak clock, or its bytes of memory."""
    timing = spec.target.timing
    if isinstance(spec, HopperSpec):
        launch = launched(spec, sizes)
        steps = max(sum(piece.steps for piece in own) for own in launch.work)
        columns, step = spec.program.block[1:]
        depth = spec.target.wgmma_depth_bytes // spec.program.a.dtype.bytes
        products = spec.layout.consumers * spec.layout.fragments * len(spec.program.products)
        cycles = columns / 2 * (step / depth) * products
        return float(timing.launch_us * 1e-6 + steps * cycles / (timing.max_clock_mhz * 1e6))
    return float(timing.launch_us * 1e-6 + spec.launch(sizes).moved_bytes / (product.hbm_tbps * 1e12))


def predicted(trial: Trial, spec: ON_HOPPER, sizes: Mapping[str, int], product: str | None, cxx: str | None) -> Trial:
    """The trial with its prediction. Raises as `build` of a spec, and PredictError."""
    build: CudaBuild[Any] = spec.build(cxx=cxx)
    found = predict(build, sizes, product)
    warps = build.threads // spec.target.warp_size
    return replace(
        trial,
        status=Status.PREDICTED,
        seconds=found.seconds,
        tflops=found.tflops,
        gbps=found.gbps if found.tflops is None else None,
        limiter=found.limiter,
        registers=build.figures.registers,
        lds_bytes=build.shared_bytes,
        waves_per_simd=found.resident * warps / spec.target.sub_partitions,
    )


def unsound(spec: ON_HOPPER, roots: Sequence[Path]) -> str:
    """What is wrong with its schedule at a small size, in several orders; empty where nothing is.

    Raises SpecError, ValueError where it has no such size.
    """
    from tkgen.execute import given as givens
    from tkgen.execute import modelled
    from tkgen.execute.modelled_suite import sizes

    cases = sizes(spec)
    small = cases[min(2, len(cases) - 1)]
    given = {**check_scalars(spec.program), **spec.defines, **small}
    found = givens.chosen(spec.path, given, spec.target.name, roots)
    tried = modelled.trials(backend_of(spec.target.name), found, ORDERS, executor="model")
    return next((f"{t.order}: {t.failure}" for t in tried if t.failure), "")
