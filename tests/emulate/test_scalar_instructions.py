"""Every scalar instruction against AMD's pseudocode."""

from __future__ import annotations

import re

import numpy as np
import pcode
import pytest

from tests.emulate import frame
from tkgen.emulate import native

OPERANDS = pytest.importorskip("tinygrad.runtime.autogen.amd.cdna.operands").OPERANDS
PCODE = pytest.importorskip("tinygrad.runtime.autogen.amd.cdna.str_pcode").PCODE

# Jumps, indexed moves and hardware registers: test_control.py.
BY_HAND = re.compile(r"s_(getpc|setpc|swappc|rfe|movrel|set_gpr|cbranch|getreg|setreg|call|setvskip)")
EDGES = [0, 1, 2, 31, 32, 63, 64, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x001F0004, 0x00200000]
SETS = 12


def operations(kind: str) -> list[tuple[str, object]]:
    known = set(native.operations())
    found = [(op.name.lower(), op) for op in PCODE if type(op).__name__ == kind]
    return [(n, op) for n, op in found if n in known and not BY_HAND.match(n)]


def source(op, field: str, register: int) -> str:
    bits = OPERANDS[op][field][1]
    return f"s[{register}:{register + 1}]" if bits == 64 else f"s{register}"


def values(name: str) -> np.ndarray:
    rng = np.random.default_rng(list(name.encode()))
    out = rng.integers(0, 1 << 32, (SETS, 8), dtype=np.uint32)
    edge = rng.random((SETS, 8)) < 0.4
    out[edge] = rng.choice(np.array(EDGES, dtype=np.uint32), int(edge.sum()))
    out[0, 2] = out[0, 0]  # equal operands once
    out[0, 3] = out[0, 1]
    out[1, :2] = 0
    out[:, 5] = rng.integers(0, 2, SETS)
    return out


def variables(row: np.ndarray, immediate: int) -> dict[str, object]:
    def pair(i: int) -> pcode.B:
        return pcode.B(64, int(row[i]) | int(row[i + 1]) << 32)

    return {
        "S0": pair(0), "S1": pair(2), "D0": pair(6), "SCC": int(row[5] == 0), "EXEC": pcode.B(64, (1 << 64) - 1),
        "SIMM16": pcode.B(16, immediate),
    }  # fmt: skip


def check(assemble, jobs: list[tuple[str, object, str, int]]) -> None:
    inputs = np.concatenate([values(name) for name, *_ in jobs])
    texts = [text for _, _, text, _ in jobs for _ in range(SETS)]
    out = frame.run_scalar(assemble, texts, inputs)
    wrong = []
    for j, (name, op, text, immediate) in enumerate(jobs):
        for k in range(SETS):
            row, got = inputs[j * SETS + k], out[j * SETS + k]
            v = variables(row, immediate)
            if type(op).__name__ == "SOPKOp":
                v |= {"S1": pcode.B(16, immediate), "S0": pcode.B(64, int(row[6]))}
                if name in ("s_movk_i32", "s_cmovk_i32", "s_addk_i32", "s_mulk_i32"):
                    v["S0"] = pcode.B(16, immediate)
            bits = OPERANDS[op].get("sdst", (0, 64))[1]
            v["D0"] = pcode.B(bits, pcode.raw(v["D0"], bits))
            e = pcode.run(PCODE[op], **v)
            mask = (1 << bits) - 1
            destination = int(got[0]) | int(got[1]) << 32
            checks = {"D0": (destination & mask, pcode.raw(e["D0"], 64) & mask)}
            checks["SCC"] = (int(got[3]), int(pcode.truth(e["SCC"])))
            checks["EXEC"] = (int(got[4]) | int(got[5]) << 32, pcode.raw(e["EXEC"], 64))
            bad = {n: (hex(a), hex(b)) for n, (a, b) in checks.items() if a != b}
            if bad:
                wrong.append((text, [hex(int(x)) for x in row], bad))
                break
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(map(str, wrong[:20]))


def test_one_source(assemble):
    jobs = []
    for name, op in operations("SOP1Op"):
        dst = source(op, "sdst", 30)
        jobs.append((name, op, f"{name} {dst}, {source(op, 'ssrc0', 20)}", 0))
    assert len(jobs) > 30
    check(assemble, jobs)


def test_two_sources(assemble):
    jobs = []
    for name, op in operations("SOP2Op"):
        texts = [source(op, f, r) for f, r in (("ssrc0", 20), ("ssrc1", 22))]
        jobs.append((name, op, f"{name} {source(op, 'sdst', 30)}, {', '.join(texts)}", 0))
    assert len(jobs) > 40
    check(assemble, jobs)


def test_compares(assemble):
    jobs = [(n, op, f"{n} {source(op, 'ssrc0', 20)}, {source(op, 'ssrc1', 22)}", 0) for n, op in operations("SOPCOp")]
    assert len(jobs) > 15
    check(assemble, jobs)


@pytest.mark.parametrize("immediate", [0, 5, 0x7FFF, 0x8000, 0xFFFF])
def test_immediates(assemble, immediate):
    jobs = [(n, op, f"{n} s30, 0x{immediate:x}", immediate) for n, op in operations("SOPKOp")]
    assert len(jobs) > 12
    check(assemble, jobs)
