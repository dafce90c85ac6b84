"""Waits for direct loads: tkgen's count what may stay in flight, written ones are held to it, by checks and referee."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tkgen import api
from tkgen.backends.cdna.kittens import include_dir
from tkgen.diagnostics import SpecError
from tkgen.emulate import interleavings
from tkgen.execute.launch import run
from tkgen.schedule.plan import Plan
from tkgen.tile.ops import Op
from tkgen.tile.program import Drain, Node, Part
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.discover import find_compiler
from tkgen.toolchain.metadata import read_resources

Small = Callable[..., api.Spec]
LOADS_PER_STEP = 4  # of each of four waves: tiles of 64 x 64 bf16, 8 KiB each, 1 KiB to a load


def waits(placed: tuple[Node, ...]) -> list[int]:
    return [p.count for p in placed if isinstance(p, Drain) and p.stream == "vm"]


@pytest.mark.parametrize("buffers", [2, 3, 4])
def test_all_steps_but_the_next_stay_in_flight(small: Small, buffers: int) -> None:
    (wave,) = small(buffers=buffers, k=1024).plan.waves
    flying = (buffers - 2) * LOADS_PER_STEP
    assert waits(wave.before) == [flying]
    assert waits(wave.tiles.body) == [flying]
    assert waits(wave.behind) == list(range(flying - LOADS_PER_STEP, -1, -LOADS_PER_STEP))


def test_producers_wait_and_consumers_do_not(small: Small) -> None:
    text = small(buffers=3).path.read_text()
    path = small().path
    path.write_text(
        text.replace("  waves 2 x 2\n", "  role producer waves 0..3\n    load A, B\n")
        .replace("  accumulate", "  role consumer waves 4..7 as 2 x 2\n    accumulate")
        .replace("  store C", "    store C").replace("K = 192", "K = 1024")
    )  # fmt: skip
    producer, consumer = api.load(path).check().plan.waves
    assert waits(producer.tiles.body) == [LOADS_PER_STEP]
    assert waits(consumer.tiles.body) == []


def mutant(plan: Plan, change: Callable[[Op], Op | None]) -> Plan:
    """`plan` with every wait for direct loads of its loop changed, or left out."""
    waves = []
    for wave in plan.waves:
        body = (change(p) if isinstance(p, Drain) and p.stream == "vm" else p for p in wave.ops(Part.BODY))
        waves.append(wave.with_ops(Part.BODY, (p for p in body if p is not None)))
    return replace(plan, waves=tuple(waves))


def one_more(placed: Op) -> Op:
    return replace(placed, left=str(placed.count + 1))


@pytest.mark.parametrize("buffers", [2, 3])
@pytest.mark.parametrize("change", [one_more, lambda placed: None], ids=["one more", "none"])
def test_weaker_waits_are_caught(small: Small, change: Callable[[Op], Op | None], buffers: int) -> None:
    """By the calculus, and on the emulator by the referee or by the numbers."""
    spec = small(buffers=buffers, k=384)
    assert spec.plan.conflicts() == []
    weaker = mutant(spec.plan, change)
    found = weaker.conflicts()
    assert {(c.kind, c.how) for c in found} == {("RAW", "wait")}
    broken = replace(spec, fixed_plan=weaker)
    build = spec.build()
    wrong = replace(build, spec=broken, **compiled(broken))  # type: ignore[arg-type]
    assert any(not run(wrong, order=order).ok for order in interleavings(6))


def compiled(spec: api.Spec) -> dict[str, object]:
    made = compile_device(
        spec.source.text, spec.target, find_compiler(spec.target), include_dirs=[include_dir()], source_name="small.cpp"
    )
    assert made.asm is not None and made.hsaco is not None
    return {"asm": made.asm, "hsaco": made.hsaco, "resources": next(iter(read_resources(made.hsaco).values()))}


WRITTEN = """\
  schedule
    cluster copy A[k+2] B[k+2]  read A(*; *) B(*; *)  wait lds 0
    cluster multiply  wait vm {count}
"""


def written(small: Small, count: int) -> api.Spec:
    return small(buffers=3, k=384, registers=2, rest=WRITTEN.format(count=count))


def test_a_written_wait_is_held_to_the_count(small: Small) -> None:
    build = written(small, LOADS_PER_STEP).check().build().check()
    assert all(run(build, order=order).ok for order in interleavings(3))


def test_a_written_wait_for_one_more_is_refused(small: Small) -> None:
    with pytest.raises(SpecError) as refused:
        written(small, LOADS_PER_STEP + 1).check()
    assert {d.code[:2] for d in refused.value.diagnostics} == {"E3"}
    assert any("copies" in note for d in refused.value.diagnostics for note in d.notes)
