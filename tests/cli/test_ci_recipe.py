"""The recipes of docs/ci: on a small suite the workflow's commands and the hooks do what they say."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tkgen.cli import app

yaml = pytest.importorskip("yaml", reason="needs PyYAML, which pre-commit brings: pip install pre-commit")

RECIPES = Path(__file__).parents[2] / "docs" / "ci"
SPEC = Path(__file__).parents[2] / "specs" / "one_wave.tk"


def recipe(name: str) -> Any:
    return yaml.safe_load((RECIPES / name).read_text(encoding="utf-8"))


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one spec, whose sources have not been generated yet."""
    (tmp_path / "kernels").mkdir()
    text = SPEC.read_text(encoding="utf-8").replace("M = 8192, N = 8192, K = 8192", "M = 64, N = 64, K = 64")
    (tmp_path / "kernels" / SPEC.name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_workflow_passes_on_good_specs_and_fails_on_bad_ones(suite: Path) -> None:
    (job,) = recipe("github-actions.yml")["jobs"].values()
    assert all(step.keys() & {"run", "uses"} for step in job["steps"])
    steps = [shlex.split(s["run"])[1:] for s in job["steps"] if s.get("run", "").startswith("tkgen ")]
    assert [s[0] for s in steps] == ["fmt", "check", "regen", "test"]
    assert CliRunner().invoke(app, ["regen", "--directory", "kernels", "-o", "generated"]).exit_code == 0
    for step in steps:
        result = CliRunner().invoke(app, step)
        assert result.exit_code == 0, (step, result.output)
    assert (suite / "kernels.xml").exists()
    spec = suite / "kernels" / "one_wave.tk"
    spec.write_text(spec.read_text().replace("buffers 1", "buffers 2"))
    failed = [s[0] for s in steps[:3] if CliRunner().invoke(app, s).exit_code]
    assert failed == ["regen"]
    spec.write_text(spec.read_text().replace("waves", "wves"))
    result = CliRunner().invoke(app, steps[1])
    assert result.exit_code == 1 and "::error " in result.stdout


class Repository:
    """A git repository of kernels with the hooks installed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        here = str(Path(sys.executable).parent)
        self.environ = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")} | {
            "PATH": f"{here}:{os.environ['PATH']}",
            "PRE_COMMIT_HOME": str(folder.parent / "pre-commit"),
            "GIT_CONFIG_GLOBAL": os.devnull,
        }
        shutil.copy(RECIPES / "pre-commit-config.yaml", folder / ".pre-commit-config.yaml")
        self.run("git", "init", "-q")
        self.run("git", "config", "user.email", "somebody@example.com")
        self.run("git", "config", "user.name", "Somebody")
        assert self.run("pre-commit", "install")[0] == 0

    def run(self, *command: str) -> tuple[int, str]:
        done = subprocess.run(command, cwd=self.folder, env=self.environ, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def commit(self) -> tuple[int, str]:
        self.run("git", "add", "--all")
        return self.run("git", "commit", "-m", "a commit")


def test_the_commands_of_the_hooks_mend_what_they_can_and_stop_the_rest(suite: Path) -> None:
    """Without git and pre-commit, which take long to start: a slow test commits with them."""
    hooks = [hook for repository in recipe("pre-commit-config.yaml")["repos"] for hook in repository["hooks"]]
    fmt, check, regen, test = (re.findall(r"\btkgen ([^&']+)", hook["entry"])[0].split() for hook in hooks)
    steps = [step.get("run", "").split()[1:] for step in recipe("github-actions.yml")["jobs"]["kernels"]["steps"]]
    assert [hook["stages"] for hook in hooks] == [["pre-commit"]] * 3 + [["pre-push"]]
    assert test[:4] in [step[:4] for step in steps]  # which another test runs
    spec, source = suite / "kernels" / "one_wave.tk", suite / "generated" / "gfx942" / "one_wave.cpp"
    good = spec.read_text()
    spec.write_text(good.replace("waves 1 x 1", "waves  1 x  1"))

    def run(command: list[str], *files: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, [*command, *files])
        return done.exit_code, done.output

    assert "reformatted kernels/one_wave.tk" in run(fmt, "kernels/one_wave.tk")[1] and spec.read_text() == good
    assert run(check, "kernels/one_wave.tk")[0] == 0
    assert "wrote generated/gfx942/one_wave.cpp" in run(regen)[1] and source.exists()
    spec.write_text(good.replace("buffers 1", "buffers 9"))
    code, said = run(check, "kernels/one_wave.tk")
    assert code == 1 and "error[E501]" in said


@pytest.mark.slow
def test_the_hooks_mend_what_they_can_and_stop_the_rest(suite: Path) -> None:
    pytest.importorskip("pre_commit", reason="needs pre-commit: pip install pre-commit")
    repository = Repository(suite)
    spec, source = suite / "kernels" / "one_wave.tk", suite / "generated" / "gfx942" / "one_wave.cpp"
    spec.write_text(spec.read_text().replace("waves 1 x 1", "waves  1 x  1"))
    code, said = repository.commit()
    assert code == 1 and "reformatted kernels/one_wave.tk" in said and "waves 1 x 1" in spec.read_text()
    assert "wrote generated/gfx942/one_wave.cpp" in said and source.exists()
    assert repository.commit()[0] == 0

    good = spec.read_text()
    spec.write_text(good.replace("buffers 1", "buffers 9"))
    code, said = repository.commit()
    assert code == 1 and "error[E501]" in said and "Traceback" not in said

    repository.run("git", "reset", "-q", "--hard")
    remote = suite.parent / "remote.git"
    repository.run("git", "init", "-q", "--bare", str(remote))
    code, said = repository.run("git", "push", str(remote), "HEAD:refs/heads/kernels")
    assert code == 0 and "emulate specs" in said and "Passed" in said, said
