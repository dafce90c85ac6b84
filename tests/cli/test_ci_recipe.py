"""The recipes of docs/ci: their commands do, on a small suite, what they say."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tkgen.cli import app

ROOT = Path(__file__).parents[2]


def commands(recipe: str) -> list[list[str]]:
    text = (ROOT / "docs" / "ci" / recipe).read_text()
    return [shlex.split(c) for c in re.findall(r"(?:run|entry): tkgen (.+)", text)]


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "kernels").mkdir()
    shutil.copy(ROOT / "specs" / "one_wave.tk", tmp_path / "kernels")
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["regen", "--directory", "kernels", "-o", "generated"]).exit_code == 0
    return tmp_path


def test_the_workflow_passes_on_good_specs_and_fails_on_bad_ones(suite: Path) -> None:
    steps = commands("github-actions.yml")
    assert [s[0] for s in steps] == ["fmt", "check", "regen", "test"]
    for step in steps:
        result = CliRunner().invoke(app, step)
        assert result.exit_code == 0, (step, result.output)
    assert (suite / "kernels.xml").exists()
    spec = suite / "kernels" / "one_wave.tk"
    spec.write_text(spec.read_text().replace("buffers 1", "buffers 2"))
    failed = [s[0] for s in steps if CliRunner().invoke(app, s).exit_code]
    assert "regen" in failed
    spec.write_text(spec.read_text().replace("waves", "wves"))
    result = CliRunner().invoke(app, steps[1])
    assert result.exit_code == 1 and "::error " in result.stdout


def test_the_hooks_pass_on_good_specs(suite: Path) -> None:
    for step in commands("pre-commit-config.yaml"):
        files = [] if "--directory" in step else ["kernels/one_wave.tk"]
        assert CliRunner().invoke(app, [*step, *files]).exit_code == 0
