"""Every spec keeps its promises: it is proven, it compiles, and it reaches the numbers of its header."""

from __future__ import annotations

import re

import pytest
from planning import planned_file as planned
from sampling import sample
from spec_builds import NAMES, SPECS, Built, built_once, compiled, expectations, together

OTHERS = ["eight_wave", "at_b", "bias_gelu_bf16", "fp16", "fp32", "persistent", "staged", "tail"]  # also for gfx90a
# What the project promises to have; a spec that is renamed or dropped is missed here.
PROMISED = """four_wave four_wave_abt linear_grid grouped morton hilbert xcd persistent macro_tiles one_wave subtiles_16
single_buffer double_buffer deep_pipeline deep_pipeline_4 producer_consumer_4p8c producer_consumer_4p4c
producer_consumer_8p4c producer_consumer_1p8c register_double_buffer eight_wave load_and_compute_waves
lds_double_buffer_8 at_b at_bt alpha_beta bias_gelu_bf16 fp16 fp32 tail dynamic_sizes staged ping_pong"""


def text_of(name: str) -> str:
    return (SPECS / f"{name}.tk").read_text()


def without_comments(text: str) -> list[str]:
    return [word for line in text.splitlines() for word in line.split("#")[0].split()]


def test_every_promised_spec_is_there() -> None:
    assert set(PROMISED.split()) <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_form(name: str) -> None:
    lines = text_of(name).splitlines()
    assert 8 <= len(lines) <= 40
    assert all(len(line) <= 120 for line in lines)
    assert all(line.startswith("# ") for line in lines[:3])
    assert lines[3] == f"kernel {name}"
    assert {e.name for e in expectations(lines[2])} == {"waves", "barriers/step", "vgpr", "lds"}


@pytest.mark.parametrize("name", NAMES)
def test_proven(name: str) -> None:
    plan = planned(SPECS / f"{name}.tk")
    assert plan.conflicts() == []


def check_machine_code(built: Built) -> None:
    resources = built.resources
    assert resources.vgpr_spills == resources.sgpr_spills == resources.scratch_bytes == 0
    assert not resources.dynamic_stack
    assert built.function.flat_accesses == ()
    assert built.warnings == ""
    assert resources.max_workgroup == 64 * built.program.waves


@pytest.mark.parametrize("name", NAMES)
def test_machine_code(name: str) -> None:
    check_machine_code(built_once(name))


def test_machine_code_of_gfx90a() -> None:
    for built in together([SPECS / f"{name}.tk" for name in OTHERS], "gfx90a"):
        check_machine_code(built)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in NAMES if "\n  target " not in text_of(n)])
def test_machine_code_of_all_for_gfx90a(name: str) -> None:
    check_machine_code(compiled(SPECS / f"{name}.tk", "gfx90a"))


@pytest.mark.parametrize("name", NAMES)
def test_expected_numbers(name: str) -> None:
    built = built_once(name)
    for expectation in expectations(text_of(name).splitlines()[2]):
        assert expectation.holds(built.figure(expectation.name)), (expectation, built.figure(expectation.name))


@pytest.mark.parametrize("name", NAMES)
def test_barriers_of_the_machine_code(name: str) -> None:
    """The loop that multiplies holds as many barriers as the schedule says, and all of the step's MFMAs."""
    built = built_once(name)
    loop, plan, program = built.loop, built.plan, built.program
    assert loop is not None
    assert loop.barriers == plan.barriers_per_step * plan.shape.unroll
    tile, fragments = program.accumulator.tile, program.accumulator.fragments
    flops = len(program.products) * tile[0] * fragments[0] * tile[1] * fragments[1] * program.block[2]
    done = sum(count * _volume(shape) for shape, count in loop.mfma.items())
    assert done == flops * plan.shape.unroll


def _volume(shape: str) -> int:
    rows, cols, depth = re.match(r"(\d+)x(\d+)x(\d+)", shape).groups()  # type: ignore[union-attr]
    return int(rows) * int(cols) * int(depth)


def test_barriers_per_step_follow_from_the_buffers() -> None:
    """Two with one LDS buffer, one with more, none where there is one wave."""
    for name in NAMES:
        plan = planned(SPECS / f"{name}.tk")
        if plan.automatic:
            buffers = min(o.buffers for o in plan.program.operands)
            wanted = 0 if plan.program.waves == 1 else 2 if buffers == 1 else 1
            assert plan.barriers_per_step == wanted, name


def test_single_and_double_buffer_differ_in_one_word() -> None:
    single, double = (without_comments(text_of(f"{n}_buffer"))[2:] for n in ("single", "double"))
    assert [(a, b) for a, b in zip(single, double, strict=True) if a != b] == [("1", "2")]


def test_deep_pipelines_differ_in_one_word() -> None:
    three, four = (without_comments(text_of(n))[2:] for n in ("deep_pipeline", "deep_pipeline_4"))
    assert [(a, b) for a, b in zip(three, four, strict=True) if a != b] == [("3", "4")]


@pytest.mark.parametrize(
    ("name", "defines"),
    sample([
        ("eight_wave", {"M": 256, "N": 384, "K": 192}),
        ("eight_wave", {"M": 128, "N": 128, "K": 64}),
        ("double_buffer", {"M": None, "K": None}),
        ("register_double_buffer", {"K": None}),
        ("macro_tiles", {"ROWS": 256, "COLS": 256}),
        ("persistent", {"BLOCKS": 16, "M": 1024}),
        ("tail", {"M": 8191, "N": 8193, "K": 8189}),
        ("tail", {"M": None, "N": None, "K": None}),
        ("bias_gelu_bf16", {"TOKENS": None}),
        ("ping_pong", {"M": 256, "N": 256, "K": 128}),
        ("morton", {"N": 896}),
    ], 2, several=True),
)  # fmt: skip
def test_sizes_can_be_overridden(name: str, defines: dict[str, int | None]) -> None:
    built = compiled(SPECS / f"{name}.tk", defines=defines)
    assert built.plan.conflicts() == []
    assert built.resources.clean
    for dim in built.program.dims:
        if dim.name in defines:
            assert dim.size == defines[dim.name]
            assert (f"constexpr int DIM_{dim.name} = {dim.size};" in built.source) == (dim.size is not None)


@pytest.mark.parametrize("k", [64, 128, 192, 256, 320])
def test_short_loops_are_right(k: int) -> None:
    """As few K-steps as there are: prologue and epilogue overlap."""
    for name in ("eight_wave", "double_buffer", "register_double_buffer", "load_and_compute_waves", "staged"):
        plan = planned(SPECS / f"{name}.tk", {"K": k})
        assert plan.conflicts() == []
        assert plan.program.steps == k // 64
