"""The model of Hopper's schedules: right numbers in every order, wrong ones where a schedule is wrong; `tkgen`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from gemms import CASES, FUSED, GROUPED, OF_ROWS, SPLIT, TURNS, fused, gemm, grouped, scaled
from loop_cases import CASES as LOOPS
from loop_cases import Attention
from row_cases import CASES as ROWS
from row_cases import Case
from sampling import sample
from test_hopper_build import compiles
from test_hopper_schedule import MUTANTS, edited
from typer.testing import CliRunner

from tkgen.api import load
from tkgen.backends import protocol
from tkgen.backends.hopper import loop_model, model
from tkgen.backends.hopper.backend import HopperBackend
from tkgen.backends.hopper.interpreter import one_thread
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.cli import app
from tkgen.execute import modelled_suite
from tkgen.execute.arguments import check_scalars
from tkgen.execute.compare import Inputs, compared, random_inputs, references, worst
from tkgen.execute.given import Chosen
from tkgen.execute.modelled import trials
from tkgen.execute.operator import operator
from tkgen.ir.functions import HOPPER
from tkgen.proof.execution import Order
from tkgen.proof.program import Loop

SPECS = Path(__file__).parents[2] / "specs" / "hopper"
BACKEND = HopperBackend()


def failures(spec: protocol.Spec, count: int) -> list[str]:
    """Faults in `count` orders, on both kinds of inputs in turn."""
    spec.check()
    launch = spec.launch()  # type: ignore[arg-type]
    found = Chosen(spec, launch, {}, check_scalars(launch.program))
    return [f"{t.order}: {t.failure}" for t in trials(BACKEND, found, count, executor="model") if t.failure]


SMALL = [c for c in CASES if c.get("dims", (1024,) * 3)[0] <= 640]
SAMPLE = [
    grouped(
        (72, 136, 72), 9, (64, 64, 64), "s[m] * (y + b[e, n])", grid="grid persistent(3)", more=(("Z", "f32", "y"),)
    ),
    gemm(**SPLIT[0]),
    gemm(grid="stream_k(3)", block=(64, 64, 64), stages=2, dims=(72, 136, 328), output="f32", epilogue="scale(alpha)"),
    gemm(consumers=2, block=(256, 64, 64), stages=3, grid="persistent(1)", dims=(264, 136, 136)),
    gemm(layouts="TN", grid="persistent(1)", block=(64, 64, 64), dims=(72, 136, 200)),
    fused("silu(c) * d + R[m, n]", (72, 136, 72), (64, 64, 64), products=("c", "d")),
    scaled("s[m, k / 128] * p", (72, 80, 400), (64, 64, 128), others=(OF_ROWS,)),
    fused("c", (72, 136, 72), (64, 64, 64), "bf16", more=(("Z", "f32", "relu(c) + b[n]"), ("V", "f16", "c * s[m]"))),
    gemm(clusters="2", grid="persistent(2)", block=(64, 128, 64), stages=2, dims=(136, 200, 136)),
    gemm("TT", clusters="2 along n", grid="linear", block=(64, 64, 64), stages=2, dims=(64, 136, 200)),
]


@pytest.mark.parametrize("text", sample(SAMPLE, 2))
def test_products_are_right_in_several_orders(text: str) -> None:
    assert not failures(load(text), 4)


@pytest.mark.slow
@pytest.mark.parametrize("text", [*(gemm(**c) for c in (*SMALL, *TURNS, *SPLIT)), *FUSED.values(), *GROUPED.values()])
def test_all_products_are_right(text: str) -> None:
    assert not failures(load(text), 12)


def test_attention_is_right_in_several_orders() -> None:
    assert not failures(Attention(50, 100, 64, 64, 64, causal=True, order="models'").spec(), 3)


@pytest.mark.slow
@pytest.mark.parametrize("case", LOOPS, ids=str)
def test_all_attention_is_right(case: Attention) -> None:
    assert not failures(case.spec(), 4)


FEW_ROWS = [Case("h100_rmsnorm", 4, 8, (("TOKENS", 5), ("D", 1000), ("TILE", 4), ("WARPS", 8))),
            Case("rotary", 2, 4, (("LENGTH", 3), ("HEADS", 5), ("HALF", 32))),
            Case("long_softmax", 4, 4, (("ROWS", 5), ("D", 2049)), "f32"),
            Case("softmax", 4, 8, (("ROWS", 5), ("D", 4095))),
            Case("norm_gradient", 32, 8, (("TOKENS", 257), ("D", 72)))]  # fmt: skip


@pytest.mark.parametrize("case", FEW_ROWS, ids=str)
def test_rows_are_right_in_several_orders(case: Case) -> None:
    assert not failures(case.spec(), 2)


@pytest.mark.slow
@pytest.mark.parametrize("case", ROWS, ids=str)
def test_all_rows_are_right(case: Case) -> None:
    assert not failures(case.spec(), 4)


# ---------------------------------------------------------------- wrong schedules


def product_fault(edit: Callable[[Loop], Loop], order: Order) -> str:
    """The model's finding on a product whose schedule is another one."""
    spec = load(gemm(dims=(64, 256, 320), block=(64, 128, 64), stages=2, grid="persistent(1)"))
    assert isinstance(spec, HopperSpec)
    launch = spec.launch()
    inputs = random_inputs(launch, 1, Inputs.EXACT)
    with one_thread():
        made = model.run_products(spec.layout, launch, inputs, {}, order, warps=2, edit=edit)
    comparison = worst(compared(made.outputs, references(launch, inputs, {}, HOPPER)).values())
    return "\n".join([*made.findings, *([] if comparison.right else [str(comparison)])])


@pytest.mark.parametrize("mutant", MUTANTS)
def test_wrong_schedules_have_wrong_numbers_or_hang_in_some_order(mutant: str) -> None:
    """All of these the proof refuses."""
    orders = BACKEND.interpreter.orders(24)
    assert any(product_fault(lambda loop: edited(loop, MUTANTS[mutant]), order) for order in orders)
    assert not product_fault(lambda loop: loop, orders[0])


def test_a_hang_says_who_waits_for_what() -> None:
    text = product_fault(lambda loop: edited(loop, MUTANTS["no stage is given back"]), Order())
    assert "producer waits for ever for phase 0 of `empty 0`, whose phase 0 lacks 2 arrivals" in text
    assert "consumer 0 warp 0 waits for ever for phase 1 of `full 0`, whose phase 1 lacks 1 arrivals" in text
    assert "elements are wrong, 16384 NaN" in text


def test_a_store_whose_buffer_is_used_again_is_seen() -> None:
    text = product_fault(
        lambda loop: edited(loop, MUTANTS["no wait for stores to have read"]),
        Order("turn", frozenset({"copies", "products"})),
    )
    assert "elements are wrong" in text and "under way when the block ends" in text


def test_a_factor_that_is_not_fenced_is_not_seen() -> None:
    """wgmma.fence: what attention makes of its scores is read by the second product."""
    spec = Attention(64, 128, 64, 64, 64).spec()
    assert isinstance(spec, HopperSpec)
    launch = spec.launch()
    inputs, scalars = random_inputs(launch, 1), check_scalars(spec.program)  # type: ignore[arg-type]
    run = [launch, inputs, scalars, Order()]
    assert not any(bool(t.isnan().any()) for t in loop_model.run_loop(spec.layout, *run).outputs.values())  # type: ignore[arg-type]
    no_fence = MUTANTS["no fence before a store"]
    made = loop_model.run_loop(spec.layout, *run, edit=lambda loop: edited(loop, no_fence))  # type: ignore[arg-type, misc]
    assert bool(made.outputs["O"].isnan().all())


def test_rows_that_do_not_meet_have_wrong_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    from tkgen.backends.hopper import row_model
    from tkgen.proof.program import Meet

    case = Case("softmax", 4, 8, (("ROWS", 7), ("D", 4096)))
    assert not failures(case.spec(), 3)
    made = row_model.program

    def unmet(*given: object) -> object:
        found = made(*given)  # type: ignore[arg-type]
        agents = [replace(a, steps=tuple(s for s in a.steps if not isinstance(s, Meet))) for a in found.agents]
        return replace(found, agents=tuple(agents))

    monkeypatch.setattr(row_model, "program", unmet)
    assert failures(case.spec(), 3)


# ---------------------------------------------------------------- the command line


def tkgen(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def test_run_says_what_it_ran() -> None:
    sizes = ("-D", "M=200 N=264 K=136", "--executor", "model")
    code, out = tkgen("run", SPECS / "h100_lcf.tk", *sizes, "--schedules", 2)
    assert code == 0 and "\nthe model of the schedule, not the machine code\n" in out and out.count(" right ") == 2
    assert "steps" in out and "instructions" not in out and max(map(len, out.splitlines())) <= 80
    code, out = tkgen("run", SPECS / "h100_softmax.tk", "-D", "ROWS=5 D=300", "--executor", "model", "--json")
    (row,) = json.loads(out)
    assert code == 0 and row["modelled"] and row["ok"] and row["schedule"] == "turn, all early"


@compiles
def test_test_runs_sizes_and_says_which_is_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "small.tk"
    path.write_text(gemm(dims=(64, 64, 128), block=(64, 64, 64), stages=2, grid="persistent(3)"))
    code, out = tkgen("test", path, "--executor", "model", "--schedules", 2, "--json")
    cases = [r["case"] for r in json.loads(out)]
    assert code == 0 and cases[:3] == ["proves", "figures", "M=64 N=64 K=64"] and cases[-1] == "as shipped"
    made = model.schedule
    late = MUTANTS["no wait for products"]
    monkeypatch.setattr(model, "schedule", lambda *given: edited(made(*given), late))
    code, out = tkgen("test", path, "--executor", "model", "--schedules", 3)
    assert code == 1 and "M=64 N=64 K=320: " in out and "elements are wrong" in out and "as shipped: " in out


def test_test_takes_one_of_a_batch() -> None:
    sizes = modelled_suite.sizes(load(SPECS / "h100_attention.tk"))
    assert sizes == [{"BATCH": 1, "LENGTH": 128 * n} for n in (1, 2, 3)]


def test_run_is_of_whole_launches() -> None:
    code, out = tkgen("run", SPECS / "h100_lcf.tk", "-D", "M=200 N=264 K=136", "--blocks", "0")
    assert code == 2 and "remove `--blocks`" in out


def test_run_fails_where_numbers_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    made = model.schedule
    monkeypatch.setattr(model, "schedule", lambda *given: edited(made(*given), MUTANTS["no fence before a store"]))
    code, out = tkgen("run", SPECS / "h100_lcf.tk", "-D", "M=200 N=264 K=136", "--executor", "model")
    assert code == 1 and "WRONG" in out and "52800 NaN" in out


@compiles
def test_an_operator_takes_tensors_of_the_cpu() -> None:
    """Two outputs, and an input that does not lie row by row; `torch.compile` knows the shapes."""
    build = Attention(50, 100, 64, 64, 64).spec().build()
    attention = operator(build, "attention_of_hopper")
    q, k, v = (torch.randn(2, 2, n, 64).bfloat16() for n in (50, 100, 100))
    q = q.transpose(0, 1).contiguous().transpose(0, 1)
    out, total = attention(q, k, v)  # type: ignore[misc]
    scores = q.float() @ k.float().mT / 8
    torch.testing.assert_close(out.float(), scores.softmax(-1) @ v.float(), atol=2e-2, rtol=0)
    torch.testing.assert_close(total, scores.logsumexp(-1) / math.log(2), atol=1e-3, rtol=0)
    traced = torch.compile(lambda *of: attention(*of)[0] * 2, backend="eager", fullgraph=True)
    assert torch.equal(traced(q, k, v), out * 2)
    with pytest.raises(ValueError, match="Q has"):
        attention(q[:1], k, v)
