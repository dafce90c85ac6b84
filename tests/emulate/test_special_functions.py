"""Operations whose pseudocode is prose: the segments of 2 / pi, sums of absolute differences at four positions."""

from __future__ import annotations

import math
from decimal import Decimal, getcontext
from fractions import Fraction

import numpy as np

from tests.emulate import frame

BITS = 1201


def two_over_pi() -> int:
    """2 / pi in units of 2^-BITS, by Machin's formula."""
    getcontext().prec = 420

    def arctangent(n: int) -> Decimal:
        total = term = Decimal(1) / n
        for k in range(3, 2000, 2):
            term = -term / (n * n)
            total += term / k
        return total

    pi = 4 * (4 * arctangent(5) - arctangent(239))
    return int(Decimal(2) / pi * (1 << BITS))


def test_segments_of_two_over_pi(assemble):
    """trig_preop(x, s): 53 bits of 2 / pi from bit 53 s on, further on for exponents above 1077."""
    exponents = [0, 1023, 1077, 1078, 1100, 1500, 1967, 1968, 2046]
    segments = [0, 1, 2, 5, 10, 17]
    cases = [(e, s) for e in exponents for s in segments]
    x = np.zeros((1, frame.ROWS_IN, 64), dtype=np.uint32)
    for lane, (e, s) in enumerate(cases):
        x[0, 0, lane], x[0, 1, lane], x[0, 2, lane] = 0x9ABCDEF0, e << 20 | 0x12345, s
    out = frame.run_vector(assemble, ["v_trig_preop_f64 v[20:21], v[10:11], v12"], x)
    got = (out[0, 0].astype(np.uint64) | out[0, 1].astype(np.uint64) << np.uint64(32)).view(np.float64)
    table = two_over_pi()
    for lane, (e, s) in enumerate(cases):
        shift = 53 * s + max(e - 1077, 0)
        if shift + 53 > BITS - 64:  # the hardware's table ends near here
            continue
        part = table >> (BITS - shift - 53) & ((1 << 53) - 1)
        scale = -53 - shift + (128 if e >= 1968 else 0)
        assert got[lane] == float(Fraction(part) * Fraction(2) ** scale), cases[lane]
    assert math.isclose(got[cases.index((1023, 0))], 2 / math.pi, rel_tol=1e-15)


def test_sums_of_differences_at_four_positions(assemble):
    rng = np.random.default_rng(4)
    x = rng.integers(0, 1 << 32, (3, frame.ROWS_IN, 64), dtype=np.uint32)
    x[:, 2] = rng.choice([0, 0x00FF00FF, 0x12003400, 0xFFFFFFFF], (3, 64))
    texts = [
        "v_qsad_pk_u16_u8 v[20:21], v[10:11], v12, v[14:15]",
        "v_mqsad_pk_u16_u8 v[20:21], v[10:11], v12, v[14:15]",
        # The wide form has four registers of addends and of results: v12 is one addend, v10 and v11 two results.
        "v_mqsad_u32_u8 v[30:33], v[10:11], v12, v[12:15]\n"
        "  v_mov_b32 v20, v30\n  v_mov_b32 v21, v31\n  v_mov_b32 v10, v33",
    ]
    out = frame.run_vector(assemble, texts, x)
    for lane in range(64):
        for case in range(3):
            data = int(x[case, 0, lane]) | int(x[case, 1, lane]) << 32
            reference = int(x[case, 2, lane])

            def sad(i: int, masked: bool, data: int = data, reference: int = reference) -> int:
                pairs = [(data >> 8 * (i + b) & 255, reference >> 8 * b & 255) for b in range(4)]
                return sum(abs(p - q) for p, q in pairs if q or not masked)

            if case == 2:
                addends = [int(x[case, r, lane]) for r in (2, 3, 4, 5)]
                want = [(sad(i, True) + addends[i]) & 0xFFFFFFFF for i in (0, 1, 3)]
                assert [int(out[case, r, lane]) for r in (0, 1, 2)] == want
            else:
                addends = [int(x[case, 4 + i // 2, lane]) >> 16 * (i % 2) & 0xFFFF for i in range(4)]
                want = [(sad(i, case == 1) + addends[i]) & 0xFFFF for i in range(4)]
                got = [int(out[case, i // 2, lane]) >> 16 * (i % 2) & 0xFFFF for i in range(4)]
                assert got == want
