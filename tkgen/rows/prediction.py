"""The predicted time of a build of rows: its launch and the bytes it must move, given to `tkgen.predict.rows`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tkgen.emulate import Arg, Buffer
from tkgen.execute.arguments import check_scalars, packed
from tkgen.predict.loops import CHANGES, LoopPrediction
from tkgen.predict.rows import RowModel, RowPrediction, RowWorkload
from tkgen.predict.workload import PredictError
from tkgen.rows.build import RowBuild
from tkgen.rows.launch import RowLaunch, row_launch
from tkgen.rows.reading import read_counts


def workload(build: RowBuild, launch: RowLaunch) -> RowWorkload:
    """What a prediction is about."""
    kernel = launch.program.kernel
    return RowWorkload(
        name=build.spec.name,
        hsaco=build.hsaco,
        kernel=build.resources.kernel,
        waves=build.spec.program.waves,
        blocks=launch.blocks,
        blocks_per_cu=build.occupancy.blocks_per_cu,
        read_bytes=sum(map(launch.bytes, kernel.inputs)),
        written_bytes=sum(map(launch.bytes, kernel.outputs)),
        sizes=tuple(launch.extents.items()),
        arguments=arguments(launch),
        read_again_bytes=sum((count - 1) * launch.bytes(t) for t, count in read_counts(kernel).items()),
    )


def arguments(launch: RowLaunch) -> Callable[[], Sequence[Arg]]:
    """What makes the kernel's arguments: zeros, and offsets of groups that are alike.

    PredictError where there is no room for these.
    """

    def made() -> Sequence[Arg]:
        import numpy as np

        try:  # zero pages that are never written cost nothing; one block touches little
            buffers = {t.name: Buffer(np.zeros(launch.bytes(t), np.uint8), t.name) for t in launch.program.arguments}
        except MemoryError as error:
            raise PredictError(f"tensors of these sizes cannot be had here: {error}") from None
        for tensor, axis in launch.program.kernel.offsets.items():
            buffers[tensor.name] = Buffer(np.array(launch.offset_values(axis), np.int32), tensor.name)
        return [packed(launch, buffers, check_scalars(launch.program))]

    return made


def predict_build(build: RowBuild, sizes: Mapping[str, int] | None = None, product: str | None = None) -> RowPrediction:
    """The predicted time of `build` on a product of its target (the first without a name).

    Raises:
        PredictError: the target has no timing data, or the kernel cannot do the sizes.
        UnknownTargetError: it has no such product.
    """
    return model(build, sizes, product).prediction()


def model(build: RowBuild, sizes: Mapping[str, int] | None = None, product: str | None = None) -> RowModel:
    """The model of `build` on a product of its target. Raises as `predict_build`."""
    target = build.spec.target
    device = target.product_named(product) if product else target.product
    return RowModel(workload(build, launch_at(build, sizes)), target, device)


def launch_at(build: RowBuild, sizes: Mapping[str, int] | None) -> RowLaunch:
    """The launch that is predicted. Raises PredictError for sizes that the kernel cannot do."""
    try:
        return row_launch(build.spec.program, build.spec.layout, sizes)
    except ValueError as error:
        raise PredictError(str(error)) from None


def _loop(p: LoopPrediction, sizes: str) -> str:
    """What is said of a kernel whose loop multiplies: its rate, a pass of its loop, what would help."""
    bound = "upper bound " if p.upper_bound else ""
    busy = ", ".join(f"{unit} {share:.0%}" for unit, share in p.busy.items())
    lost = [f"{cause} {share:.0%}" for cause, share in sorted(p.lost.items(), key=lambda x: -x[1]) if share > 0.005]
    faster = [f"{CHANGES[name]}: {times:.2f}x" for name, times in sorted(p.faster.items(), key=lambda x: -x[1])]
    return "\n".join([
        f"{p.kernel} {sizes} on {p.product}: {bound}{p.tflops:.0f} TFLOP/s, {p.seconds * 1e6:.1f} us predicted, "
        f"{p.share_of_peak:.0%} of peak, limited by {p.limiter}",
        f"{p.blocks} blocks of {p.passes:g} passes, {p.blocks_per_cu} per CU; {p.clock_mhz:.0f} MHz; "
        f"{p.cycles_per_pass:.0f} cycles a pass; busy: {busy}",
        f"matrix units wait for: {', '.join(lost) or 'nothing'}",
        *faster,
    ])  # fmt: skip


def text(p: RowPrediction) -> str:
    """A prediction for people."""
    sizes = " ".join(f"{name}={size}" for name, size in p.sizes)
    if isinstance(p, LoopPrediction):
        return _loop(p, sizes)
    busy = ", ".join(f"{unit} {share:.0%}" for unit, share in p.busy.items())
    return (
        f"{p.kernel} {sizes} on {p.product}: {p.seconds * 1e6:.1f} us predicted, "
        f"{p.gbps:.0f} GB/s, {p.share_of_copy:.0%} of what a copy reaches\n"
        f"{p.blocks} blocks, {p.blocks_per_cu} per CU; limited by {p.limiter}; busy: {busy}"
    )
