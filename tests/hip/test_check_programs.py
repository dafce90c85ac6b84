"""`NAME_check` of every spec on every AMD GPU that accepts it: built at small sizes, and right on the emulated GPU."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("torch")

from sampling import only

from tkgen import load
from tkgen.backends.cdna import kittens
from tkgen.backends.cdna.lower.harness import Kernels, harness_cpp
from tkgen.execute.admitted import admitted, stated
from tkgen.execute.cases import size_cases
from tkgen.sequence import SequenceSpec
from tkgen.targets import load_target

ROOT = Path(__file__).parents[2]
TARGETS = ("gfx90a", "gfx942", "gfx950")
# Sizes of other specs are those of `tkgen test`. There queries see no key, and no token has all of its rows. One block
# alone adds to a gradient.
SIZES: Mapping[str, Mapping[str, int]] = {
    "attention/attention_backward_atomic": {"SETS": 1, "GROUP": 1, "LENGTH": 128},
    "attention/attention_mqa": {"BATCH": 1, "HEADS": 2, "LENGTH": 90, "KEYS": 200},
    "groups/moe": {"TOKENS": 150, "EXPERTS": 3, "D": 128, "HIDDEN": 128},
    "groups/moe_fp8": {"TOKENS": 150, "EXPERTS": 3, "D": 128, "HIDDEN": 128},
}
CASE = 2  # of `tkgen test`: the main loop of most kernels iterates three times


def accepted() -> list[tuple[str, str]]:
    """Every spec with each AMD target that accepts it, from the tables that `tests/specs` compares."""
    tables = {t: (ROOT / "tests/specs/acceptance" / f"{t}.txt").read_text(encoding="utf-8") for t in TARGETS}
    return [(name, t) for t, table in tables.items() for name in re.findall(r"(?m)^(\S+): accepted$", table)]


@cache
def sizes_of(name: str, target: str) -> dict[str, int]:
    """Small sizes that the spec admits."""
    path = ROOT / "specs" / f"{name}.tk"
    if name in SIZES:
        return dict(SIZES[name])
    spec = load(path, None, target).check()
    cases = size_cases(spec)
    found = admitted(cases[: CASE + 1][-1:], stated(spec), lambda s: load(path, s, target).check())
    ((sizes, refusal),) = found
    assert not refusal, refusal
    return sizes


def test_every_spec_is_there() -> None:
    """The tables have each spec once a target, so that this list is complete."""
    specs = {str(path.relative_to(ROOT / "specs").with_suffix("")) for path in (ROOT / "specs").rglob("*.tk")}
    kept = {name for name, _ in accepted()}
    assert kept <= specs
    assert all(name.startswith("hopper/") for name in specs - kept), specs - kept


SOME = ("attention/attention_backward_atomic-gfx90a", "low_precision/w8_decode-gfx942", "rows/softmax-gfx950")


@pytest.mark.parametrize("case", only([f"{name}-{target}" for name, target in accepted()], SOME))
def test_the_check_program(compiled, ended, case):
    """Its exit status is 0, it finds each output right, and none of its elements is left unchecked."""
    name, _, target = case.rpartition("-")
    path, sizes = ROOT / "specs" / f"{name}.tk", sizes_of(name, target)
    dynamic = {d.name for d in load(path, None, target).program.dims if d.size is None}
    spec = load(path, {n: size for n, size in sizes.items() if n not in dynamic}, target).check()
    checked = (
        Kernels(spec.name, tuple(k.plan or k.program for k in spec.kernels), spec.program.arguments)
        if isinstance(spec, SequenceSpec)
        else spec.plan or spec.program
    )
    gpu = load_target(target)
    body = harness_cpp(checked, target).replace(f'#include "{spec.name}.cpp"', spec.text)
    flags = ("-std=c++20", f"-D{gpu.kittens_define}", f"-I{kittens.include_dir()}", "-Wno-unknown-pragmas")
    options = [word for n in sizes if n in dynamic for word in (f"--{n}", str(sizes[n]))]
    got = ended(compiled(body, target, flags=flags), "--repeats", "1", "--warmup", "0", *options, target=target)
    assert got.status == 0 and "WRONG" not in got.out and "right" in got.out, got
