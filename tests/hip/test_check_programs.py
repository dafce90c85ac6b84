"""`NAME_check` of every spec on every AMD GPU that accepts it: built at small sizes, and right on the emulated GPU."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("torch")

from sampling import only

from tkgen import load
from tkgen.backends.cdna import kittens
from tkgen.backends.cdna.lower.harness import Checked, Kernels, harness_cpp, harness_python
from tkgen.backends.spec import AnySpec
from tkgen.emulate.program import emulated
from tkgen.execute.admitted import admitted, stated
from tkgen.execute.cases import size_cases
from tkgen.predict import predict
from tkgen.predict.launches import Times
from tkgen.sequence import SequenceSpec
from tkgen.targets import Target, load_target
from tkgen.toolchain.discover import find_compiler
from tkgen.toolchain.hip import find_hip
from tkgen.toolchain.module import build_module, missing_for_module

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


ALL = [f"{name}-{target}" for name, target in accepted()]
SOME = ("attention/attention_backward_atomic-gfx90a", "low_precision/w8_decode-gfx942", "rows/softmax-gfx950")


@dataclass(frozen=True)
class Case:
    """A spec at small sizes for a target, what its check is made of, and the options of that."""

    spec: AnySpec
    checked: Checked
    target: Target
    options: list[str]

    @classmethod
    def of(cls, case: str) -> Case:
        name, _, target = case.rpartition("-")
        path, sizes = ROOT / "specs" / f"{name}.tk", sizes_of(name, target)
        dynamic = {d.name for d in load(path, None, target).program.dims if d.size is None}
        spec = load(path, {n: size for n, size in sizes.items() if n not in dynamic}, target).check()
        plans = tuple(k.plan or k.program for k in spec.kernels)
        several = Kernels(spec.name, plans, spec.program.arguments) if isinstance(spec, SequenceSpec) else None
        options = [word for n in sizes if n in dynamic for word in (f"--{n}", str(sizes[n]))]
        return cls(spec, several or plans[0], load_target(target), ["--repeats", "1", "--warmup", "0", *options])


@pytest.mark.parametrize("case", only(ALL, SOME))
def test_the_check_program(compiled, ended, case):
    """Its exit status is 0, it finds each output right, and none of its elements is left unchecked."""
    found = Case.of(case)
    include = f'#include "{found.spec.name}.cpp"'
    body = harness_cpp(found.checked, found.target.name).replace(include, found.spec.text)
    flags = ("-std=c++20", f"-D{found.target.kittens_define}", f"-I{kittens.include_dir()}", "-Wno-unknown-pragmas")
    got = ended(compiled(body, found.target.name, flags=flags), *found.options, target=found.target.name)
    assert got.status == 0 and "WRONG" not in got.out and "right" in got.out, got


@pytest.mark.parametrize("name", ["mxfp6_rows", pytest.param("mxfp4_rows", marks=pytest.mark.slow)])
def test_floats_that_share_bytes_are_compared(compiled, ended, name):
    """The check of a spec finds the kernel of another one wrong, whose elements are half as large."""
    found = Case.of(f"quantise/{name}-gfx950")
    text = (ROOT / "specs" / "quantise" / f"{name}.tk").read_text(encoding="utf-8")
    assert text.count("= ldexp(x, -n)") == 1
    halved = load(text.replace("= ldexp(x, -n)", "= ldexp(x, -n - 1)"), sizes_of(f"quantise/{name}", "gfx950")).check()
    body = harness_cpp(found.checked, "gfx950").replace(f'#include "{name}.cpp"', halved.text)
    flags = ("-std=c++20", f"-D{found.target.kittens_define}", f"-I{kittens.include_dir()}", "-Wno-unknown-pragmas")
    got = ended(compiled(body, "gfx950", flags=flags), *found.options, target="gfx950")
    values, scales = got.out.split("SCALE")
    assert got.status == 1 and "WRONG" in values and "right" not in values and "right" in scales, got


@pytest.mark.parametrize("case", only(ALL, ("quantise/quantise_rows-gfx942",)))
def test_the_script(ended, tmp_path, case):
    """`NAME_check.py` beside the module says the same, of every element, with a torch that knows no AMD GPU."""
    found = Case.of(case)
    name, compiler = found.spec.name, find_compiler(found.target)
    if missing := missing_for_module(compiler, find_hip()):
        pytest.skip("; ".join(f"{m.what} is missing: {m.install}" for m in missing))
    build_module(found.spec.text, name, found.target, compiler, tmp_path, include_dirs=[kittens.include_dir()])
    (tmp_path / f"{name}_check.py").write_text(harness_python(found.checked, found.target.name))
    got = ended(sys.executable, str(tmp_path / f"{name}_check.py"), *found.options, target=found.target.name)
    assert got.status == 0 and "WRONG" not in got.out and "right" in got.out, got


@pytest.mark.parametrize("case", only(ALL, ("rows/softmax-gfx950",)))
def test_times_of_events_are_those_of_predict(compiled, ended, case):
    """`--times` knows the machine code alone, `tkgen predict` the spec, too: they agree within a factor."""
    found = Case.of(case)
    if found.target.timing is None:
        pytest.skip("no timing data for this target")
    include = f'#include "{found.spec.name}.cpp"'
    body = harness_cpp(found.checked, found.target.name).replace(include, found.spec.text)
    flags = ("-std=c++20", f"-D{found.target.kittens_define}", f"-I{kittens.include_dir()}", "-Wno-unknown-pragmas")
    program = compiled(body, found.target.name, flags=flags)
    got = ended(program, *found.options, target=found.target.name, launcher=emulated(timer=Times()))
    assert "times of events are predicted" in got.err
    shown = re.search(r"time +([\d.]+) ms", got.out)
    assert shown
    wanted = predict(found.spec.build(), sizes_of(*case.rsplit("-", 1))).seconds
    assert wanted / 2 < float(shown[1]) / 1e3 < 2 * wanted
