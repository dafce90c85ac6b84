"""Spec text to generated text, for the tests of lowering."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from planning import planned, planned_file

from tkgen.backends.cdna.kittens import include_dir
from tkgen.backends.cdna.lower.origins import Source
from tkgen.backends.cdna.lower.render import lower
from tkgen.schedule.plan import Plan
from tkgen.targets import load_target
from tkgen.toolchain.compile import CompileResult, compile_device
from tkgen.toolchain.discover import find_compiler

SPECS = Path(__file__).parents[2] / "specs"
NAMES = sorted(path.stem for path in SPECS.glob("*.tk"))


def spec_plan(name: str, defines: Mapping[str, int | None] | None = None) -> Plan:
    """One of the specs, resolved and scheduled."""
    return planned_file(SPECS / f"{name}.tk", defines)


@cache
def spec_source(name: str) -> Source:
    """The source of one of the specs for the first of its targets."""
    schedule = spec_plan(name)
    return lower(schedule, schedule.target.name, f"{name}.tk")


def lowered(text: str, defines: Mapping[str, int | None] | None = None, target: str = "gfx942") -> str:
    return lower(planned(text, defines), target, "test.tk").text


def compiled(source: str, target: str = "gfx942") -> CompileResult:
    gpu = load_target(target)
    return compile_device(source, gpu, find_compiler(gpu), include_dirs=[include_dir()])


def gemm(
    body: str = "", *, name: str = "gemm", header: str = "", shape: str = "M = 256, N = 256, K = 256", a: str = "M, K",
    b: str = "N, K", dtype: str = "bf16", out: str = "f32", tile: str = "32 x 32", waves: str = "  waves 2 x 2\n",
    shared: str = "  shared A, B buffers 1\n", block: str = "128 x 128 step 32",
) -> str:  # fmt: skip
    """A small spec; `body` is added before the accumulator."""
    return (
        f"{header}kernel {name}\n  dims {shape}\n  global A : {dtype}[{a}]\n  global B : {dtype}[{b}]\n"
        f"  global C : {out}[M, N]\n  block {block}\n{waves}{shared}{body}  accumulate C : f32 tile {tile}\n  store C\n"
    )
