"""Specs that an earlier calculus or lowering accepted although their machine code was wrong, with right neighbours.

`RIGHT` are accepted now and must be right: on every order of the waves the numbers agree, and the referee has nothing
to say; so must their neighbours, one edit away. Some of them had been refused although they are right. `REFUSED` must
not be accepted; their machine code, built all the same, is wrong, so the refusal is no false alarm; and one edit makes
each of them accepted and right. The last tests take out what holds the machine code to the proof, a construct at a
time, and see the referee find the race that comes in.

Stream-K of more steps than an int counts, at full size and one size less: `tests/lower/test_sizes.py`; names:
`tests/lower/test_names.py`; the tolerance, NaN and factors of zero: `tests/numerics`; where the referee erred:
`tests/sanitize/test_pairs.py`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tkgen.api import Spec, load
from tkgen.backends.cdna.kittens import include_dir
from tkgen.backends.cdna.lower.render import lower
from tkgen.build import Build
from tkgen.checks.families import check
from tkgen.diagnostics import Severity, SpecError
from tkgen.emulate import interleavings
from tkgen.execute.arguments import SizeError, check_scalars
from tkgen.execute.launch import Run, run
from tkgen.schedule.plan import Plan
from tkgen.tile.program import Drain, Part
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.discover import find_compiler
from tkgen.toolchain.metadata import read_resources

SPECS = Path(__file__).parent / "specs"

# name -> (target, sizes of dynamic dimensions, the edit that makes a neighbour)
RIGHT: dict[str, tuple[str, dict[str, int], tuple[str, str]]] = {
    "masked_dynamic_K": ("gfx942", {"K": 192}, ("buffers 1", "buffers 2")),
    "masked_dynamic_eight_wave": (
        "gfx942", {"M": 256, "N": 256, "K": 192}, ("slice 32 buffers 2", "slice 32"),
    ),
    "masked_dynamic_sunk_reads": ("gfx90a", {"M": 200}, ("slice 32 buffers 2", "slice 32")),
    "partial_multiply": ("gfx942", {}, ("multiply (0, *)", "multiply (0, *)  wait lds 0")),
    "reads_reordered": ("gfx942", {}, ("multiply (1, *)", "multiply (1, *)  wait lds 0")),
    "fix_breaks": ("gfx942", {}, ("  wait lds 0", "")),
    "phase_waits_auto_direct": ("gfx950", {}, ("  phase waves 4..7 by 1 cluster\n", "")),
    "phase_waits_auto_random": ("gfx950", {}, ("  phase waves 4..7 by 1 cluster\n", "")),
    "mfma_sinks_below_fence": ("gfx90a", {}, ("  unroll 2\n", "")),
    "scalar_named_K_STEP": ("gfx942", {"K": 64}, ("= 64.0", "= 0.5")),
    "scalar_named_THREADS": ("gfx942", {}, ("= 1.0", "= 0.5")),
    "clamped_dynamic_ragged": ("gfx942", {"M": 104, "N": 72}, ("buffers 2", "buffers 1")),
    "direct_buffers_3_2_toolchain": ("gfx950", {}, ("buffers 3", "buffers 2")),
    "sgpr_spills_to_lanes_E405": ("gfx950", {}, ("unroll 3", "unroll 1")),
    "scalar_no_default": ("gfx942", {}, ("scalar beta : f32", "scalar beta : f32 = 0.5")),
}  # fmt: skip
# name -> (target, code, the edit that makes it right)
REFUSED = {
    "wait_lds_count_slice16": ("gfx942", "E304", ("wait lds 2", "wait lds 0")),
    "direct_collective_load": ("gfx950", "E304", ("read B  load A[k+1]", "read B  load A[k+1]  wait lds 0")),
    "wait_negative": ("gfx950", "E216", ("wait vm -1", "wait vm 0")),
}


Specs = Callable[..., Spec]


@pytest.fixture
def spec(tmp_path: Path) -> Specs:
    """spec(name, target, old, new): the spec of that name, with one text replaced by another."""

    def made(name: str, target: str, *edit: str) -> Spec:
        text = (SPECS / f"{name}.tk").read_text()
        if edit:
            assert text.count(edit[0]) == 1
            text = text.replace(*edit)
        path = tmp_path / f"{name}.tk"
        path.write_text(text)
        return load(path, target=target)

    return made


def built(
    made: Spec, plan: Plan | None = None, edit: tuple[str, str] | None = None, headers: Path | None = None
) -> Build:
    """The build of a spec, checks or no checks; of another plan, or with its C++ edited, or that of its headers.

    `headers` is where edited ones are to be.
    """
    made = made if plan is None else replace(made, fixed_plan=plan)
    source = lower(made.plan, made.target.name, str(made.path)).text
    if edit and headers:
        shutil.copytree(include_dir(), headers)
        of_tkgen = [path for path in headers.rglob("tkgen/*.cuh") if edit[0] in path.read_text()]
        assert of_tkgen
        for path in of_tkgen:
            path.write_text(path.read_text().replace(*edit))
    elif edit:
        assert edit[0] in source
        source = source.replace(*edit)
    compiler = find_compiler(made.target)
    result = compile_device(source, made.target, compiler, include_dirs=[headers or include_dir()])
    assert result.asm is not None and result.hsaco is not None
    resources = next(iter(read_resources(result.hsaco).values()))
    return Build(made, compiler, result.asm, result.hsaco, resources, None, result.seconds, False)


def runs(build: Build, sizes: dict[str, int], orders: int = 3) -> list[Run]:
    scalars = check_scalars(build.spec.program)
    return [run(build, extents=sizes, scalars=scalars, order=order) for order in interleavings(orders)]


def errors(made: Spec) -> set[str]:
    return {d.code for d in check(made.plan, made.target) if d.severity is Severity.ERROR}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_accepted_is_right_and_so_is_its_neighbour(name: str, spec: Specs) -> None:
    target, sizes, edit = RIGHT[name]
    for made in (spec(name, target), spec(name, target, *edit)):
        assert not errors(made)
        assert all(each.ok for each in runs(built(made), sizes)), made.kernel.span.file.text


def test_every_spec_of_the_folder_is_tried() -> None:
    assert {path.stem for path in SPECS.glob("*.tk")} == {*RIGHT, *REFUSED}


def test_ragged_rows_that_clamping_cannot_read_are_refused_at_launch(spec: Specs) -> None:
    """Rows are read in chunks of 8: 104 are right, 100 are not."""
    build = built(spec("clamped_dynamic_ragged", "gfx942"))
    with pytest.raises(SizeError, match="M must be a multiple of 8"):
        runs(build, {"M": 100, "N": 104})


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_refused_and_its_neighbour_right(name: str, spec: Specs) -> None:
    target, code, edit = REFUSED[name]
    with pytest.raises(SpecError) as caught:
        spec(name, target).check()
    assert code in {d.code for d in caught.value.diagnostics}
    neighbour = spec(name, target, *edit)
    assert not errors(neighbour)
    assert all(each.ok for each in runs(built(neighbour), {}))


@pytest.mark.parametrize("name", ["wait_lds_count_slice16", "direct_collective_load"])
def test_the_refused_is_wrong_indeed(name: str, spec: Specs) -> None:
    assert not any(each.ok for each in runs(built(spec(name, REFUSED[name][0])), {}))


def test_a_fix_leaves_the_kernel_right(spec: Specs) -> None:
    """The wait that W302 calls needless may go: the barrier after the multiply then has its own wait."""
    made = spec("fix_breaks", "gfx942", "  wait lds 0", "")
    assert not errors(made)
    waits = [p for p in made.plan.waves[0].tiles.body if isinstance(p, Drain)]
    assert [(op.stream, op.count, op.automatic) for op in waits] == [("lds", 0, True)]


def test_without_the_pins_reads_sink_below_barriers(spec: Specs, tmp_path: Path) -> None:
    made = spec("masked_dynamic_K", "gfx942")
    loose = built(made, edit=(' : : : "memory"', ""), headers=tmp_path / "include")
    assert not any(each.ok for each in runs(loose, {"K": 192}))


def test_without_the_wait_in_front_of_a_barrier_multiplies_take_their_reads_below_it(spec: Specs) -> None:
    made = spec("mfma_sinks_below_fence", "gfx90a")
    if not find_compiler(made.target).version.startswith("22."):
        pytest.skip("seen with clang 22; another compiler may leave the multiplies where they are")
    plan = made.plan
    for part in Part:
        plan = plan.with_ops("waves", part, tuple(p for p in plan.waves[0].ops(part) if not isinstance(p, Drain)))
    assert plan != made.plan
    assert "E304" in {d.code for d in check(plan, made.target)}
    assert not any(each.ok for each in runs(built(made, plan), {}))


def test_waits_of_one_role_are_the_same_in_every_phase(spec: Specs) -> None:
    """The C++ has one program for a role; a plan in which phases differ is none that can be lowered."""
    made = spec("phase_waits_auto_direct", "gfx950")
    early, late = made.plan.waves
    assert early.parts == late.parts
    other = replace(made.plan, waves=(early, replace(late, behind=late.behind[1:])))
    with pytest.raises(ValueError, match="share one program"):
        lower(other, "gfx950")
