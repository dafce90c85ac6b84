"""The way in: the prediction of any build, for any machine, of one kernel or of several.

Which model stands behind it is each machine's own to say (`MACHINES`), by what the kernel does.

>>> p = predict(tkgen.load("specs/ping_pong.tk").build(), product="MI325X")
>>> p.tflops, p.limiter
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

from tkgen.backends.form import by_ops
from tkgen.backends.hopper.machine import Hopper, HopperProduct, load_hopper
from tkgen.backends.spec import AnySpec
from tkgen.ir.launch import Launch
from tkgen.predict import hopper
from tkgen.predict.device import Device
from tkgen.predict.events import Recording
from tkgen.predict.iterations import IterationModel, Iterations
from tkgen.predict.prediction import Model, Prediction, several
from tkgen.predict.throughput import ThroughputModel, Transfer
from tkgen.predict.tiles import TileModel
from tkgen.predict.workload import Workload
from tkgen.targets import Target, hopper_names, load_target, target_names
from tkgen.toolchain.discover import find_compiler

if TYPE_CHECKING:
    from tkgen.backends import protocol


def predict(
    build: protocol.Build, sizes: Mapping[str, int] | None = None, product: str | None = None, *, what_if: bool = True
) -> Prediction:
    """Predict the time of `build` on a product of its target (the first of the target's file without a name).

    `sizes` gives the dynamic dimensions. Of several kernels, what would change the time is not asked.

    Raises:
        PredictError: the target has no timing data, the code has no shape that can be extrapolated, or a kernel cannot
            do the sizes.
        UnknownTargetError: the target has no such product.
    """
    return predicted(build, models(build, sizes, product), sizes, what_if=what_if)


def predict_workload(
    workload: Workload, target: Target, product: str | None = None, *, what_if: bool = True
) -> Prediction:
    """Predict any compiled matrix product, however it was made. See `predict`."""
    return TileModel(workload, Device.of(target, product)).prediction(what_if)


def models(
    build: protocol.Build, sizes: Mapping[str, int] | None = None, product: str | None = None
) -> tuple[Model, ...]:
    """The model of each kernel of a build, in order. Raises as `predict`."""
    return tuple(_machine(kernel.spec.target.name).model(kernel, sizes, product) for kernel in build.kernels)


def predicted(
    build: protocol.Build, known: Sequence[Model], sizes: Mapping[str, int] | None = None, *, what_if: bool = True
) -> Prediction:
    """The prediction of a build by its `models`."""
    if build.kernels[0] is build:
        return known[0].prediction(what_if)
    spec: Any = build.spec
    extents = {d.name: d.size if d.size is not None else (sizes or {})[d.name] for d in spec.program.dims}
    return several(spec.name, extents, [m.prediction(False) for m in known])


def check_device(target: str, product: str | None = None) -> None:
    """Raises PredictError where nothing is predicted for a target, UnknownTargetError: it has no such product."""
    _machine(target).check(target, product)


@dataclass(frozen=True)
class Profile:
    """A prediction and the run of a full CU behind it. Instructions are named by their address in dwords.

    >>> found = profile(tkgen.load("specs/ping_pong.tk").build())
    >>> found.recording.spent[0][412]  # cycles of wave 0 from the issue of the instruction at dword 412 to its next one
    """

    prediction: Prediction
    recording: Recording


def profile(build: protocol.Build, sizes: Mapping[str, int] | None = None, product: str | None = None) -> Profile:
    """As `predict` of one kernel, with every event of a full CU. Raises as `predict` does."""
    (model,) = models(build, sizes, product)
    return Profile(model.prediction(), model.recording())


def lower_bound(spec: AnySpec, sizes: Mapping[str, int] | None = None, product: str | None = None) -> float:
    """Seconds that no schedule of a spec's kernels can beat. Raises as `predict`."""
    return sum(_machine(spec.target.name).bound(kernel, sizes or {}, product) for kernel in spec.kernels)


def check_tools(target: str, cxx: str | None = None) -> None:
    """Raises ToolchainError where nothing here compiles for a target what a prediction reads."""
    _machine(target).tools(target, cxx)


@dataclass(frozen=True)
class Taken:
    """The resources that a kernel takes: registers of a thread, bytes of shared memory of a block.

    `waves` are resident on a SIMD; warps, of a sub-partition.
    """

    registers: int
    shared_bytes: int
    waves: float


def taken(build: protocol.Build, prediction: Prediction) -> Taken:
    """Return the resources that the kernels of a build take: the most registers and bytes of any, the fewest waves."""
    each = prediction.kernels or (prediction,)
    found = [_machine(k.spec.target.name).taken(k, p) for k, p in zip(build.kernels, each, strict=True)]
    most = max(x.registers for x in found), max(x.shared_bytes for x in found)
    return Taken(*most, min(x.waves for x in found))


# ---------------------------------------------------------------- the machines


@dataclass(frozen=True)
class Machine:
    """A kind of machine.

    It has the names of its `targets`; of a build the `model`, and what it has `taken` of the machine; of a spec the
    `bound`. `check` raises where no prediction is about a product, `tools` where none of its code can be had here.
    """

    targets: Callable[[], Sequence[str]]
    model: Callable[[Any, Mapping[str, int] | None, str | None], Model]
    taken: Callable[[Any, Prediction], Taken]
    bound: Callable[[AnySpec, Mapping[str, int], str | None], float]
    check: Callable[[str, str | None], object]
    tools: Callable[[str, str | None], object]


def _followed(build: Any, sizes: Mapping[str, int] | None, product: str | None) -> Model:
    """The model of a build whose machine code the emulator follows."""
    device = Device.of(build.spec.target, product)
    kinds: tuple[tuple[Any, Any], ...] = (
        (TileModel, Workload),
        (IterationModel, Iterations),
        (ThroughputModel, Transfer),
    )
    model, workload = by_ops(build.spec.program, *kinds)
    found: Model = model(workload.of(build, sizes), device)
    return found


def _followed_taken(build: Any, prediction: Prediction) -> Taken:
    registers = build.spec.target.allotted_registers(build.resources.vgpr, build.resources.agpr)
    return Taken(registers, build.lds_bytes, build.occupancy.waves_per_simd)


def _followed_bound(spec: AnySpec, sizes: Mapping[str, int], product: str | None) -> float:
    return by_ops(spec.program, matrix_bound, copy_bound, copy_bound)(spec, Device.of(spec.target, product), sizes)


def _hopper_product(target: str, product: str | None) -> HopperProduct:
    machine = load_hopper(target)
    return machine.product_named(product) if product else machine.product


def _hopper_taken(build: Any, prediction: Prediction) -> Taken:
    machine = build.spec.target
    warps = prediction.resident * (build.threads // machine.warp_size)
    return Taken(build.figures.registers, build.shared_bytes, warps / machine.sub_partitions)


MACHINES = (
    Machine(
        target_names, _followed, _followed_taken, _followed_bound,
        check=lambda target, product: Device.of(load_target(target), product),
        tools=lambda target, cxx: find_compiler(load_target(target), cxx),
    ),
    Machine(
        hopper_names, hopper.model, _hopper_taken,
        lambda spec, sizes, product: hopper_bound(spec, _hopper_product(spec.target.name, product), sizes),
        check=_hopper_product,
        tools=lambda target, cxx: hopper.check_tools(cxx),
    ),
)  # fmt: skip


def _machine(target: str) -> Machine:
    """The machine of a target; of one that nothing knows the first, which says so when it is loaded."""
    return next((m for m in MACHINES if target in m.targets()), MACHINES[0])


def matrix_bound(spec: AnySpec, device: Device, sizes: Mapping[str, int]) -> float:
    """Launching, then the matrix units of the busiest compute unit at the peak clock.

    A compute unit gets at least the blocks divided by the compute units, rounded up; `persistent` and `stream_k` grids
    hand out tiles and K-steps instead.
    """
    program = spec.program
    launch = Launch(program, {d.name: d.size if d.size is not None else sizes[d.name] for d in program.dims})
    rows, cols, _ = program.block
    share = launch.all_tiles * launch.parts / device.product.compute_units
    busiest = share if program.grid.name == "stream_k" else float(ceil(share))
    rates = [i.flops_per_cycle for i in device.target.mfma_shapes(program.a.dtype.spelling)]
    launches = 2 if program.added else 1  # the output is cleared first where blocks add to it
    rate = max(rates) * device.target.simds_per_cu * device.product.clock_mhz * 1e6
    shared = launch.parts * (launch.matrices // max(launch.factors, 1))  # blocks that sum a part of a contraction each
    depth = launch.extents[program.k.name] / max(shared, 1)
    return float(launches * device.launch_seconds + busiest * 2 * rows * cols * depth / rate)


def copy_bound(spec: AnySpec, device: Device, sizes: Mapping[str, int]) -> float:
    """Launching, then moving the tensors once at the copy rate."""
    return float(device.launch_seconds + spec.launch(sizes).moved_bytes / device.copy_rate)


def hopper_bound(spec: Any, product: HopperProduct, sizes: Mapping[str, int]) -> float:
    """Launching, then the matrix units of the busiest block at the peak clock, or the bytes of memory."""
    machine: Hopper = spec.target
    launch, start = spec.launch(sizes), machine.timing.launch_us * 1e-6
    if launch.program.contraction is not None:  # of a grid of output tiles
        steps = max(sum(piece.steps for piece in own) for own in launch.work)
        program, layout = launch.program, spec.layout
        depth = machine.wgmma_depth_bytes // program.a.dtype.bytes
        products = layout.consumers * layout.fragments * len(program.products)
        cycles = program.block[1] / 2 * (program.block[2] / depth) * products
        return float(start + steps * cycles / (machine.timing.max_clock_mhz * 1e6))
    return float(start + launch.moved_bytes / (product.hbm_tbps * 1e12))
