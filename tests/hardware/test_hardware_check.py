"""`tkgen hardware-check`, whole, on the stand-in."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("tinygrad")


def test_a_whole_check_runs_on_the_stand_in_and_is_reported(checked, specs, tmp_path):
    got = checked("--stand-in", "--sample", 1, "--specs", specs, "--into", tmp_path)
    assert got.exit_code == 0, got.output
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["run"]["stand-in"] and report["run"]["target"] == "gfx942" and "emulator" in report["note"]
    found = {r["section"]: r for r in report["results"]}
    assert {name: r["verdict"] for name, r in found.items()} == {
        "specs": "right", "instructions": "right", "machine": "measured", "times": "measured",
    }  # fmt: skip
    assert len(found["specs"]["cases"]) == 3 and found["instructions"]["values"] > 10_000
    assert found["times"]["item"] == "rows/softmax small" and 0 < found["times"]["distance"] < 2.0**-6


def test_what_is_wrong_with_the_command_line_is_said(checked, tmp_path):
    for arguments, said in (
        (("--only", "spec"), "no section 'spec'"),
        (("-t", "gfx942"), "--stand-in"),
        (("--stand-in", "-t", "sm_90a"), "no emulator"),
    ):
        got = checked("--into", tmp_path, *arguments)
        assert got.exit_code == 2 and said in got.output, got.output


def test_without_rocm_it_says_how_to_get_it(checked, tmp_path, capfd):
    got = checked("--into", tmp_path, "--only", "specs", "--json")
    assert got.exit_code == 3 and "could not start" in json.loads(got.stdout)["error"]
    said = capfd.readouterr().err
    assert "to get it: " in said and ("no ROCm here" in said or "finds no AMD GPU" in said)
