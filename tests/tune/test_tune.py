"""Searches: all candidates or sampled ones, pruned, verified, resumed, and what they leave after."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from sampling import slow
from tunable_specs import SMALL
from typer.testing import CliRunner

import tkgen
from tkgen.cli import app
from tkgen.execute.cases import unmet
from tkgen.predict import predict
from tkgen.tune import (
    Candidate,
    MissingPackage,
    NothingFits,
    Outcome,
    Progress,
    Request,
    Status,
    Trial,
    TuneError,
    evaluate,
    pareto,
    pareto_svg,
    pareto_text,
    tune,
)

SPECS = Path(__file__).parents[2] / "specs"


def test_every_candidate_is_judged_and_the_fastest_right_one_wins(searched: Outcome) -> None:
    assert searched.searched == "exhaustive" and len(searched.trials) == searched.space_size == 6
    assert searched.rejected == {"E604": 2}
    assert {t.values["ROWS"] for t in searched.trials if t.status is Status.REJECTED} == {96}
    predicted = [t for t in searched.trials if t.seconds is not None]
    assert searched.winner.seconds == min(t.seconds for t in predicted if t.seconds is not None)
    assert searched.winner.verified and sum(t.verified is True for t in searched.trials) >= 2


def test_figures_of_a_trial_are_those_of_its_build(small: Path, searched: Outcome) -> None:
    build = tkgen.load(small, dict(searched.winner.values)).build()
    assert searched.winner.lds_bytes == build.lds_bytes
    assert searched.winner.registers >= build.resources.vgpr
    assert searched.winner.seconds == pytest.approx(predict(build, what_if=False).seconds)


def test_optuna_finds_what_the_exhaustive_search_finds(small: Path, searched: Outcome) -> None:
    found = tune(Request((small,), trials=4, best=1, seed=3))
    assert found.searched == "optuna"
    assert sum(t.status is Status.PREDICTED for t in found.trials) == 4
    assert found.winner.candidate == searched.winner.candidate


def test_no_candidate_beats_its_bound_and_hopeless_ones_are_not_compiled() -> None:
    request = Request(
        (SPECS / "tunable.tk",),
        defines={"SPLIT": 1, "GROUP": 4, "STEP": 64, "TILE": 32, "BUFFERS": 1, "WAVE_ROWS": 2, "WAVE_COLS": 2},
        ranges={"ROWS": (64, 256), "COLS": (64, 256)}, sizes={"M": 1024, "N": 1024, "K": 1024}, best=1,
    )  # fmt: skip
    outcome = tune(request)
    by_block = {(t.values["ROWS"], t.values["COLS"]): t for t in outcome.trials}
    assert all(t.bound_seconds <= t.seconds for t in outcome.trials if t.seconds is not None)
    assert by_block[256, 256].status in (Status.BOUNDED, Status.REJECTED)
    assert any(t.status is Status.BOUNDED and t.bound_seconds > (outcome.winner.seconds or 0) for t in outcome.trials)
    assert outcome.winner.values == {"ROWS": 64, "COLS": 64}


def test_the_winner_is_a_spec_that_keeps_its_promises(small: Path, searched: Outcome) -> None:
    path = searched.files["winner"]
    text = path.read_text()
    header, chosen = text.split("\n")[:2], text.split("\n")[3]
    assert header == SMALL.split("\n")[:2]
    assert chosen.startswith("# Chosen by tkgen tune for M=256 N=256 K=256 on MI300X (predicted")
    assert searched.winner.candidate.settings in chosen
    assert "tune " not in text.split("kernel small")[1] and "    96" not in text
    values = searched.winner.values
    assert f"param ROWS = {values['ROWS']}, BUFFERS = {values['BUFFERS']}, DOUBLE = 2 * ROWS" in text
    build = tkgen.load(path).check().build().check()
    assert unmet(build) == ""
    assert build.spec.program.block == tkgen.load(small, dict(values)).program.block
    assert CliRunner().invoke(app, ["fmt", "--check", str(path)]).exit_code == 0


def test_the_winner_of_a_spec_that_includes_stands_alone(tmp_path: Path) -> None:
    begin, end = SMALL.index("  param"), SMALL.index("  global A")
    lines = [line.removeprefix("  ") for line in SMALL[begin:end].split("\n")]
    (tmp_path / "settings.tk").write_text("# Settings of the small kernel.\n" + "\n".join(lines))
    (tmp_path / "small.tk").write_text(SMALL[:begin] + '  include "settings.tk"\n' + SMALL[end:])
    request = Request((tmp_path / "small.tk",), ranges={"ROWS": [32], "BUFFERS": [2]}, directory=tmp_path / "out")
    text = tune(request).files["winner"].read_text()
    assert "include" not in text and "  # Settings of the small kernel.\n  param ROWS = 32, BUFFERS = 2," in text
    assert tkgen.load(tmp_path / "out" / "winner.tk").program.a.buffers == 2


def test_sizes_and_defines_end_up_in_the_winner(small: Path) -> None:
    outcome = tune(Request((small,), {"BUFFERS": 2}, {"ROWS": [64]}, {"M": 512, "K": 128}, best=1))
    assert "dims M = 512, N = 256, K = 128" in outcome.winner_spec
    assert "param ROWS = 64, BUFFERS = 2," in outcome.winner_spec and outcome.winner.values == {"ROWS": 64}


def test_dynamic_dimensions_are_tuned_for_the_sizes_given(tmp_path: Path) -> None:
    path = tmp_path / "dynamic.tk"
    path.write_text(SMALL.replace("M = 256, N = 256, K = 256", "M = dynamic, N = dynamic, K = dynamic"))
    with pytest.raises(TuneError, match=r"--sizes K=\.\.\."):
        tune(Request((path,), ranges={"ROWS": [32]}))
    sizes = {"M": 256, "N": 256, "K": 256}
    outcome = tune(Request((path,), {"BUFFERS": 1}, {"ROWS": [32]}, sizes, best=1))
    assert outcome.winner.verified and "M = dynamic" in outcome.winner_spec


def test_variants_compete(small: Path, searched: Outcome, tmp_path: Path) -> None:
    slow = tmp_path / "slow.tk"
    slow.write_text(SMALL.replace("kernel small", "kernel slow").replace("tile 32 x 32", "tile 16 x 16"))
    ranges = {"ROWS": [searched.winner.values["ROWS"]], "BUFFERS": [searched.winner.values["BUFFERS"]]}
    outcome = tune(Request((slow, small), ranges=ranges, best=2))
    assert {t.candidate.spec for t in outcome.trials} == {str(slow), str(small)}
    assert outcome.winner.seconds == min(t.seconds for t in outcome.trials if t.seconds is not None)


def test_a_wrong_kernel_does_not_win(small: Path, searched: Outcome, monkeypatch: pytest.MonkeyPatch) -> None:
    fastest = searched.winner.candidate
    right = evaluate.verify

    def verify(setting: evaluate.Setting, trial: Trial) -> Trial:
        wrong = replace(trial, verified=False, message="1 elements wrong")
        return wrong if trial.candidate == fastest else right(setting, trial)

    monkeypatch.setattr(evaluate, "verify", verify)
    outcome = tune(Request((small,), best=1))
    assert outcome.winner.candidate != fastest and outcome.winner.verified
    monkeypatch.setattr(evaluate, "verify", lambda _, trial: replace(trial, verified=False, message="all wrong"))
    with pytest.raises(NothingFits, match="all wrong"):
        tune(Request((small,), best=1))


# ---------------------------------------------------------------- kills


def command(small: Path, out: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "tkgen", "tune", str(small), "-o", str(out), "--best", "2", *more]


def test_a_killed_search_goes_on_where_it_was(small: Path, searched: Outcome, tmp_path: Path) -> None:
    journal = tmp_path / "trials.jsonl"
    words = command(small, tmp_path, "-j", "2")
    process = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not journal.exists() or journal.read_bytes().count(b"\n") < 4:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "winner.tk").exists()
    with pytest.raises(ProcessLookupError):  # the workers end as well, and write nothing more
        while time.monotonic() < deadline:
            os.killpg(process.pid, 0)
            time.sleep(0.05)
    kept = journal.read_text().rpartition("\n")[0].split("\n")
    with journal.open("a") as file:
        file.write('{"spec": "half of a li')
    steps: list[Progress] = []
    outcome = tune(Request((small,), best=2, jobs=2, directory=tmp_path, resume=True), steps.append)
    lines = journal.read_text().split("\n")
    assert lines[: len(kept)] == kept and lines[-1] == ""
    assert all(json.loads(line) for line in lines[:-1])
    again = {Trial.from_json(json.loads(line)).candidate for line in kept[1:]}
    assert again and not again & {s.trial.candidate for s in steps if s.stage == "candidates"}
    assert outcome.winner.candidate == searched.winner.candidate


def test_an_interrupted_search_ends_without_a_traceback(small: Path, tmp_path: Path) -> None:
    """Ctrl-C reaches the workers as well as the search."""
    journal = tmp_path / "trials.jsonl"
    process = subprocess.Popen(
        command(small, tmp_path, "-j", "2"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background job ignores it
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not journal.exists() or journal.read_bytes().count(b"\n") < 2:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate()[0].decode()
    assert process.returncode == 130 and "--resume" in said and "Traceback" not in said, said
    assert not (tmp_path / "winner.tk").exists()


def test_a_finished_search_resumes_at_once_and_another_is_refused(small: Path, searched: Outcome) -> None:
    directory = searched.files["trials"].parent
    steps: list[Progress] = []
    outcome = tune(Request((small,), best=2, directory=directory, resume=True), steps.append)
    assert outcome == replace(searched, files=outcome.files) and steps == []
    with pytest.raises(TuneError, match="another search"):
        tune(Request((small,), {"BUFFERS": 1}, best=2, directory=directory, resume=True))


def test_a_journal_that_is_damaged_inside_is_refused(small: Path, searched: Outcome, tmp_path: Path) -> None:
    lines = searched.files["trials"].read_text().split("\n")
    (tmp_path / "trials.jsonl").write_text("\n".join([lines[0], "[1]", *lines[1:]]))
    with pytest.raises(TuneError, match=r"trials.jsonl:2 is no trial"):
        tune(Request((small,), best=2, directory=tmp_path, resume=True))


# ---------------------------------------------------------------- the command line


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["tune", *words])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--range", "NOPE=1"], "`NOPE` is no parameter"),
        (["--range", "ROWS"], "--range takes NAME=NUMBER"),
        (["--range", "ROWS=a"], "--range takes NAME=NUMBER"),
        (["--range", "ROWS=32,"], "--range takes NAME=NUMBER"),
        (["--range", "ROWS=32,32"], "is repeated"),
        (["--range", "ROWS=32 ROWS=64"], "given twice"),
        (["--range", "M=256"], "is a dimension"),
        (["--sizes", "M=dynamic"], "--sizes takes"),
        (["--sizes", "M=1,M=2"], "--sizes takes"),
        (["--sizes", "M=256", "-D", "M=256"], "leave one out"),
        (["--executor", "mpi"], "process or ray"),
        (["--device", "tpu"], "`emulator` or `gpu`"),
        (["--product", "MI9"], "has no product 'MI9'"),
        (["--target", "gfx900"], "gfx900"),
    ],
)
def test_wrong_requests_exit_with_2(small: Path, tmp_path: Path, words: list[str], message: str) -> None:
    code, output = run(str(small), "-o", str(tmp_path / "out"), *words)
    assert code == 2 and message in " ".join(output.split()), output
    assert not (tmp_path / "out").exists()


def test_where_nothing_is_legal_the_checks_say_why(small: Path, tmp_path: Path) -> None:
    code, output = run(str(small), "--range", "ROWS=96", "-o", str(tmp_path))
    assert code == 1 and "error[E604]" in output


def test_what_needs_a_gpu_or_a_package_says_so(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    assert run(str(small), "--device", "gpu", "-o", str(out))[0] == 3
    monkeypatch.setitem(sys.modules, "ray", None)
    code, output = run(str(small), "--executor", "ray", "-o", str(out))
    assert code == 3 and "pip install 'ray>=2.40'" in " ".join(output.split())
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingPackage, match="pip install 'optuna>=4'"):
        tune(Request((small,), trials=3, directory=out))
    assert not out.exists()


def test_the_command_prints_table_plot_and_winner(small: Path, searched: Outcome) -> None:
    directory = searched.files["trials"].parent
    code, output = run(str(small), "--best", "2", "-o", str(directory), "--resume")
    assert code == 0
    assert "the fastest candidates" in output and "registers per lane" in output and "2 rejected (E604 2)" in output
    assert f"{searched.winner.candidate}: " in " ".join(output.split())
    code, output = run(str(small), "--best", "2", "-o", str(directory), "--resume", "--json")
    plain = json.loads(output)
    assert plain["winner"]["values"] == searched.winner.values and len(plain["trials"]) == 6


# ---------------------------------------------------------------- Pareto


def trial(registers: int, tflops: float | None) -> Trial:
    candidate = Candidate("a<b>.tk", (("R", registers), ("T", round(tflops or 0))))
    return Trial(candidate, Status.PREDICTED, tflops=tflops, seconds=1.0, registers=registers, lds_bytes=1024)


def test_pareto_front() -> None:
    slow, small_, large, beaten, unknown = (
        trial(64, 100),
        trial(64, 200),
        trial(128, 300),
        trial(256, 250),
        trial(8, None),
    )
    everything = [beaten, slow, large, unknown, small_]
    assert pareto(everything) == [small_, large]
    assert pareto(everything, "lds_bytes") == [large]
    root = ElementTree.fromstring(pareto_svg(everything))
    assert len(root.findall("{http://www.w3.org/2000/svg}circle")) == 4
    labels = {t.text for t in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"0", "50", "300", "64", "256"} <= labels  # round rates, powers of two for registers
    text = pareto_text(everything)
    assert text.count(".") == 2 and sum(line.count("o") for line in text.split("\n") if "|" in line) == 2
    assert pareto_text([unknown]) == "" and pareto_svg([])


# ---------------------------------------------------------------- against the hand-written shape


@pytest.mark.parametrize("shape", [(1024, 1024, 1024), slow((8192, 1024, 8192))])
def test_small_and_skinny_products_get_better_than_the_hand_written_shape(shape: tuple[int, int, int]) -> None:
    sizes = dict(zip("MNK", shape, strict=True))
    hand = predict(tkgen.load(SPECS / "ping_pong_wide.tk", sizes).build(), what_if=False)
    ranges = {
        "ROWS": (128, 256), "COLS": (128,), "STEP": (64,), "WAVE_ROWS": (2, 4), "WAVE_COLS": (2,), "TILE": (32,),
        "SLICE": (32,), "CHUNK": (32,), "GROUP": (8,),
    }  # fmt: skip
    outcome = tune(Request((SPECS / "tunable_staged.tk",), ranges=ranges, sizes=sizes, best=1))
    assert outcome.winner.verified and outcome.winner.seconds is not None
    assert outcome.winner.seconds < hand.seconds
