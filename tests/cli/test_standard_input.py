"""`tkgen check -` reads a spec from standard input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from tkgen.cli import app

SPECS = Path(__file__).parents[2] / "specs"
GOOD = (SPECS / "rows" / "rmsnorm.tk").read_text(encoding="utf-8")


def check(text: str | bytes, *options: str) -> Result:
    return CliRunner().invoke(app, ["check", "-", *options], input=text)


@pytest.mark.parametrize(
    ("spec", "proven"),
    [("rows/rmsnorm.tk", "checks the machine code"), ("hopper/h100_lcf.tk", "the schedule is proven for sm_90a")],
)
def test_a_spec_is_checked_as_from_a_file(spec: str, proven: str) -> None:
    done = check((SPECS / spec).read_text(encoding="utf-8"))
    assert done.exit_code == 0
    assert "1 spec checked: 0 errors" in done.output and proven in done.output


def test_a_mistake_has_its_place_and_its_fix() -> None:
    text = GOOD.replace("\n  waves 4", "\n  wavs 4")
    done = check(text, "--json")
    (found,) = json.loads(done.stdout)
    assert (done.exit_code, found["code"], found["primary"]["file"]) == (1, "E103", "-")
    (edit,) = found["fix"]["edits"]
    assert text[: edit["offset"]] + edit["replacement"] + text[edit["end_offset"] :] == GOOD


def test_options_and_files_beside_count() -> None:
    assert "E210" in check(GOOD, "-D", "MM=3", "--json").stdout
    done = CliRunner().invoke(app, ["check", str(SPECS / "one_wave.tk"), "-"], input=GOOD)
    assert "2 specs checked: 0 errors" in done.output


def test_includes_are_found_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sizes.tk").write_text("dims TOKENS = 32768, D = 4096\n", encoding="utf-8")
    text = GOOD.replace("dims TOKENS = 32768, D = 4096", 'include "sizes.tk"')
    assert text != GOOD and check(text).exit_code == 0


@pytest.mark.parametrize("data", [b"kernel \xff", b"kernel\0", b"#" * (1 << 20) + b"#"])
def test_what_is_no_text_is_refused(data: bytes) -> None:
    done = check(data, "--json")
    (found,) = json.loads(done.stdout)
    assert (done.exit_code, found["code"]) == (1, "E100")


@pytest.mark.parametrize("options", [["--fix"], ["--print-after", "schedule"]])
def test_options_that_need_a_file_say_so(options: list[str]) -> None:
    done = check(GOOD, *options)
    assert done.exit_code == 2
    assert "needs a file, not standard input" in " ".join(done.stderr.split())
