"""Errors of the command line are said before anything heavy is imported, and checks import what they need alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SPEC = str(Path(__file__).parents[2] / "specs" / "eight_wave.tk")
COMMANDS = ["check", "build", "run", "verify", "predict", "report", "graph", "sanitize", "test", "tune", "diff"]
HEAVY = {"torch", "numpy", "networkx", "rich.console", "tkgen.checks", "tkgen.api", "tkgen.ir.types"}
PARTS = {  # modules that a check of one sort of kernel leaves out
    "eight_wave.tk": {"tkgen.schedule.loops", "tkgen.schedule.rows", "tkgen.backends.cdna.lower.model"},
    "rows/rmsnorm.tk": {"tkgen.schedule.plan", "tkgen.checks.sync", "tkgen.schedule.loops", "tkgen.tile.scheduled"},
    "attention/attention.tk": {"tkgen.schedule.plan", "tkgen.checks.sync"},
    "hopper/h100_ping_pong.tk": {"tkgen.schedule.plan", "tkgen.schedule.rows", "tkgen.checks.sync",
                                 "tkgen.backends.hopper.loops", "tkgen.backends.hopper.toolchain"},
    "hopper/h100_rmsnorm.tk": {"tkgen.schedule.plan", "tkgen.backends.hopper.streamed"},
}  # fmt: skip


def ended(*words: str) -> tuple[int, str, set[str]]:
    """The exit code of a command, what it wrote to standard error, and the packages that it imported."""
    run = [sys.executable, "-X", "importtime", "-m", "tkgen", *words]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    lines = done.stderr.splitlines()
    imported = {line.rsplit("|", 1)[1].strip() for line in lines if line.startswith("import time:")}
    said = "\n".join(line for line in lines if not line.startswith("import time:"))
    return done.returncode, said, imported


@pytest.mark.parametrize("command", COMMANDS)
def test_a_missing_file_needs_neither_torch_nor_the_checks(command: str) -> None:
    code, said, imported = ended(command, "nope.tk")
    assert (code, said) == (1, "error[E100]: cannot read `nope.tk`: No such file or directory")
    assert not HEAVY & imported


@pytest.mark.parametrize("command", [c for c in COMMANDS if c != "graph"])
def test_an_unknown_target_needs_neither_torch_nor_the_checks(command: str) -> None:
    code, said, imported = ended(command, SPEC, "-t", "gfx943")
    assert code == 2
    assert said.startswith("error: unknown target 'gfx943', known are gfx90a,")
    assert not HEAVY & imported


@pytest.mark.parametrize(
    "spec",
    [*PARTS, "hk_four_wave.tk"],
)
def test_a_check_imports_no_packages_of_builds_and_graphs(spec: str) -> None:
    code, _, imported = ended("check", str(Path(SPEC).parent / spec))
    assert code == 0
    assert not {"torch", "numpy", "networkx", "jinja2", "elftools"} & imported
    assert not {f"tkgen.backends.{part}" for part in ("cdna.lower.render", "cdna.lower.rows", "hopper.rows")} & imported
    assert not (PARTS.get(spec, set()) | {"tkgen.sequence.spec", "rich.console"}) & imported


@pytest.mark.parametrize("command", [c for c in COMMANDS if c not in ("sanitize", "test")])
def test_a_name_that_sets_nothing_needs_neither_torch_nor_the_checks(command: str) -> None:
    code, said, imported = ended(command, SPEC, "-D", "MM=3")
    assert code == 1
    assert "error[E210]: -D MM sets nothing in kernel `eight_wave`; did you mean `M`?" in said
    assert not HEAVY & imported
