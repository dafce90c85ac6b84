"""Instructions, cycles and registers by line of a spec, of every kind of kernel, each counted once."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tkgen.api import load
from tkgen.backends.hopper import line_tables
from tkgen.backends.hopper.build import CudaBuild
from tkgen.backends.hopper.toolchain import Figures, Nvcc, find_nvcc
from tkgen.cli import app
from tkgen.predict import models, predict, predicted
from tkgen.report import prediction
from tkgen.report.facts import facts
from tkgen.report.hot import OUTSIDE, Cheaper, Hot, HotLine, hot_kernels
from tkgen.report.hot_text import said
from tkgen.toolchain.compiler import ToolchainError
from tkgen.tune.cheaper import cheaper, forms

SPECS = Path(__file__).parents[2] / "specs"

ACTIVATED = """kernel activated
  dims ROWS = 1024, D = 1024
  global X : bf16[ROWS, D]
  global Y : bf16[ROWS, D]
  over r in ROWS by 4
  waves 4 along r
  x = X[r]
  half = x * 0.5
  b = gelu(gelu(gelu(half)))  # the hot one
  Y[r] = b + x
"""
ATTENTION = {"LENGTH": 512}
PRODUCT = {"M": 256, "N": 256, "K": 2048}


def found(build: Any) -> tuple[Hot, ...]:
    known = models(build)
    whole = predicted(build, known, what_if=False)
    return hot_kernels(build, known, whole.kernels or (whole,))


def adds_up(hot: Hot) -> None:
    for number in ("instructions", "looped", "registers"):
        assert sum(getattr(line, number) for line in hot.lines) == getattr(hot.total, number), number
    for number in ("vector", "matrix", "cycles", "time", "vector_share", "matrix_share"):
        parts = [getattr(line, number) or 0.0 for line in hot.lines]
        assert sum(parts) == pytest.approx(getattr(hot.total, number) or 0.0), number
    assert hot.total.vector_share == pytest.approx(1)
    outside = [line.name for line in hot.lines if not line.line]
    assert outside == [name for name in OUTSIDE if name in outside]


def by_line(hot: Hot) -> dict[int, Any]:
    return {line.line: line for line in hot.lines if line.line}


# ---------------------------------------------------------------- each kind of kernel


def test_rows_the_line_that_is_hot_by_construction_is_named() -> None:
    build = load("activated.tk", text=ACTIVATED).build()
    (hot,) = found(build)
    adds_up(hot)
    lines = by_line(hot)
    assert hot.vector_line is lines[9] and lines[9].vector_share > 0.7 and lines[9].text == "b = gelu(gelu(gelu(half)))"
    assert lines[9].vector > 20 * lines[8].vector > 0
    assert lines[9].functions["gelu"] > 0.5 * lines[9].vector
    assert hot.sentence.startswith("`gelu` in line 9 is ") and "% of the vector instructions" in hot.sentence
    assert hot.total.instructions == build.report()["instructions"]["total"] == len(build.function.instructions)
    assert hot.total.registers == build.resources.vgpr + build.resources.agpr
    assert hot.total.time == pytest.approx(1) and hot.step == "wave"


def test_products_count_as_the_report_and_the_prediction_do() -> None:
    build = load(SPECS / "eight_wave.tk", PRODUCT).build()
    (hot,) = found(build)
    adds_up(hot)
    assert hot.total.looped == build.report()["main_loop"]["total"]
    assert hot.total.registers == build.resources.vgpr + build.resources.agpr
    loop = predict(build, what_if=False).loop
    assert loop is not None and hot.total.cycles == pytest.approx(loop.cycles) and hot.step == loop.name
    multiplying = hot.hottest
    assert multiplying is not None and multiplying.text.startswith("accumulate C")
    assert multiplying.matrix == hot.total.matrix > 0 and multiplying.matrix_share == 1
    assert hot.sentence.startswith(f"{multiplying.place}, `{multiplying.text}`, is 100% of the matrix instructions")
    waits = next(line for line in hot.lines if line.name == "waits")
    mix = build.report()["main_loop"]
    assert waits.looped == mix["waits"] + mix["barriers"]


def test_attention_names_the_line_of_powers() -> None:
    build = load(SPECS / "attention" / "attention.tk", ATTENTION).build()
    (hot,) = found(build)
    adds_up(hot)
    texts = {line.text: line for line in hot.lines}
    powers = texts["p = exp2(s - n)"]
    scores, sums = (next(line for text, line in texts.items() if text.startswith(name)) for name in ("s = ", "o = o"))
    assert scores.matrix == sums.matrix == hot.total.matrix / 2 > 0 == powers.matrix
    assert powers.vector_share > 0.05 and hot.hottest in (powers, scores, sums)
    assert hot.total.looped == build.report()["main_loop"]["total"]


def test_each_kernel_of_a_sequence_has_lines() -> None:
    build = load(SPECS / "sequences" / "split_k_gelu.tk").build()
    sums, finish = found(build)
    adds_up(sums)
    adds_up(finish)
    assert (sums.kernel, finish.kernel) == ("sums", "finish")
    assert finish.vector_line is not None and "gelu" in finish.vector_line.text
    equations = [{line.line for line in hot.lines if line.equation} for hot in (sums, finish)]
    assert not set.intersection(*equations)


# ---------------------------------------------------------------- Hopper

FILE = "/tmp/x/activated.cu"
ROWS_ON_HOPPER = ACTIVATED.replace("kernel activated", "kernel activated\n  target sm_90a")


def disassembled(source: str) -> tuple[str, str, str]:
    """A kernel in the formats of cuobjdump and nvdisasm: a load, two instructions of gelu, one of the sum, an exit."""
    text = source.split("\n")
    loads, hot = (
        next(n for n, line in enumerate(text, 1) if name in line) for name in ("= tk::load_elements", "= gelu(")
    )
    helper = next(n for n, line in enumerate(text, 1) if "inline float gelu(" in line) + 1
    stored = next(n for n, line in enumerate(text, 1) if "tk::narrow" in line and n >= hot)
    inlined = f'//## File "{FILE}", line {helper} inlined at "{FILE}", line {hot}'
    said = {0: f'//## File "{FILE}", line {loads}', 1: inlined, 3: f'//## File "{FILE}", line {stored}'}
    code = ["LDG.E.128 R4, desc[UR4][R2.64]", "MUFU.EX2 R8, R4", "FMUL R8, R8, R8", "FADD R9, R8, R4", "EXIT"]
    live = ["  ::^  ", "  :::^ ", "    :x ", "    vv^", "       "]
    plain, placed, ranges = [], [], ["        // |  # 0123456 |"]
    for n, (line, marks) in enumerate(zip(code, live, strict=True)):
        row = f"        /*{n * 16:04x}*/                   {line} ;"
        plain.append(row)
        placed += ([f"\t{said[n]}"] if n in said else []) + [row]
        ranges.append(f"{row:<90}// |  2 {marks} |")
    width = ranges[1].index("// |")
    ranges[0] = f"{'':<{width}}// |  # 0123456 |"
    return "\n".join(plain), "\n".join(placed), "\n".join(ranges)


@pytest.fixture
def on_hopper(monkeypatch: pytest.MonkeyPatch) -> CudaBuild[Any]:
    spec: Any = load("activated.tk", text=ROWS_ON_HOPPER)
    plain, placed, ranges = disassembled(spec.source.text)
    monkeypatch.setattr(line_tables, "located", lambda *_: (placed, ranges))
    return CudaBuild(Nvcc(Path("nvcc"), "PATH", "13.0"), b"", Figures("k", 8, 0, 0, 64), "", plain, spec)


def test_hopper_instructions_have_the_lines_of_line_tables(on_hopper: CudaBuild[Any]) -> None:
    (hot,) = found(on_hopper)
    adds_up(hot)
    lines = by_line(hot)
    assert {n: line.instructions for n, line in lines.items()} == {8: 1, 10: 2, 11: 1}
    assert lines[10].functions == {"gelu": lines[10].vector} and lines[10].vector_share == pytest.approx(2 / 3)
    assert hot.step is None and hot.total.time is None and hot.total.registers == 8
    assert hot.sentence == "`gelu` in line 10 is 67% of the vector instructions"
    # at the peak R2 and R3 of the load's address came with the launch, R4 is what it loaded, R5 what gelu made
    assert lines[8].registers == 1 and lines[10].registers == 1


def test_hopper_instructions_stand_beside_their_lines_in_a_report(
    on_hopper: CudaBuild[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = facts(on_hopper).texts
    assert [line.kind for line in texts.isa] == ["global load", "other", "other", "other", "branch"]
    assert texts.isa[0].text == "LDG.E.128 R4, desc[UR4][R2.64]" and texts.cpp_name == "activated.cu"
    rows = [{row for n in line.cpp for row in texts.cpp[n - 1].spec} for line in texts.isa]
    assert rows == [{8}, {10}, {10}, {11}, {11}]
    monkeypatch.setattr(line_tables, "located", lambda *_: ("", ""))  # of other code: it has no lines then
    bare = facts(on_hopper).texts.isa
    assert [line.text for line in bare] == [line.text for line in texts.isa] and not any(line.cpp for line in bare)


def test_line_tables_that_change_the_code_are_refused(
    on_hopper: CudaBuild[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    placed = line_tables.located(None, "", "", None, ())[0]  # type: ignore[arg-type]
    monkeypatch.setattr(line_tables, "located", lambda *_: (placed.replace("FADD", "FMUL"), ""))
    with pytest.raises(ToolchainError, match="line tables change the machine code of activated"):
        found(on_hopper)
    shown = prediction(on_hopper)
    assert shown.hot is None and "no lines of the spec: line tables change the machine code" in shown.notes[-1]


def _disassembles() -> bool:
    try:
        tool = find_nvcc().disassembler
    except ToolchainError:
        return False
    return tool is not None and tool.with_name("nvdisasm").is_file()


@pytest.mark.skipif(not _disassembles(), reason="needs nvcc, cuobjdump and nvdisasm (the extra `cuda`)")
@pytest.mark.parametrize("name", ["h100_softmax", "h100_attention", "h100_double_buffer"])
def test_hopper_lines_count_as_the_machine_code_does(name: str) -> None:
    build: Any = load(SPECS / "hopper" / f"{name}.tk").build()
    (hot,) = found(build)
    adds_up(hot)
    assert hot.total.instructions == sum(build.figures.instructions.values())
    words = ("exp2", "rowsum") if hot.total.vector_share and "double" not in name else ("accumulate C",)
    assert hot.hottest is not None and any(word in hot.hottest.text for word in words)
    multiplied = sum(line.matrix for line in hot.lines if "@" in line.text or line.text.startswith("accumulate"))
    assert multiplied >= 0.8 * hot.total.matrix  # some stand at waits


# ---------------------------------------------------------------- a cheaper form


def test_the_prediction_of_a_cheaper_form_is_that_of_the_changed_spec() -> None:
    spec = load("activated.tk", text=ACTIVATED)
    build = spec.build()
    (hot,) = found(build)
    now = predict(build, what_if=False).seconds
    best = cheaper(spec, 0, hot, [now])
    changed = load("activated.tk", text=ACTIVATED.replace("gelu(", "fast gelu(")).build()
    assert best is not None and best.change == "`fast gelu` for `gelu`" and best.line == 9
    assert best.seconds == pytest.approx(predict(changed, what_if=False).seconds)
    assert best.speedup == pytest.approx(now / best.seconds)


def test_the_sentence_says_what_a_cheaper_form_brings() -> None:
    build = load("activated.tk", text=ACTIVATED).build()
    (hot,) = found(build)
    faster = replace(hot, cheaper=Cheaper("activated", "`gelu_tanh` for `gelu`", 9, 1e-5, 1.5))
    assert said(faster).startswith("`gelu` in line 9 is ")
    assert said(faster).endswith("; as `gelu_tanh` the kernel is predicted 1.50 times as fast.")
    other = replace(hot, cheaper=Cheaper("activated", "`* rcp()` for `/`", 9, 1e-5, 1.5))
    assert said(other).endswith("; with `* rcp()` for `/` the kernel is predicted 1.50 times as fast.")
    same = replace(hot, cheaper=Cheaper("activated", "`gelu_tanh` for `gelu`", 9, 1e-5, 1.001))
    assert said(same).endswith("the kernel is predicted no faster.")


@pytest.mark.parametrize(
    ("equation", "changed"),
    [
        (
            "b = gelu(x) + gelu(half)",
            ["b = fast gelu(x) + fast gelu(half)", "b = gelu_tanh(x) + gelu_tanh(half)"],
        ),
        ("b = fast tanh(x) + tanh(half)", ["b = fast tanh(x) + fast tanh(half)"]),
        ("b = x / (half + 2)", ["b = x * rcp(half + 2)"]),
        ("b = (x + 1) / half", ["b = (x + 1) * rcp(half)"]),
        ("b = x / exp2(half) / (1 + abs(x))", ["b = x * rcp(exp2(half)) * rcp(1 + abs(x))"]),
        ("b = x / (half / (x + 2))", ["b = x * rcp(half * rcp(x + 2))"]),
        ("b = 1 / sqrt(half * half + 1)", ["b = rsqrt(half * half + 1)"]),
        ("b = x / 3", []),
        ("b = exp2(x)", []),
    ],
)
def test_cheaper_forms_change_all_of_a_line_and_nothing_else(equation: str, changed: list[str]) -> None:
    text = ACTIVATED.replace("b = gelu(gelu(gelu(half)))", equation)
    spec = load("activated.tk", text=text)
    line = Hot("", (), _at(9), None).total
    found = forms(spec, line)
    assert [form.text for form in found] == [text.replace(equation, other) for other in changed]
    for form in found:
        load("activated.tk", text=form.text).check()


def _at(line: int) -> HotLine:
    return HotLine("", "", line, line, "", True, 0, 0, 0.0, 0.0, 0.0, 0.0, None, None, 0)


# ---------------------------------------------------------------- commands


def test_predict_and_report_show_the_same_lines(tmp_path: Path) -> None:
    spec = tmp_path / "activated.tk"
    spec.write_text(ACTIVATED)
    result = CliRunner().invoke(app, ["predict", str(spec), "--json"])
    assert result.exit_code == 0, result.output
    (hot,) = json.loads(result.output)["hot"]
    assert hot["sentence"].startswith("`gelu` in line 9 is ") and "; as `fast gelu` the kernel " in hot["sentence"]
    assert hot["cheaper"]["speedup"] > 0
    page = tmp_path / "report.html"
    result = CliRunner().invoke(app, ["report", str(spec), "--json", "-o", str(page)])
    assert result.exit_code == 0, result.output
    (kernel,) = json.loads(result.output)
    shown = kernel["prediction"]["hot"]
    assert shown == hot
    text = page.read_text(encoding="utf-8")
    assert '<h2 id="k0-hot-h">Hot lines</h2>' in text and "`gelu` in line 9 is" in text
    assert 'class="goto" data-line="9">line 9</button>' in text
    result = CliRunner().invoke(app, ["predict", str(spec)])
    assert "by line of the spec" in result.output and "`gelu` in line 9 is" in result.output
    result = CliRunner().invoke(app, ["predict", str(spec), "--no-lines"])
    assert result.exit_code == 0 and "by line" not in result.output
