"""The search over kernels of rows, and what it refuses before it writes anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tkgen
from tkgen.build import Build
from tkgen.cli import app
from tkgen.execute.cases import unmet
from tkgen.predict import predict
from tkgen.tune import Outcome, Request, Status, TuneError, evaluate, tune

SPECS = Path(__file__).parents[2] / "specs"
SMALL = """# Softmax with four settings that are legal and two that are not.
# expect waves 9, vgpr <= 7
kernel small
  dims ROWS = 512, D = 1024
  param AT = 4, WAVES = 4
  tune AT in 1, 4
  tune WAVES in 1, 4, 64
  global X : bf16[ROWS, D]
  global Y : bf16[ROWS, D]

  over r in ROWS by AT
  waves WAVES
  e = exp2((X[r] - rowmax(X[r])) * LOG2E)
  Y[r] = e / rowsum(e)
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tune") / "small.tk"
    path.write_text(SMALL)
    return path


@pytest.fixture(scope="module")
def searched(small: Path) -> Outcome:
    return tune(Request((small,), best=1, directory=small.parent / "out"))


def test_the_fastest_right_one_wins(small: Path, searched: Outcome) -> None:
    predicted = [t for t in searched.trials if t.status is Status.PREDICTED]
    assert searched.searched == "exhaustive" and len(searched.trials) == searched.space_size == 6
    assert {t.values["WAVES"] for t in searched.trials if t.status is Status.REJECTED} == {64}
    assert searched.winner.verified and searched.winner.seconds == min(t.seconds or 1.0 for t in predicted)
    build = tkgen.load(small, dict(searched.winner.values)).check().build()
    assert isinstance(build, Build)
    found = predict(build)
    assert searched.winner.seconds == pytest.approx(found.seconds)
    assert searched.winner.rate == searched.winner.gbps == pytest.approx(found.gbps)
    assert all(t.tflops is None and 0 < t.bound_seconds <= (t.seconds or 0.0) for t in predicted)


def test_the_winner_is_a_spec_with_the_figures_of_its_build(searched: Outcome) -> None:
    text = searched.files["winner"].read_text(encoding="utf-8")
    assert "tune" not in text.replace("tkgen tune", "") and "ROWS=512 D=1024" in text
    assert text == searched.winner_spec
    build = tkgen.load(searched.files["winner"]).check().build()
    assert isinstance(build, Build) and not unmet(build)
    assert "GB/s" in searched.files["registers"].read_text(encoding="utf-8")


def test_a_candidate_that_is_wrong_does_not_win(
    small: Path, searched: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results must be those of the equations."""
    from tkgen.execute import launch

    meant = launch.references
    monkeypatch.setattr(launch, "references", lambda *a, **k: {n: (v + 1, b) for n, (v, b) in meant(*a, **k).items()})
    setting = evaluate.Setting({str(small): {}}, {}, None, None, (), None)
    tried = evaluate.verify(setting, searched.winner)
    assert tried.verified is False and "wrong" in tried.message


def test_the_command_shows_the_rate_and_offers_parameters(tmp_path: Path) -> None:
    spec = tmp_path / "plain.tk"
    text = SMALL.replace("  param AT = 4, WAVES = 4\n", "").replace("by AT", "by 2").replace("waves WAVES", "waves 2")
    spec.write_text("".join(line for line in text.splitlines(True) if not line.startswith("  tune")))
    out = tmp_path / "out"
    said = CliRunner().invoke(app, ["tune", str(spec), "-o", str(out), "-j", "1", "--json"])
    assert said.exit_code == 0, said.output
    (trial,) = json.loads(said.stdout)["trials"]
    assert trial["gbps"] > 0 and trial["tflops"] is None
    offered = (out / "plain_tunable.tk").read_text(encoding="utf-8")
    assert "  param r_tile = 2\n".lower() in offered.lower() and "  tune WAVES in 1, 2, 4\n" in offered
    assert tkgen.load(out / "plain_tunable.tk").check().name == "small"


def test_dynamic_sizes_are_asked_for(tmp_path: Path) -> None:
    spec = tmp_path / "dynamic.tk"
    spec.write_text(SMALL.replace("ROWS = 512", "ROWS = dynamic"))
    with pytest.raises(TuneError, match="ROWS is dynamic"):
        tune(Request((spec,), defines={"AT": 4, "WAVES": 4}, directory=tmp_path / "out"))
    assert not (tmp_path / "out").exists()
    found = tune(Request((spec,), defines={"AT": 4, "WAVES": 4}, sizes={"ROWS": 64}, best=1))
    assert found.winner.verified and "ROWS=64 D=1024" in found.winner_spec


def test_edits_are_tried_and_applied(tmp_path: Path) -> None:
    """Each number alone: the rows of a tile, the waves; the checks hold for what is written."""
    spec = tmp_path / "plain.tk"
    text = SMALL.replace("  param AT = 4, WAVES = 4\n", "").replace("by AT", "by 2").replace("waves WAVES", "waves 2")
    spec.write_text("".join(line for line in text.splitlines(True) if not line.startswith("  tune")))
    said = CliRunner().invoke(app, ["predict", str(spec), "--edits", "--json"])
    assert said.exit_code == 0, said.output
    tried = {t["name"]: t for t in json.loads(said.stdout)["edits"]}
    assert tried and tried.keys() <= {"r by 1", "r by 4", "waves 1", "waves 4"}
    found = predict(tkgen.load(spec).check().build())  # type: ignore[arg-type]
    assert all(t["speedup"] == pytest.approx(found.seconds / t["seconds"]) for t in tried.values())
    shown = CliRunner().invoke(app, ["predict", str(spec), "--apply", "waves 4"])
    assert shown.exit_code == 0 and "  waves 4\n" in spec.read_text(), shown.output


def test_what_is_not_tuned_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = [str(SPECS / "hopper" / "h100_lcf.tk"), "--product", "MI325X", "-o", str(out)]
    said = CliRunner().invoke(app, ["tune", *words])
    assert said.exit_code in (1, 2) and "error" in said.stderr and "Traceback" not in said.stderr
    assert not out.exists()


def test_products_of_products_are_tuned(tmp_path: Path) -> None:
    """Predicted from their machine code, and the winner run on the emulator."""
    spec = tmp_path / "attention.tk"
    text = (SPECS / "attention" / "attention.tk").read_text().replace("by 64", "by KEYS")
    spec.write_text(text.replace("  global Q", "  param KEYS = 64\n  global Q", 1))
    sizes = {"BATCH": 1, "HEADS": 2, "LENGTH": 256, "D": 64}
    found = tune(Request((spec,), defines=sizes, ranges={"KEYS": (32, 64)}, best=1))
    assert found.winner.verified and found.winner.seconds and found.winner.tflops
    assert len([t for t in found.trials if t.seconds]) == 2
