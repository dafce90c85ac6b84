"""`--json` on every command: standard output is JSON whether all is well or not; texts go to standard error."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from tkgen.cli import app

ROOT = Path(__file__).parents[2]
LAUNCH = ["--grid", "1", "--block", "64", "--lds", "8192"]
# A call of every command that succeeds, in a folder with the specs, two C++ kernels and a good and a bad spec.
CALLS = {
    "build": ["build", "good.tk"],
    "check": ["check", "good.tk"],
    "diff": ["diff", "good.tk", "specs/one_wave.tk"],
    "doctor": ["doctor"],
    "explain": ["explain", "E301"],
    "fmt": ["fmt", "good.tk"],
    "graph": ["graph", "good.tk"],
    "hardware-check": ["hardware-check", "--stand-in", "--only", "machine", "--item", "compute units"],
    "new": ["new", "mine"],
    "predict": ["predict", "good.tk"],
    "regen": ["regen", "--directory", "one"],
    "report": ["report", "good.tk"],
    "run": ["run", "good.tk"],
    "sanitize": ["sanitize", "good.tk"],
    "specs": ["specs"],
    "test": ["test", "good.tk", "--schedules", "1"],
    "tune": ["tune", "good.tk", "--best", "1"],
    "verify": ["verify", "good.tk"],
    "watch": ["watch", "good.tk", "--once"],
}


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(ROOT / "specs", tmp_path / "specs")
    text = (
        (ROOT / "specs" / "one_wave.tk").read_text().replace("M = 8192, N = 8192, K = 8192", "M = 64, N = 64, K = 64")
    )
    (tmp_path / "good.tk").write_text(text)
    (tmp_path / "bad.tk").write_text(text.replace("buffers 1", "buffers 99"))
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "good.tk").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_command_is_called() -> None:
    """All except the language server, which speaks JSON anyway, and the programs of others that `emulate` runs."""
    assert CALLS.keys() == typer.main.get_command(app).commands.keys() - {"lsp", "emulate"}  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", CALLS)
def test_success_is_json(command: str, workplace: Path) -> None:
    result = CliRunner().invoke(app, [*CALLS[command], "--json"])
    assert result.exit_code == 0, (result.stderr, result.exception)
    said = json.loads(result.stdout)
    assert said or command in ("check", "sanitize"), said  # those print what is wrong


@pytest.mark.parametrize("command", [c for c, call in CALLS.items() if "good.tk" in call])
def test_a_wrong_spec_is_json(command: str, workplace: Path) -> None:
    if command == "fmt":  # which minds the syntax alone
        (workplace / "bad.tk").write_text("kernel\n")
    result = CliRunner().invoke(app, [*("bad.tk" if w == "good.tk" else w for w in CALLS[command]), "--json"])
    assert result.exit_code == 1, (result.output, result.exception)
    said: Any = json.loads(result.stdout)
    if command == "test":
        codes = {d["code"] for case in said for d in case["diagnostics"]}
        assert codes == {"E203", "E501"} and any("E501" in case["failure"] for case in said)
    elif command == "tune":
        assert said["error"]
    else:
        said = said[0] if isinstance(said, list) and command != "check" else said
        codes = {d["code"] for d in (said if command == "check" else said["diagnostics"])}
        assert codes == ({"E101"} if command == "fmt" else {"E203", "E501"})


def test_good_specs_are_reported_beside_a_wrong_one(workplace: Path) -> None:
    for command in ("build", "run"):
        result = CliRunner().invoke(app, [command, "bad.tk", "good.tk", "--json"])
        bad, good = json.loads(result.stdout)
        assert result.exit_code == 1 and bad["spec"] == "bad.tk" and bad["diagnostics"]
        assert good.get("kernel") == "one_wave" or good["ok"]


@pytest.mark.parametrize(
    ("call", "code", "said"),
    [
        (["build", "good.tk", "--cxx", "/bin/false"], 3, "/bin/false"),
        (["graph", "nowhere.tk"], 1, ""),
        (["explain", "E999"], 2, "E999"),
        (["new", "good"], 2, "good.tk is there already"),
        (["new", "fresh", "--from", "one_wave", "-o", "good.tk/x"], 2, ""),
        (["test", "good.tk", "-t", "UNKNOWN"], 2, "unknown target 'UNKNOWN'"),
        (["run", "one", "nowhere.d"], 1, ""),
        (["tune", "good.tk", "--range", "K"], 2, "--range"),
        (["test", "good.tk", "--generated", "nowhere"], 2, "--generated"),
        (["check", "good.tk", "--format", "json", "-D", "M"], 2, "`M`"),
        (["new", "fresh", "--layout", "BA"], 2, "BA"),
        (["new", "fresh", "--from", "nothing"], 2, "tkgen specs"),
        (["predict", "good.tk", "--product", "H100"], 2, "H100"),
        (["sanitize", "good.tk", "--blocks", "x"], 2, ""),
    ],
)
def test_other_errors_are_json_too(call: list[str], code: int, said: str, workplace: Path) -> None:
    result = CliRunner().invoke(app, [*call, "--json"])
    assert result.exit_code == code and "Traceback" not in result.output
    found = json.loads(result.stdout)
    found = found[-1] if isinstance(found, list) else found
    assert said in found["error"]


def commands_with(option: str) -> list[str]:
    """The commands that take an option."""
    found = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    return [c for c in CALLS if any(option in p.opts for p in found[c].params)]


USAGE = [
    *(([c, "--no-such-option"], "--no-such-option") for c in CALLS),
    *(([*CALLS[c], "-t", "gfx000"], "gfx000") for c in commands_with("-t")),
    *(([*CALLS[c], "-D", "M=many"], "many") for c in commands_with("-D") if c != "sanitize"),
    *(([*CALLS[c], "-j", "0"], "-j") for c in commands_with("-j")),
    *(([c], "Missing argument") for c, call in CALLS.items() if "good.tk" in call),
]


@pytest.mark.parametrize(("call", "said"), USAGE, ids=[" ".join(call) for call, _ in USAGE])
def test_a_wrong_command_line_is_json(call: list[str], said: str, workplace: Path) -> None:
    result = CliRunner().invoke(app, [*call, "--json"])
    assert result.exit_code == 2, (result.output, result.exception)
    found: Any = json.loads(result.stdout)
    assert said in (found[0] if isinstance(found, list) else found)["error"]
    assert "{" not in CliRunner().invoke(app, call).stdout


def test_a_word_that_looks_like_the_option_asks_for_nothing(workplace: Path) -> None:
    assert CliRunner().invoke(app, ["explain", "--", "--json"]).stdout == ""


def test_an_interrupt_is_json(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tkgen.syntax.parser.parse_spec", interrupted)
    result = CliRunner().invoke(app, ["check", "good.tk", "--json"])
    assert result.exit_code == 130 and json.loads(result.stdout)["error"] == "interrupted"
    assert CliRunner().invoke(app, ["run", "good.tk"]).stderr == "interrupted\n"


def test_counts_of_one_are_singular(workplace: Path) -> None:
    text = Path("good.tk").read_text()
    Path("one.tk").write_text(text.replace("buffers 1", "buffers 16").replace("K = 64", "K = 1024"))
    text = CliRunner().invoke(app, ["check", "one.tk"]).output
    assert "1 spec checked: 1 error, 0 warnings" in text
    assert "1 spill," not in CliRunner().invoke(app, ["build", "good.tk"]).output
    assert "1 barrier/step" in CliRunner().invoke(app, ["build", "specs/double_buffer.tk"]).output


class Watch:
    """`tkgen watch --json` as a process, a line at a time."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "tkgen", "watch", "--json", *arguments]
        environ = os.environ | {"PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environ
        )

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(30)

    def next(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the watch ended"
        found: dict[str, Any] = json.loads(line)
        return found


def test_watch_sees_each_save_of_the_spec_and_of_what_it_includes(workplace: Path) -> None:
    spec, shared = Path("good.tk"), Path("part.tk")
    text = spec.read_text()
    shared.write_text("shared A, B buffers 1\n")
    spec.write_text(text.replace("  shared A, B buffers 1\n", '  include "part.tk"\n'))
    with Watch("good.tk") as watch:
        first = watch.next()
        assert first["exit"] == 0 and first["build"]["lds_bytes"] == 8192 and first["runs"][0]["ok"]
        shared.write_text("shared A, B buffers 2\n")
        assert watch.next()["build"]["lds_bytes"] == 16384
        shared.write_text("shered A, B buffers 2\n")
        broken = watch.next()
        assert broken["exit"] == 1 and broken["diagnostics"][0]["primary"]["file"].endswith("part.tk")
        shared.write_text("shared A, B bufers 2\n")
        assert watch.next()["exit"] == 1
        spec.write_text(text)
        assert watch.next()["build"]["lds_bytes"] == 8192


WITHOUT = """
import json, sys
sys.modules[sys.argv[1]] = None
from typer.testing import CliRunner
from tkgen.cli import app
for call in json.loads(sys.argv[2]):
    result = CliRunner().invoke(app, [*call, "--json"])
    print(json.dumps([result.exit_code, result.stdout, result.stderr]))
"""


@pytest.mark.parametrize("package", ["numpy", "torch"])
def test_json_without_a_package(package: str, workplace: Path) -> None:
    """Commands that cannot do without say how to install it, as JSON too; the others do their work."""
    needing = {"run", "sanitize", "test", "tune", "watch"} | ({"predict"} if package == "numpy" else set())
    calls = [call for command, call in CALLS.items() if command in needing | {"check", "explain", "predict", "report"}]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, package, json.dumps(calls)], capture_output=True, text=True, check=True
    )
    for call, line in zip(calls, done.stdout.splitlines(), strict=True):
        code, stdout, stderr = json.loads(line)
        said = json.loads(stdout)
        if call[0] in needing:
            assert code == 3 and package in said["error"] and "pip install" in said["error"], (call, said)
            assert "Traceback" not in stderr
        else:
            assert code == 0, (call, stderr)
