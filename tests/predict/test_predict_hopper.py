"""Predictions for Hopper GPUs: what is read of machine code, the clock that the power leaves, what follows of both."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hopper_builds import NVCC, loop_code, product_code, sass
from rich.console import Console
from typer.testing import CliRunner

from tkgen.api import load
from tkgen.backends.hopper.build import CudaBuild
from tkgen.backends.hopper.machine import load_hopper
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.backends.hopper.toolchain import Figures
from tkgen.cli import app
from tkgen.predict import PredictError, Prediction, predict, render_terminal
from tkgen.predict.hopper.model import Work, clock
from tkgen.predict.hopper.sass import read
from tkgen.targets import UnknownTargetError

SPECS = Path(__file__).parents[2] / "specs" / "hopper"
MACHINE = load_hopper()

PARTS = """
kernel parts
  target sm_90a
  dims PARTS = 2, HEADS = 64, LENGTH = 256, KEYS = 640, D = 64
  global Q : bf16[HEADS, LENGTH, D]
  global K : bf16[HEADS, KEYS, D]
  global V : bf16[HEADS, KEYS, D]
  global O : f32[PARTS, HEADS, LENGTH, D]
  global L : f32[PARTS, HEADS, LENGTH]
  over s in PARTS, h in HEADS, q in LENGTH by 128
  waves 8 along q
  shared K, V
  carry m : f32[q] = -3.4e38, l : f32[q] = 0, o : f32[q, D] = 0
  each j in KEYS by 128 part s
    y = 0.18033688 * Q[h, q] @ K[h, j].T
    n = max(m, rowmax(y))
    p = exp2(y - n)
    r = exp2(m - n)
    l = l * r + rowsum(p)
    o = o * r + bf16(p) @ V[h, j]
    m = n
  O[s, h, q] = o / l
  L[s, h, q] = m + log2(l)
"""


def product(code: str = "", name: str = "h100_lcf", on: str = "H100", **values: int) -> Prediction:
    spec = load(SPECS / f"{name}.tk", values)
    assert isinstance(spec, HopperSpec)
    build = CudaBuild(NVCC, b"", Figures("k", 168, 0, 0, 64), "", code or product_code(), spec)
    return predict(build, product=on)


def attention(name: str = "h100_attention", code: str = "", **values: int) -> Prediction:
    spec = load(SPECS / f"{name}.tk", values)
    assert isinstance(spec, HopperSpec)
    return predict(CudaBuild(NVCC, b"", Figures("k", 168, 0, 0, 64), "", code or loop_code(), spec))


def rows(
    code: Sequence[str], registers: int = 32, name: str = "h100_softmax", on: str = "H100", **values: int
) -> Prediction:
    spec = load(SPECS / f"{name}.tk", values)
    assert isinstance(spec, HopperSpec)
    build = CudaBuild(NVCC, b"", Figures("k", registers, 0, 0, 64), "", sass(*code), spec)
    return predict(build, product=on)


def shown(p: Prediction) -> str:
    console = Console(width=200, file=io.StringIO())
    render_terminal(p, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["h100_swiglu", "h100_swiglu_gates"])
def test_products_with_several_factors_on_a_side_are_predicted(name: str) -> None:
    assert product(name=name).seconds > product().seconds


# ---------------------------------------------------------------- machine code


def test_loops_are_between_a_jump_back_and_where_it_goes() -> None:
    code = read(sass("MOV", "FADD", "HGMMA", "MUFU.EX2", "BRA 2", "UTMASTG", "BRA 1", "NOP"))
    assert [len(loop) for loop in code.loops] == [3, 6] and len(code) == 8  # EXIT counts, NOP does not
    inner, outer = code.loop_with("HGMMA"), code.loop_with("HGMMA", "UTMASTG")
    assert inner is not None and outer is not None and inner.count("MUFU") == 1 and len(outer) == 6
    assert code.loop_with("LDG") is None and len(code.before("UTMASTG")) == 5
    assert [len(loop) for loop in code.outermost] == [6]


def test_of_two_ways_the_shorter_one_is_executed() -> None:
    # if (1..4: three, and the jump over the other way) else (5..6)
    code = read(sass("BRA 5", "FADD", "FADD", "FADD", "BRA 7", "FMUL", "FMUL", "MOV"))
    assert len(code) == 9 and code.executed == 9 - 4
    assert read(sass("BRA 3", "FADD", "FADD", "MOV")).executed == 5  # an `if` alone: taken


def test_loads_are_waited_for_once_between_meetings() -> None:
    code = read(sass("LDG.E.128", "LDG.E.U16", "FADD", "BAR.SYNC", "LDG.E", "SHFL.BFLY", "BAR.SYNC", "STG.E.128"))
    assert code.load_groups == 2 and code.load_bytes == 16 + 2 + 4


def test_rows_of_several_dimensions_together_have_a_size() -> None:
    assert product(name="h100_grouped_heads").seconds > 0


# ---------------------------------------------------------------- the clock


def test_power_holds_the_clock() -> None:
    most = MACHINE.timing.max_clock_mhz * 1e6
    assert clock(MACHINE, Work(0, 0, 0), 1e6, 0) == (most, "peak")
    full, held = clock(MACHINE, Work(1e6, 0, 0), 1e6, 0)
    assert held == "power" and 1200e6 < full < 1500e6  # products alone: 1335 MHz with 110 W of memory beside them
    half, _ = clock(MACHINE, Work(0.5e6, 0, 0), 1e6, 0)
    assert full < half <= most
    beside, _ = clock(MACHINE, Work(1e6, 0.8e6, 1e6), 1e6, 0)
    assert beside < full  # vector work and memory want watts, too
    board = replace(MACHINE, timing=replace(MACHINE.timing, power_limit_w=400))
    assert clock(board, Work(1e6, 0, 0), 1e6, 0)[0] < full


# ---------------------------------------------------------------- products


def test_where_the_time_of_a_product_goes() -> None:
    p = product()
    assert sum(p.parts.values()) == pytest.approx(p.seconds) and p.limiter == "products" and p.blocks == 132
    assert p.tflops == pytest.approx(2 * 8192**3 / p.seconds / 1e12) and 550 < p.tflops < 720
    assert p.clock_limit == "power" and 0 < p.share_of_peak < 1
    assert product(K=16384).seconds == pytest.approx(2 * p.seconds, rel=0.05)
    assert "held by power" in shown(p) and "h100_lcf M=8192" in shown(p)


def test_few_stages_wait_for_copies_and_small_products_for_their_start() -> None:
    slow, fast = (product(ROWS=64, COLUMNS=128, STAGES=s, M=768, N=1408, K=8192) for s in (2, 8))
    assert slow.limiter == "copies" and slow.seconds > 1.3 * fast.seconds
    small = product(M=128, N=256, K=64)
    assert small.seconds < 6e-6 and small.limiter in ("first copies", "launch")


@pytest.mark.parametrize("rows, columns, stages, down, across, us", [
    (64, 64, 2, 1, 1, 38.7), (64, 256, 2, 1, 1, 46.3), (256, 128, 2, 1, 1, 67.2), (64, 64, 4, 1, 1, 16.3),
    (64, 64, 2, 12, 11, 38.8), (64, 256, 2, 12, 11, 50.6), (128, 128, 2, 12, 11, 49.4),
    (64, 64, 2, 1, 132, 44.4), (64, 256, 2, 1, 132, 100.3), (64, 128, 4, 1, 132, 50.2),
])  # fmt: skip
def test_copies_are_waited_for_as_long_as_on_the_gpu(
    rows: int, columns: int, stages: int, down: int, across: int, us: float
) -> None:
    """By benchmarks/hopper_probe.py: one on its way or three, alone, beside others of the same or of their own."""
    p = product(
        name="h100_lcf_abt", M=down * rows, N=across * columns, K=4096, ROWS=rows, COLUMNS=columns, STAGES=stages
    )
    assert p.seconds * 1e6 == pytest.approx(us, rel=0.1)


def test_rows_of_half_lines_are_waited_for_at_each_step() -> None:
    half, whole = (product(name="h100_lcf_abt", M=64, N=64, K=k, ROWS=64, COLUMNS=64, STAGES=2) for k in (8256, 8192))
    assert half.seconds > 1.3 * whole.seconds


def test_neighbours_read_the_wider_factor_together() -> None:
    alone, together = (
        product(M=8448, N=2816, K=4096, ROWS=64, COLUMNS=256, STAGES=5, GROUP=group).seconds for group in (1, 12)
    )
    assert alone > 1.2 * together  # measured 427 and 302 us


def test_a_skinny_product_is_as_fast_as_memory() -> None:
    p = product(M=64, N=8192, K=8192, ROWS=64, COLUMNS=64, STAGES=8)
    assert p.limiter == "memory" and 0.8 < p.gbps / 3350 < 0.95


def test_what_an_epilogue_reads_is_waited_for() -> None:
    plain, reads = (product(product_code(loads=n), M=1536, N=8448, K=512) for n in (0, 8))
    assert reads.seconds > plain.seconds + 1e-6


# ---------------------------------------------------------------- loops of products


def test_uneven_parts_of_a_loop_are_counted_one_by_one(tmp_path: Path) -> None:
    def predicted(**sizes: int) -> Prediction:
        path = tmp_path / "parts.tk"
        path.write_text(PARTS)
        spec = load(path, sizes)
        assert isinstance(spec, HopperSpec)
        return predict(CudaBuild(NVCC, b"", Figures("k", 168, 0, 0, 64), "", loop_code(), spec))

    one, two = predicted(PARTS=1), predicted(PARTS=2)  # 5 iterations; 3 and 2 of them
    assert one.tflops is not None and two.tflops is not None
    assert one.tflops * one.seconds == pytest.approx(two.tflops * two.seconds)


def test_attention_is_bound_by_what_is_slower() -> None:
    p = attention()
    assert sum(p.parts.values()) == pytest.approx(p.seconds) and 500 < p.tflops < 750
    more = attention(code=loop_code(inside=1500))
    assert more.limiter == "vector work" and more.seconds > 1.5 * p.seconds
    assert attention(LENGTH=8192).seconds == pytest.approx(4 * p.seconds, rel=0.1)


def test_blocks_beyond_the_diagonal_take_no_time() -> None:
    causal = attention("h100_attention_causal", LENGTH=8192)
    assert 0.45 < causal.seconds / attention(LENGTH=8192).seconds < 0.75
    assert causal.tflops < attention(LENGTH=8192).tflops


# ---------------------------------------------------------------- rows

STREAM = ("LDG.E.128", "FADD", "SHFL.BFLY", "BAR.SYNC", "FMUL", "STG.E.128")


def test_rows_are_near_a_copy_where_enough_blocks_share_an_sm() -> None:
    p = rows(STREAM)
    assert sum(p.parts.values()) == pytest.approx(p.seconds) and p.limiter == "memory" and p.share_of_copy > 0.95
    few = rows(STREAM, registers=250)
    assert few.resident < p.resident and few.seconds > p.seconds
    busy = rows((*STREAM, *["FADD"] * 20000))
    assert busy.limiter == "instructions" and busy.seconds > 3 * p.seconds


def test_lanes_without_a_last_chunk_wait_for_it_as_often() -> None:
    code = ["MOV", *["LDG.E.128"] * 3, "BAR.SYNC", *["FADD"] * 2000, "BAR.SYNC", "STG.E.128", "BRA 1"]
    sizes = {"TOKENS": 53184, "TILE": 4, "WARPS": 16}
    some, whole = (rows(code, 128, "h100_layernorm", D=d, **sizes) for d in (3 * 3072, 3 * 4096))
    assert some.seconds > 0.95 * whole.seconds  # four passes of each, though lanes of one have less


def test_rows_that_are_read_again_come_from_memory_where_the_l2_has_lost_them() -> None:
    code = ("MOV", *STREAM, "BRA 1")
    short, long = (rows(code, name="h100_long_softmax", ROWS=2**27 // d, D=d) for d in (8192, 131072))
    assert short.parts["memory"] < 0.75 * long.parts["memory"]


def test_what_would_help_is_what_limits() -> None:
    """A change of what limits a kernel helps most; each only helps, and none more than leaving that part out."""
    streamed, busy = rows(STREAM), rows((*STREAM, *["FADD"] * 20000))
    assert (streamed.what_if[0].resource, busy.what_if[0].resource) == ("memory", "instructions")
    long, small = product(), product(M=128, N=256, K=64)
    assert {x.resource for x in long.what_if[:2]} == {"products", "power"}  # the matrix units take most of the power
    for found in (streamed, busy, long, small, attention()):
        assert [x.speedup for x in found.what_if] == sorted((x.speedup for x in found.what_if), reverse=True)
        by_name = {x.resource: x for x in found.what_if}
        assert all(1 <= x.speedup == pytest.approx(found.seconds / x.seconds) for x in found.what_if)
        assert by_name["launch"].seconds == pytest.approx(found.seconds - found.launch_seconds, rel=0.01)
    assert "no limit of power" in shown(long)


# ---------------------------------------------------------------- other products


def test_an_h200_is_an_h100_with_faster_memory() -> None:
    here, there = (rows(STREAM, on=name) for name in ("H100", "H200"))
    assert 1.1 < here.seconds / there.seconds < 4.8 / 3.35 and there.gbps > 3350 > here.gbps
    assert product(on="H200").seconds == pytest.approx(product().seconds, rel=1e-3)
    assert there.product == "H200" and here.notes == ()
    assert shown(there).endswith("note: H200 with its own rate of memory; all else as measured on an H100\n")
    assert "measured on" not in shown(here)


# ---------------------------------------------------------------- where nothing can be said


def test_what_cannot_be_predicted_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = load(SPECS / "h100_lcf.tk")
    assert isinstance(spec, HopperSpec)
    build = CudaBuild(NVCC, b"", Figures("k", 168, 0, 0, 64), "", "", spec)
    with pytest.raises(PredictError, match=r"no cuobjdump beside nvcc or on PATH; pip install .*nvidia-cuda-cuobjdump"):
        predict(build)
    with pytest.raises(UnknownTargetError, match="sm_90a has no product 'MI300X'; it has H100, H200"):
        predict(build, product="MI300X")
    monkeypatch.setattr(HopperSpec, "build", lambda self, cxx=None: replace(build, spec=self))
    result = CliRunner().invoke(app, ["predict", str(SPECS / "h100_lcf.tk")])
    assert result.exit_code == 2 and "no cuobjdump" in result.output


def test_the_command_prints_it_and_compares(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    figures = Figures("k", 168, 0, 0, 64)
    monkeypatch.setattr(
        HopperSpec, "build", lambda self, cxx=None: CudaBuild(NVCC, b"", figures, "", product_code(), self)
    )
    path = str(SPECS / "h100_lcf.tk")
    result = CliRunner().invoke(app, ["predict", path, "--json", "-D", "M=4096"])
    found = json.loads(result.stdout)
    assert result.exit_code == 0 and found["sizes"] == {"M": 4096, "N": 8192, "K": 8192} and found["tflops"] > 500
    both = CliRunner().invoke(app, ["predict", path, "--compare-D", "STAGES=2"])
    assert both.exit_code == 0 and "the second is 0." in both.output
    traced = CliRunner().invoke(app, ["predict", path, "--trace", str(tmp_path / "t.json")])
    assert traced.exit_code == 2 and "no trace of h100_lcf" in traced.output and not (tmp_path / "t.json").exists()
