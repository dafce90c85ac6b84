"""Section `machine`: what `targets/*.toml` assumes about the GPU, measured with small kernels."""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from tkgen.hardware import microkernels as micro
from tkgen.hardware.assembly import code_of
from tkgen.hardware.context import MEASURED, SKIPPED, CheckContext
from tkgen.hardware.hip import HipFunction, HipMemory
from tkgen.hardware.microkernels import NAME as KERNEL
from tkgen.hardware.microkernels import Micro
from tkgen.hardware.state import Result
from tkgen.packages import install_line
from tkgen.targets.model import Mfma, Product
from tkgen.toolchain.discover import find_compiler

NAME = "machine"
TITLE = "The machine's figures"
_ROUNDS: Final = 5
_FAR: Final = 0.25  # a measured value that is further from the assumed one is pointed out
_OPERAND_BITS: Final = {
    "bf16": 16, "f16": 16, "f32": 32, "i8": 8, "e2m3": 6, "e3m2": 6, "e2m1": 4, "e4m3fn": 8, "e5m2": 8, "e4m3fnuz": 8,
    "e5m2fnuz": 8,
}  # fmt: skip
_FORMAT_CODES: Final = {"e4m3fn": 0, "e5m2": 1, "e2m3": 2, "e3m2": 3, "e2m1": 4}  # CBSZ and BLGP of *_f8f6f4

Clocks = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class MeasuredValue:
    """A measured number, with its unit; None where the clocks did not move."""

    measured: float | None
    unit: str
    assumed: float | None
    source: str  # the entry of the target's file


def missing() -> Sequence[tuple[str, str]]:
    """The emulator's packages are not needed, numpy is."""
    return [("numpy", install_line("emulate"))] if importlib.util.find_spec("numpy") is None else []


def product(context: CheckContext) -> Product:
    """The product of the target's file that this GPU is; the first where its name is none of them."""
    target = context.target
    return next((p for p in target.products if p.name in context.hip.device.name), target.product)


# ---------------------------------------------------------------- launching


@dataclass(frozen=True)
class Bench:
    """Measuring kernels on the GPU of a check."""

    context: CheckContext

    def function(self, text: str) -> HipFunction:
        """The kernel of an assembly text."""
        target = self.context.target
        compiler = find_compiler(target, self.context.cxx)
        return self.context.hip.function(code_of(text, target, compiler), KERNEL)

    def iterations(self, count: int) -> int:
        """Iterations of a loop: a few where the emulator executes them."""
        return max(1, count // 500) if self.context.stand_in else count

    def clocks(
        self,
        kernel: Micro,
        iterations: int,
        *,
        blocks: int = 1,
        data: HipMemory | None = None,
        mask: int = 0,
        step: int = 0,
    ) -> tuple[Clocks, float]:
        """[waves, 4]: core clock before and after, real time before and after; and the seconds of the launch.

        The launch is repeated, the one whose first wave took the median of core clocks counts.
        """
        hip, waves = self.context.hip, blocks * kernel.threads // 64
        into = hip.allocate(micro.RESULT_BYTES * waves)
        function = self.function(kernel.text)
        words = [*into.address.to_bytes(8, "little"), *(data.address if data else 0).to_bytes(8, "little")]
        arguments = bytes(words) + b"".join(n.to_bytes(4, "little") for n in (iterations, mask, step, 0))
        found = []
        for _ in range(1 if self.context.stand_in else _ROUNDS):
            with hip.timed() as seconds:
                function.launch((blocks, 1, 1), (kernel.threads, 1, 1), arguments)
            found.append((into.read().view(np.uint64).reshape(waves, 4), seconds[0]))
        return sorted(found, key=lambda f: int(f[0][0, 1] - f[0][0, 0]))[len(found) // 2]

    def cycles(self, kernel: Micro, iterations: int = 2000) -> float | None:
        """Core clocks of an instruction of interest, of one wave."""
        count = self.iterations(iterations)
        ((begin, end, *_), *_), _ = self.clocks(kernel, count)
        return float(end - begin) / (count * kernel.count) or None

    def nanoseconds(self, kernel: Micro, iterations: int, data: HipMemory | None, mask: int) -> float | None:
        """Time of an instruction of interest, of one wave."""
        count = self.iterations(iterations)
        ((_, _, begin, end), *_), _ = self.clocks(kernel, count, data=data, mask=mask)
        return float(end - begin) / self.context.hip.device.ticks_mhz * 1e3 / (count * kernel.count) or None

    def bytes_per_clock(self, kernel: Micro, bytes_each: int, iterations: int, **memory: object) -> float | None:
        """Bytes that all waves of one block move between the first start and the last end, a core clock."""
        count = self.iterations(iterations)
        data, mask, step = memory.get("data"), memory.get("mask", 0), memory.get("step", 0)
        assert data is None or isinstance(data, HipMemory)
        assert isinstance(mask, int) and isinstance(step, int)
        clocks, _ = self.clocks(kernel, count, data=data, mask=mask, step=step)
        spent = float(clocks[:, 1].max() - clocks[:, 0].min())
        return count * kernel.count * kernel.threads * bytes_each / spent if spent else None

    def streamed(self, size: int, repeats: int) -> tuple[float, float]:
        """Bytes a second of all CUs that read `size` bytes, a power of two, again and again; and the bytes read."""
        hip = self.context.hip
        kernel = micro.streams(self.context.target.name)
        blocks = 2 if self.context.stand_in else 8 * max(hip.device.compute_units, 1)
        if self.context.stand_in:
            size = min(size, 1 << 20)
        data = hip.allocate(size)
        data.fill(0)
        step = blocks * kernel.threads * 16
        count = max(1, repeats * size // (step * kernel.count))
        if self.context.stand_in:
            count = min(count, 2)
        _, seconds = self.clocks(kernel, count, blocks=blocks, data=data, mask=size - 1, step=step)
        total = count * kernel.count * step
        return total / seconds if seconds else 0.0, float(total)


# ---------------------------------------------------------------- what is measured

Measure = Callable[[CheckContext], MeasuredValue | str]
"""Measures a value; a text says why it cannot."""


def _clock(context: CheckContext) -> MeasuredValue:
    bench = Bench(context)
    kernel = micro.chained(context.target.name, "v_add_f32 v3, v3, v3")
    ((begin, end, start, stop), *_), _ = bench.clocks(kernel, bench.iterations(20000))
    real = float(stop - start)
    found = float(end - begin) / real * context.hip.device.ticks_mhz if real else None
    return MeasuredValue(found, "MHz, one busy wave", product(context).clock_mhz, "product.clock_mhz")


def _cycles(context: CheckContext, kernel: Callable[[str], Micro], entry: str) -> MeasuredValue:
    timing = context.target.timing
    assumed = getattr(timing, entry) if timing is not None else None
    return MeasuredValue(Bench(context).cycles(kernel(context.target.name)), "cycles", assumed, f"timing.{entry}")


def mfma_kernel(target: str, mfma: Mfma) -> Micro:
    """One wave, one matrix instruction on zeros, with four accumulators in turn."""
    lane = mfma.m * mfma.k // 64 * _OPERAND_BITS[mfma.dtype] // 32
    sums = mfma.m * mfma.n // 64
    formats = ""
    if "f8f6f4" in mfma.instruction:
        formats = f" cbsz:{_FORMAT_CODES[mfma.dtype]} blgp:{_FORMAT_CODES[mfma.dtype]}"

    def text(number: int) -> str:
        a, b = (f"v[{r}:{r + lane - 1}]" if lane > 1 else f"v{r}" for r in (16, 24))
        first = number % 4 * sums
        c = f"a[{first}:{first + sums - 1}]"
        return f"{mfma.instruction} {c}, {a}, {b}, {c}{formats}"

    before = [f"v_mov_b32 v{r}, 0" for r in range(16, 32)]
    before += [f"v_accvgpr_write_b32 a{r}, 0" for r in range(4 * sums)]
    return micro.rotating(target, text, before=before)


def _mfma(context: CheckContext, mfma: Mfma) -> MeasuredValue:
    cycles = Bench(context).cycles(mfma_kernel(context.target.name, mfma))
    return MeasuredValue(cycles, "cycles", mfma.cycles, "mfma.cycles")


def _lds_rate(context: CheckContext, threads: int, write: bool, entry: str, assumed: float | None) -> MeasuredValue:
    kernel = micro.lds(context.target.name, threads, write)
    return MeasuredValue(Bench(context).bytes_per_clock(kernel, 16, 2000), "bytes per clock and CU", assumed, entry)


def _lds_pair(context: CheckContext) -> MeasuredValue:
    timing = context.target.timing
    assumed = timing.lds_pair_bytes_per_clock if timing is not None else None
    found = Bench(context).bytes_per_clock(micro.lds(context.target.name, 64, False), 16, 2000)
    return MeasuredValue(found, "bytes per clock, one wave", assumed, "timing.lds_pair_bytes_per_clock")


def _lds_latency(context: CheckContext) -> MeasuredValue:
    timing = context.target.timing
    found = Bench(context).cycles(micro.lds_chain(context.target.name))
    beyond = found - 4 if found is not None else None  # 256 bytes at 64 bytes per clock
    return MeasuredValue(
        beyond, "cycles beyond the transfer", timing.lds_latency_cycles if timing else None, "timing.lds_latency_cycles"
    )


def _l1(context: CheckContext) -> MeasuredValue:
    size, threads = 1 << 13, 512
    data = context.hip.allocate(size)
    data.fill(0)
    kernel = micro.streams(context.target.name, threads)
    found = Bench(context).bytes_per_clock(kernel, 16, 2000, data=data, mask=size - 1, step=16 * threads)
    timing = context.target.timing
    return MeasuredValue(
        found, "bytes per clock and CU", timing.l1_bytes_per_clock if timing else None, "timing.l1_bytes_per_clock"
    )


def _latency(context: CheckContext, size: int, entry: str) -> MeasuredValue:
    bench, target = Bench(context), context.target
    size = min(size, 1 << 20) if context.stand_in else size
    data = context.hip.allocate(size)
    data.fill(0)
    whole = bench.nanoseconds(micro.pointer_chase(target.name, True), 20000, data, size - 1)
    other = bench.nanoseconds(micro.pointer_chase(target.name, False), 20000, data, size - 1)
    found = whole - (other or 0.0) if whole is not None else None
    assumed = getattr(target.timing, entry) if target.timing is not None else None
    return MeasuredValue(found, "ns", assumed, f"timing.{entry}")


def _l2_rate(context: CheckContext) -> MeasuredValue:
    target, of = context.target, product(context)
    rate, _ = Bench(context).streamed(target.l2_bytes_per_xcd // 4, 20000)
    assumed = target.timing.l2_bytes_per_clock if target.timing is not None else None
    per_clock = rate / of.xcds / (of.clock_mhz * 1e6)
    return MeasuredValue(
        per_clock or None, "bytes per clock of the peak rate and XCD", assumed, "timing.l2_bytes_per_clock"
    )


def _llc_rate(context: CheckContext) -> MeasuredValue | str:
    target = context.target
    if not target.llc_bytes:
        return f"{target.name} has no Infinity Cache"
    rate, _ = Bench(context).streamed(target.llc_bytes // 4, 300)
    return MeasuredValue(
        rate / 1e12 or None, "TB/s", target.timing.llc_tbps if target.timing else None, "timing.llc_tbps"
    )


def _hbm_rate(context: CheckContext) -> MeasuredValue:
    of, timing = product(context), context.target.timing
    rate, _ = Bench(context).streamed(1 << 31, 3)
    assumed = of.hbm_tbps * timing.hbm_efficiency if timing is not None else of.hbm_tbps
    return MeasuredValue(rate / 1e12 or None, "TB/s read", assumed, "product.hbm_tbps * timing.hbm_efficiency")


def _peak(context: CheckContext) -> MeasuredValue:
    """bf16 matrix instructions of all CUs at once."""
    target, bench, hip = context.target, Bench(context), context.hip
    mfma = max((m for m in target.mfmas if m.dtype == "bf16"), key=lambda m: (m.flops_per_cycle, m.m))
    sums, lane = mfma.m * mfma.n // 64, mfma.m * mfma.k // 128

    def text(number: int) -> str:
        c = f"a[{number % 4 * sums}:{number % 4 * sums + sums - 1}]"
        return f"{mfma.instruction} {c}, v[16:{15 + lane}], v[24:{23 + lane}], {c}"

    before = [f"v_mov_b32 v{r}, 0" for r in range(16, 32)] + [f"v_accvgpr_write_b32 a{r}, 0" for r in range(4 * sums)]
    kernel = micro.looped(target.name, [text(n) for n in range(32)], 32, before=before, threads=256)
    blocks, count = 1 if context.stand_in else hip.device.compute_units * 4, bench.iterations(4000)
    _, seconds = bench.clocks(kernel, count, blocks=blocks)
    done = blocks * 4 * count * kernel.count * mfma.flops
    return MeasuredValue(
        done / seconds / 1e12 if seconds else None, "TFLOP/s, bf16, of zeros", product(context).peak_tflops,
        "product.peak_tflops",
    )  # fmt: skip


def _launch(context: CheckContext) -> MeasuredValue:
    hip, target = context.hip, context.target
    function = Bench(context).function(micro.empty(target.name))
    count, times = 5 if context.stand_in else 500, []
    for _ in range(_ROUNDS):
        with hip.timed() as seconds:
            for _ in range(count):
                function.launch((1, 1, 1), (64, 1, 1), bytes(4 * micro.WORDS))
        times.append(seconds[0] / count)
    assumed = target.timing.launch_us if target.timing is not None else None
    return MeasuredValue(
        statistics.median(times) * 1e6 or None, "us a launch, back to back", assumed, "timing.launch_us"
    )


def _said_by_hip(context: CheckContext, field: str, unit: str, assumed: float, source: str) -> MeasuredValue:
    return MeasuredValue(float(getattr(context.hip.device, field)) or None, unit, assumed, source)


def measures(context: CheckContext) -> Mapping[str, Measure]:
    """Everything that is measured, by name."""
    target, of = context.target, product(context)
    waves = 16
    found: dict[str, Measure] = {
        "compute units": partial(
            _said_by_hip, field="compute_units", unit="CUs", assumed=of.compute_units, source="product.compute_units"
        ),
        "memory": partial(
            _said_by_hip, field="memory_bytes", unit="bytes", assumed=of.hbm_bytes, source="product.hbm_bytes"
        ),
        "clock": _clock,
        "vector instruction": partial(
            _cycles, kernel=lambda t: micro.chained(t, "v_add_f32 v3, v3, v3"), entry="valu_cycles"
        ),
        "transcendental": partial(
            _cycles, kernel=lambda t: micro.rotating(t, lambda n: f"v_exp_f32 v{4 + n % 8}, v3"),
            entry="transcendental_cycles",
        ),
        "branch": partial(_cycles, kernel=micro.branches, entry="branch_cycles"),
    }  # fmt: skip
    for mfma in target.mfmas:
        same = sum(m.instruction == mfma.instruction for m in target.mfmas) > 1
        found[f"{mfma.instruction}{f' of {mfma.dtype}' if same else ''}"] = partial(_mfma, mfma=mfma)
    found |= {
        "LDS read": partial(
            _lds_rate, threads=64 * waves, write=False, entry="lds.read_bytes_per_clock",
            assumed=target.lds_read_bytes_per_clock,
        ),
        "LDS write": partial(
            _lds_rate, threads=64 * waves, write=True, entry="lds.write_bytes_per_clock",
            assumed=target.lds_write_bytes_per_clock,
        ),
        "LDS of one wave": _lds_pair,
        "LDS latency": _lds_latency,
        "L1": _l1,
        "L2": _l2_rate,
        "Infinity Cache": _llc_rate,
        "HBM": _hbm_rate,
        "L2 latency": partial(_latency, size=target.l2_bytes_per_xcd // 2, entry="l2_latency_ns"),
        "HBM latency": partial(_latency, size=max(4 * target.llc_bytes, 1 << 29), entry="hbm_latency_ns"),
        "matrix peak": _peak,
        "launch": _launch,
    }  # fmt: skip
    if target.llc_bytes:
        found["Infinity Cache latency"] = partial(_latency, size=target.llc_bytes // 4, entry="llc_latency_ns")
    return found


def items(context: CheckContext) -> Sequence[str]:
    """The names of what is measured."""
    return list(measures(context))


def run(context: CheckContext, item: str) -> Result:
    """Measure one value, beside the assumed one."""
    found = measures(context)[item](context)
    if isinstance(found, str):
        return {"verdict": SKIPPED, "said": found}
    ratio = found.measured / found.assumed if found.measured and found.assumed else None
    far = ratio is not None and abs(ratio - 1) > _FAR
    measured = f"{found.measured:.4g}" if found.measured is not None else "not measurable"
    assumed = f"{found.assumed:.4g}" if found.assumed is not None else "nothing"
    return {
        "verdict": MEASURED, "said": f"{measured} {found.unit}, assumed {assumed}", "measured": found.measured,
        "assumed": found.assumed, "unit": found.unit, "source": found.source, "ratio": ratio, "far": far,
    }  # fmt: skip
