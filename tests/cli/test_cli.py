"""The commands as a user runs them: output, files, exit codes."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from tkgen.cli import app

ROOT = Path(__file__).parents[2]
EIGHT_WAVE = str(ROOT / "specs" / "eight_wave.tk")


def tkgen(*args: str) -> Result:
    return CliRunner().invoke(app, list(args))


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "eight_wave.tk"
    path.write_text(Path(EIGHT_WAVE).read_text())
    return path


def test_help_names_every_command() -> None:
    out = tkgen("--help").output
    for command in ("build", "check", "fmt", "graph", "explain", "doctor", "specs", "new", "regen", "run", "test"):
        assert f" {command} " in out


def test_version() -> None:
    import tkgen as package

    assert tkgen("--version").output.strip() == f"tkgen {package.__version__}"


def test_build_writes_every_output(tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = tkgen("build", EIGHT_WAVE, "-o", str(out), "--emit", "cpp,asm,hsaco,report,harness")
    assert result.exit_code == 0, result.output
    assert "0 spills" in result.output and "2 barriers/step" in result.output
    assert sorted(p.name for p in out.iterdir()) == [
        "eight_wave.cpp", "eight_wave.hsaco", "eight_wave.json", "eight_wave.s", "eight_wave_check.cpp",
        "eight_wave_check.py",
    ]  # fmt: skip
    report = json.loads((out / "eight_wave.json").read_text())
    assert report["resources"]["vgpr_spills"] == report["resources"]["scratch_bytes"] == 0
    assert 0 < report["resources"]["vgpr"] <= 256
    assert report["lds_bytes"] == 2 * 128 * 64 * 2
    assert report["barriers_per_step"] == 2 and report["flat_instructions"] == 0
    assert sum(report["main_loop"]["mfma"].values()) == 2 * (1 * 2 * 2 * 2 * 4)  # 2 steps of 1x2 fragments of 32x32x64
    assert (out / "eight_wave.hsaco").read_bytes()[:4] == b"\x7fELF"


def test_build_writes_the_files_of_every_emit(tmp_path: Path) -> None:
    several = ("--emit", "cpp", "--emit", "report,harness", "--emit", "cpp")
    result = tkgen("build", EIGHT_WAVE, "-o", str(tmp_path), "--no-machine-check", *several)
    assert result.exit_code == 0, result.output
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"eight_wave.cpp", "eight_wave.json", "eight_wave_check.cpp", "eight_wave_check.py"}
    result = tkgen("build", EIGHT_WAVE, "--emit", "cpp", "--emit", "rubbish")
    assert result.exit_code == 2 and "--emit rubbish: it is one of" in result.output


def test_build_json_is_the_report(tmp_path: Path) -> None:
    result = tkgen("build", EIGHT_WAVE, "-o", str(tmp_path), "--json", "--emit", "report", "-D", "K=256")
    (report,) = json.loads(result.stdout)
    assert report["sizes"]["K"] == 256 and report["files"] == {"report": str(tmp_path / "eight_wave.json")}


def test_print_after_shows_each_stage(tmp_path: Path) -> None:
    shown = {
        "parse": "eight_wave", "equations": "product over k", "graph": "RAW lds A", "schedule": "depth 1",
        "lower": "mma_ABt",
    }  # fmt: skip
    for stage, text in shown.items():
        for command in (("build", EIGHT_WAVE, "-o", str(tmp_path)), ("check", EIGHT_WAVE)):
            result = tkgen(*command, "--print-after", stage)
            assert result.exit_code == 0 and text in result.stdout


def test_equations_are_shown_where_no_schedule_is_found() -> None:
    attention = str(Path(__file__).parents[1] / "equations" / "attention.tk")
    result = tkgen("check", attention, "--print-after", "equations", "--print-after", "schedule")
    assert result.exit_code == 1 and "E230" in result.stderr
    assert result.stdout.startswith("kernel attention\n") and "max over j" in result.stdout
    wrong = tkgen("check", attention, "--print-after", "equations", "--format", "json")
    assert wrong.exit_code == 2 and "prints text" in wrong.stderr


def test_several_specs_build_side_by_side_and_the_bad_one_is_named(tmp_path: Path, spec: Path) -> None:
    bad = tmp_path / "bad.tk"
    bad.write_text(spec.read_text().replace("block 128 x 128 step 64", "block 128 x 130 step 64"))
    result = tkgen("build", str(spec), str(bad), "-o", str(tmp_path / "out"), "-j", "2")
    assert result.exit_code == 1
    assert "bad.tk" in result.output and "eight_wave (gfx942)" in result.output
    assert (tmp_path / "out" / "eight_wave.hsaco").exists()


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("build", "nowhere.tk"), 1),
        (("build", EIGHT_WAVE, "--emit", "rubbish"), 2),
        (("build", str(ROOT / "specs/hopper/h100_lcf.tk"), "--kittens", str(ROOT)), 2),
        (("build", EIGHT_WAVE, "-D", "M"), 2),
        (("build", EIGHT_WAVE, "-D", "M=x"), 2),
        (("build", EIGHT_WAVE, "-D", "Q=4"), 1),
        (("build", EIGHT_WAVE, "-t", "gfx999"), 2),
        (("build", EIGHT_WAVE, "--cxx", "/bin/false"), 3),
        (("explain", "E999"), 2),
        (("frobnicate",), 2),
        (("new", "1x"), 2),
    ],
)
def test_exit_codes(args: tuple[str, ...], code: int, tmp_path: Path) -> None:
    extra = ("-o", str(tmp_path)) if args[0] == "build" else ()
    result = tkgen(*args, *extra)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    assert result.output.strip()


def test_a_compiler_that_fails_leaves_its_output_and_names_the_spec_line(tmp_path: Path, spec: Path) -> None:
    from tkgen.targets import load_target
    from tkgen.toolchain.discover import find_compiler

    real = shlex.join(find_compiler(load_target("gfx942")).command)
    line = next(n for n, t in enumerate(tkgen_source(spec).splitlines(), 1) if "mma_ABt" in t)
    fake = tmp_path / "fails-on-this-kernel"
    fake.write_text(
        "#!/bin/sh\n"
        f"if grep -q eight_wave in.cpp 2>/dev/null; then echo 'in.cpp:{line}:9: error: too hard' >&2; exit 1; fi\n"
        f'exec {real} "$@"\n'
    )
    fake.chmod(0o755)
    result = tkgen("build", str(spec), "-o", str(tmp_path / "out"), "--cxx", str(fake))
    assert result.exit_code == 3, result.output
    statement = next(n for n, t in enumerate(spec.read_text().splitlines(), 1) if t.strip().startswith("accumulate"))
    assert f"eight_wave.tk:{statement}:" in result.output and "too hard" in result.output
    assert "too hard" in (tmp_path / "out" / "eight_wave.log").read_text()
    assert not list((tmp_path / "out").glob("*.hsaco"))


def tkgen_source(path: Path) -> str:
    from tkgen.api import load

    return load(path).source.text


def test_check_formats(spec: Path) -> None:
    spec.write_text(spec.read_text().replace("global B", "globl B"))
    text = tkgen("check", str(spec))
    assert text.exit_code == 1 and "globl" in text.output and "1 spec checked: 1 error," in text.output
    found = json.loads(tkgen("check", str(spec), "--format", "json").stdout)
    assert json.dumps(found).count("E10") >= 1
    assert json.loads(tkgen("check", str(spec), "--format", "sarif").stdout)["version"] == "2.1.0"
    assert tkgen("check", str(spec), "--format", "github").stdout.startswith("::error ")


def test_check_fix_applies_certain_fixes(spec: Path) -> None:
    good = spec.read_text()
    spec.write_text(good.replace("global B", "globl B"))
    assert "fixed" in tkgen("check", str(spec), "--fix").output
    assert spec.read_text() == good
    assert tkgen("check", str(spec)).exit_code == 0


def test_check_fix_says_what_is_left(spec: Path) -> None:
    good = spec.read_text()
    spec.write_text(good.replace("global B", "globl B").replace("buffers 1", "buffers 99"))
    done = tkgen("check", str(spec), "--fix")
    assert done.exit_code == 1 and "error[E501]" in done.stderr and "E103" not in done.output
    assert "2 errors, 0 warnings left" in done.stdout and "globl" not in spec.read_text()
    spec.write_text(good.replace("globl", "global"))
    assert "0 errors, 0 warnings left" in tkgen("check", str(spec), "--fix").stdout


def test_check_fix_makes_no_guesses(spec: Path) -> None:
    """The nearest word is offered, not put in place of a name that may mean something else."""
    guessed = spec.read_text().replace("shared A, B", "shared A, b")
    spec.write_text(guessed)
    done = tkgen("check", str(spec), "--fix")
    assert done.exit_code == 1 and "did you mean `B`?" in done.stderr and "1 error, 0 warnings left" in done.stdout
    assert spec.read_text() == guessed


def test_fmt_is_idempotent_and_check_changes_nothing(spec: Path) -> None:
    ugly = spec.read_text().replace("waves 4 x 2", "waves   4 x    2")
    spec.write_text(ugly)
    assert tkgen("fmt", "--check", str(spec)).exit_code == 1 and spec.read_text() == ugly
    assert tkgen("fmt", str(spec)).exit_code == 0 and "waves 4 x 2" in spec.read_text()
    assert tkgen("fmt", "--check", str(spec)).exit_code == 0


def test_graph_formats() -> None:
    assert "WAR lds A" in tkgen("graph", EIGHT_WAVE).stdout
    assert tkgen("graph", EIGHT_WAVE, "--format", "dot").stdout.startswith('digraph "eight_wave"')
    graph = json.loads(tkgen("graph", EIGHT_WAVE, "--format", "json").stdout)
    assert {d["kind"] for d in graph["dependencies"]} == {"RAW", "WAR"}


def test_new_starts_from_a_spec_and_never_overwrites(tmp_path: Path) -> None:
    result = tkgen("new", "mine", "--from", "eight_wave", "-o", str(tmp_path))
    assert result.exit_code == 0 and "kernel mine\n" in (tmp_path / "mine.tk").read_text()
    assert tkgen("check", str(tmp_path / "mine.tk")).exit_code == 0
    assert tkgen("new", "mine", "-o", str(tmp_path)).exit_code == 2


def test_specs_lists_what_each_shows() -> None:
    rows = json.loads(tkgen("specs", "--json").stdout)
    assert {r["name"] for r in rows} >= {"eight_wave", "persistent", "tail"} and all(r["shows"] for r in rows)


def test_generated_sources_match_the_specs() -> None:
    result = tkgen("regen", "--directory", str(ROOT / "specs"), "-o", str(ROOT / "generated"), "--check")
    assert result.exit_code == 0, f"run `tkgen regen`:\n{result.output}"


def test_regen_removes_what_no_spec_makes(tmp_path: Path, spec: Path) -> None:
    stale = tmp_path / "generated" / "gfx942" / "gone.cpp"
    stale.parent.mkdir(parents=True)
    stale.write_text("x")
    assert tkgen("regen", "--directory", str(spec.parent), "-o", str(tmp_path / "generated")).exit_code == 0
    assert not stale.exists() and (stale.parent / "eight_wave.cpp").exists()


def test_doctor_says_what_each_thing_enables() -> None:
    result = tkgen("doctor")
    assert result.exit_code == 0 and "compiler" in result.output
    assert json.loads(tkgen("doctor", "--json").stdout)["compilers"]


def test_a_process_prints_no_traceback_for_noise(tmp_path: Path) -> None:
    noise = tmp_path / "noise.tk"
    noise.write_bytes(bytes(range(256)) * 100)
    done = subprocess.run([sys.executable, "-m", "tkgen", "check", str(noise)], capture_output=True, text=True)
    assert done.returncode == 1 and "Traceback" not in done.stderr and "E100" in done.stderr


def test_report_and_diff(tmp_path: Path) -> None:
    page = tmp_path / "r.html"
    single, double = (str(ROOT / "specs" / f"{n}_buffer.tk") for n in ("single", "double"))
    result = tkgen("report", single, "-o", str(page), "--product", "MI325X")
    assert result.exit_code == 0 and "single_buffer" in result.output
    assert "limited by" in result.output and "on one MI325X" in result.output
    assert "<!doctype html>" in page.read_text().lower() and 'data-picture="time"' in page.read_text()
    plain = tkgen("report", single, "-o", str(page), "--no-predict")
    assert plain.exit_code == 0 and "limited by" not in plain.output
    changed = tkgen("diff", single, double)
    assert changed.exit_code == 0 and "barriers per K-step" in changed.output and "buffers 2" in changed.output
    built = tkgen("build", single, "-o", str(tmp_path), "--emit", "report,html")
    assert built.exit_code == 0 and (tmp_path / "single_buffer.html").exists()
    report = str(tmp_path / "single_buffer.json")
    assert json.loads(tkgen("diff", report, double, "--json").stdout)
    assert tkgen("diff", str(page), double).exit_code != 0
    before = json.loads(Path(report).read_text())
    before["resources"]["vgpr"] += 8
    Path(report).write_text(json.dumps(before))
    again = tkgen("diff", single, "--previous", str(tmp_path))
    assert again.exit_code == 0 and "VGPRs per lane" in again.output and "-8" in again.output
    assert tkgen("diff", report).exit_code == 2
    assert tkgen("diff", single, "--previous", str(tmp_path / "nowhere")).exit_code == 2
    beside = tkgen("report", single, "-o", str(page), "--no-predict", "--previous", str(tmp_path))
    assert "previous build" in beside.output and "previous build" in page.read_text()


def test_a_report_without_what_predictions_need(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] == 'numpy': raise ModuleNotFoundError(name, name='numpy')\n"
        "sys.meta_path.insert(0, Missing())\n"
        "import tkgen.cli; tkgen.cli.main()\n"
    )
    page = tmp_path / "r.html"
    done = subprocess.run(
        [sys.executable, "-c", script, "report", str(ROOT / "specs" / "one_wave.tk"), "-o", str(page)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0 and page.exists()
    assert "no prediction, which needs numpy: pip install 'numpy>=1.26' 'tinygrad==0.14.0' 'torch" in done.stderr
    other = tkgen("report", str(ROOT / "specs" / "one_wave.tk"), "-t", "gfx90a", "-o", str(page))
    assert other.exit_code == 0 and "no prediction for one_wave: gfx90a cannot be predicted" in other.stderr


def test_watch_once_builds_and_runs(tmp_path: Path) -> None:
    result = tkgen("watch", str(ROOT / "specs" / "one_wave.tk"), "--once", "-o", str(tmp_path))
    assert result.exit_code == 0 and "0 spills" in result.output
    assert re.search(r"^barrier +exact +right .* 0$", result.output, re.MULTILINE)


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [("buffers 1", "buffers 4096", "E501"), ("block 128 x 128", "block 8192 x 8192", "E403")],
)
def test_absurd_sizes_are_refused_before_anything_is_scheduled(spec: Path, old: str, new: str, code: str) -> None:
    spec.write_text(spec.read_text().replace(old, new))
    result = tkgen("check", str(spec))
    assert result.exit_code == 1 and code in result.output


@pytest.mark.parametrize("layout", ["AB", "ABt", "AtB", "AtBt"])
def test_new_from_options_makes_a_spec_that_builds(tmp_path: Path, layout: str) -> None:
    result = tkgen("new", "mine", "--layout", layout, "--dtype", "f16", "--size", "256 x 256 x 128", "--waves", "4 x 2",
                   "-o", str(tmp_path), "--json")  # fmt: skip
    assert result.exit_code == 0, result.output
    path = json.loads(result.stdout)["written"]
    assert tkgen("fmt", "--check", path).exit_code == 0
    assert tkgen("run", path).exit_code == 0


@pytest.mark.parametrize("wrong", [("--layout", "BA"), ("--block", "128"), ("--waves", "two"), ("--dtype", "int8")])
def test_new_refuses_answers_of_the_wrong_form(tmp_path: Path, wrong: tuple[str, str]) -> None:
    result = tkgen("new", "mine", *wrong, "-o", str(tmp_path))
    assert result.exit_code == 2 and wrong[1] in result.output and not list(tmp_path.iterdir())


def test_new_asks_on_a_terminal(tmp_path: Path) -> None:
    import pty
    import select

    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execv(sys.executable, [sys.executable, "-m", "tkgen", "new"])

    # Two of them are of the wrong form, and asked for again.
    answers, seen = [b"4sked", b"asked", b"ABt", b"", b"", b"64", b"64 x 64 x 32", b"1 x 1", b"1"], b""
    while select.select([terminal], [], [], 20)[0]:
        try:
            chunk = os.read(terminal, 4096)
        except OSError:
            break
        seen += chunk
        if answers and seen.rstrip().endswith(b":"):
            os.write(terminal, answers.pop(0) + b"\n")
            seen = b""
    os.waitpid(pid, 0)
    text = (tmp_path / "asked.tk").read_text()
    assert "block 64 x 64 step 32" in text and "waves 1 x 1" in text and "buffers 1" in text


def test_every_command_takes_json() -> None:
    import typer.main

    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for name, command in commands.items():
        options = {o for p in command.params for o in p.opts}
        assert name in ("lsp", "emulate") or "--json" in options, name  # a protocol; the output of other programs


def test_json_of_the_small_commands(spec: Path) -> None:
    assert json.loads(tkgen("fmt", "--json", str(spec)).stdout)["written"] is True
    assert json.loads(tkgen("explain", "E301", "--json").stdout)["code"] == "E301"
    assert json.loads(tkgen("graph", str(spec), "--json").stdout)["kernel"] == "eight_wave"


def test_completion_of_a_shell(tmp_path: Path) -> None:
    environ = os.environ | {"_TKGEN_COMPLETE": "complete_bash", "COMP_WORDS": "tkgen b", "COMP_CWORD": "1"}
    command = [str(Path(sys.executable).parent / "tkgen")]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, cwd=tmp_path)
    assert done.stdout.split() == ["build"]
    for shell in ("bash", "zsh", "fish"):
        environ = os.environ | {"_TKGEN_COMPLETE": f"source_{shell}"}
        assert "tkgen" in subprocess.run(command, capture_output=True, text=True, env=environ).stdout


@pytest.mark.parametrize("command", ["build", "report", "tune", "watch"])
def test_what_commands_write_here_is_no_part_of_the_project(command: str) -> None:
    found = typer.main.get_command(app).commands[command]  # type: ignore[attr-defined]
    (out,) = (p.default for p in found.params if p.name == "out")
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    assert {f"/{out}", f"/{out}/"} & set(ignored)
