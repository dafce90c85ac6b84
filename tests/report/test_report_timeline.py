"""The pipeline to scale: what the bars say, against the model's prediction; the trace for Perfetto."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from report_specs import SPECS, spec_of
from sampling import slow
from typer.testing import CliRunner

from tkgen.api import load
from tkgen.cli import app
from tkgen.predict import Profile, profile
from tkgen.report import facts, prediction
from tkgen.report.timeline import Timeline, timeline, trace


def drawn(name: str) -> tuple[Timeline, Profile]:
    build = spec_of(name).build()
    profiled = profile(build)
    return timeline(build, profiled), profiled


@pytest.fixture(scope="module")
def ping_pong_time() -> tuple[Timeline, Profile]:
    return drawn("ping_pong")


def test_the_loop_is_as_long_as_predicted(ping_pong_time: tuple[Timeline, Profile]) -> None:
    found, profiled = ping_pong_time
    predicted = profiled.prediction
    assert predicted.loop is not None
    ideal = predicted.loop.cycles - predicted.loop.lost["architecture"]
    assert found.loop[1] - found.loop[0] == pytest.approx(2 * ideal, rel=0.01)  # two passes of one K-step
    assert found.loop[0] in found.passes and found.loop[1] in found.passes
    assert found.clock_mhz == pytest.approx(predicted.clock_mhz, abs=0.1)


def test_while_one_half_multiplies_the_other_does_not(ping_pong_time: tuple[Timeline, Profile]) -> None:
    found, _ = ping_pong_time
    begin, end = found.loop
    for simd in range(4):
        mine = [b for b in found.bars if b.kind == "multiply" and b.wave % 4 == simd and begin <= b.start < end]
        assert [b.wave // 4 for b in mine] == [mine[0].wave // 4, 1 - mine[0].wave // 4] * 8
        assert all(a.end <= b.start for a, b in itertools.pairwise(mine))
        assert all(b.count == 32 and b.end - b.start == 512 for b in mine)


def test_bars_are_named_by_their_operations(ping_pong_time: tuple[Timeline, Profile]) -> None:
    found, _ = ping_pong_time
    begin, end = found.loop
    mine = Counter((b.kind, b.text) for b in found.bars if b.wave == 0 and begin <= b.start < end and b.text)
    for operation in ("fetch A[k+1]", "fetch B[k+1]"):
        assert mine["load", operation] == 2
    assert mine["read", "read A[k](0..3; 0..1)"] == mine["read", "read B[k](0..1; 2..3)"] == 2
    assert mine["write", "write A[k+1]"] == 2
    spec = (SPECS / "ping_pong.tk").read_text().splitlines()
    for bar in found.bars:
        if bar.kind in ("multiply", "read", "write", "load"):
            words = {"load": ("fetch",), "store": ("store",)}.get(bar.kind, (bar.kind,))
            assert any(word in spec[bar.line - 1] for word in words), bar


def test_every_wave_accounts_for_its_time(ping_pong_time: tuple[Timeline, Profile]) -> None:
    found, profiled = ping_pong_time
    predicted = profiled.prediction
    assert predicted.loop is not None
    share = predicted.loop.matrix_cycles / (predicted.loop.cycles - predicted.loop.lost["architecture"])
    for simd in range(4):
        assert sum(t.multiplying for t in found.times if t.simd == simd) == pytest.approx(share, abs=0.01)
    for t in found.times:
        assert 0.9 < t.multiplying + t.lds + t.memory + t.barrier <= 1.01
        assert t.latest // 4 == 1 - t.wave // 4  # each half waits for the other


def test_starved_consumers_wait_for_producers() -> None:
    found, _ = drawn("producer_consumer_4p4c")
    assert found.roles == ("producer",) * 4 + ("consumer",) * 4
    for t in found.times:
        if t.role == "consumer":
            assert t.barrier > 0.3 and found.roles[t.latest] == "producer"
        else:
            assert t.multiplying == 0 and t.memory > 0.5
    idle = [b for b in found.bars if b.kind == "idle" and b.start >= found.loop[0]]
    assert max(idle, key=lambda b: b.end - b.start).text == "memory"


def test_code_without_a_loop_is_shown_whole() -> None:
    build = spec_of("eight_wave", M=256, N=128, K=128).build()
    found = timeline(build, profile(build))
    assert found.loop[0] == 0 and found.end == found.loop[1] >= max(b.start for b in found.bars)


@pytest.mark.parametrize(("name", "sizes", "said"), [
    ("rows/softmax", {"ROWS": 4096, "D": 1024}, "e = exp2((x - rowmax(x)) * LOG2E)"),
    ("attention/attention", {"LENGTH": 1024}, "p = exp2(s - n)"),
])  # fmt: skip
def test_kernels_of_equations_are_drawn_to_scale(name: str, sizes: dict[str, int], said: str) -> None:
    """Their bars are named by lines of the spec; what would change the time is in the table beside it."""
    build = load(SPECS / f"{name}.tk", sizes).build(machine_check=False)
    found = prediction(build)
    lines = [line.strip() for line in (SPECS / f"{name}.tk").read_text().splitlines()]
    drawn, row = found.timeline, 1 + next(n for n, line in enumerate(lines) if line.startswith(said))
    assert drawn is not None and drawn.loop[1] == drawn.end > drawn.loop[0]
    named = {b.line for b in drawn.bars if b.text == said}
    assert named == {row}
    assert set(drawn.roles) == {"wave"} and len(drawn.roles) == drawn.waves == 4
    for t in drawn.times:
        assert 0 < t.multiplying + t.lds + t.memory + t.barrier <= 1.01
    assert found.changes and all(factor > 1 for _, factor in found.changes)
    shown = facts(build, found)
    assert any(line.cycles for line in shown.texts.isa) and any(line.cycles for line in shown.texts.cpp)


def insist_readable(data: dict[str, Any]) -> None:
    """Check that viewers can read a trace: known fields, named threads, spans that do not overlap, complete pairs."""
    assert json.loads(json.dumps(data)) == data
    threads: dict[tuple[int, int], list[tuple[float, float]]] = {}
    named = {(e["pid"], e["tid"]) for e in data["traceEvents"] if e["name"] == "thread_name"}
    begun: dict[int, float] = {}
    for e in data["traceEvents"]:
        assert {"ph", "pid", "tid", "name"} <= set(e) and (e["pid"], e["tid"]) in named
        if e["ph"] == "X":
            threads.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["ts"] + e["dur"]))
        elif e["ph"] == "b":
            begun[e["id"]] = e["ts"]
        elif e["ph"] == "e":
            assert begun.pop(e["id"]) <= e["ts"]
    assert not begun
    for spans in threads.values():  # what shares a thread must not overlap, or a viewer drops it
        spans.sort()
        assert all(a[1] <= b[0] + 1e-6 for a, b in itertools.pairwise(spans))
    flows = Counter(e["ph"] for e in data["traceEvents"] if e["ph"] in "sf")
    assert flows["s"] == flows["f"]
    for e in (e for e in data["traceEvents"] if e["ph"] in "sf"):  # an arrow is tied to a slice of its thread
        assert any(a - 1e-6 <= e["ts"] <= b + 1e-6 for a, b in threads[e["pid"], e["tid"]]), e


@pytest.mark.parametrize("name", ["ping_pong", "producer_consumer_4p4c", slow("eight_wave")])
def test_the_trace_is_one_that_viewers_read(name: str) -> None:
    build = spec_of(name).build()
    data = trace(build, "MI300X", [profile(build).recording])
    insist_readable(data)
    assert len({(e["pid"], e["tid"]) for e in data["traceEvents"] if e["ph"] == "X"}) >= 4 + 8
    assert any(e["ph"] == "s" for e in data["traceEvents"])


def traced(spec: str, into: Path, *options: str) -> dict[str, Any]:
    """The trace that the command writes."""
    done = CliRunner().invoke(app, ["predict", str(SPECS / spec), *options, "--trace", str(into)])
    assert done.exit_code == 0 and f"wrote {into}" in done.stdout.replace("\n", ""), done.output
    data: dict[str, Any] = json.loads(into.read_text())
    insist_readable(data)
    return data


def test_the_command_writes_a_trace(tmp_path: Path) -> None:
    data = traced("one_wave.tk", tmp_path / "trace.json")
    assert data["otherData"]["kernel"] == "one_wave" and len(data["traceEvents"]) > 100


@pytest.mark.parametrize(
    ("spec", "sizes", "equations"),
    [
        ("rows/softmax.tk", "ROWS=4096 D=1024", ["e = exp2((x - rowmax(x)) * LOG2E)", "Y[r] = e / rowsum(e)"]),
        (
            "rows/long_softmax.tk",
            "ROWS=512 D=8000",
            ["l = l * exp(m - n) + rowsum(exp(x - n))", "n = max(m, rowmax(x))"],
        ),
        (
            "attention/attention_causal.tk",
            "LENGTH=1024",
            ["s = scale * Q[b, q, h] @ K[b, j, h / GROUP].T", "p = exp2(s - n)"],
        ),
    ],
)
def test_kernels_of_equations_have_a_trace_named_by_their_lines(
    spec: str, sizes: str, equations: list[str], tmp_path: Path
) -> None:
    data = traced(spec, tmp_path / "trace.json", "-D", sizes)
    assert {*equations} <= {e["name"] for e in data["traceEvents"]}
    tracks = {"vector", "memory", "wait"} | ({"MFMA", "LDS", "barrier"} if "@" in equations[0] else set())
    assert tracks <= {e.get("cat") for e in data["traceEvents"]}


def test_kernels_of_a_sequence_stand_one_after_the_other(tmp_path: Path) -> None:
    data = traced("sequences/split_k_gelu.tk", tmp_path / "trace.json")
    begun, ended = dict[str, float](), dict[str, float]()
    names = {e["pid"]: e["args"]["name"] for e in data["traceEvents"] if e["name"] == "process_name"}
    for e in data["traceEvents"]:
        if e["ph"] == "X":
            kernel, _, simd = names[e["pid"]].partition(": ")
            assert simd.startswith("SIMD ")
            begun[kernel] = min(begun.get(kernel, e["ts"]), e["ts"])
            ended[kernel] = max(ended.get(kernel, 0.0), e["ts"] + e["dur"])
    first, second = begun
    assert begun[first] < ended[first] <= begun[second] + 1e-6 < ended[second]
