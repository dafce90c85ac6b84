"""Reductions along several axes, and to one number: their meaning beside plain torch, their code on each machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch
from axes_cases import CASES, NORM, Case
from sampling import only
from torch import Tensor

from tkgen.api import load
from tkgen.backends.cdna import kittens
from tkgen.backends.hopper.host.run import run as run_on_host
from tkgen.diagnostics import SpecError
from tkgen.diagnostics.fixes import apply_fixes
from tkgen.execute.compare import Inputs, compare, random_inputs
from tkgen.execute.launch import run
from tkgen.ir.meaning import evaluate
from tkgen.proof.execution import Order
from tkgen.schedule.row_form import Way
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.metadata import read_resources
from tkgen.verify import verify

BY_NAME = {case.name: case for case in CASES}
HURTING = {"infinite": torch.inf, "not a number": torch.nan}


def inputs_of(case: Case, filler: float | None = None) -> dict[str, Tensor]:
    """Normal numbers; with a filler, it is the first and the last number of X."""
    spec = load(case.text).check()
    given = random_inputs(spec.launch(case.sizes or None), kind=Inputs.NORMAL)
    if filler is not None:
        given["X"].view(-1)[[0, -1]] = filler
    return given


def assert_meant(case: Case, given: Mapping[str, Tensor]) -> None:
    """The equations mean what torch computes: NaN and infinity where it has them."""
    kernel = load(case.text).check().program.kernel
    found = evaluate(kernel, given, {}, case.sizes)["Y"].value
    expected = case.reference({name: x.double() for name, x in given.items()})
    assert found.shape == expected.shape or found.shape == expected.flatten(0, 1).shape  # as flattened
    torch.testing.assert_close(found, expected.reshape(found.shape), rtol=1e-6, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_meaning_is_what_torch_computes(case: Case) -> None:
    assert_meant(case, inputs_of(case))


@pytest.mark.parametrize("filler", HURTING.values(), ids=HURTING)
def test_numbers_that_hurt(filler: float) -> None:
    """A NaN or infinity reaches all that it should, and nothing else; maxima ignore a NaN."""
    for name in ("group norm of odd sizes", "variance of channels between others", "one number of a matrix"):
        assert_meant(BY_NAME[name], inputs_of(BY_NAME[name], filler))


def test_the_form_that_lanes_have_means_the_same() -> None:
    """The kernel with a flattened axis, evaluated in torch, stores what the kernel of the spec does."""
    tried = 0
    for case in CASES:
        spec = load(case.text, target="gfx942").check()
        joined = spec.layout.kernel
        if any(axis.parts for axis in joined.axes) and not any(a.parts for a in spec.program.kernel.axes):
            given, tried = inputs_of(case), tried + 1
            flat = {a.dim.name: a.dim.size or 0 for a in joined.axes if a.parts}
            found = evaluate(joined, given, {}, flat)["Y"].value
            torch.testing.assert_close(found, evaluate(spec.program.kernel, given)["Y"].value, rtol=1e-9, atol=1e-9)
    assert tried >= 7


SOME = [
    BY_NAME[name] for name in (
        "group norm of odd sizes", "group norm of a chunk that parts of channels share",
        "two loops over two axes, weights of each", "transposed beside, flipped along one", "one number of a matrix",
        "parts of a flattened loop whose tiles begin anywhere", "two loops at affine indices",
    )
]  # fmt: skip


@pytest.mark.parametrize("case", only(CASES, SOME), ids=str)
def test_machine_code(case: Case) -> None:
    """The code of gfx942 stores what the equations mean, touches nothing outside of tensors and spills nothing."""
    build = load(case.text, target="gfx942").check().build().check()
    assert build.resources.clean
    for kind in (Inputs.NORMAL, Inputs.EXACT):
        tried = run(build, extents=case.sizes or None, kind=kind)
        assert tried.ok, tried.failure


@pytest.mark.parametrize("case", only(CASES, [SOME[0]]), ids=str)
@pytest.mark.parametrize("target", ["gfx90a", "gfx950"])
def test_machine_code_of_other_machines(case: Case, target: str) -> None:
    build = load(case.text, target=target).check().build().check()
    tried = run(build, extents=case.sizes or None)
    assert tried.ok, tried.failure


@pytest.mark.parametrize("case", only(CASES, [SOME[0], SOME[2]]), ids=str)
def test_code_for_hopper(case: Case) -> None:
    """The C++ for sm_90a, executed on the CPU, and the model of its schedule."""
    spec = load(case.text, target="sm_90a").check()
    launch = spec.launch(case.sizes or None)
    given = random_inputs(launch, kind=Inputs.NORMAL)
    meant = evaluate(spec.program.kernel, given, {}, launch.extents, "hopper")["Y"]
    for made in (
        run_on_host(spec, launch, given, {}, Order()),
        spec.modelled(launch, given, {}, Order()),
    ):
        assert not made.findings
        assert compare(made.outputs["Y"].reshape(meant.value.shape), meant.value, meant.bound).right


MUTANTS = {
    "a weight of the next channel": ("group norm", "uint32_t(CHANNELS_HIDDEN__in) / 60", "1"),
    "a part that begins anew elsewhere": ("two loops over two axes, weights of each", " % 40", " % 36"),
    "elements of the next tile count": ("one number of a matrix", "m_N_in < 336 && ", ""),
    "a sum is of one axis": ("group norm", "/ 240.0f", "/ 60.0f"),
}  # fmt: skip


@pytest.mark.parametrize("mutant", only(MUTANTS, ["a weight of the next channel", "elements of the next tile count"]))
def test_mutants(mutant: str) -> None:
    """Code that differs in a position, a bound or a count does not store what is meant."""
    name, old, new = MUTANTS[mutant]
    build = load(BY_NAME[name].text, target="gfx942").check().build(machine_check=False)
    text = build.spec.source.text
    assert old in text, text
    made = compile_device(text.replace(old, new), build.spec.target, build.compiler,
                          include_dirs=[kittens.include_dir()], source_name="mutant.cpp")  # fmt: skip
    assert made.asm is not None and made.hsaco is not None
    (resources,) = read_resources(made.hsaco).values()
    assert run(build, kind=Inputs.NORMAL).ok
    assert not run(replace(build, asm=made.asm, hsaco=made.hsaco, resources=resources), kind=Inputs.NORMAL).ok


@pytest.mark.slow
def test_verified() -> None:
    """Over finite fields, too, the machine code is what the equations say."""
    for name in ("group norm", "one number of a matrix", "transposed beside, flipped along one"):
        assert verify(load(BY_NAME[name].text, target="gfx942").check().build(machine_check=False)).ok


def test_weights_of_channels_are_read_once_for_a_chunk() -> None:
    layout = load(BY_NAME["group norm"].text, target="gfx942").check().layout
    ways = {load.source.tensor.name: layout.way(load.source) for load in layout.kernel.body if hasattr(load, "source")}
    assert ways == {"X": Way.ALONG, "W": Way.CHUNK, "B": Way.CHUNK}
    assert layout.chunk == 4
    layout = load(BY_NAME["group norm of odd sizes"].text, target="gfx942").check().layout
    assert layout.chunk == 1


def test_adjacent_axes_are_one_row() -> None:
    """5 x 48 elements next to each other are read in chunks of 16 bytes, as a row of 240 is."""
    text = NORM.format(channels=5, hidden=12, dtype="bf16", waves=1)
    assert load(text, target="gfx942").check().layout.chunk == 4  # 60 elements are no multiple of 8
    text = NORM.format(channels=6, hidden=12, dtype="bf16", waves=1)
    layout = load(text, target="gfx942").check().layout
    assert layout.chunk == 8


MISTAKES = {
    "one axis and both": (
        "  x = X[b, g]\n", "  x = X[b, g] - rowmean(X[b, g])\n", "E406",
        "a reduction along `HIDDEN`, but others or a loop also along `CHANNELS`: lanes divide all of these "
        "axes together",
    ),
    "a scan beside": (
        "  x = X[b, g]\n", "  x = cumsum(X[b, g])\n", "E406",
        "loops, reductions and scans along `CHANNELS` and `HIDDEN`: lanes can divide one axis only, "
        "and a scan goes along one",
    ),
    "a position along one": (
        "  x = X[b, g]\n", "  x = where(coordinate(HIDDEN) < 3, X[b, g], 0)\n", "E406",
        "the position along `HIDDEN` is used, but lanes divide `CHANNELS` and `HIDDEN` together, "
        "and know only the position along both",
    ),
    "a result along one": (
        "  Y[b, g] =", "  Z[b, g] = W[g] * 2\n  Y[b, g] =", "E406",
        "`Z` is stored along `CHANNELS` and not along `HIDDEN`, but lanes divide these axes "
        "together",
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(mistake: str) -> None:
    right, wrong, code, message = MISTAKES[mistake]
    text = NORM.format(channels=4, hidden=60, dtype="f32", waves=1).replace(right, wrong)
    text = text.replace("  over", "  global Z : f32[BATCH, GROUPS, CHANNELS]\n  over") if "Z[" in wrong else text
    (found, *_) = load(text, target="gfx942").diagnostics
    assert (found.code, found.message) == (code, message)


def test_dynamic_sizes_of_two_axes_say_what_to_do() -> None:
    text = BY_NAME["one number of a matrix"].text.replace("M = 70", "M = dynamic")
    (found, *_) = load(text, target="gfx942").diagnostics
    assert found.code == "E406"
    assert found.fix is not None
    assert "declare the tensor with one dimension" in found.fix.text


ONE = """kernel one
  dims M = 64
  global X : f32[M]
  global Y : f32[1]
  over m in M by 16
  Y[0] += X[m]
"""


def test_one_number_for_all_blocks_teaches_a_second_kernel() -> None:
    with pytest.raises(SpecError) as caught:
        load(ONE)
    (found,) = caught.value.diagnostics
    assert found.code == "E209"
    fixed = apply_fixes(ONE, [found])
    assert "  dims ONE = 1\n  global Y : f32[ONE]\n" in fixed
    with pytest.raises(SpecError) as caught:
        load(fixed)
    (found,) = caught.value.diagnostics
    assert found.code == "E226"
    assert "combine the results of blocks in no fixed order" in found.message
    assert found.fix is not None
    assert "`Y[0] = sum(P)`" in found.fix.text


def test_the_one_position_is_written_as_a_number() -> None:
    text = ONE.replace("f32[1]", "f32[ONE]").replace("M = 64", "M = 64, ONE = 1")
    text = text.replace("over m in M by 16", "over o in ONE by 1").replace("Y[0] += X[m]", "Y[o] = max(X)")
    with pytest.raises(SpecError) as caught:
        load(text)
    (found,) = caught.value.diagnostics
    assert found.code == "E225"
    fixed = apply_fixes(text, [found])
    assert "Y[0] = max(X)" in fixed
    assert load(fixed, target="gfx942").check().build().check().resources.clean
