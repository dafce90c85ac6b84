"""Code that clang makes of C++, at several levels of optimisation: the emulator's results are the host's, bit for bit.

`kernels/expressions.h` holds the expressions: integers of all widths, floats, vectors, conversions, calls, the stack.
The host's compiler and processor are the oracle, so a fault would have to be made twice to go unseen.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.emulate.conftest import KERNELS, clang
from tkgen.emulate import Buffer, Kind, launch, load

COUNT = 128
FLOATS = {"f16": 2, "f32": 4, "f64": 8, "bf16": 2}
INTEGER_EDGES = [
    0,
    1,
    -1,
    2,
    3,
    5,
    7,
    127,
    128,
    255,
    256,
    32767,
    32768,
    65535,
    1 << 31,
    (1 << 31) - 1,
    1 << 63,
    (1 << 63) - 1,
]
FLOAT_EDGES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.5,
    -3.5,
    1e-3,
    65504.0,
    1e5,
    -7.25,
    float("inf"),
    float("-inf"),
    float("nan"),
]


@cache
def expressions() -> dict[str, str]:
    """Name -> type; the two families of macros spelled out."""
    text = (KERNELS / "expressions.h").read_text()
    families = {m[1]: m[2] for m in re.finditer(r"#define (INTEGER|FLOATING)\(T\)((?:.*\\\n)*.*)", text)}
    found: dict[str, str] = {}
    for line in text.splitlines():
        for family, kind in re.findall(r"\b(INTEGER|FLOATING)\((\w+)\)", line):
            if kind != "T":
                names = re.findall(r"E\((\w+?)_##T, T,", families[family])
                found |= {f"{n}_{kind}": kind for n in names}
        if line.startswith("E("):
            found |= dict(re.findall(r"\bE\((\w+), (\w+),", line))
    return found


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The same expressions, compiled for this machine."""
    command = clang()
    if command is None:
        pytest.skip("no clang: install clang-22, or the ziglang wheel")
    made = tmp_path_factory.mktemp("host") / "expressions.so"
    flags = ["-x", "c++", "-std=c++20", "-O1", "-fwrapv", "-ffp-contract=off", "-march=native"]
    flags += ["-fPIC", "-shared", "-w"]
    for kind in ("float16", "bfloat16"):  # each operation rounds, as on the device
        flags += ["-Xclang", f"-f{kind}-excess-precision=none"]
    done = subprocess.run(
        [*command, *flags, str(KERNELS / "expressions_host.cpp"), "-o", str(made)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(made))


def operand(kind: str, size: int, rng: np.random.Generator) -> np.ndarray:
    """COUNT values of `size` bytes as raw bytes: random ones of all magnitudes, and the edges of the type."""
    base = kind.split("x")[0]
    if base in FLOATS:
        lanes = size // FLOATS[base]
        values = rng.standard_normal(COUNT * lanes) * rng.choice([1e-2, 1, 1, 30, 4000], COUNT * lanes)
        at = rng.random(COUNT * lanes) < 0.25
        values[at] = rng.choice(FLOAT_EDGES, int(at.sum()))
        with np.errstate(over="ignore", invalid="ignore"):
            if base == "bf16":
                raw = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
            else:
                raw = values.astype({"f16": np.float16, "f32": np.float32, "f64": np.float64}[base])
        return raw.view(np.uint8)
    values = rng.integers(0, 1 << 64, COUNT, dtype=np.uint64) >> rng.integers(0, 63, COUNT).astype(np.uint64)
    at = rng.random(COUNT) < 0.3
    values[at] = np.array([e & (1 << 64) - 1 for e in INTEGER_EDGES], dtype=np.uint64)[
        rng.integers(0, len(INTEGER_EDGES), int(at.sum()))
    ]
    return np.ascontiguousarray(values.view(np.uint8).reshape(COUNT, 8)[:, :size]).reshape(-1)


def same(kind: str, got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Mask of elements that agree: equal bits, or both NaN."""
    base = kind.split("x")[0]
    if base not in FLOATS:
        return got == want
    width = FLOATS[base]
    a, b = (x.view({2: np.uint16, 4: np.uint32, 8: np.uint64}[width]).astype(np.uint64) for x in (got, want))
    infinite = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000, "f64": 0x7FF << 52}[base]
    low = np.uint64((1 << (8 * width - 1)) - 1)
    agree = (a == b) | ((a & low > infinite) & (b & low > infinite))
    if kind.endswith("x3"):
        agree[3::4] = True  # the gap between vectors of three
    return agree


def check(path: Path, host: ctypes.CDLL, names: dict[str, str]) -> None:
    code = load(path)
    wrong = []
    for name, kind in names.items():
        rng = np.random.default_rng(list(name.encode()))
        function = getattr(host, f"e_{name}")
        size = function(None, None, None, 0)
        a, b = operand(kind, size, rng), operand(kind, size, rng)
        want, got = np.zeros_like(a), np.zeros_like(a)
        function(
            a.ctypes.data_as(ctypes.c_void_p),
            b.ctypes.data_as(ctypes.c_void_p),
            want.ctypes.data_as(ctypes.c_void_p),
            COUNT,
        )
        args = [Buffer(a, "a", writable=False), Buffer(b, "b", writable=False), Buffer(got)]
        options = {"kernel": f"e_{name}", "watch": True, "poison": True, "budget": 3_000_000}
        outcome = launch(code, grid=(COUNT // 64, 1, 1), block=(64, 1, 1), args=args, **options)
        agree = same(kind, got, want)
        # Clang copies bytes of no known alignment in wide accesses, which the hardware does but the referee tells.
        findings = [str(f) for f in outcome.findings if (name, f.kind) != ("copied", Kind.MISALIGNED)]
        if findings or not outcome.completed or not agree.all():
            at = int(np.argmin(agree)) if not agree.all() else -1
            wrong.append(f"{name}: {int((~agree).sum())} differ, first at {at}: {findings[:1]}")
    assert not wrong, f"{len(wrong)} of {len(names)}:\n" + "\n".join(wrong)


LEVELS = [("gfx942", "-O3"), ("gfx90a", "-O0")]
MORE = [
    ("gfx942", "-O0"),
    ("gfx90a", "-O3"),
    ("gfx950", "-O3"),
    ("gfx950", "-O0"),
    ("gfx942", "-Os"),
    ("gfx90a", "-O1"),
]


@pytest.mark.parametrize(("target", "level"), [*LEVELS, *(pytest.param(*m, marks=pytest.mark.slow) for m in MORE)])
def test_as_on_the_host(build, host, target, level):
    path = build("expressions.cpp", target, debug=False, level=level, flags=("-fwrapv", "-ffp-contract=off", "-w"))
    check(path, host, expressions())


def test_there_are_enough_of_them():
    names = expressions()
    assert len(names) > 200 and {"sum_i8", "chain_f16", "recursion", "virtual_call"} <= set(names)
