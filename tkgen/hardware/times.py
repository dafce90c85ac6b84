"""Section `times`: bar kernels timed in turn with torch, hipBLASLt and Triton, where a ROCm build of torch is here.

The method is that of `docs/measured.md`: launches back to back over sets of tensors larger than the caches, the
contestants by turns, in another order each round; the median, and half of the distance between extremes. There is no
graph: the queue hides what a launch costs the host, as a turn takes milliseconds.
"""

from __future__ import annotations

import importlib.util
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tkgen.diagnostics import SpecError
from tkgen.hardware.contestants import BARS, BarKernel, Launch, others
from tkgen.hardware.context import MEASURED, SKIPPED, WRONG, CheckContext
from tkgen.hardware.hip import Hip, HipMemory, rocm_torch
from tkgen.hardware.machine import product
from tkgen.hardware.specs import TORCH_INSTALL
from tkgen.hardware.state import Result

NAME = "times"
TITLE = "Times beside libraries"
WARM_UPS: Final = 2
_TURN_SECONDS: Final = 8e-3
_MOST_FLOPS: Final = 2**34  # that the CPU works out for a comparison where no GPU of torch's does


def missing() -> Sequence[tuple[str, str]]:
    """Torch for the inputs; without a ROCm build of it tkgen's kernels are timed alone."""
    absent = [name for name in ("numpy", "torch", "tinygrad") if importlib.util.find_spec(name) is None]
    return [(", ".join(absent), TORCH_INSTALL)] if absent else []


def items(context: CheckContext) -> Sequence[str]:
    """The kernels, each at its sizes."""
    return list(_jobs(context))


def _jobs(context: CheckContext) -> dict[str, tuple[BarKernel, Mapping[str, int]]]:
    found: dict[str, tuple[BarKernel, Mapping[str, int]]] = {}
    for bar in BARS:
        if (context.specs / f"{bar.spec}.tk").exists():
            for sizes in bar.sizes[:1] if context.stand_in else bar.sizes:
                said = "small" if context.stand_in else " ".join(f"{name}={size}" for name, size in sizes.items())
                found[f"{bar.spec} {said}"] = (bar, sizes)
    return found


@dataclass(frozen=True)
class TensorSet:
    """One set of tensors: addresses by name, what keeps them alive, and tensors of torch where it has this GPU."""

    addresses: Mapping[str, int]
    held: Sequence[HipMemory]
    torch: Mapping[str, Any]


def run(context: CheckContext, item: str) -> Result:
    """Time one kernel at its sizes, after its numbers have been compared with torch's."""
    from tkgen.execute.arguments import check_scalars
    from tkgen.execute.compare import Inputs, random_inputs
    from tkgen.execute.given import Asked
    from tkgen.execute.launch import memory
    from tkgen.hardware.launching import LoadedKernels

    bar, sizes = _jobs(context)[item]
    path, target = context.specs / f"{bar.spec}.tk", context.target.name
    try:
        spec = Asked(path, {}, target).load().check()
    except SpecError as error:
        first = error.diagnostics[0]
        return {"verdict": SKIPPED, "said": f"refused for {target}: {first.code} {first.message}"}
    given = list(spec.size_cases())[1] if context.stand_in else sizes
    found = Asked(path, {**check_scalars(spec.program), **given}, target).chosen()
    loaded = LoadedKernels.of(context.hip, found.spec.build(cxx=context.cxx))
    launch = found.launch
    inputs = random_inputs(launch, context.seed, Inputs.NORMAL)
    whole = memory(launch, inputs, poison=True)
    torch = rocm_torch()
    count = 1 if context.stand_in else sets_of(launch.moved_bytes, context)
    sets = [_placed(context.hip, whole, torch) for _ in range(count)]
    stream = torch.cuda.current_stream().cuda_stream if torch is not None else 0
    ready = [loaded.ready(launch, one.addresses, found.scalars) for one in sets]
    launches: dict[str, list[Launch]] = {"tkgen": [_launch_of(kernels, stream) for kernels in ready]}
    launches["tkgen"][0]()
    context.hip.synchronize()
    off = _distance(bar, inputs, sets[0], whole, launch.flops, torch)
    if off is not None and not off <= bar.error:
        return {"verdict": WRONG, "said": f"{off:.2g} of the norm away from torch in f32", "distance": off}
    if torch is not None:
        launches |= {who: [make(one.torch) for one in sets] for who, make in others(bar, torch).items()}
    times = raced(context.hip, launches, stream, once=context.stand_in)
    predicted = _predicted(context, loaded.build)
    return told(times, launch.flops, launch.moved_bytes, predicted, {"sizes": dict(launch.extents), "distance": off})


def sets_of(size: int, context: CheckContext) -> int:
    """The number of sets of tensors of `size` bytes that are together twice as large as the caches, two at least."""
    target, of = context.target, product(context)
    caches = max(target.llc_bytes, target.l2_bytes_per_xcd * of.xcds)
    return max(2, min(64, math.ceil(2 * caches / max(size, 1))))


def _launch_of(kernels: Sequence[Any], stream: int) -> Launch:
    def launch() -> None:
        for one in kernels:
            one.start(stream)

    return launch


def _placed(hip: Hip, tensors: Mapping[str, Any], torch: Any | None) -> TensorSet:
    """A copy of the tensors on the GPU, in memory of torch's where that has the GPU."""
    from tkgen.emulate import Buffer

    if torch is not None:
        there = {name: t.cuda() for name, t in tensors.items()}
        return TensorSet({name: t.data_ptr() for name, t in there.items()}, (), there)
    held = {name: hip.allocate(Buffer(t.contiguous()).bytes()) for name, t in tensors.items()}
    return TensorSet({name: m.address for name, m in held.items()}, tuple(held.values()), {})


def _distance(
    bar: BarKernel, inputs: Mapping[str, Any], one: TensorSet, whole: Mapping[str, Any], flops: int, torch: Any | None
) -> float | None:
    """The distance of a kernel from torch in f32, by norms; None where the CPU would take too long."""
    import torch as cpu

    if torch is not None:
        wanted = bar.torch({name: t.float() for name, t in one.torch.items()}).cpu()
        found = one.torch[bar.output].cpu()
    elif flops <= _MOST_FLOPS:
        wanted = bar.torch({name: t.float() for name, t in inputs.items()})
        like, held = whole[bar.output], dict(zip(one.addresses, one.held, strict=True))[bar.output]
        found = cpu.from_numpy(held.read()).view(like.dtype).reshape(like.shape)
    else:
        return None
    off = float((found.float() - wanted).norm() / wanted.norm())
    return off if math.isfinite(off) else math.inf


def raced(
    hip: Hip, launches: Mapping[str, Sequence[Launch]], stream: int, once: bool = False
) -> dict[str, list[float] | str]:
    """Seconds of a launch of each contestant, round by round; a text where one fails."""
    from tkgen.execute.race import ROUNDS, order_of_round

    repeats: dict[str, int] = {}
    found: dict[str, list[float] | str] = {}
    for who, each in launches.items():
        try:
            for launch in each:
                launch()
            hip.synchronize()
            seconds = _turn(hip, each, len(each), stream)
            repeats[who] = (
                len(each) if once else max(1, round(_TURN_SECONDS / max(seconds, 1e-7) / len(each))) * len(each)
            )
            found[who] = []
        except Exception as error:  # a contestant that this machine's library lacks, whatever it raises
            found[who] = f"{type(error).__name__}: {error}".splitlines()[0]
    for turn in range(1 if once else ROUNDS + WARM_UPS):
        for who in order_of_round(turn, list(repeats)):
            seconds, times = _turn(hip, launches[who], repeats[who], stream), found[who]
            if isinstance(times, list) and (once or turn >= WARM_UPS):
                times.append(seconds)
    return found


def _turn(hip: Hip, launches: Sequence[Launch], count: int, stream: int) -> float:
    with hip.timed(stream) as seconds:
        for number in range(count):
            launches[number % len(launches)]()
    return seconds[0] / count


def told(
    times: Mapping[str, list[float] | str], flops: int, moved: int, predicted: float | None, more: Mapping[str, Any]
) -> Result:
    """The result of a race: medians, spreads, rates, and the ratios of tkgen's speed to the others'."""
    rate, unit = (flops, "TFLOP/s") if flops else (moved, "GB/s")
    unit_size = 1e12 if flops else 1e9
    rows: dict[str, dict[str, Any]] = {}
    for who, each in times.items():
        if isinstance(each, str):
            rows[who] = {"failed": each}
            continue
        middle = statistics.median(each)
        spread = (max(each) - min(each)) / 2 / middle if middle else 0.0
        rows[who] = {"seconds": middle, "spread": spread, "rate": rate / middle / unit_size if middle else None}
    mine = rows["tkgen"].get("seconds")
    ratios = {who: row["seconds"] / mine for who, row in rows.items() if who != "tkgen" and mine and row.get("seconds")}
    if predicted is not None and mine:
        ratios["predicted"] = predicted / mine
    beside = ", ".join(f"{ratio:.3g} of {who}" for who, ratio in best(ratios).items())
    got = rows["tkgen"].get("rate")
    said = f"{got:.4g} {unit}{f' ({beside})' if beside else ''}" if got else str(rows["tkgen"].get("failed", "no time"))
    return {
        "verdict": MEASURED if got else WRONG, "said": said, "unit": unit, "times": rows, "ratios": ratios,
        "predicted seconds": predicted, **more,
    }  # fmt: skip


def best(ratios: Mapping[str, float]) -> dict[str, float]:
    """The ratios with one of Triton, that to its best configuration."""
    triton = [r for who, r in ratios.items() if who.startswith("Triton")]
    found = {who: r for who, r in ratios.items() if not who.startswith("Triton")}
    return {**found, "Triton": min(triton)} if triton else found


def _predicted(context: CheckContext, build: Any) -> float | None:
    """The seconds that `tkgen predict` says; None where it says nothing of this machine."""
    from tkgen.predict.front import predict
    from tkgen.predict.prediction import PredictError

    if context.stand_in:
        return None
    try:
        return predict(build, None, product(context).name, what_if=False).seconds
    except PredictError:
        return None
