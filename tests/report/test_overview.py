"""The overview of a spec's text, which the playground shows: every part, for kernels of every kind."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tkgen.api import load_equations
from tkgen.overview import overview
from tkgen.report.equation_flow import equation_flow
from tkgen.source import Span
from tkgen.targets import UnknownTargetError

SPECS = Path(__file__).parents[2] / "specs"
EACH = ["eight_wave", "attention/attention", "rows/rmsnorm", "groups/grouped_gemm", "sequences/split_k_gelu",
        "hopper/h100_lcf"]  # fmt: skip


@pytest.mark.parametrize("name", EACH)
def test_a_proven_spec_has_every_part(name: str) -> None:
    path = SPECS / f"{name}.tk"
    found = overview(path.read_text(encoding="utf-8"), str(path))
    assert found["proven"]
    assert not found["diagnostics"]
    assert "#include" in found["source"]
    assert found["schedule"]
    for kernel in found["kernels"]:
        assert f"kernel {kernel['name']}" in kernel["equations"]
        texts = [text for text in ET.fromstring(kernel["picture"].encode()).itertext() if text.strip()]
        assert any("store" in text or "=" in text for text in texts)


def test_what_a_fix_leaves_is_given_whole() -> None:
    text = (SPECS / "eight_wave.tk").read_text(encoding="utf-8")
    wrong = text.replace("  block ", "  blok ", 1)
    found = overview(wrong, "eight_wave.tk")
    (diagnostic,) = found["diagnostics"]
    assert (diagnostic["code"], diagnostic["fixed"]) == ("E103", text)
    assert "did you mean `block`?" in diagnostic["rendered"]
    assert not (found["proven"] or found["source"] or found["kernels"])


def test_an_unknown_target_is_refused() -> None:
    with pytest.raises(UnknownTargetError, match="gfx94x"):
        overview((SPECS / "eight_wave.tk").read_text(encoding="utf-8"), "eight_wave.tk", "gfx94x")


def flow_of(name: str) -> tuple[dict[str, int], set[tuple[str, str, int]]]:
    """The layers of statements by what they define, and the edges between them with their distances."""

    def row(span: Span | None) -> int:
        return span.line if span else 0

    (kernel,) = load_equations(SPECS / f"{name}.tk")
    flow = equation_flow(kernel, row)
    short = {node.position: node.text.split(" =")[0] for node in flow.nodes}
    return {short[n.position]: n.layer for n in flow.nodes}, {
        (short[e.source], short[e.target], e.distance) for e in flow.edges
    }


def test_attention_flows_through_its_loop() -> None:
    layers, edges = flow_of("attention/attention")
    assert {("Q", "s", 0), ("K", "s", 0), ("s", "n", 0), ("p", "l", 0), ("V", "o", 0)} <= edges
    assert {(a, b) for a, b, distance in edges if distance} == {("n", "n"), ("n", "r"), ("l", "l"), ("o", "o")}
    assert layers["Q"] < layers["s"] < layers["n"] < layers["p"] < layers["o"] < layers["O[b, h, q]"]


LEAKY = """kernel leaky
  dims M = 256, N = 256, K = 256
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  over m in M by 128, n in N by 128
  shared A, B
  each k in K by 64
    c = c + A[m, k] @ B[n, k].T
  C[m, n] = where(c > 0, c, 0.1 * c)
"""


def test_a_number_of_two_statements_is_no_edge_between_them() -> None:
    """The sum starts at the zero to which the store compares; its picture was refused as a circle."""
    found = overview(LEAKY, "leaky.tk")
    assert found["proven"]
    assert "where(c &gt; 0, c, 0.1 * c)" in found["kernels"][0]["picture"]


def test_a_value_before_a_loop_and_after_it_is_drawn_without_a_circle() -> None:
    """The start of the sum is a value of the store, too: the sum comes from the tensor that it is made of."""
    text = LEAKY.replace("  shared", "  carry c : f32[m, n] = 2 * bias[n]\n  shared").replace(
        "  over", "  global bias : f32[N]\n  over"
    ).replace("where(c > 0, c, 0.1 * c)", "c * (2 * bias[n])")  # fmt: skip
    (kernel,) = load_equations("leaky.tk", text=text)
    flow = equation_flow(kernel, lambda span: 0)
    name = {node.position: node.text.split(" =")[0] for node in flow.nodes}
    edges = {(name[e.source], name[e.target], e.distance) for e in flow.edges}
    assert {("bias", "c", 0), ("c", "C[m, n]", 0), ("bias", "C[m, n]", 0), ("c", "c", 1)} <= edges
    assert ("C[m, n]", "c", 0) not in edges


def test_a_branch_leads_to_both_of_its_values() -> None:
    """`l` after `when any` is the scaled one of line 22, or where no row asks the one of the iteration before."""
    (kernel,) = load_equations(SPECS / "attention/attention_lazy.tk")
    flow = equation_flow(kernel, lambda span: span.line if span else 0)
    line = {node.position: node.line for node in flow.nodes}
    into = {(line[e.source], e.distance) for e in flow.edges if line[e.target] == 26}
    assert into == {(22, 0), (26, 1), (25, 0)}
