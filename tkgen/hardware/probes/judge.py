"""Two runs of the same probes compared bit by bit, with the inputs of the first values that differ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Final

import numpy as np
import numpy.typing as npt

from tkgen.hardware.context import CLOSE, RIGHT, WRONG
from tkgen.hardware.probes.frame import loaded, rows_in, rows_out
from tkgen.hardware.probes.inputs import Rows
from tkgen.hardware.probes.probe import SCALAR, Probe
from tkgen.hardware.probes.values import element

EXAMPLES: Final = 3
_STATE_NAMES: Final = ("vcc_lo", "vcc_hi", "exec_lo", "exec_hi", "scc", "m0", "s30", "s31")
# Results that AMD's documents give with an error: units in the last place (CDNA3 ISA, descriptions of VOP1; LLVM's
# AMDGPUUsage for f64, which its code refines).
_APPROXIMATE: Final = (
    (re.compile(r"v_(exp|log|rcp|rsq|sqrt|rcp_iflag|exp_legacy|log_legacy)_(legacy_)?f(32|16)"), 1),
    (re.compile(r"v_(sin|cos)_f(32|16)"), 64),
    (re.compile(r"v_(rcp|rsq|sqrt)_f64"), 1 << 29),
)
NOTES: Final = {
    "v_cvt_rpi_i32_f32": "AMD's pseudo-code, floor(x + 0.5), rounds halves and the number below one half otherwise "
    "than a single rounding does",
    "v_cvt_pk_u8_f32": "AMD's pseudo-code cuts off the fraction; the emulator follows MODE, which rounds to nearest",
}
"""Instructions about which public texts differ: only hardware can say."""


@dataclass(frozen=True)
class Compared:
    """A probe in two runs. `examples` have inputs, the GPU's result and the emulator's, as text."""

    probe: Probe
    values: int
    differing: int
    nan_bits: int
    ulps: float
    verdict: str
    examples: list[dict[str, str]] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        """Plain data."""
        return {
            "instruction": self.probe.text.splitlines()[0], "name": self.probe.name, "verdict": self.verdict,
            "values": self.values, "differing": self.differing, "NaN bits": self.nan_bits,
            "ulps": self.ulps if isfinite(self.ulps) else None,
            "examples": self.examples, "note": NOTES.get(self.probe.name, ""),
        }  # fmt: skip


def compare(probes: Sequence[Probe], given: Rows, gpu: Rows, emulator: Rows) -> list[Compared]:
    """Each probe of a kernel: `given` are its inputs, the others outputs of all blocks."""
    found, at, put = [], 0, 0
    for probe in probes:
        into, out = slice(at, at + rows_in(probe)), slice(put, put + rows_out(probe))
        found.append(_probe(probe, given[:, into], gpu[:, out], emulator[:, out]))
        at, put = into.stop, out.stop
    return found


def _probe(probe: Probe, given: Rows, gpu: Rows, emulator: Rows) -> Compared:
    count = len(probe.outputs)
    differs = gpu != emulator
    state = differs[:, count, : len(_STATE_NAMES)]
    differs[:, count, len(_STATE_NAMES) :] = False
    values = differs[:, :count].size + state.size + differs[:, count + 1 :].size
    wrong = int(differs.sum())
    if not wrong:
        return Compared(probe, values, 0, 0, 0.0, RIGHT)
    nan_bits, ulps = _apart(probe, gpu[:, :count], emulator[:, :count])
    elsewhere = bool(state.any() or differs[:, count + 1 :].any())
    allowed = next((most for pattern, most in _APPROXIMATE if pattern.fullmatch(probe.name)), 0)
    close = not elsewhere and ulps <= allowed
    return Compared(
        probe, values, wrong, nan_bits, ulps, CLOSE if close else WRONG, _examples(probe, given, gpu, emulator, differs)
    )


def _apart(probe: Probe, gpu: Rows, emulator: Rows) -> tuple[int, float]:
    """Values that are NaN in both with other bits, and the largest distance of others in units of the last place."""
    _, kind, width = element(probe.result, 32 * len(probe.outputs))
    if kind not in ("F", "BF") or not len(probe.outputs):
        return 0, float("inf") if (gpu != emulator).any() else 0.0
    one, two = (_ordered(x, kind, width) for x in (gpu, emulator))
    nan = one[1] & two[1]
    apart = one[0] != two[0]
    mixed = one[1] ^ two[1]
    distance = np.abs(one[0].astype(np.float64) - two[0].astype(np.float64))
    distance = np.where(nan, 0.0, np.where(mixed, np.inf, distance))
    return int((nan & apart).sum()), float(distance.max(initial=0.0))


def _ordered(rows: Rows, kind: str, width: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Floats as integers in their order, and which of them are NaN."""
    by_lane = np.ascontiguousarray(rows.transpose(0, 2, 1))
    if width == 64:
        bits = by_lane.view(np.uint64).astype(np.uint64)
    elif width == 32:
        bits = by_lane.astype(np.uint64)
    else:
        bits = by_lane.view(np.uint16).astype(np.uint64)
    sign = np.uint64(1 << (width - 1))
    infinity = np.uint64(
        {("F", 16): 0x7C00, ("BF", 16): 0x7F80}.get((kind, width), 0x7F800000 if width == 32 else 0x7FF << 52)
    )
    size = bits & (sign - np.uint64(1))
    signed = np.where(bits & sign != 0, -size.astype(np.int64), size.astype(np.int64))
    return signed, size > infinity


def _examples(
    probe: Probe, given: Rows, gpu: Rows, emulator: Rows, differs: npt.NDArray[np.bool_]
) -> list[dict[str, str]]:
    """The first values that differ, in the words of the kernel."""
    found: list[dict[str, str]] = []
    names = [*probe.outputs, "state", *(f"memory {n}" for n in range(probe.rows))]
    registers = loaded(probe)
    for block, row, lane in np.argwhere(differs)[:: max(1, int(differs.sum()) // EXAMPLES)][:EXAMPLES]:
        where = _STATE_NAMES[lane] if names[row] == "state" else f"{names[row]}, lane {lane}"
        inputs = [f"{name} {given[block, 1 + n, lane]:#010x}" for n, name in enumerate(registers)][:10]
        if probe.family == SCALAR:
            inputs = [f"s{40 + n} {given[block, 0, 8 + n]:#010x}" for n in range(4)]
        found.append({
            "where": where, "inputs": ", ".join(inputs), "GPU": f"{gpu[block, row, lane]:#010x}",
            "emulator": f"{emulator[block, row, lane]:#010x}",
        })  # fmt: skip
    return found
