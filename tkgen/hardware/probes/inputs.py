"""The inputs of a kernel of probes, a block after the other, from a seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from tkgen.hardware.probes.frame import loaded, rows_in
from tkgen.hardware.probes.probe import MATRIX, MEMORY, SCALAR, Probe, ProbeOperand
from tkgen.hardware.probes.values import INTEGERS, LONG, drawn, element, encoded, operand

LANES: Final = 64
BLOCKS: Final = {"vector": 16, "matrix": 8, "scalar": 128, "memory": 8}
"""Blocks that each kernel of a family has: each has other inputs."""

Rows = npt.NDArray[np.uint32]
_MASKS: Final = (0x5555555555555555, 0xFFFF0000FFFF0000, 1 << 37, 0x00FF00FF12345678)
_STRIDES: Final = (1, 31, 7)  # of the edges of the operands


def inputs(probes: Sequence[Probe], seed: int) -> Rows:
    """The rows of all blocks: [blocks, rows, 64]."""
    blocks = BLOCKS[probes[0].family]
    return np.concatenate([_of_probe(p, blocks, seed) for p in probes], axis=1)


def _of_probe(probe: Probe, blocks: int, seed: int) -> Rows:
    rng = np.random.default_rng([seed, *probe.text.encode()])
    found = np.zeros((blocks, rows_in(probe), LANES), np.uint32)
    _state(probe, found[:, 0], rng)
    places = {name: 1 + n for n, name in enumerate(loaded(probe))}
    for row in places.values():  # old values of what is written
        found[:, row] = drawn("B", 32, blocks * LANES, rng).reshape(blocks, LANES)
    for number, source in enumerate(probe.sources):
        rows = [places[f"v{r}"] for r in source.registers]
        if probe.family == MATRIX:
            found[:, rows] = _factors(source, blocks, number == 2, rng)
            continue
        for start in range(0, len(rows), 2):
            bits = min(source.bits - 32 * start, 64)
            values = operand(source.format, bits, blocks * LANES, _STRIDES[number % 3], rng)
            for half, row in enumerate(rows[start : start + 2]):
                found[:, row] = (values >> np.uint64(32 * half) & np.uint64(0xFFFFFFFF)).reshape(blocks, LANES)
    if probe.indices is not None:
        holder, count = probe.indices
        found[:, places[f"v{holder}"]] = 4 * rng.integers(0, count, (blocks, LANES))
    if probe.rows:
        _contents(probe, found[:, -probe.rows :], rng)
    return found


def _contents(probe: Probe, rows: Rows, rng: np.random.Generator) -> None:
    """Memory before: numbers of the type that the instruction adds to, where it does."""
    format = next((s.format for s in probe.sources if s.format != "B32"), "B32")
    bits = 64 if format in ("F64", "B64") or "64" in probe.name or "x2" in probe.name else 32
    values = operand(format, bits, rows.size * 32 // bits, 5, rng)
    plain = np.ascontiguousarray(values if bits == 64 else values.astype(np.uint32)).view(np.uint32)
    rows[...] = plain.reshape(rows.shape)


def _state(probe: Probe, rows: Rows, rng: np.random.Generator) -> None:
    """VCC, EXEC, SCC, M0, s[30:31], and eight dwords of scalar operands."""
    blocks = len(rows)
    rows[:, :16] = rng.integers(0, 1 << 32, (blocks, 16))
    rows[:, 2:4] = 0xFFFFFFFF
    if probe.family != MATRIX:
        for block in range(3, blocks, 4):
            mask = _MASKS[block // 4 % len(_MASKS)]
            rows[block, 2:4] = mask & 0xFFFFFFFF, mask >> 32
    if probe.family == SCALAR and blocks > 4:
        rows[1::16, 2:4] = 0  # s_cbranch_execz
        rows[2::16, 0:2] = 0
    rows[:, 4] = np.arange(blocks) // 2 % 2
    rows[:, 5] = 0 if probe.family == MEMORY else np.arange(blocks) % 2 * 2  # an index of pairs, too
    if probe.family == SCALAR:
        for place, stride in ((8, 1), (10, 3)):
            _scalar_operand(rows[:, place : place + 2], stride, rng)


def _scalar_operand(rows: Rows, stride: int, rng: np.random.Generator) -> None:
    """An operand of 64 bits, whose lower half is one of 32: half of them edges of the one or the other width."""
    blocks = len(rows)
    short, long = np.array(INTEGERS, np.uint64), np.array(LONG, np.uint64)
    at = np.arange(blocks) // stride
    rows[: blocks // 2, 0] = short[at[: blocks // 2] % len(short)]
    wide = long[at % len(long)] if stride == 1 else rng.choice(long, blocks)
    part = slice(blocks // 2, 3 * blocks // 4)
    rows[part, 0], rows[part, 1] = wide[part] & np.uint64(0xFFFFFFFF), wide[part] >> np.uint64(32)
    rows[3 * blocks // 4 :, 0] = rng.choice(short, blocks - 3 * blocks // 4)


def _factors(source: ProbeOperand, blocks: int, addend: bool, rng: np.random.Generator) -> Rows:
    """A matrix operand by block: integers, numbers of many magnitudes, then some of them edges."""
    words = len(source.registers)
    found = np.zeros((blocks, words, LANES), np.uint32)
    _, kind, width = element(source.format, source.bits)
    for block in range(blocks):
        count = words * LANES * 32 // width
        if kind not in ("F", "BF"):
            values = rng.integers(0, 1 << min(width, 32), count, dtype=np.uint64)
            if block % 4 == 0:  # integers, or small floats
                values &= np.uint64(0x3F3F3F3F & ((1 << width) - 1)) if not addend else np.uint64(0xFF)
        elif block % 4 == 0:
            values = encoded(rng.integers(-8, 9, count).astype(np.float64), kind, width)
        elif block % 4 == 3:
            values = drawn(kind, width, count, rng, edge=0.04)
        else:
            spread = 3 if block % 4 == 1 else 12
            values = encoded(rng.standard_normal(count) * 2.0 ** rng.integers(-spread, spread + 1, count), kind, width)
        bits = {64: np.uint64, 32: np.uint32, 16: np.uint16, 8: np.uint8}[width]
        found[block] = np.ascontiguousarray(values.astype(bits)).view(np.uint32).reshape(LANES, words).T
    return found
