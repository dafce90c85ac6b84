"""Schedules that tkgen derives: right for every combination of clauses, with the barriers known to suffice."""

from __future__ import annotations

import importlib
from itertools import product
from typing import Any

import planning
import pytest

from tkgen.api import load
from tkgen.diagnostics import Severity, SpecError
from tkgen.schedule.plan import Plan
from tkgen.tile.ops import Barrier
from tkgen.tile.program import Drain, Part

ROLES = """  role producer waves 0..1
    load A, B
  role consumer waves 2..5 as 2 x 2
    accumulate C : f32 tile 32 x 32
    store C
"""
UNIFORM = "  waves 2 x 2\n  accumulate C : f32 tile 32 x 32\n  store C\n"


def planned(
    *,
    k: str = "256",
    waves: str = UNIFORM,
    buffers: int = 1,
    via: str = "collective",
    registers: str = "",
    extra: str = "",
) -> Plan:
    text = f"""kernel gemm
  dims M = 128, N = 128, K = {k}
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  block 64 x 64 step 32
{waves}  shared A, B buffers {buffers} via {via}
{registers}{extra}"""
    return planning.planned(text)


REGISTERS = ("", "  registers A, B buffers 2\n", "  registers A, B slice 16\n", "  registers A, B slice 16 buffers 2\n")


GRIDS = ("", "  grid persistent(2)\n")
FEW = [*product((1, 2), REGISTERS, ("32", "224"), GRIDS[:1]), (3, REGISTERS[3], "dynamic", ""), (2, "", "96", GRIDS[1])]
ALL = list(product((1, 2, 3, 4), REGISTERS, ("32", "64", "96", "224", "256", "dynamic"), GRIDS))


@pytest.mark.parametrize("waves", [UNIFORM, ROLES], ids=["uniform", "roles"])
@pytest.mark.parametrize("via", ["collective", "registers", "direct"])
@pytest.mark.parametrize("cases", [FEW, pytest.param(ALL, marks=pytest.mark.slow)], ids=["few", "all"])
def test_derived_schedules_are_proven(waves: str, via: str, cases: list[tuple[int, str, str, str]]) -> None:
    for buffers, registers, k, grid in cases:
        made = planned(k=k, waves=waves, buffers=buffers, via=via, registers=registers, extra=grid)
        assert not made.conflicts(), f"buffers {buffers} {registers} K {k}"
        counts = {sum(isinstance(p, Barrier) for p in w.tiles.body) for w in made.waves}
        assert len(counts) == 1


def test_barriers_per_step() -> None:
    assert planned().barriers_per_step == 2
    assert planned(buffers=2).barriers_per_step == 1
    assert planned(buffers=3).barriers_per_step == 1
    assert planned(buffers=2, waves=ROLES).barriers_per_step == 1
    assert planned(registers="  registers A, B buffers 2\n").barriers_per_step == 2
    assert planned(via="registers").barriers_per_step == 2


def test_one_word_changes_the_buffering_and_nothing_else() -> None:
    single, double = planned(), planned(buffers=2)
    assert {op.word for op in single.bodies["waves"]} == {op.word for op in double.bodies["waves"]}
    assert single.shape.depth == 0 and double.shape.depth == 1


def test_odd_step_counts_are_peeled() -> None:
    made = planned(k="224", registers="  registers A, B buffers 2\n")
    assert made.shape.unroll == 2
    assert made.shape.passes is not None
    assert made.shape.steps(made.shape.passes) == 7
    assert not made.conflicts()


WRITTEN = """  schedule
    cluster load A B
    cluster read A B  multiply
"""


def test_a_written_schedule_is_taken_as_it_is() -> None:
    made = planned(extra=WRITTEN)
    assert not made.automatic and made.barriers_per_step == 2
    assert not made.conflicts()


def test_written_barriers_can_be_left_to_tkgen() -> None:
    text = "  schedule barriers auto waits auto\n    group load A[k+1] B[k+1]\n    group read A B  multiply\n"
    made = planned(buffers=2, extra=text)
    assert made.barriers_per_step == 1 and not made.conflicts()


def test_a_written_schedule_computes_its_indices() -> None:
    lines = """  schedule barriers auto waits auto
    group load A[k+1] B[k+1]
    group read A({}) B  wait lds {}  multiply
"""
    computed = planned(buffers=2, extra="  param LAST = 1\n" + lines.format("0..LAST-1", "min(LAST, 0)"))
    assert computed.to_text() == planned(buffers=2, extra=lines.format("0..0", "0")).to_text()
    with pytest.raises(SpecError) as caught:
        planned(buffers=2, extra=lines.format("0..LAST", "0"))
    assert [d.code for d in caught.value.diagnostics] == ["E200"]


def test_phases_of_a_written_schedule_are_programs_of_their_own() -> None:
    text = """  phase waves 2..3 by 1 cluster
  schedule
    cluster fetch A[k+1] B[k+1]  read A B  wait lds 0
    cluster multiply
    cluster write A[k+1] B[k+1]  wait lds 0
    cluster priority low
"""
    made = planned(via="registers", extra=text)
    assert [(w.waves, w.phase) for w in made.waves] == [((0, 1), 0), ((2, 3), 1)]
    assert not made.conflicts()


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("cluster read A(2)", "E217"),
        ("cluster multiply (0, 5)", "E217"),
        ("cluster read A(*; 1)", "E217"),
        ("cluster wait foo 0", "E216"),
        ("cluster priority 7", "E216"),
        ("cluster load C", "E200"),
    ],
)
def test_what_a_schedule_cannot_say(line: str, code: str) -> None:
    with pytest.raises(SpecError) as caught:
        planned(extra=f"  schedule\n    {line}\n")
    assert [d.code for d in caught.value.diagnostics] == [code]


def test_the_text_form_is_stable() -> None:
    assert planned(k="64").to_text() == (
        "schedule gemm  depth 0  unroll 1  iterations 2  barriers per step 2\n"
        "waves 0..3\n"
        "  prologue\n"
        "    zero (0, 0)\n"
        "  loop\n"
        "    load A[k]\n"
        "    load B[k]\n"
        "    wait lds 0\n"
        "    barrier\n"
        "    read A[k](0; 0)\n"
        "    read B[k](0; 0)\n"
        "    multiply [k](0, 0; 0)\n"
        "    wait lds 0\n"
        "    barrier\n"
        "  epilogue\n"
        "    store (0, 0)\n"
    )


def test_a_block_proves_its_way_to_the_next_tile_with_the_real_parity() -> None:
    text = "  grid persistent(2)\n  schedule\n    group load A B\n    group barrier\n    group read A B  multiply\n"
    even, odd = (planned(k=k, buffers=2, extra=text) for k in ("256", "288"))
    assert not even.conflicts()
    assert {c.kind for c in odd.conflicts()} == {"WAR"}


def test_a_dynamic_size_is_proven_for_every_number_of_passes() -> None:
    made = planned(k="dynamic", buffers=3)
    assert set(made.passes_to_prove) == set(range(max(made.passes_to_prove) + 1))


MANY_WAITS = """kernel many_waits
  dims M = 256, N = 64, K = dynamic
  global A : f16[M, K]
  global B : f16[N, K]
  global C : f32[M, N]
  block 128 x 64 step 64
  target gfx950
  waves 4 x 1
  shared A, B buffers 2 via direct
  registers A, B slice 32
  accumulate C : f32 tile 32 x 32
  store C
  schedule waits auto
    cluster copy A[k+1]
    cluster copy B[k+1]
    cluster read A(*; 0) B(*; 0)
    cluster multiply slice 0
    cluster read A(*; 1) B(*; 1)
    cluster multiply slice 1
"""


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """An entry for each proof that planning takes."""
    module = importlib.import_module("tkgen.schedule.plan")
    tried: list[int] = []
    counted = module.conflicts

    def conflicts(*arguments: Any) -> object:
        tried.append(len(tried))
        return counted(*arguments)

    monkeypatch.setattr(module, "conflicts", conflicts)
    judged = module._Search.right

    def right(*arguments: Any) -> object:
        tried.append(len(tried))
        return judged(*arguments)

    monkeypatch.setattr(module._Search, "right", right)
    return tried


def test_waits_that_are_for_nothing_cost_few_proofs(tried: list[int]) -> None:
    """Of the waits in front of barriers most are for nothing. Each once took a proof for each step of a bisection and
    one more to be left out, 2185 in all; schedules of a dozen lines took a minute."""
    waits = [p for w in planning.planned(MANY_WAITS).waves for p in w.tiles.body if isinstance(p, Drain)]
    assert [w.count for w in waits if w.stream == "vm"] == [6]
    assert len(tried) < 1000


DEEP = """kernel deep
  dims M = 512, N = 512, K = 512
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  block 128 x 64 step 16
  waves 4 x 2
  shared A, B buffers 8
  accumulate C : f32 tile 32 x 32
  store C
  schedule
    cluster load A[k+7] B[k+7]
    cluster read A  wait lds 0
    cluster read B  wait lds 0
    cluster multiply
"""


def test_barriers_that_order_nothing_cost_few_proofs(tried: list[int]) -> None:
    """Prologue and epilogue of a loop that runs far ahead have 336 of them; each once took a proof."""
    made = planning.planned(DEEP + "    cluster priority low\n" * 20)
    placed = (*made.waves[0].ops(Part.PROLOGUE), *made.waves[0].ops(Part.EPILOGUE))
    assert sum(isinstance(p, Barrier) for p in placed) < 20
    assert len(tried) < 100 and not made.conflicts()


@pytest.mark.parametrize("buffers", [1, 2, 3])
@pytest.mark.parametrize("k", [64, 192, 640])
def test_a_wave_alone_waits_for_what_goes_to_lds_directly(k: int, buffers: int) -> None:
    """No other wave has to be met, but nothing else says that a copy is complete."""
    text = f"""kernel alone
  target gfx950
  dims M = 32, N = 16, K = {k}
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : bf16[M, N]
  block 16 x 16 step 64
  waves 1 x 1
  shared A, B buffers {buffers} via direct
  registers A, B slice 64
  accumulate C : f32 tile 16 x 16
  store C
"""
    spec = load(text)
    assert not [d for d in spec.diagnostics if d.severity is Severity.ERROR]
    if k == 192:
        assert spec.build().machine_check.outcome == "right"
