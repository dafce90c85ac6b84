"""The verdict on machine code is that of exhaustive runs: for generated kernels, and for those broken on purpose."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from broken_code import FOLDER, compiled, exhaustive, spec_called, with_lines, without_one

import tkgen
import tkgen.emulate
from tkgen.build import Build
from tkgen.diagnostics.explain import page
from tkgen.machine_check import RIGHT, UNCHECKED, WRONG, Verdict, watch
from tkgen.machine_check.words import CODES
from tkgen.toolchain.cache import Cache

ROOT = Path(__file__).parents[2]
SPECS = sorted((ROOT / "specs").glob("*.tk"))
SAMPLE = ("eight_wave", "hk_ping_pong", "persistent", "stream_k", "dynamic_sizes", "alpha_beta", "tail_clamped")
OWN = ("collective", "direct", "persistent", "stream", "one_wave")


def verdict(build: Build) -> Verdict:
    return watch(build.spec, build.hsaco, build.resources.kernel)


def codes(build: Build) -> set[str]:
    return {d.code for d in verdict(build).diagnostics}


# ---------------------------------------------------------------- right kernels


@pytest.mark.parametrize("name", SAMPLE)
def test_no_false_alarm_at_full_size(name: str) -> None:
    found = verdict(compiled(tkgen.load(ROOT / "specs" / f"{name}.tk").check()))
    assert (found.outcome, found.reason) == (RIGHT, ""), found.diagnostics
    assert found.blocks and found.instructions


@pytest.mark.slow
@pytest.mark.parametrize("path", [p for p in SPECS if p.stem not in SAMPLE], ids=lambda p: p.stem)
def test_no_false_alarm_at_full_size_in_any_spec(path: Path) -> None:
    test_no_false_alarm_at_full_size(path.stem)


def test_65536_k_steps_of_16_are_watched() -> None:
    spec = tkgen.load(FOLDER / "collective.tk", {"K": 65536}).check()
    found = verdict(compiled(spec))
    assert found.outcome == RIGHT and found.steps == (2048,) and found.seconds < 20


LOOPS = {
    "collective": {"K": 16384},
    "direct": {"K": 16384},
    "stream": {"M": 1024, "N": 1024, "K": 8192},
    "persistent": {},
}


@pytest.mark.parametrize("name", LOOPS)
def test_passes_that_are_not_watched_again_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = compiled(tkgen.load(FOLDER / f"{name}.tk", LOOPS[name]).check())
    short = verdict(made)
    monkeypatch.setattr("tkgen.emulate.launch", partial(tkgen.emulate.launch, every_pass=True))
    assert replace(verdict(made), seconds=short.seconds) == short and short.outcome == RIGHT


@pytest.mark.slow
def test_a_stream_of_65536_cubed_is_watched_to_its_end() -> None:
    sizes = {"M": 65536, "N": 65536, "K": 65536}
    found = verdict(compiled(tkgen.load(ROOT / "specs" / "stream_k.tk", sizes).check()))
    assert found.outcome == RIGHT and found.instructions > 1_000_000_000


def test_a_block_that_is_too_long_to_watch_is_not_called_endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said not to be checked; what was found in it until then counts all the same."""
    monkeypatch.setattr("tkgen.machine_check.verdict.BUDGET", 1 << 20)
    spec = tkgen.load(FOLDER / "stream.tk", {"M": 16384, "N": 16384, "K": 16384}).check()
    found = verdict(compiled(spec))
    assert found.outcome == UNCHECKED and "K-steps goes on after the 1,048,576 instructions" in found.reason
    racing = verdict(compiled(spec, spec.source.text.replace("        tk::lds_barrier();", "")))
    assert racing.outcome == WRONG and "E321" in {d.code for d in racing.diagnostics}
    assert "E323" not in {d.code for d in racing.diagnostics}
    monkeypatch.setattr("tkgen.machine_check.verdict.BUDGET", 1 << 8)  # so few that short ones are endless, too
    assert codes(compiled(spec_called("collective"))) == {"E323"}


def test_code_that_decides_by_data_is_not_checked_and_not_called_wrong() -> None:
    """The run has no data and stops there; what was found until then counts all the same."""
    spec = spec_called("collective")
    decides = "    if (C_acc[0][0].tiles[0][0].data[0].x > 0) __builtin_amdgcn_s_sleep(1);\n    store(g.C"
    text = spec.source.text.replace("    store(g.C", decides, 1)
    found = verdict(compiled(spec, text))
    assert found.outcome == UNCHECKED and "depends on data, which this check runs without" in found.reason
    assert verdict(compiled(spec, text.replace("        tk::lds_barrier();", ""))).outcome == WRONG


def test_where_blocks_are_alike_it_is_found_out() -> None:
    assert verdict(compiled(spec_called("collective"))).alike
    assert not verdict(compiled(spec_called("persistent"))).alike  # how many tiles follow depends on the block


def test_blocks_that_stand_for_tiles_of_others_do_not_race() -> None:
    found = verdict(compiled(spec_called("ragged_persistent")))
    assert found.outcome == RIGHT and not found.alike, found.diagnostics


@pytest.mark.parametrize("name", ["two_arms", "selected_bytes", "lanes_without_a_piece"])
def test_addresses_in_registers_that_held_data_are_known(name: str) -> None:
    found = verdict(compiled(spec_called(name)))
    assert found.outcome == RIGHT, found.diagnostics


def test_no_access_loops_over_the_offsets_of_its_lanes() -> None:
    """clang held the offset, the same for all lanes, in a vector register, and went through the values of its lanes."""
    asm = compiled(spec_called("lanes_without_a_piece")).asm
    assert asm is not None and "s_cbranch_execz" in asm and "s_cbranch_execnz" not in asm


@pytest.mark.parametrize("name", ["two_ways_back", "late_product", "late_product_in_a_stream"])
def test_the_way_back_of_a_loop_that_may_be_passed_by_has_its_wait_states(name: str) -> None:
    spec = spec_called(name)
    assert "tk::begin_pass();" in spec.source.text
    assert verdict(compiled(spec)).outcome == RIGHT
    assert codes(compiled(spec, spec.source.text.replace("        tk::begin_pass();", ""))) == {"E322"}


# ---------------------------------------------------------------- broken ones


@pytest.mark.parametrize("name", OWN)
def test_each_barrier_and_wait_that_is_missed_is_found(name: str) -> None:
    """With one of them left out the verdict is what every block on data shows, whatever the order."""
    made = compiled(spec_called(name))
    assert not exhaustive(made) and verdict(made).outcome == RIGHT
    missed = 0
    for what, broken in without_one(made):
        wrong = bool(exhaustive(broken))
        assert (verdict(broken).outcome == WRONG) == wrong, f"without {what}"
        missed += wrong
    assert missed >= 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, small",
    [
        ("eight_wave", {"M": 512, "N": 256, "K": 256}),
        ("hk_ping_pong", {"M": 512, "N": 512, "K": 256}),
        ("producer_consumer_4p4c", {"M": 256, "N": 256, "K": 256}),
        ("staged", {"M": 256, "N": 256, "K": 256}),
        ("deep_pipeline", {"M": 256, "N": 256, "K": 256}),
        ("split_k", {"M": 128, "N": 128, "K": 2048}),
    ],
)
def test_each_barrier_and_wait_of_a_spec(name: str, small: dict[str, int | None]) -> None:
    made = compiled(tkgen.load(ROOT / "specs" / f"{name}.tk", small).check())
    for what, broken in without_one(made):
        assert (verdict(broken).outcome == WRONG) == bool(exhaustive(broken, orders=2)), f"without {what}"


def test_dynamic_sizes_are_watched_at_sizes_that_show_it() -> None:
    """One barrier or wait less: wrong where any of many sizes is, ragged ones and many K-steps among them."""
    made = compiled(spec_called("masked"))
    extents = [
        {"M": m, "N": n, "K": k} for (m, n), k in itertools.product([(64, 64), (65, 100)], [1, 32, 64, 95, 161, 416])
    ]
    assert not any(exhaustive(made, e, 1) for e in extents) and verdict(made).outcome == RIGHT
    for what, broken in itertools.islice(without_one(made), 0, None, 3):
        wrong = any(exhaustive(broken, e, 1) for e in extents)
        assert (verdict(broken).outcome == WRONG) == wrong, f"without {what}"


def test_runs_of_stream_k_of_any_length_are_watched() -> None:
    made = compiled(tkgen.load(FOLDER / "stream.tk", {"M": None, "N": None}).check())
    extents = [{"M": m, "N": n} for m, n in [(64, 64), (128, 128), (64, 192), (192, 192), (320, 320)]]
    assert not any(exhaustive(made, e, 1) for e in extents) and verdict(made).outcome == RIGHT
    for what, broken in itertools.islice(without_one(made), 0, None, 2):
        wrong = any(exhaustive(broken, e, 1) for e in extents)
        assert (verdict(broken).outcome == WRONG) == wrong, f"without {what}"


def test_a_race_between_two_tiles_of_a_block_is_found() -> None:
    """Without the barrier after the last K-step, a wave loads the next tile over what others still read."""
    spec = spec_called("persistent")
    lines = spec.source.text.split("\n")
    last = max(i for i, line in enumerate(lines) if line.strip() == "tk::lds_barrier();")
    found = verdict(compiled(spec, "\n".join([*lines[:last], *lines[last + 1 :]])))
    assert {d.code for d in found.diagnostics} == {"E321"}


def test_a_race_in_one_pass_of_thousands_is_found() -> None:
    spec = tkgen.load(FOLDER / "collective.tk", {"K": 16384}).check()
    whole = ["C_acc[0][0], A_r[0][0], B_r[0][0], C_acc[0][0]);"]
    multiply = [f"mma_ABt({whole[0]}", "tk::lds_barrier();"]
    source = with_lines(spec.source.text, multiply, [multiply[0], "if (k != 477) tk::lds_barrier();"])
    assert "E321" in codes(compiled(spec, source))


# ---------------------------------------------------------------- what is said


@pytest.mark.parametrize("code", sorted(CODES))
def test_the_examples_of_the_pages_are_true(code: str) -> None:
    (fails,), (passes,) = page(code).fails, page(code).passes
    spec = spec_called(passes.options[0])
    source = with_lines(spec.source.text, passes.text.splitlines(), fails.text.splitlines())
    assert codes(compiled(spec, source)) == {code}
    assert not codes(compiled(spec))


def test_a_moved_operation_is_named_in_the_lines_of_the_spec() -> None:
    """The reads of B stand after the barrier that was to come after them."""
    spec = spec_called("collective")
    read, multiply = (
        "tk::load(B_r[0][0], subtile_inplace<32, 32>(B_s, {wave_col, 0}));",
        "mma_ABt(C_acc[0][0], A_r[0][0], B_r[0][0], C_acc[0][0]);",
    )
    source = with_lines(
        spec.source.text, [read, multiply, "tk::lds_barrier();"], ["tk::lds_barrier();", read, multiply]
    )
    found = [d for d in verdict(compiled(spec, source)).diagnostics if "`read B" in d.message]
    assert found and all(d.code == "E321" for d in found)
    assert all(len(d.interleaving) == 2 and d.interleaving[0].agent.startswith("wave ") for d in found)
    assert found[0].message.startswith("the compiler moved `read B[0](0; 0)` below the barrier after")
    assert "`load B[1]` overwrites its tile" in found[0].message
    assert found[0].primary is not None and found[0].primary.span.line == 9  # `shared A, B buffers 1`
    assert any("in the plan after 1 and 1" in note for note in found[0].notes)


# ---------------------------------------------------------------- the cache


def test_a_verdict_is_kept_with_the_code_and_the_sizes(tmp_path: Path) -> None:
    made, store = compiled(spec_called("collective")), Cache(tmp_path)

    def again(build: Build) -> Verdict:
        return watch(build.spec, build.hsaco, build.resources.kernel, store)

    first, second = again(made), again(made)
    assert not first.cached and second.cached
    assert second == type(first)(**{**vars(first), "seconds": second.seconds, "cached": True})
    broken = next(b for _, b in without_one(made) if verdict(b).outcome == WRONG)
    assert again(broken).outcome == again(broken).outcome == WRONG
    for path in (p for p in tmp_path.rglob("*") if p.is_file()):
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert not again(made).cached
