"""A sequence of kernels as an operator of torch, on a GPU, under the sanitizer, in the commands."""

from __future__ import annotations

import difflib
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import tkgen
from tkgen import edits
from tkgen.backends.cdna.backend import Cdna
from tkgen.build.saves import Saves
from tkgen.cli import app
from tkgen.execute import compare
from tkgen.execute.launch import computed
from tkgen.predict import predict
from tkgen.sequence import SequenceSpec
from tkgen.syntax.parser import spec_paths
from tkgen.tune import edits as tried

SPECS = Path(__file__).parents[2] / "specs"
SPLIT = Path(__file__).parent / "split.tk"
IN_PLACE = """sequence in_place
dims ROWS = dynamic, D = 200
global X : f32[ROWS, D]
global T : bf16[ROWS, D]
global Y : f32[ROWS, D]
kernel first
  over r in ROWS by 4
  waves 1
  T[r] = X[r] * 2
  X[r] = X[r] + 1
kernel second
  over r in ROWS by 8
  waves 2
  Y[r] = T[r] - rowmax(T[r])
"""
HALVES = """sequence halves
dims ROWS = 13, D = 100, TWO = 2
global X : f32[ROWS, D]
global T : f32[ROWS, TWO, D]
global Y : f32[ROWS, D]
kernel first
  over r in ROWS by 4
  waves 1
  T[r, 0] = X[r] + 1
kernel second
  over r in ROWS by 4
  waves 1
  T[r, 1] = X[r] - 1
kernel third
  over r in ROWS by 8
  waves 2
  Y[r] = T[r, 0] * T[r, 1]
"""


# Stores within a loop that ends at a block's rows.
ATTENTION = """sequence scaled_attention
dims HEADS = 1, LENGTH = 128, D = 64
global X : f32[HEADS, LENGTH, D]
global Q : bf16[HEADS, LENGTH, D]
global K : bf16[HEADS, LENGTH, D]
global V : bf16[HEADS, LENGTH, D]
global O : bf16[HEADS, LENGTH, D]

kernel queries
  over h in HEADS, q in LENGTH by 4
  waves 1
  Q[h, q] = X[h, q] * 0.1803

kernel attention
  over h in HEADS, q in LENGTH by 128
  waves 4 along q
  shared K, V  buffers 2
  registers Q
  carry m : f32[q] = -inf, l : f32[q] = 0, o : f32[q, D] = 0
  each j in LENGTH by 64
    s = Q[h, q] @ K[h, j].T
    n = max(m, rowmax(s))
    p = exp2(s - n)
    r = exp2(m - n)
    l = l * r + rowsum(p)
    o = o * r + bf16(p) @ V[h, j]
    m = n
  O[h, q] = o / l
"""


def tkgen_(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return result.output


def written(folder: Path, text: str) -> str:
    path = folder / "spec.tk"
    path.write_text(text)
    return str(path)


# ---------------------------------------------------------------- files


def test_the_library_writes_what_the_command_does(tmp_path: Path) -> None:
    build = tkgen.load(HALVES).check().build()
    found = tkgen.write(build, tmp_path)
    assert {path.name for path in found.values()} == {p.name for p in tmp_path.iterdir() if p.suffix != ".refused"}
    assert found["cpp"].read_text(encoding="utf-8") == build.spec.text
    assert found["hsaco third"].read_bytes() == build.kernels[2].hsaco
    one = tkgen.write(build.kernels[0], tmp_path / "one", ["asm"])
    assert one == {"asm": tmp_path / "one" / "first.s"} and one["asm"].read_text() == build.kernels[0].asm


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    build = tkgen.load(HALVES).check().build()
    with pytest.raises(ValueError, match="'obj' is no output for gfx942: cpp, asm"):
        tkgen.write(build, tmp_path, ["obj"])
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------- torch


def test_an_operator_launches_all_kernels() -> None:
    layer = tkgen.operator(tkgen.load(SPLIT, {"M": None}).check().build(), "split_layer")
    x, w, b = torch.randn(100, 288).bfloat16(), torch.randn(128, 288).bfloat16(), torch.randn(128).bfloat16()
    y = layer(x, w, b, scale=0.25)
    expected = torch.nn.functional.gelu(0.25 * (x.double() @ w.double().T) + b.double())
    torch.testing.assert_close(y.double(), expected, rtol=2**-8, atol=1e-5)
    assert y.shape == (100, 128) and y.dtype is torch.bfloat16
    compiled = torch.compile(lambda x: layer(x, w, b) + 1, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(x), layer(x, w, b) + 1)
    with torch._subclasses.FakeTensorMode() as mode:
        assert layer(*map(mode.from_tensor, (x, w, b))).shape == (100, 128)
    with pytest.raises(ValueError, match="split takes 3 tensors"):
        tkgen.run(tkgen.load(SPLIT).build(), x, w)
    with pytest.raises(ValueError, match="W has K = 280, expected 288"):
        layer(x, w[:, :280], b)


def test_an_operator_leaves_its_inputs_alone() -> None:
    x = torch.randn(5, 200)
    before = x.clone()
    kept, y = tkgen.run(tkgen.load(IN_PLACE).check().build(), x)
    assert torch.equal(x, before) and torch.equal(kept, x + 1)
    doubled = (x * 2).bfloat16().float()
    assert torch.equal(y, doubled - doubled.amax(1, keepdim=True))


# ---------------------------------------------------------------- a GPU


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A GPU whose memory is the CPU's and whose clock shows 2 ms; the tensors of each launch are noted."""
    seen: list[str] = []

    class Event:
        def __init__(self, **_: object) -> None: ...

        def record(self) -> None: ...

        def elapsed_time(self, _: object) -> float:
            return 2.0

    def launcher(_: object, spec: SequenceSpec, launch: Any, tensors: Any, scalars: Any, cxx: object) -> Any:
        build = spec.build()
        seen.clear()

        def work() -> None:
            if not seen:  # the launches that are timed need no numbers
                seen.extend(f"{name} {'NaN' if t.isnan().all() else 'given'}" for name, t in tensors.items())
                given = {t.name: tensors[t.name].clone() for t in spec.program.reads}
                for name, t in computed(build, launch, given, scalars).items():
                    tensors[name].copy_(t)

        return work

    monkeypatch.setattr(Cdna, "need_gpu", lambda _: None)
    monkeypatch.setattr(Cdna, "launcher", launcher)
    monkeypatch.setattr(torch.Tensor, "cuda", lambda t: t)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    return seen


def test_a_gpu_gets_the_memory_between_the_kernels_and_all_is_compared(gpu: list[str]) -> None:
    (row,) = json.loads(tkgen_("run", str(SPLIT), "--device", "gpu", "--json"))
    assert gpu == ["X given", "W given", "b given", "Y NaN", "S NaN"]
    assert row["ok"] and row["comparison"]["elements"] in (64 * 128, 3 * 64 * 128)
    assert row["tflops"] == pytest.approx(2 * 64 * 128 * 288 / 2e-3 / 1e12)
    assert "TFLOP/s" in tkgen_("run", str(SPLIT), "--device", "gpu")


def test_of_attention_a_gpu_is_said_in_multiplications(gpu: list[str]) -> None:
    spec, sizes = SPECS / "attention/attention_causal.tk", "BATCH=1 HEADS=2 KV_HEADS=1 LENGTH=100 D=64"
    (row,) = json.loads(tkgen_("run", str(spec), "-D", sizes, "--device", "gpu", "--json"))
    assert row["ok"] and row["tflops"] == pytest.approx(4 * 2 * 100 * 100 * 64 / 2e-3 / 1e12) and row["gbps"] is None
    assert "TFLOP/s" in tkgen_("run", str(spec), "-D", sizes, "--device", "gpu")


def test_without_products_a_gpu_is_said_in_bytes(gpu: list[str], tmp_path: Path) -> None:
    (row,) = json.loads(tkgen_("run", written(tmp_path, HALVES), "--device", "gpu", "--json"))
    assert row["ok"] and row["gbps"] == pytest.approx(2 * 13 * 100 * 4 / 2e-3 / 1e9) and row["tflops"] is None
    assert "GB/s" in tkgen_("run", written(tmp_path, HALVES), "--device", "gpu")


# ---------------------------------------------------------------- the emulator


def test_some_blocks_are_those_of_each_kernel() -> None:
    rows = json.loads(tkgen_("run", str(SPLIT), "--blocks", "1,5", "--schedules", "2", "--json"))
    assert [(r["spec"], r["grid"], r["blocks"], r["ok"]) for r in rows] == [
        (name, grid, [1, 5], True) for name, grid in (("split/sums", 6), ("split/finish", 8)) for _ in range(2)
    ]
    printed = tkgen_("run", str(SPLIT), "--blocks", "1")
    assert "split/sums  M=64" in printed and "split/finish  M=64" in printed
    assert "there is no block 7" in tkgen_("run", str(SPLIT), "--blocks", "7", code=2)


def test_the_sanitizer_runs_each_kernel(tmp_path: Path) -> None:
    printed = tkgen_("sanitize", str(SPLIT), "-D", "K=100", "--schedules", "2")
    assert "no findings; 6 blocks, 2 schedules" in printed and "  then 8 blocks, 2 schedules" in printed
    assert "no findings" in tkgen_("sanitize", written(tmp_path, HALVES), "--schedules", "1")


@pytest.mark.parametrize("name", ["S", "Y"])
def test_the_sanitizer_compares_what_each_kernel_writes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    meant = compare.references

    def other(*args: Any) -> dict[str, Any]:
        return {n: (value + (n == name), bound) for n, (value, bound) in meant(*args).items()}

    monkeypatch.setattr(compare, "references", other)
    assert "the results are wrong" in tkgen_("sanitize", str(SPLIT), "--schedules", "1", code=1)


def test_a_kernel_of_a_sequence_may_be_of_products_of_products(tmp_path: Path) -> None:
    path = written(tmp_path, ATTENTION)
    (row,) = json.loads(tkgen_("run", path, "--json"))
    assert row["ok"] and row["grid"] == 33
    out = ["-o", str(tmp_path / "out")]
    (report,) = json.loads(tkgen_("build", path, *out, "--json"))
    assert [bool(k.get("main_loop")) for k in report["kernels"]] == [False, True]
    tkgen_("build", path, *out, "--emit", "harness", "--no-machine-check")
    assert len(list((tmp_path / "out").glob("*_check.*"))) == 2


# ---------------------------------------------------------------- how long


def test_the_predicted_time_is_that_of_the_kernels() -> None:
    found = json.loads(tkgen_("predict", str(SPLIT), "--json"))
    assert [k["kernel"] for k in found["kernels"]] == ["sums", "finish"]
    assert found["seconds"] == pytest.approx(sum(k["seconds"] for k in found["kernels"]))
    assert sum(k["share"] for k in found["kernels"]) == pytest.approx(1)
    alone = "kernel" + SPLIT.read_text().split("kernel finish")[1]
    shared = "  dims M = 64, N = 128, PARTS = 3\n  global b : bf16[N]\n  global S : f32[PARTS, M, N]\n"
    shared += "  global Y : bf16[M, N]\n  scalar scale : f32 = 0.5\n"
    finish = alone.replace("kernel\n", f"kernel finish\n{shared}", 1)
    build = tkgen.load(finish).check().build()
    assert found["kernels"][1]["seconds"] == predict(build).seconds
    first, *parts = tkgen_("predict", str(SPLIT), "--no-lines").splitlines()
    assert first.startswith("split M=64 N=128 K=288 PARTS=3 on MI300X: ") and len(parts) == 2
    assert parts[0].startswith("  sums ") and parts[1].startswith("  finish ")


def test_a_sequence_is_compared_with_another_spec(tmp_path: Path) -> None:
    rows = written(tmp_path, HALVES)
    found = json.loads(tkgen_("predict", str(SPLIT), "-D", "K=32", "--compare", rows, "--compare-D", "D=64", "--json"))
    assert (found["a"]["kernel"], found["b"]["kernel"]) == ("split", "halves")
    assert found["speedup"] == pytest.approx(found["a"]["seconds"] / found["b"]["seconds"])


def test_rates_are_those_of_the_products_over_the_time_of_all() -> None:
    found = predict(tkgen.load(SPLIT).check().build())
    assert found.tflops == pytest.approx(2 * 64 * 128 * 288 / found.seconds / 1e12, rel=0.02)
    assert found.gbps == pytest.approx(sum(k.gbps * k.seconds for k in found.kernels) / found.seconds)


# ---------------------------------------------------------------- around the work


def test_a_new_sequence_begins_with_one_that_is_there(tmp_path: Path) -> None:
    tkgen_("new", "mine", "--from", "split_k_gelu", "-o", str(tmp_path))
    assert "sequence mine\n" in (tmp_path / "mine.tk").read_text()


def test_watch_builds_and_runs_a_sequence_and_what_it_includes(tmp_path: Path) -> None:
    (tmp_path / "pipe.tki").write_text("shared X, W\ntail masked\n")
    text = SPLIT.read_text().replace("  shared X, W\n  tail masked\n", '  include "pipe.tki"\n')
    path = written(tmp_path, text)
    assert spec_paths(path) == {Path(path), tmp_path / "pipe.tki"}
    said = json.loads(tkgen_("watch", path, "--once", "-o", str(tmp_path / "out"), "--json"))
    assert said["exit"] == 0 and [k["kernel"] for k in said["build"]["kernels"]] == ["sums", "finish"]
    assert all(run["ok"] for run in said["runs"]) and (tmp_path / "out" / "split.finish.hsaco").exists()


def test_a_save_of_what_was_included_is_seen_also_while_the_spec_is_broken(tmp_path: Path) -> None:
    pipe, path = tmp_path / "pipe.tki", tmp_path / "gemm.tk"
    pipe.write_text("shared X, W\ntail masked\n")
    path.write_text(SPLIT.read_text().replace("  shared X, W\n  tail masked\n", '  include "pipe.tki"\n'))
    saves = Saves(path)
    states = [saves.state(), saves.state()]
    assert states[0] == states[1]
    path.write_text("nonsense")
    states = [saves.state()]
    pipe.write_text("shared X, W\n")
    states.append(saves.state())
    pipe.unlink()
    states.append(saves.state())
    assert len(set(states)) == 3 and [len(s) for s in states] == [2, 2, 1]


# ---------------------------------------------------------------- the report


def test_a_report_shows_each_kernel_and_its_part_of_the_time(tmp_path: Path) -> None:
    out = ["-o", str(tmp_path / "report.html"), "--previous", str(tmp_path)]
    tkgen_("build", str(SPLIT), "-o", str(tmp_path))
    found = json.loads(tkgen_("report", str(SPLIT), *out, "--json"))
    assert [f["kernel"] for f in found] == ["split/sums", "split/finish"]
    shares = [next(x["value"] for x in f["prediction"]["figures"] if x["key"] == "predict.share") for f in found]
    assert sum(shares) == pytest.approx(100, abs=0.2)
    assert found[0]["header"].startswith(f"Kernel 1 of 2 of the sequence split, {shares[0]:g} % of the ")
    assert all(f["previous"] for f in found)  # figures of the build before, each kernel's own
    assert found[0]["previous"] != found[1]["previous"]
    page = (tmp_path / "report.html").read_text()
    assert "split/sums" in page and "split/finish" in page and "Kernel 2 of 2" in page
    printed = tkgen_("report", str(SPLIT), *out, "--no-predict")
    assert "split/sums for gfx942" in printed and "split/finish" in printed


def test_a_build_writes_the_report_of_all_kernels(tmp_path: Path) -> None:
    (made,) = json.loads(tkgen_("build", str(SPLIT), "-o", str(tmp_path), "--json"))
    page = Path(made["files"]["html"]).read_text()
    assert page.startswith("<!DOCTYPE html>") and "split/sums" in page and "Kernel 2 of 2" in page


# ---------------------------------------------------------------- what changed


def test_what_changed_is_said_kernel_by_kernel(tmp_path: Path) -> None:
    other = tmp_path / "split.tk"
    other.write_text(SPLIT.read_text().replace("  waves 2 x 2\n", "  waves 4 x 1\n"))
    page = tmp_path / "diff.html"
    found = json.loads(tkgen_("diff", str(SPLIT), str(other), "--html", str(page), "--json"))
    assert (found["before"], found["after"], found["figures"]) == ("split", "split (new)", [])
    texts = {t["name"]: t for t in found["texts"] if t["known"]}
    assert texts.keys() == {"spec", "C++"} and ["+", "  waves 4 x 1"] in texts["spec"]["lines"]
    sums, finish = found["kernels"]
    assert (sums["before"], sums["after"], finish["before"]) == ("sums", "sums (new)", "finish")
    changed = {t["name"] for t in sums["texts"] if t["lines"]}
    assert changed == {"schedule", "machine code"} and any(c["judgement"] != "same" for c in sums["figures"])
    assert not any(t["lines"] for t in finish["texts"]) and {c["judgement"] for c in finish["figures"]} == {"same"}
    shown, html = tkgen_("diff", str(SPLIT), str(other)), page.read_text()
    assert "sums -> sums (new)" in shown and "finish -> finish (new)\nnothing changed" in shown
    assert "sums → sums (new)" in html and html.count("Nothing changed.") == 1
    assert len(set(re.findall(r' id="([^"]+)"', html))) == html.count(' id="')


def test_a_sequence_is_compared_with_its_last_build_and_with_one_kernel(tmp_path: Path) -> None:
    tkgen_("build", str(SPLIT), "-o", str(tmp_path), "--emit", "cpp,asm,report")
    assert "nothing changed" in tkgen_("diff", str(SPLIT), "--previous", str(tmp_path))
    found = json.loads(tkgen_("diff", str(SPLIT), "--previous", str(tmp_path), "--json"))
    known = [[t["name"] for t in k["texts"] if t["known"]] for k in (found, *found["kernels"])]
    assert known == [["C++"], ["machine code"], ["machine code"]]
    one = str(SPECS / "one_wave.tk")
    found = json.loads(tkgen_("diff", str(SPLIT), one, "--json"))
    assert [(k["before"], k["after"]) for k in found["kernels"]] == [("sums", "one_wave"), ("finish", "-")]


# ---------------------------------------------------------------- edits


def test_edits_of_a_sequence_name_their_kernel_and_change_nothing_else() -> None:
    spec = tkgen.load(SPLIT)
    assert isinstance(spec, SequenceSpec)
    found = {c.name: c.text for c in edits.changes(spec)}
    wanted = {"sums: waves 4 x 2", "sums: k by 64", "finish: waves 4", "finish: m by 16", "PARTS = 6", "M = 128"}
    assert wanted - found.keys() == {"M = 128"}  # a size of what is asked for is no edit
    before = SPLIT.read_text().splitlines()
    for name, text in found.items():
        diff = [line for line in difflib.ndiff(before, text.splitlines()) if line[0] in "+-" and line[2:].strip()]
        assert len(diff) == (1 if "schedule" in name or "remap" in name else 2), name
        kernel, colon, _ = name.partition(": ")
        at = next(n for n, line in enumerate(text.splitlines()) if line == diff[-1][2:])
        above = [line for line in text.splitlines()[:at] if line.startswith("kernel ")]
        assert above[-1:] == ([f"kernel {kernel}"] if colon else []), name


def test_an_edit_of_a_sequence_is_applied_with_one_command(tmp_path: Path) -> None:
    path = written(tmp_path, SPLIT.read_text())
    assert tkgen_("predict", path, "--apply", "finish: waves 4").strip().endswith("finish: waves 4")
    assert Path(path).read_text() == SPLIT.read_text().replace("  waves 2\n", "  waves 4\n")
    assert "there are PARTS = 1" in tkgen_("predict", path, "--apply", "nonsense", code=2)
    assert "does not pass" in tkgen_("predict", path, "--apply", "finish: schedule ping_pong", code=1)


def test_edits_of_a_sequence_are_predicted_by_the_time_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    every = edits.changes
    few = {"finish: waves 4", "finish: schedule ping_pong"}
    monkeypatch.setattr(tried, "changes", lambda *a: tuple(c for c in every(*a) if c.name in few))
    found = json.loads(tkgen_("predict", str(SPLIT), "--edits", "--json"))
    (edit,) = found["edits"]
    text = SPLIT.read_text().replace("  waves 2\n", "  waves 4\n")
    again = predict(tkgen.load(SPLIT, text=text).check().build())
    assert (edit["name"], edit["seconds"]) == ("finish: waves 4", again.seconds)
    assert edit["speedup"] == pytest.approx(found["seconds"] / again.seconds)
