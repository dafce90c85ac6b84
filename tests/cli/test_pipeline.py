"""The stages of `tkgen.pipeline`: they fit together, and the library, the commands and the docs go along them."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tkgen
from tkgen.backends.registry import backend_of
from tkgen.cli import app
from tkgen.diagnostics import Diagnostic, SpecError, refuse
from tkgen.pipeline import COMPILE, EQUATIONS, LOWER, PRINTED, PROVE, SCHEDULE, STAGES, Request, along, run, text_of
from tkgen.toolchain.compiler import ToolchainError

ROOT = Path(__file__).parents[2]
EIGHT_WAVE = ROOT / "specs" / "eight_wave.tk"
REFUTED = ROOT / "tests" / "diagnostics" / "barrier_before_multiply.tk"


def annotations(function: Callable[[Any], Any]) -> tuple[str, str]:
    """The types of a stage's only argument and of its result, as written."""
    (argument,) = inspect.signature(function).parameters.values()
    return str(argument.annotation), str(inspect.signature(function).return_annotation)


def test_each_stage_takes_what_the_stage_before_it_gives() -> None:
    assert annotations(STAGES[0].run)[0] == "Request"
    for before, after in pairwise(STAGES):
        assert annotations(before.run)[1] == annotations(after.run)[0], (before.name, after.name)


def test_names_are_told_apart_and_described() -> None:
    assert len(set(PRINTED)) == len(PRINTED) >= len(STAGES)
    assert all(stage.docs.endswith(".") and inspect.getdoc(stage.run) for stage in STAGES)


def test_the_page_has_every_stage_in_order() -> None:
    rows = [f"| {', '.join(f'`{name}`' for name in stage.prints)} | {stage.docs} |" for stage in STAGES]
    assert "\n".join(rows) in (ROOT / "docs" / "cookbook.md").read_text(encoding="utf-8")


def test_the_help_has_every_name() -> None:
    for command in ("check", "build"):
        said = "".join(CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "300"}).output.split())
        assert "|".join(PRINTED) in said


def test_a_name_that_no_stage_prints() -> None:
    wrong = CliRunner().invoke(app, ["check", str(EIGHT_WAVE), "--print-after", "optimise"])
    assert wrong.exit_code == 2 and "'optimise' is not one of 'parse', " in " ".join(wrong.output.split())


def test_the_library_goes_along_the_stages() -> None:
    values = {stage.name: value for stage, value in along(Request(EIGHT_WAVE, {"K": 256}), LOWER)}
    spec = tkgen.load(EIGHT_WAVE, {"K": 256})
    assert values["schedule"].scheduled == spec.scheduled
    assert values["prove"] is values["schedule"] and values["lower"].source == spec.check().text
    assert run(values["lower"], COMPILE, after=LOWER).code == spec.build().code


def test_texts_come_in_the_order_of_stages_however_they_are_asked_for() -> None:
    command = ["check", str(EIGHT_WAVE)]
    for name in ("lower", "prove", "parse"):
        command += ["--print-after", name]
    shown = CliRunner().invoke(app, command).stdout
    request = Request(EIGHT_WAVE)
    assert shown.startswith("\n".join(text_of(name, request) for name in ("parse", "prove", "lower")))


def test_the_compiler_is_the_last_stage(tmp_path: Path) -> None:
    command = ["build", str(EIGHT_WAVE), "-o", str(tmp_path), "--emit", "hsaco", "--print-after", "compile"]
    built = CliRunner().invoke(app, command)
    assert built.exit_code == 0 and built.stdout.count("eight_wave (gfx942)") == 2  # its own line, and that of `build`
    assert text_of("compile", Request(EIGHT_WAVE)) in built.stdout


@pytest.mark.parametrize("name", ["eight_wave", "hopper/h100_lcf_abt"])
def test_a_build_goes_along_the_stages(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`build` of a spec and the files of `tkgen build`: proven first, then compiled, once each."""
    spec, ran = tkgen.load(ROOT / "specs" / f"{name}.tk"), list[str]()
    check = type(spec).check

    def checked(self: Any) -> Any:
        ran.append("check")
        return check(self)

    def compiled(self: Any, compiling: Any) -> Any:
        ran.append("compile")
        raise ToolchainError(f"compiled with {compiling.cxx}")

    monkeypatch.setattr(type(spec), "check", checked)
    monkeypatch.setattr(type(spec), "compiled", compiled)
    produce = partial(backend_of(spec.target.name).produce, spec, tmp_path, ["cpp"], kittens=None, watch=True)
    for build in (spec.build, produce):
        ran.clear()
        with pytest.raises(ToolchainError, match="compiled with None"):
            build(cxx=None)
        assert ran == ["check", "compile"]
    ran.clear()
    monkeypatch.setattr(type(spec), "check", lambda self: refuse([Diagnostic("E304", "not proven")]))
    for build in (spec.build, produce):
        with pytest.raises(SpecError, match="E304"):
            build(cxx=None)
    assert not ran


def test_every_kernel_of_a_sequence_says_why_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = tkgen.load(ROOT / "specs" / "sequences" / "split_k_gelu.tk")
    assert len(spec.kernels) == 2

    def compiled(self: Any, _compiling: Any) -> Any:
        raise SpecError(Diagnostic("E501", f"{self.name} spills"))

    monkeypatch.setattr(type(spec.kernels[0]), "compiled", compiled)
    with pytest.raises(SpecError) as caught:
        spec.build()
    assert [d.message for d in caught.value.diagnostics] == [f"{kernel.name} spills" for kernel in spec.kernels]


def test_what_is_refuted_is_not_lowered() -> None:
    request = Request(REFUTED)
    assert run(request, SCHEDULE).scheduled
    for stage in (PROVE, LOWER, COMPILE):
        with pytest.raises(SpecError, match="E304"):
            run(request, stage)
    shown = CliRunner().invoke(app, ["check", str(REFUTED), "--print-after", "schedule", "--print-after", "lower"])
    assert shown.exit_code == 1 and "depth" in shown.stdout and "__global__" not in shown.stdout


def test_all_problems_of_all_kernels_come_at_once() -> None:
    """One kernel of a sequence uses a function that does not exist, the other one cannot be scheduled as it says."""
    text = (ROOT / "specs" / "sequences" / "split_k_gelu.tk").read_text(encoding="utf-8")
    assert len(run(Request("a.tk", text=text), EQUATIONS).typed()) == 2
    wrong = text.replace("buffers 2", "buffers 2\n  schedule ping_pong").replace("gelu(", "gelv(")
    with pytest.raises(SpecError) as found:
        run(Request("a.tk", text=wrong), SCHEDULE)
    assert [each.code for each in found.value.diagnostics] == ["E200", "E216"]


def test_the_list_is_light_to_import() -> None:
    """The command line reads the names of stages before it knows what it needs."""
    code = "import sys, tkgen.pipeline; print(sorted({'torch', 'lark', 'networkx'} & sys.modules.keys()))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
