"""The facts of a report against what the specs say and what the machine code holds."""

from __future__ import annotations

import json
import re
import types
import typing
from collections import Counter
from dataclasses import fields, is_dataclass, replace
from itertools import pairwise
from pathlib import Path

import pytest
from report_specs import SPECS, spec_of

from tkgen.api import load
from tkgen.build import Build
from tkgen.predict import predict
from tkgen.predict.prediction import Part
from tkgen.remap import RemapCall, compose
from tkgen.remap.measure import panels_per_window
from tkgen.report import Facts, Prediction, facts, pictures, prediction, to_json
from tkgen.report.facts import headline
from tkgen.report.figures import figures, mix
from tkgen.report.hot import Hot
from tkgen.report.timeline import Timeline


def conforms(value: object, annotation: object) -> bool:
    """Return True if plain JSON data has the shape of an annotation of the facts."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return any(conforms(value, a) for a in args)
    if annotation is type(None):
        return value is None
    if is_dataclass(annotation) and isinstance(annotation, type):
        hints = typing.get_type_hints(annotation, localns={"Part": Part, "Timeline": Timeline, "Hot": Hot})
        names = [f.name for f in fields(annotation)]
        return isinstance(value, dict) and list(value) == names and all(conforms(value[n], hints[n]) for n in names)
    if origin is tuple:
        if len(args) == 2 and args[1] is ...:
            return isinstance(value, list) and all(conforms(v, args[0]) for v in value)
        return isinstance(value, list) and len(value) == len(args) and all(map(conforms, value, args))
    if annotation is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, typing.get_origin(annotation) or annotation)  # type: ignore[arg-type]


def round_trip(found: Facts) -> object:
    return json.loads(json.dumps(to_json(found)))


def test_json_has_the_shape_of_the_facts(eight_wave_facts: Facts, ping_pong: Facts) -> None:
    assert conforms(round_trip(eight_wave_facts), Facts)
    assert conforms(round_trip(ping_pong), Facts)
    assert not conforms(round_trip(replace(ping_pong, kernel=3)), Facts)  # type: ignore[arg-type]


EVERY = sorted(SPECS.glob("*.tk"))


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, id=p.stem, marks=() if i % 4 == 0 else pytest.mark.slow) for i, p in enumerate(EVERY)],
)
def test_every_spec_has_facts(path: Path) -> None:
    found = facts(load(path))
    own = found.ownership
    tiles = Counter((f.row, f.col) for f in own.fragments)
    assert set(tiles) == {(r, c) for r in range(len(own.rows)) for c in range(len(own.cols))}
    assert set(tiles.values()) == {1}
    assert {w for r in found.roles for w in r.waves} == set(range(found.problem.waves))
    if found.order.sequence:
        assert sorted(found.order.sequence) == list(range(found.order.rows * found.order.cols))
    assert all(link.covered != "nothing" for link in found.pipeline.links)
    drawn = set(re.findall(r'data-link="(\d+)"', pictures(found)["pipeline"]))
    assert drawn == {str(i) for i in range(len(found.pipeline.links))}


@pytest.mark.parametrize("k", [64, 128, 192, 256, None])
def test_short_and_dynamic_products(k: int | None) -> None:
    found = facts(spec_of("eight_wave", M=256, N=128, K=k))
    assert found.problem.sizes == (("M", 256), ("N", 128), ("K", k))
    loop = {op.segment for lane in found.pipeline.lanes for op in lane.ops}
    assert ("steady" in loop) == (k is None or k >= 192)
    assert ("epilogue" in loop) == ("steady" not in loop)


# ---------------------------------------------------------------- texts


def test_multiplies_link_down_to_their_instructions(eight_wave_facts: Facts) -> None:
    found = eight_wave_facts.texts
    accumulate = next(i for i, line in enumerate(found.spec, 1) if line.text.strip().startswith("accumulate"))
    cpp = {i for i, line in enumerate(found.cpp, 1) if accumulate in line.spec}
    assert {i for i, line in enumerate(found.cpp, 1) if "mma_ABt(" in line.text} <= cpp
    mfma = [line for line in found.isa if line.kind == "mfma"]
    assert mfma and all(set(line.cpp) <= cpp for line in mfma)


def test_loop_headers_belong_to_the_statement_in_them(eight_wave_facts: Facts) -> None:
    lines = eight_wave_facts.texts.cpp
    headers = [(a, b) for a, b in pairwise(lines) if a.text.strip().startswith("for (int j")]
    assert headers and all(header.spec == body.spec != () for header, body in headers)


def test_remap_lines_belong_to_the_remap_clause(eight_wave_facts: Facts) -> None:
    found = eight_wave_facts.texts
    remap = next(i for i, line in enumerate(found.spec, 1) if line.text.strip().startswith("remap"))
    assert all(line.spec == (remap,) for line in found.cpp if line.text.strip().startswith("const int xcd_"))


def test_instructions_are_those_of_the_machine_code(eight_wave: Build, eight_wave_facts: Facts) -> None:
    isa = eight_wave_facts.texts.isa
    assert len(isa) == len(eight_wave.function.instructions)
    assert eight_wave.main_loop is not None
    assert sum(line.loop for line in isa) == eight_wave.main_loop.total
    assert sum(line.loop and line.kind == "mfma" for line in isa) == eight_wave.main_loop.mfma_total
    labels = [line.label for line in isa if line.label]
    assert labels and not any(label.startswith(".Ltmp") for label in labels)


def _without_calls(build: Build) -> Build:
    """The build as a compiler gives it that does not say from where a function was inlined (clang before 21)."""
    asm = re.sub(r" @\[.*", "", build.asm)
    assert asm != build.asm
    return replace(build, asm=asm)


def test_code_without_the_places_of_calls_has_facts(eight_wave: Build, eight_wave_facts: Facts) -> None:
    found = facts(_without_calls(eight_wave))
    assert found.figures == eight_wave_facts.figures and found.mix == eight_wave_facts.mix
    assert facts(_without_calls(spec_of("producer_consumer_4p4c").build())).compiled  # its roles cannot be told apart


def test_lines_of_included_files_have_rows(tmp_path: Path) -> None:
    text = (SPECS / "four_wave.tk").read_text()
    at = text.index("  global A")
    (tmp_path / "tensors.tk").write_text(text[at : text.index("\n\n", at)].replace("  global", "global") + "\n")
    (tmp_path / "main.tk").write_text(text[:at] + '  include "tensors.tk"\n' + text[text.index("\n\n", at) :])
    found = facts(load(tmp_path / "main.tk")).texts
    rows = {i for i, line in enumerate(found.spec, 1) if line.file == "tensors.tk" and line.text.startswith("global A")}
    assert [found.spec[row - 1].number for row in rows] == [1]
    linked = [line.text.strip() for line in found.cpp if rows & set(line.spec)]
    assert linked == ["gl<bf16, 1, 1, DIM_M, DIM_K> A;  // spec:tensors.tk:1"]


def test_a_parameter_leads_to_what_it_decides() -> None:
    found = facts(spec_of("macro_tiles")).texts
    row = next(i for i, line in enumerate(found.spec, 1) if line.text.strip().startswith("param ROWS"))
    assert any("BLOCK_ROWS = " in line.text for line in found.cpp if row in line.spec)


@pytest.mark.parametrize("name", ["eight_wave", "ping_pong", "hk_12c4p_3", "split_k", "tail", "tunable"])
def test_every_clause_leads_to_cpp(name: str) -> None:
    found = facts(spec_of(name)).texts
    linked = {row for line in found.cpp for row in line.spec}
    silent = re.compile(r"\s*(#|$|kernel\b|schedule\b|target\b|allow\b)")
    assert not [
        line.text for row, line in enumerate(found.spec, 1) if row not in linked and not silent.match(line.text)
    ]


# ---------------------------------------------------------------- pictures' data


def test_interleaved_ownership_of_eight_wave(eight_wave_facts: Facts) -> None:
    own = eight_wave_facts.ownership
    for f in own.fragments:  # the spec: fragment (i, j) of a wave sits at (wave.row + 4 i, wave.col + 2 j)
        i, j = map(int, f.part.strip("()").split(", "))
        assert (f.row, f.col) == (f.wave // 2 + 4 * i, f.wave % 2 + 2 * j)
    a, b = own.reads
    assert a.readers[1] == (2, 3)
    assert b.readers[0] == b.readers[2] == (0, 2, 4, 6)
    assert (a.times_read, b.times_read) == (2, 4)


def test_producers_own_no_tile(producer_consumer: Facts) -> None:
    own = producer_consumer.ownership
    assert {f.wave for f in own.fragments} == {4, 5, 6, 7}
    producer, consumer = producer_consumer.roles
    assert (producer.waves, producer.work) == ((0, 1, 2, 3), "load")
    assert consumer.work == "zero, read, multiply, store"


def test_lanes_of_roles_run_side_by_side(producer_consumer: Facts) -> None:
    producer, consumer = producer_consumer.pipeline.lanes
    steady = {op.epoch for op in producer.ops if op.segment == "steady"}
    assert steady == {op.epoch for op in consumer.ops if op.segment == "steady"} == {1}
    assert [op.action for op in producer.ops if op.epoch == 1] == ["load", "load", "barrier"]


def test_phase_shift_moves_a_lane_by_one_epoch(ping_pong: Facts) -> None:
    first, second = ping_pong.pipeline.lanes
    assert (first.phase, second.phase) == (0, 1)
    starts = [min(op.epoch for op in lane.ops if op.segment == "steady") for lane in (first, second)]
    assert starts[1] == starts[0] + 1
    multiplying = [{op.epoch for op in lane.ops if op.action == "multiply"} for lane in (first, second)]
    assert not multiplying[0] & multiplying[1]  # while one half multiplies, the other does not
    assert len(ping_pong.pipeline.clusters) == 8
    assert {op.cluster for op in first.ops if op.segment == "steady"} == set(range(8))


def test_fetches_are_in_flight_until_they_are_written(ping_pong: Facts) -> None:
    ops = [op for op in ping_pong.pipeline.lanes[0].ops if op.segment == "steady"]
    fetch = next(op for op in ops if op.text == "fetch A[k+1]")
    write = next(op for op in ops if op.text == "write A[k+1]")
    assert fetch.done == write.epoch > fetch.epoch


def test_links_name_what_covers_them(eight_wave_facts: Facts) -> None:
    links = {(link.kind, link.medium, link.operand): link for link in eight_wave_facts.pipeline.links}
    assert links["RAW", "lds", "A"].covered == "barrier 0"
    assert links["WAR", "lds", "A"].covered == "barrier 1"
    assert "lgkmcnt" in links["RAW", "register", "A"].covered


def test_data_flows_to_the_right(ping_pong: Facts) -> None:
    flow = ping_pong.flow
    layer = {n.position: n.layer for n in flow.nodes}
    assert all(layer[e.source] < layer[e.target] for e in flow.edges if "RAW" in e.kinds)
    by_action = {n.action: n.layer for n in flow.nodes if n.action in ("fetch", "write")}
    assert by_action["fetch"] < by_action["write"] < min(n.layer for n in flow.nodes if n.action == "read")
    assert len({(n.layer, n.row) for n in flow.nodes}) == len(flow.nodes)


def test_registers_of_producers_and_consumers(producer_consumer: Facts) -> None:
    found = producer_consumer.pressure
    producer, consumer = found.roles
    last = consumer.points[-1]
    live = {share.what: share.registers for share in last.shares}
    assert live == {"accumulators": 64, "A tiles": 32, "B tiles": 32}  # 2 x 2 of 32 x 32 f32; two 32 x 64 bf16 each
    assert consumer.peak == 128 and producer.peak < consumer.peak
    assert not found.measured and found.budget == 256
    assert found.wasted_bytes == producer.unused * 4 * 256
    assert "4 producer waves" in found.note


def test_measured_registers_replace_the_estimate(eight_wave: Build, eight_wave_facts: Facts) -> None:
    found = eight_wave_facts.pressure
    assert found.measured and found.used == eight_wave.resources.total_vgpr
    assert found.allotted == eight_wave.spec.target.allotted_registers(eight_wave.resources.total_vgpr)
    assert f"{found.used} VGPR" in eight_wave.line()  # the same number in the line of figures
    assert ("Registers", str(found.used)) in {entry[:2] for entry in headline(eight_wave_facts)}


def test_lds_buffers_follow_one_another(producer_consumer: Facts) -> None:
    found = producer_consumer.lds
    assert [(b.name, b.index, b.offset) for b in found.buffers] == [
        ("A", 0, 0), ("A", 1, 16384), ("B", 0, 32768), ("B", 1, 49152)
    ]  # fmt: skip
    assert found.used == found.capacity == 65536
    assert {(a.what, a.ways) for a in found.accesses} == {("read A", 1), ("read B", 1), ("write A", 1), ("write B", 1)}
    for swizzle in found.swizzles:
        flat = [offset for row in swizzle.offsets for offset in row]
        assert len(set(flat)) == len(flat)


def test_block_order_and_reuse(eight_wave_facts: Facts) -> None:
    found = eight_wave_facts.order
    remap = compose([RemapCall("xcd", {"chunk": 16}, (8,)), RemapCall("group", {"rows": 4})])
    assert found.sequence[:3] == tuple(r * 64 + c for r, c in remap.order(64, 64)[:3])
    assert found.xcd[:9] == (0, 1, 2, 3, 4, 5, 6, 7, 0)
    panels = panels_per_window(remap, 64, 64, found.window, 8)
    assert found.reuse[0].panels == pytest.approx(panels, abs=0.01)
    assert [r.name for r in found.reuse][1] == "row_major"


def test_persistent_blocks_keep_their_xcd() -> None:
    found = facts(spec_of("persistent")).order
    assert (found.grid, found.blocks) == ("persistent", 304)
    assert found.xcd[304] == found.xcd[0]


@pytest.mark.parametrize(("grid", "blocks"), [("split_k(2)", 2 * 64 * 64), ("stream_k(304)", 304)])
def test_blocks_that_share_a_tile(grid: str, blocks: int, tmp_path: Path) -> None:
    path = tmp_path / "shared.tk"
    path.write_text((SPECS / "single_buffer.tk").read_text().replace("  waves", f"  grid {grid}\n  waves"))
    found = facts(load(path)).order
    assert found.blocks == blocks
    assert sorted(found.sequence) == list(range(64 * 64))
    if grid.startswith("stream"):  # 128 K-steps a tile, runs of 1725: tile 14 is the first that begins in block 1
        assert dict(zip(found.sequence, found.xcd, strict=True))[14] == 1
        assert found.sequence[0] == 0


def test_an_unknown_size_is_drawn_as_an_example() -> None:
    assert facts(spec_of("dynamic_sizes")).order.assumed


# ---------------------------------------------------------------- figures


def test_figures_and_mix_come_from_the_report(eight_wave: Build, eight_wave_facts: Facts) -> None:
    by_key = {f.key: f for f in eight_wave_facts.figures}
    assert by_key["resources.vgpr"].value == eight_wave.resources.vgpr
    assert by_key["lds_bytes"].show() == "32,768 B"
    counts = {m.key: m.count for m in eight_wave_facts.mix}
    assert eight_wave.main_loop is not None
    assert sum(counts.values()) == eight_wave.main_loop.total
    assert counts["mfma"] == eight_wave.main_loop.mfma_total


def test_figures_survive_a_report_file(eight_wave: Build) -> None:
    report = eight_wave.report()
    again = json.loads(json.dumps(report))
    assert figures(again) == figures(report)
    assert mix(again) == mix(report)


def test_broken_reports_give_fewer_figures() -> None:
    assert figures({"resources": {"vgpr": "many"}, "occupancy": 3, "lds_bytes": True}) == ()
    assert mix({"main_loop": None}) == ()


def test_findings_carry_their_line(tmp_path: Path) -> None:
    path = tmp_path / "unused.tk"
    path.write_text((SPECS / "four_wave.tk").read_text().replace("  global C", "  scalar unused : f32\n  global C"))
    found = facts(load(path))
    lines = {d.code: (d.severity, found.texts.spec[d.line - 1].text.strip(), d.place) for d in found.findings}
    severity, text, place = lines["W502"]
    assert (severity, text) == ("warning", "scalar unused : f32")
    number = path.read_text().splitlines().index("  scalar unused : f32") + 1
    assert place == f"line {number}"


def test_predicted_cycles_reach_operations_lines_and_instructions(eight_wave: Build) -> None:
    plain = facts(eight_wave)
    assert all(op.cycles is None for op in plain.pipeline.lanes[0].ops)
    assert all(line.cycles is None for line in (*plain.texts.cpp, *plain.texts.isa))
    multiplies = [i for i, x in enumerate(eight_wave.function.instructions) if x.mnemonic.startswith("v_mfma")]
    meetings = [i for i, x in enumerate(eight_wave.function.instructions) if x.mnemonic == "s_barrier"]
    waves = tuple(dict.fromkeys(multiplies, 16.0 + wave) | dict.fromkeys(meetings, 100.0) for wave in range(8))
    found = facts(eight_wave, Prediction("a model", waves=waves))
    ops = [op for op in found.pipeline.lanes[0].ops if op.segment == "steady"]
    loop = sum(line.loop and line.kind == "mfma" for line in found.texts.isa)
    assert sum(op.cycles or 0 for op in ops if op.action == "multiply") == pytest.approx(loop * 19.5)
    assert all(op.cycles == 100 for op in ops if op.action == "barrier")
    assert all(op.cycles == 0 for op in ops if op.action in ("load", "read", "wait"))
    assert found.texts.isa[multiplies[0]].cycles == 19.5
    assert sum(line.cycles or 0 for line in found.texts.cpp if "mma_ABt(" in line.text) == 19.5 * len(multiplies)


@pytest.fixture(scope="module")
def predicted(eight_wave: Build) -> Prediction:
    return prediction(eight_wave, "MI325X")


def test_the_prediction_is_that_of_the_model(eight_wave: Build, predicted: Prediction) -> None:
    model = predict(eight_wave, product="MI325X")
    by_key = {f.key: f for f in predicted.figures}
    assert by_key["predict.time"].value == pytest.approx(model.seconds * 1e3, abs=1e-3)
    assert predicted.limiter == model.limiter and "MI325X" in predicted.by
    assert predicted.parts[0].share == pytest.approx(model.parts["multiplying"] / model.seconds)
    assert sum(part.share for part in predicted.parts) == pytest.approx(1, abs=0.05)


def test_the_cycles_of_a_pass_add_up(eight_wave: Build, predicted: Prediction) -> None:
    """All waves of a block go through the loop at the pace that the model says, except for what no kernel gets back."""
    loop = {i for i, line in enumerate(facts(eight_wave).texts.isa) if line.loop}
    per_step = next(f.value for f in predicted.figures if f.key == "predict.step")
    per_step -= sum(part.per_step or 0 for part in predicted.parts if part.name == "architecture")
    blocks, steps = eight_wave.occupancy.blocks_per_cu, eight_wave.spec.plan.shape.unroll
    for wave in predicted.waves:
        assert sum(c for i, c in wave.items() if i in loop) == pytest.approx(per_step * steps * blocks, rel=0.1)


def test_an_unknown_size_is_predicted_for_an_example() -> None:
    found = prediction(spec_of("dynamic_sizes").build())
    assert "an example" in found.by and found.figures


def test_accesses_of_which_nothing_names_the_operand() -> None:
    """Writes to LDS that no line of the schedule claims are shown without bank conflicts."""
    text = """kernel small
  dims M = 8, N = 2, K = 56
  global A : bf16[K, M]
  global B : bf16[N, K]
  global C : bf16[M, N]
  block 16 x 128 step 48
  tail masked
  allow slow_reads, spills
  target gfx90a
  unroll 2
  waves 1 x 2
  shared A, B buffers 4
  registers A, B slice 16
  accumulate C : f32 tile 16 x 16
  store C
  schedule
    group wait vm 1  read B(0; 0)
    group read B(1..3; 0)
    group load A[k+1]  read A(0; 0)  multiply (*, 0; 0)  multiply (*, 1; 0)  multiply (0, 2..3; 0)
    group read B(2; 1)
    cluster read A(*; 1) B(0..1; 1) B(3; 1)  multiply slice 1  wait lds 0
    group priority low  read B(0..3; 2)
    cluster read A(*; 2)  wait lds 0
    group load B[k+4]  multiply (*, 0; 2)  multiply (*, 1..3; 2)
"""
    found = facts(load(text).build())
    assert any(not access.ways for access in found.lds.accesses)
