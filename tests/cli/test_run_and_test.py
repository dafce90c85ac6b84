"""`tkgen run`, `tkgen test` and the pytest plugin, on real machine code under the emulator."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner, Result

from tkgen import testing
from tkgen.cli import app
from tkgen.cli.running import _quicker
from tkgen.emulate import native
from tkgen.execute.cases import Expectation, expectations
from tkgen.toolchain.cache import cache_dir

ROOT = Path(__file__).parents[2]
SPECS = ROOT / "specs"
CACHE = str(cache_dir() or "")
pytest_plugins = ("pytester",)


def tkgen(*args: str) -> Result:
    return CliRunner().invoke(app, list(args))


def test_run_compares_with_torch_on_every_schedule() -> None:
    result = tkgen("run", str(SPECS / "eight_wave.tk"), "-D", "M=256 N=128 K=192", "--schedules", "3", "--json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert [r["schedule"] for r in rows] == ["barrier", "round robin", "adversarial"]
    assert [r["inputs"] for r in rows] == ["exact", "normal", "exact"]
    for row in rows:
        assert row["ok"] and row["sizes"] == {"M": 256, "N": 128, "K": 192} and not row["findings"]
        assert (
            row["comparison"]["elements"] == 256 * 128 and row["comparison"]["wrong"] == row["comparison"]["nan"] == 0
        )
        exact = row["inputs"] == "exact"
        assert row["comparison"]["max_error"] == 0 if exact else 0 < row["comparison"]["max_error"] < 1e-3


def test_launches_of_one_block_on_several_schedules() -> None:
    """Nothing is done yet when the second launch begins: there is no rate to estimate from."""
    result = tkgen("run", str(SPECS / "one_wave.tk"), "-D", "M=64 N=64 K=64", "--schedules", "3")
    assert result.exit_code == 0 and result.stdout.count("right") == 3 and not result.exception


def test_run_gives_dynamic_sizes_to_the_launch_and_refuses_wrong_ones() -> None:
    spec = str(SPECS / "dynamic_sizes.tk")
    assert tkgen("run", spec, "-D", "M=256 N=128 K=192").exit_code == 0
    wrong = tkgen("run", spec, "-D", "M=100 N=128 K=192")
    assert wrong.exit_code == 2 and "M must be a multiple of" in wrong.output
    missing = tkgen("run", spec, "-D", "M=256")
    assert missing.exit_code == 2 and "is dynamic: give it a size" in missing.output


def test_run_says_which_code_it_runs_and_some_blocks_of_the_shipped_one() -> None:
    spec = str(SPECS / "split_k.tk")
    shipped = tkgen("run", spec, "--blocks", "0,254..255", "--schedules", "2")
    assert shipped.exit_code == 0
    assert shipped.stdout.startswith("split_k  M=1024 N=1024 K=8192  (as shipped; blocks 0, 254, 255 of 256)\n")
    other = tkgen("run", spec, "-D", "M=128,N=128,K=1024")
    assert other.exit_code == 0 and other.stdout.startswith("split_k  M=128 N=128 K=1024  (built for -D)\n")
    dynamic = tkgen("run", str(SPECS / "dynamic_sizes.tk"), "-D", "M=256 N=128,K=192", "--json")
    (row,) = json.loads(dynamic.stdout)
    assert row["shipped"] and row["blocks"] is None and row["grid"] == 2
    beyond = tkgen("run", spec, "--blocks", "256")
    assert beyond.exit_code == 2 and "there is no block 256: the launch has blocks 0..255" in beyond.output
    assert tkgen("run", spec, "--blocks", "first").exit_code == 2


def test_a_long_run_says_how_long_from_its_first_blocks_on() -> None:
    """4096 blocks take a minute: that is said at once, and results alone go to standard output."""
    command = [sys.executable, "-m", "tkgen", "run", str(SPECS / "eight_wave.tk"), "-D", "K=1024"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background job ignores it
    )  # fmt: skip
    try:
        assert process.stderr is not None
        first, second = process.stderr.readline(), process.stderr.readline()
        process.send_signal(signal.SIGINT)
        results, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130 and results == ""
    quicker = r"; `--blocks 0,1` runs some of them(, -j \d+ uses all cores)?, -D gives smaller sizes\n"
    assert re.fullmatch("eight_wave: 4096 blocks" + quicker, first)
    assert re.fullmatch(r"eight_wave: about \d+ (s|min|h) for its blocks\n", second)


def test_a_long_run_names_only_what_makes_it_shorter() -> None:
    """No machine code of sm_90a is emulated block by block; cores that are used need no option."""
    wide = SPECS / "eight_wave.tk"
    assert "`--blocks 0,1`" in _quicker(wide, "gfx942", None, 1, "")
    assert "-j " not in _quicker(wide, "gfx942", None, 64, "")
    assert _quicker(wide, "gfx942", None, 64, "0") == "-D gives smaller sizes"
    assert _quicker(SPECS / "hopper/h100_lcf.tk", None, None, 1, "") == "-D gives smaller sizes"


def test_a_scalar_without_a_default_takes_its_value_at_launch(tmp_path: Path) -> None:
    text = (SPECS / "alpha_beta.tk").read_text().replace("beta : f32 = 0.0", "beta : f32").replace("8192", "128")
    (tmp_path / "t.tk").write_text(text.replace("# expect", "# expected"))
    spec = str(tmp_path / "t.tk")
    for command in ("run", "sanitize"):
        missing = tkgen(command, spec)
        assert missing.exit_code == 2 and "give it a value, such as -D beta=0.5" in missing.output
        for value in ("0.5", "-2", "3") if command == "run" else ("1e-3",):
            given = tkgen(command, spec, "-D", f"beta={value}")
            assert given.exit_code == 0, given.output
        assert tkgen(command, spec, "-D", "beta=dynamic").exit_code == 2
        assert tkgen(command, spec, "-D", "beta=half").exit_code == 2
        size = tkgen(command, spec, "-D", "beta=1 M=0.5")
        assert size.exit_code == 2 and "sizes are integers" in size.output
        negative = tkgen(command, spec, "-D", "beta=1 M=-64")
        assert negative.exit_code == 2 and "M = -64: sizes are integers from 1 to 2147483647" in negative.output
    assert tkgen("test", spec, "--schedules", "1").exit_code == 0
    assert tkgen("watch", spec, "--once", "-o", str(tmp_path / "out")).exit_code == 0
    assert tkgen("build", spec, "-D", "beta=0.5", "-o", str(tmp_path / "out")).exit_code == 2


@pytest.mark.parametrize("command", ["run", "sanitize", "tune"])
@pytest.mark.parametrize("seed", ["-1", "99999999999999999999999", str(1 << 32)])
def test_a_seed_out_of_range_is_a_wrong_command_line(command: str, seed: str) -> None:
    result = tkgen(command, str(SPECS / "one_wave.tk"), "--seed", seed)
    assert result.exit_code == 2 and isinstance(result.exception, SystemExit) and "--seed" in result.output


def test_sizes_whose_tensors_do_not_fit_the_memory_are_refused() -> None:
    spec = str(SPECS / "dynamic_sizes.tk")
    for command in ("run", "sanitize"):
        result = tkgen(command, spec, "-D", "M=262144 N=393216 K=65536")
        assert result.exit_code == 2 and "GiB are free here" in result.output
        nothing = tkgen(command, spec, "-D", "M=0 N=128 K=64")
        assert nothing.exit_code == 2 and "M must be from 1 to" in nothing.output
    predicted = tkgen("predict", spec, "-D", "M=262144 N=393216 K=65536")
    assert predicted.exit_code == 2 and "more than a prediction looks at" in predicted.output


def test_run_on_a_gpu_says_that_there_is_none() -> None:
    result = tkgen("run", str(SPECS / "eight_wave.tk"), "--device", "gpu")
    assert result.exit_code == 3 and "no AMD GPU" in result.output


def test_test_runs_sizes_and_schedules_and_writes_junit(tmp_path: Path) -> None:
    report = tmp_path / "junit.xml"
    result = tkgen("test", str(SPECS / "four_wave_abt.tk"), "--schedules", "2", "--junit", str(report), "--json",
                   "--generated", str(ROOT / "generated"))  # fmt: skip
    assert result.exit_code == 0, result.output
    cases = [r["case"] for r in json.loads(result.stdout)]
    assert cases[:3] == ["proves", "source", "figures"]
    assert "M=128 N=128 K=32" in cases and "M=256 N=384 K=96" in cases and cases[-1] == "as shipped"
    suite = ElementTree.fromstring(report.read_text())[0]
    assert suite.attrib["tests"] == str(len(cases)) and suite.attrib["failures"] == "0"


def test_test_names_what_fails(tmp_path: Path) -> None:
    spec = tmp_path / "four_wave_abt.tk"
    text = (SPECS / "four_wave_abt.tk").read_text()
    spec.write_text(text.replace("# expect waves 4,", "# expect waves 5,"))
    golden = tmp_path / "generated" / "gfx942" / "four_wave_abt.cpp"
    golden.parent.mkdir(parents=True)
    golden.write_text("something else")
    result = tkgen("test", str(spec), "--schedules", "1", "--generated", str(tmp_path / "generated"))
    assert result.exit_code == 1
    assert "waves is 4, expected 5" in result.output and "tkgen regen" in result.output and "2 failed" in result.output


def test_test_insists_on_the_golden_source_it_was_told_of(tmp_path: Path) -> None:
    spec = str(SPECS / "one_wave.tk")
    assert tkgen("test", spec, "--generated", str(tmp_path / "nowhere")).exit_code == 2
    result = tkgen("test", spec, "--schedules", "1", "--generated", str(tmp_path))
    assert result.exit_code == 1 and "1 failed" in result.output and "`tkgen regen` writes it" in result.output


@pytest.mark.parametrize("command", ["run", "test", "sanitize", "predict", "tune"])
def test_without_a_host_compiler_the_emulator_says_so(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TKGEN_HOST_CXX", "/bin/false")
    monkeypatch.setenv("TKGEN_CACHE", str(tmp_path))
    native.core.cache_clear()
    try:
        result = tkgen(command, str(SPECS / "one_wave.tk"))
    finally:
        native.core.cache_clear()
    assert result.exit_code == 3 and "compiling the emulator's core with /bin/false failed" in result.output


def test_expect_lines() -> None:
    assert expectations("x\nexpect waves 8, vgpr <= 128") == [
        Expectation("waves", False, 8),
        Expectation("vgpr", True, 128),
    ]
    assert expectations("no such line") == []
    with pytest.raises(ValueError, match="is not an expectation"):
        expectations("expect waves >= 8")


def test_verify_runs_a_spec_from_a_users_test() -> None:
    runs = testing.verify(SPECS / "one_wave.tk", {"M": 64, "N": 128, "K": 128}, schedules=2)
    assert [r.ok for r in runs] == [True, True]


def test_the_plugin_makes_a_test_of_everything_tried(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TKGEN_CACHE", CACHE)  # the home of a pytester is another
    specs = pytester.mkdir("specs")
    (specs / "one_wave.tk").write_text(text := (SPECS / "one_wave.tk").read_text())
    (specs / "wrong.tk").write_text(text.replace("buffers 1", "buffers 16"))
    pytester.makepyfile(
        """
        import pytest
        from tkgen.testing import verify

        @pytest.mark.tk("specs/*.tk", schedules=1)
        def test_kernels(tk_result):
            assert not tk_result.failure

        def test_function():
            verify("specs/wrong.tk", schedules=1)
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    outcomes = result.parseoutcomes()
    assert outcomes.get("failed", 0) == 2 and outcomes["passed"] >= 7
    lines = ["error[E501]: the tiles need * bytes of LDS, *", "  --> specs/wrong.tk:*", "*|   ^^^^*"]
    whole = [line.replace("specs", "*specs") for line in lines]  # the plugin knows paths in full
    result.stdout.fnmatch_lines(["*assert not <error[[]E501]: the tiles need*", "*Captured tkgen call*"])
    result.stdout.fnmatch_lines([line.replace("[E", "[[]E") for line in whole])
    result.stdout.fnmatch_lines([f"E  *{line.replace('[E', '[[]E')}" for line in lines])
    assert "\\n" not in result.stdout.str()


def test_predict_says_what_limits_and_compares() -> None:
    result = tkgen("predict", str(SPECS / "eight_wave.tk"), "-D", "M=1024 N=1024 K=1024", "--json")
    assert result.exit_code == 0, result.output
    prediction = json.loads(result.stdout)
    assert prediction["seconds"] > 0 and prediction["limiter"] and 0 < prediction["share_of_peak"] < 1
    both = tkgen(
        "predict", str(SPECS / "eight_wave.tk"), "-D", "M=1024 N=1024 K=1024", "--compare-D", "M=2048 N=1024 K=1024"
    )
    assert both.exit_code == 0 and "TFLOP/s" in both.output
    assert tkgen("predict", str(SPECS / "eight_wave.tk"), "--product", "H100").exit_code == 2


@pytest.mark.parametrize("command", ["run", "test"])
@pytest.mark.parametrize("option", [("--schedules", "2"), ("--schedules", "1"), ("--blocks", "0")])
def test_what_a_gpu_has_no_use_for_is_refused(command: str, option: tuple[str, str]) -> None:
    """Not ignored: a GPU launches all blocks, and nobody chooses the order of its waves."""
    result = tkgen(command, str(SPECS / "eight_wave.tk"), "--device", "gpu", *option)
    assert result.exit_code == 2 and option[0] in result.stderr and "emulator" in result.stderr
