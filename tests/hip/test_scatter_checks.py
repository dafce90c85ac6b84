"""`NAME_check` of kernels that store to computed positions, on the emulated GPU: right, or wrong where these are."""

from __future__ import annotations

import sys

import pytest
import scatter_cases
import scattered_product_cases
from sampling import only

from tkgen import load
from tkgen.backends.cdna import kittens
from tkgen.backends.cdna.lower.harness import harness_cpp, harness_python
from tkgen.targets import load_target
from tkgen.toolchain.discover import find_compiler
from tkgen.toolchain.hip import find_hip
from tkgen.toolchain.module import build_module, missing_for_module

CASES = {f"{kind}: {case.name}": case for kind, cases in (("rows", scatter_cases.CASES),
         ("products", scattered_product_cases.CASES)) for case in cases}  # fmt: skip
QUICK = ["--repeats", "1", "--warmup", "0"]


def of(name):
    """A case's checked spec, what its check is made of, and the options of that."""
    case = CASES[name]
    spec = load(case.text, target="gfx942").check()
    sizes = getattr(case, "sizes", {})
    options = [word for n, size in sizes.items() for word in (f"--{n}", str(size))]
    return spec, spec.plan or spec.program, [*QUICK, *options]


def program(compiled, ended, name, old="", new=""):
    """The end of the check program of a case, with another text in its kernel."""
    spec, checked, options = of(name)
    assert old in spec.text, spec.text
    include = f'#include "{spec.name}.cpp"'
    body = harness_cpp(checked, "gfx942")
    assert include in body
    body = body.replace(include, spec.text.replace(old, new) if old else spec.text)
    flags = ("-std=c++20", f"-D{load_target('gfx942').kittens_define}", f"-I{kittens.include_dir()}",
             "-Wno-unknown-pragmas")  # fmt: skip
    return ended(compiled(body, "gfx942", flags=flags), *options, target="gfx942")


@pytest.mark.parametrize("name", only(CASES, ["products: experts", "rows: rows"]))
def test_the_check_program(compiled, ended, name):
    got = program(compiled, ended, name)
    assert got.status == 0 and "WRONG" not in got.out and "right" in got.out, got


MUTANTS = {
    "a value in place of a sum": ("products: experts", "tk::add_to(", "tk::set_to<0>("),
    "the row of another token": ("products: experts", "size_t(ROW__at[r])", "size_t(ROW__at[r] ^ 1)"),
    "a neighbouring position": ("products: distinct rows", "size_t(ROW__at[r])", "size_t(ROW__at[r] ^ 1)"),
    "no shift": ("products: the next row", "size_t((row + 1))", "size_t(row)"),
    "the least in place of the largest": ("products: largest and least", "tk::max_to(", "tk::min_to("),
}


@pytest.mark.parametrize("mutant", only(MUTANTS, ["a value in place of a sum"]))
def test_the_check_program_finds_mutants(compiled, ended, mutant):
    got = program(compiled, ended, *MUTANTS[mutant])
    assert got.status == 1 and "WRONG" in got.out, got


def script(ended, folder, name, old="", new=""):
    """The end of the script of a case, with another text in its module."""
    spec, checked, options = of(name)
    compiler = find_compiler(spec.target)
    if missing := missing_for_module(compiler, find_hip()):
        pytest.skip("; ".join(f"{m.what} is missing: {m.install}" for m in missing))
    text = spec.text.replace(old, new) if old else spec.text
    build_module(text, spec.name, spec.target, compiler, folder, include_dirs=[kittens.include_dir()])
    (folder / f"{spec.name}_check.py").write_text(harness_python(checked, "gfx942"))
    return ended(sys.executable, str(folder / f"{spec.name}_check.py"), *options, target="gfx942")


@pytest.mark.parametrize("name", only(CASES, ["products: largest and least"]))
def test_the_script(ended, tmp_path, name):
    got = script(ended, tmp_path, name)
    assert got.status == 0 and "WRONG" not in got.out and "right" in got.out, got


@pytest.mark.slow  # by default the check programs find mutants, and a script finds a kernel right
@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_script_finds_mutants(ended, tmp_path, mutant):
    got = script(ended, tmp_path, *MUTANTS[mutant])
    assert got.status == 1 and "WRONG" in got.out, got
