"""Spec text to generated text, for the tests of lowering."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tkgen.backends.cdna.kittens import include_dir
from tkgen.backends.cdna.lower import Source, lower
from tkgen.ir.program import matrix_program as resolve
from tkgen.schedule import Plan, plan
from tkgen.source import SourceFile
from tkgen.syntax.parser import parse, parse_path
from tkgen.targets import load_target
from tkgen.toolchain.compile import CompileResult, compile_device
from tkgen.toolchain.discover import find_compiler

SPECS = Path(__file__).parents[2] / "specs"
NAMES = sorted(path.stem for path in SPECS.glob("*.tk"))


def spec_plan(name: str, defines: Mapping[str, int | None] | None = None) -> Plan:
    """One of the specs, resolved and scheduled."""
    return _spec_plan(name, tuple((defines or {}).items()))


@cache
def _spec_plan(name: str, defines: tuple[tuple[str, int | None], ...]) -> Plan:
    return plan(resolve(parse_path(SPECS / f"{name}.tk", [SPECS]), dict(defines)))


@cache
def spec_source(name: str) -> Source:
    """What one of the specs lowers to for the first of its targets."""
    schedule = spec_plan(name)
    return lower(schedule, target_of(schedule), f"{name}.tk")


def target_of(schedule: Plan) -> str:
    """The first target that a spec names."""
    return next(iter(schedule.program.targets), "gfx942")


def planned(text: str, defines: Mapping[str, int | None] | None = None) -> Plan:
    return plan(resolve(parse(SourceFile("test.tk", text)), defines))


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
