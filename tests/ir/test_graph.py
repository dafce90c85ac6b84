"""The dataflow graph: dependencies with kind and distance, its text form, and the barriers that cover them."""

from __future__ import annotations

import json

import planning

from tkgen.ir import graph as dataflow
from tkgen.ir.graph import Dependency, dependencies
from tkgen.schedule.plan import Plan


def planned(shared: str = "shared A, B buffers 1", registers: str = "", extra: str = "") -> Plan:
    text = f"""kernel gemm
  dims M = 64, N = 64, K = 256
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  block 64 x 64 step 32
  waves 2 x 2
  {shared}
{registers}  accumulate C : f32 tile 32 x 32
  store C
{extra}"""
    return planning.planned(text)


def of(made: Plan, medium: str, operand: str = "A") -> set[tuple[str, int]]:
    found: list[Dependency] = dependencies(made.graph)
    return {(d.kind, d.distance) for d in found if d.medium == medium and d.operand == operand}


def test_distances_follow_the_buffers() -> None:
    assert of(planned(), "lds") == {("RAW", 0), ("WAR", 1)}
    assert of(planned("shared A, B buffers 2"), "lds") == {("RAW", 1), ("WAR", 1)}
    assert of(planned("shared A, B buffers 3"), "lds") == {("RAW", 2), ("WAR", 1)}


def test_registers_and_staging_follow_the_same_rule() -> None:
    assert of(planned(registers="  registers A, B buffers 2\n"), "register") == {("RAW", 1), ("WAR", 1)}
    assert of(planned("shared A, B via registers"), "staging") == {("RAW", 0), ("WAR", 1)}


def test_only_lds_crosses_waves_and_every_such_edge_has_a_barrier() -> None:
    made = planned()
    for _, _, data in made.graph.edges(data=True):
        assert data["dependency"].crosses_waves == (data["dependency"].medium == "lds")
        assert (data["barrier"] is not None) == data["dependency"].crosses_waves
        if data["dependency"].crosses_waves:
            assert 0 <= data["barrier"] < made.barriers_per_step


def test_text_dot_and_json_say_the_same() -> None:
    made = planned()
    text = dataflow.to_text(made.graph)
    assert text.startswith("graph gemm\n  op 0  waves 0..3  load A[k]\n")
    assert "  RAW lds A  0 -> 2  distance 0  barrier 0\n" in text
    found = dataflow.to_json(made.graph)
    assert json.loads(json.dumps(found)) == found
    assert isinstance(found["operations"], list) and isinstance(found["dependencies"], list)
    assert len(found["operations"]) == text.count("  op ")
    assert len(found["dependencies"]) == text.count("distance") == dataflow.to_dot(made.graph).count("->")
