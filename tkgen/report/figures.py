"""Resource figures as rows to print: from a build's `report()` or from a report.json read back, so that both compare.

Fewer waves on a SIMD, or more instructions in a longer pass, are neither better nor worse: they carry no verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MIX_LABELS = {
    "mfma": "MFMA",
    "valu": "VALU",
    "salu": "SALU",
    "scalar_loads": "scalar loads",
    "lds_reads": "LDS reads",
    "lds_writes": "LDS writes",
    "lds_other": "other LDS",
    "global_loads": "global loads",
    "global_to_lds": "global to LDS",
    "global_stores": "global stores",
    "global_other": "other global",
    "scratch": "scratch",
    "flat": "flat",
    "barriers": "barriers",
    "waits": "waits",
    "branches": "branches",
    "other": "other",
}
LESS, NEITHER = -1, 0  # which direction is better


@dataclass(frozen=True)
class Figure:
    """One number of a kernel: its `key` is stable; `better` is 1 where more is better, -1 where less, else 0."""

    key: str
    label: str
    value: float
    unit: str
    better: int
    group: str

    def show(self, value: float | None = None) -> str:
        """The value as printed, `128 VGPR`; another one of the same figure if given."""
        number = self.value if value is None else value
        text = f"{number:,.3f}".rstrip("0").rstrip(".") if number % 1 else f"{int(number):,}"
        return f"{text} {self.unit}".rstrip()


@dataclass(frozen=True)
class MixEntry:
    """Instructions of one sort in one iteration of the main loop, or in all of a kernel of rows.

    `detail` splits them by shape or width.
    """

    key: str
    label: str
    count: int
    detail: str


_ROWS: tuple[tuple[str, tuple[str, ...], str, str, int], ...] = (
    # (group, path in the report, label, unit, better)
    ("Registers", ("resources", "vgpr"), "VGPRs per lane", "", LESS),
    ("Registers", ("resources", "agpr"), "AGPRs per lane", "", LESS),
    ("Registers", ("resources", "sgpr"), "SGPRs per wave", "", LESS),
    ("Registers", ("resources", "vgpr_spills"), "VGPR spills", "", LESS),
    ("Registers", ("resources", "sgpr_spills"), "SGPR spills", "", LESS),
    ("Registers", ("resources", "scratch_bytes"), "scratch per lane", "B", LESS),
    ("Registers", ("figures", "registers"), "registers per thread", "", LESS),
    ("Registers", ("figures", "spill_bytes"), "spilled per thread", "B", LESS),
    ("Occupancy", ("shared_bytes",), "shared memory per block", "B", LESS),
    ("Occupancy", ("threads",), "threads per block", "", NEITHER),
    ("Occupancy", ("lds_bytes",), "LDS per block", "B", LESS),
    ("Occupancy", ("occupancy", "blocks_per_cu"), "blocks per CU", "", NEITHER),
    ("Occupancy", ("occupancy", "waves_per_cu"), "waves per CU", "", NEITHER),
    ("Occupancy", ("occupancy", "waves_per_simd"), "waves per SIMD", "", NEITHER),
    ("Main loop", ("main_loop", "total"), "instructions per iteration", "", NEITHER),
    ("Main loop", ("main_loop", "other_per_mfma"), "non-MFMA instructions per MFMA", "", LESS),
    ("Main loop", ("steps_per_pass",), "K-steps per iteration", "", NEITHER),
    ("Main loop", ("barriers_per_step",), "barriers per K-step", "", LESS),
    ("Code", ("instructions", "total"), "instructions", "", NEITHER),
    ("Code", ("flat_instructions",), "flat memory instructions", "", LESS),
    ("Code", ("resources", "kernarg_bytes"), "kernel arguments", "B", NEITHER),
)


def figures(report: Mapping[str, Any]) -> tuple[Figure, ...]:
    """The figures of a report (`Build.report()` or report.json); those it lacks are left out."""
    found = []
    for group, path, label, unit, better in _ROWS:
        value = _at(report, path)
        if value is not None:
            found.append(Figure(".".join(path), label, value, unit, better, group))
    return tuple(found)


def mix(report: Mapping[str, Any]) -> tuple[MixEntry, ...]:
    """The instruction mix of a report's main loop, or of a kernel of rows, without the sorts it has none of.

    Empty where there should be a loop, and nothing loops.
    """
    loop = report.get("main_loop", report.get("instructions"))
    if not isinstance(loop, Mapping):
        return ()
    found = []
    for key, label in MIX_LABELS.items():
        entry = loop.get(key, 0)
        if isinstance(entry, Mapping):
            count = sum(int(n) for n in entry.values())
            bits = "" if key == "mfma" else " bit"
            detail = ", ".join(f"{n} x {shape}{bits}" for shape, n in entry.items())
        else:
            count, detail = int(entry), ""
        if count:
            found.append(MixEntry(key, label, count, detail))
    return tuple(found)


def _at(report: Mapping[str, Any], path: tuple[str, ...]) -> float | None:
    value: Any = report
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
