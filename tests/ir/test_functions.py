"""Each function's C++ does what its meaning says, within the error stated; slopes and generator are as published."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from itertools import accumulate
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from function_costs import instructions

from tkgen.api import load
from tkgen.backends.cdna.kittens import include_dir
from tkgen.backends.hopper.host.run import run
from tkgen.emulate import Buffer, Scalar, launch
from tkgen.ir.functions import BACK_ENDS, CDNA, FAST, FUNCTIONS, HOPPER, HOST, TORCH, Function, helpers
from tkgen.ir.functions.definitions.dropout import philox, uniform
from tkgen.ir.functions.page import costs, page
from tkgen.proof.execution import Order
from tkgen.targets import load_target
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.discover import find_compiler

Array = npt.NDArray[np.float32]
THREADS = 256
LEAST = 2.0**-126
SEED = 7
CLANG = next((c for c in ("clang++-22", "clang++-21", "clang++-20", "clang++-19", "clang++") if shutil.which(c)), None)


def kernel(f: Function) -> str:
    """Applies `f` to rows of `in`."""
    loads = [f"const float x{i} = in[{i} * count + at];" for i in range(f.arity)]
    truths = f.arity if f.takes == "predicate" else 1 if f.takes == "choice" else 0
    names = [f"(x{i} != 0.0f)" if i < truths else f"x{i}" for i in range(f.arity)]
    return f"""
extern "C" __global__ __launch_bounds__({THREADS}) void f_{f.name}(const float *in, float *out, int count) {{
    const int at = blockIdx.x * {THREADS} + threadIdx.x;
    {" ".join(loads)}
    out[at] = float({f.cpp[CDNA].format(*names)});
}}
"""


@cache
def code() -> bytes:
    target = load_target("gfx942")
    source = '#include "kittens.cuh"\n' + "\n".join(helpers(FUNCTIONS, CDNA)) + "".join(map(kernel, FUNCTIONS.values()))
    made = compile_device(source, target, find_compiler(target), include_dirs=[include_dir()])
    assert made.hsaco is not None and not made.warnings, made.warnings
    return made.hsaco


def computed(f: Function, arguments: Array) -> Array:
    """Results of the machine code for rows of arguments, whose length is a multiple of the block's."""
    count = arguments.shape[1]
    out = np.empty(count, np.float32)
    args = [Buffer(np.ascontiguousarray(arguments)), Buffer(out), Scalar("i32", count)]
    launch(code(), kernel=f"f_{f.name}", args=args, grid=(count // THREADS, 1, 1), block=(THREADS, 1, 1))
    return out


def from_bits(words: npt.NDArray[np.uint32]) -> Array:
    return words.astype(np.uint32).view(np.float32)


def sample(f: Function) -> Array:
    """Every bf16, as many f32 of any bits and of moderate size; for several arguments in random company."""
    rng = np.random.default_rng(SEED)
    rows = []
    for row in range(f.arity):
        every = from_bits(np.arange(1 << 16, dtype=np.uint32) << 16)
        anything = from_bits(rng.integers(0, 1 << 32, 1 << 16, dtype=np.uint32))
        usual = (rng.standard_normal(1 << 17) * rng.choice([0.1, 1, 10], 1 << 17)).astype(np.float32)
        parts = np.concatenate([every, anything, usual])
        rows.append(parts if row == 0 else rng.permutation(parts))
    if f.takes == "predicate":
        rows = [(r > 0).astype(np.float32) for r in rows]
    elif f.takes == "choice":
        rows[0] = (rows[0] > 0).astype(np.float32)
    elif f.takes == "place":
        rows[0] = np.where(np.isnan(rows[0]), 0, rows[0])  # NaNs have many bits
        rows[1:] = [rng.integers(0, 1 << 24, r.size).astype(np.float32) for r in rows[1:]]
    if f.name == "div":
        # The text of v_div_scale, which the emulator follows, scales such denominators to infinity.
        rows[1] = np.where(np.abs(rows[1]) > 2.0**126, 1, rows[1])
    return np.stack(rows)


def meaning(f: Function, arguments: Array) -> npt.NDArray[np.float64]:
    """In f64, infinite where f32 overflows."""
    rows = [torch.from_numpy(r).double() for r in arguments]
    truths = f.arity if f.takes == "predicate" else 1 if f.takes == "choice" else 0
    rows = [r != 0 if i < truths else r for i, r in enumerate(rows)]
    value = f.meaning(*rows).double().numpy()
    largest = (2 - 2.0**-24) * 2.0**127
    return np.where(np.abs(value) >= largest, np.copysign(np.inf, value), value)


def excess(f: Function, arguments: Array, result: Array) -> npt.NDArray[np.float64]:
    """Each error as a multiple of what is allowed, with half an ulp of subnormals for rounding."""
    expected = meaning(f, arguments)
    least = np.maximum(np.abs(expected), LEAST)
    ulp = np.ldexp(1.0, np.frexp(np.where(np.isfinite(least), least, 1.0))[1] - 24)
    with np.errstate(invalid="ignore"):
        growth = f.growth * f.size(*(torch.from_numpy(r).double() for r in arguments)).numpy() if f.growth else 0.0
    allowed = (f.ulps + growth) * ulp + f.below
    with np.errstate(invalid="ignore"):
        error = np.abs(result - expected)
    same = (result == expected) | (np.isnan(result) & np.isnan(expected))
    beyond = np.where(same, 0.0, np.where(np.isnan(error), np.inf, error / (allowed + 2.0**-150)))
    if f.flushes:
        flushed = np.where(np.abs(arguments) < LEAST, np.copysign(np.float32(0), arguments), arguments)
        beyond = np.where((np.abs(arguments) < LEAST).any(0) & (result == meaning(f, flushed)), 0.0, beyond)
    if f.name in ("sin", "cos"):
        beyond = np.where(np.abs(arguments[0]) > 2.0**20, 0.0, beyond)
    return beyond


def insist(f: Function, arguments: Array) -> None:
    judge(f, arguments, computed(f, arguments))


def judge(f: Function, arguments: Array, result: Array) -> None:
    beyond = excess(f, arguments, result)
    worst = int(np.argmax(beyond))
    shown = f"{f.name}{tuple(arguments[:, worst])} is {result[worst]}, not {meaning(f, arguments)[worst]}"
    assert beyond[worst] <= 1.0, f"{shown}: {beyond[worst]:.3g} times what is allowed"


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=lambda f: f.name)
def test_machine_code_is_within_the_stated_error(f: Function) -> None:
    insist(f, sample(f))


@pytest.mark.parametrize(
    ("name", "arguments", "negative"),
    [
        *((name, [-0.0], True) for name in ("floor", "ceil", "round", "trunc", "expm1", "log1p")),
        *((name, [-0.25], True) for name in ("ceil", "round", "trunc")),
        ("pow", [-0.0, 3.0], True),
        ("pow", [-0.0, 2.0], False),
        ("mod", [-4.0, 2.0], True),
        ("mod", [4.0, -2.0], False),
    ],
)
def test_zeros_have_the_sign_of_torchs(name: str, arguments: list[float], negative: bool) -> None:
    f = FUNCTIONS[name]
    given = np.repeat(np.array(arguments, np.float32)[:, None], THREADS, axis=1)
    value = f.meaning(*(torch.tensor(a, dtype=torch.float32) for a in arguments))
    assert value == 0 and bool(torch.signbit(value)) is negative
    assert (computed(f, given) == 0).all() and (np.signbit(computed(f, given)) == negative).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "f", [f for f in FUNCTIONS.values() if f.arity == 1 and f.takes == "number"], ids=lambda f: f.name
)
def test_machine_code_is_within_the_stated_error_all_over_f32(f: Function) -> None:
    """Every 1021st f32, a prime: about 8000 significands of each exponent and sign."""
    words = np.arange(0, 1 << 32, 1021, dtype=np.uint64).astype(np.uint32)
    insist(f, from_bits(words[: words.size // THREADS * THREADS])[None])


# ---------------------------------------------------------------- on Hopper


TOGETHER = [f for f in FUNCTIONS.values() if not f.internal and f.takes in ("number", "choice")]
ROWS, COLS = 512, 128
SPEC = f"""kernel every
  target sm_90a
  dims ROWS = {ROWS}, COLS = {COLS}, GIVEN = 3, COUNT = {len(TOGETHER)}
  global X : f32[GIVEN, ROWS, COLS]
  global Y : f32[COUNT, ROWS, COLS]
  over t in ROWS by 4
  waves 4 along t
  a = X[0, t]
  b = X[1, t]
  c = X[2, t]
"""


def written(f: Function) -> str:
    """A call of a function as equations have it, of a, b and c; a truth as a number."""
    arguments = ["a != 0" if f.takes == "choice" else "a", "b", "c"][: f.arity]
    call = f"{f.word}({', '.join(arguments)})"
    if f.operator:
        call = f"{f.operator}a" if f.arity == 1 else f"a {f.operator} b"
    return f"where({call}, 1, 0)" if f.predicate else call


@cache
def on_the_host() -> tuple[Array, Array]:
    """Arguments, and what one Hopper kernel makes of them, a row for each function."""
    arguments = sample(FUNCTIONS["clamp"])
    arguments = np.where(np.isnan(arguments), np.float32(np.nan), arguments)  # C's fmax of a signalling NaN is NaN
    arguments = arguments[:, :: arguments.shape[1] // (ROWS * COLS)][:, : ROWS * COLS].copy()
    text = SPEC + "".join(f"  Y[{at}, t] = {written(f)}\n" for at, f in enumerate(TOGETHER))
    spec = load("every.tk", text=text).check()
    inputs = {"X": torch.from_numpy(arguments.reshape(3, ROWS, COLS))}
    made = run(spec, spec.launch(), inputs, {}, Order())
    assert not made.findings
    return arguments, made.outputs["Y"].reshape(len(TOGETHER), -1).numpy()


@pytest.mark.parametrize("at", range(len(TOGETHER)), ids=lambda at: TOGETHER[at].name)
def test_the_host_run_of_hopper_is_within_the_stated_error(at: int) -> None:
    f = TOGETHER[at]
    arguments, results = on_the_host()
    given = arguments[: f.arity].copy()
    if f.takes == "choice":
        given[0] = given[0] != 0
    off = replace(f, ulps=f.ulps + f.beyond.get(HOPPER, 0.0), below=f.below + f.more.get(HOPPER, 0.0))
    judge(off, given, results[at])


# ---------------------------------------------------------------- what checks carry


def close(f: Function, found: npt.NDArray[np.float64], arguments: Array) -> None:
    """To f64's rounding; far below the largest result, where what is made of 1 is no longer seen."""
    with np.errstate(invalid="ignore"):
        expected = f.meaning(*as_f64(f, arguments)).double().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14, equal_nan=True)


def as_f64(f: Function, arguments: Array) -> list[torch.Tensor]:
    truths = f.arity if f.takes == "predicate" else 1 if f.takes == "choice" else 0
    return [
        torch.from_numpy(r).double() != 0 if i < truths else torch.from_numpy(r).double()
        for i, r in enumerate(arguments)
    ]


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=lambda f: f.name)
def test_python_of_scripts_is_the_meaning(f: Function) -> None:
    names = {"torch": torch}
    exec("\n".join(f.helpers.get(TORCH, ())), names)
    arguments = sample(f)[:, ::16]
    parameters = "abcde"[: f.arity]
    body = eval(f"lambda {', '.join(parameters)}: {f.torch.format(*parameters)}", names)
    close(f, body(*as_f64(f, arguments)).double().numpy(), arguments)


@cache
def host_library(folder: Path) -> ctypes.CDLL:
    """Every function over rows of f64, for this machine."""
    lines = ["#include <cmath>", "#include <cstdint>", *helpers(FUNCTIONS, HOST)]
    for f in FUNCTIONS.values():
        body = f.cpp[HOST].format(*(f"in[{i} * count + at]" for i in range(f.arity)))
        lines.append(f'extern "C" void f_{f.name}(const double *in, double *out, int count) {{')
        lines.append(f"    for (int at = 0; at < count; ++at) out[at] = {body};\n}}")
    (folder / "host.cpp").write_text("\n".join(lines))
    command = [
        CLANG or "c++",
        "-std=c++20",
        "-Wall",  # as the programs themselves are compiled in tests
        "-Wextra",
        "-Werror",
        "-O1",
        "-shared",
        "-fPIC",
        str(folder / "host.cpp"),
        "-o",
        str(folder / "host.so"),
    ]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(folder / "host.so"))


@pytest.mark.skipif(CLANG is None, reason="no clang for this machine")
@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=lambda f: f.name)
def test_cpp_of_programs_is_the_meaning(f: Function, tmp_path_factory: pytest.TempPathFactory) -> None:
    library = host_library(tmp_path_factory.getbasetemp())
    arguments = np.ascontiguousarray(sample(f)[:, ::16])
    with np.errstate(invalid="ignore"):
        given, found = np.ascontiguousarray(arguments.astype(np.float64)), np.empty(arguments.shape[1])
    pointer = np.ctypeslib.ndpointer(np.float64)
    function = library[f"f_{f.name}"]
    function.argtypes = [pointer, pointer, ctypes.c_int]
    function(given, found, arguments.shape[1])
    close(f, found, arguments)


# ---------------------------------------------------------------- slopes


@pytest.mark.parametrize("f", [f for f in FUNCTIONS.values() if not f.predicate], ids=lambda f: f.name)
def test_slopes_are_those_of_the_meaning(f: Function) -> None:
    """Against differences in f64, away from kinks."""
    generator = torch.Generator().manual_seed(SEED)
    x = [torch.randn(2000, generator=generator).double() * 2 for _ in range(f.arity)]
    if (f.fast_of or f.name) in ("log", "log2", "log1p", "sqrt", "rsqrt", "pow"):
        x[0] = x[0].abs() + 0.01
    if f.takes == "choice":
        x[0] = x[0] > 0
    step = 1e-6
    for i, slope in enumerate(f.slopes(*x)):
        if i < (f.takes == "choice") or f.takes == "place":
            continue
        up, down = ([v + sign * step if j == i else v for j, v in enumerate(x)] for sign in (1, -1))
        found = (f.meaning(*up) - f.meaning(*down)).abs() / (2 * step)
        near = torch.isclose(found, slope.expand(found.shape), rtol=1e-4, atol=1e-6)
        assert near.double().mean() > 0.998, (f.name, i)  # `%` has kinks everywhere


@pytest.mark.parametrize(
    "f", [f for f in FUNCTIONS.values() if f.predicate and f.takes == "number"], ids=lambda f: f.name
)
def test_an_error_that_reaches_the_other_side_turns_a_comparison(f: Function) -> None:
    a, b = torch.tensor([1.0, 1.0, 2.0]).double(), torch.tensor([2.0, 1.0, -2.0]).double()
    left, right = f.slopes(a, b)
    assert left.tolist() == right.tolist() == [1.0, float("inf"), 0.25]


# ---------------------------------------------------------------- the generator


def test_the_generator_gives_the_published_numbers() -> None:
    """Known answers of Philox 4x32-10 (Random123, examples/kat_vectors): counter, key, result."""
    known = [
        ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ]
    for row in known:
        counter, key, result = ([torch.tensor(int(word, 16)) for word in part.split()] for part in row)
        assert [int(word) for word in philox(counter, key)] == [int(word) for word in result]


def test_random_numbers_are_uniform_and_unlike_their_neighbours() -> None:
    place = torch.arange(1 << 16)
    rows = [uniform(torch.tensor(seed), place, *(torch.tensor(0),) * 3) for seed in (1.0, 2.0)]
    for row in rows:
        assert row.min() >= 0 and row.max() < 1
        share = torch.histc(row.float(), 16, 0, 1) / len(row)
        assert (share - 1 / 16).abs().max() < 0.005
    assert abs(float(torch.corrcoef(torch.stack(rows))[0, 1])) < 0.02
    assert abs(float(torch.corrcoef(torch.stack([rows[0][1:], rows[0][:-1]]))[0, 1])) < 0.02


@pytest.mark.parametrize("back_end", BACK_ENDS)
def test_what_needs_no_parentheses_is_one_call(back_end: str) -> None:
    calls = [f.cpp[back_end] for f in FUNCTIONS.values() if f.calls(back_end)]
    assert len(calls) > 15
    for text in calls:
        inside = text[text.index("(") + 1 : -1]
        depths = list(accumulate((c == "(") - (c == ")") for c in inside))
        assert re.fullmatch(r"[\w:]+\(", text[: text.index("(") + 1]) and min(depths) >= 0 and depths[-1] == 0, text


# ---------------------------------------------------------------- fast forms


def test_fast_forms_are_functions_of_their_own() -> None:
    assert set(FAST) == {"tanh", "sigmoid", "silu", "gelu", "gelu_tanh", "log", "log2", "sqrt", "pow"}
    for of, name in FAST.items():
        fast, plain = FUNCTIONS[name], FUNCTIONS[of]
        assert fast.word == f"fast {of}" and fast.cpp != plain.cpp
        assert fast.helpers[HOPPER] != plain.helpers.get(HOPPER)


def test_instructions_of_the_machine_code_are_those_of_the_page() -> None:
    """Rewritten by `python benchmarks/function_costs.py gfx942`."""
    names = ("tanh", "fast_tanh", "gelu", "fast_gelu", "pow", "fast_pow")
    for name in names:
        counted = costs()["gfx942"][name]
        assert instructions(name) == (counted["instructions"], counted["transcendental"]), name


# ---------------------------------------------------------------- the page


def test_the_page_of_functions_is_theirs() -> None:
    """Rewritten by `python -m tkgen.ir.functions.page docs/functions.md`."""
    assert (Path(__file__).parents[2] / "docs" / "functions.md").read_text(encoding="utf-8") == page()
