"""Specs for Hopper, fixed for gfx950: `tkgen check --fix -t gfx950` leaves what is accepted and right.

A sample runs by default, all with `-m slow`.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tkgen.api import load
from tkgen.cli import app

SPECS = Path(__file__).parents[2] / "specs" / "hopper"
NAMES = sorted(p.stem for p in SPECS.glob("*.tk"))
TARGET = "gfx950"
ALONE = {"h100_ping_pong"}  # whose schedule there is no longer one of Hopper's
LEFT = {"h100_mla_decode": "a wave needs at least"}  # not accepted, and why
SPILLED = {"h100_fp8_blocks", "h100_fp8_promoted", "h100_stream_k"}
"""Accepted, but their tiles take more registers than a wave of gfx950 has: a build refuses them."""
SAMPLE = ["h100_cluster", "h100_ping_pong"]
SIZES = {
    "h100_cluster": "M=256 N=512 K=192",
    "h100_fp8": "M=256 N=256 K=384",
    "h100_lcf": "M=128 N=512 K=192",
    "h100_lcf_abt": "M=128 N=512 K=192",
    "h100_ping_pong": "M=256 N=256 K=320",
    "h100_projection": "TOKENS=128 OUT=256 IN=192",
    "h100_split_k": "M=128 N=256 K=1024",
    "h100_split_k_gelu": "TOKENS=128 OUT=256 IN=1024",
    "h100_swiglu": "TOKENS=128 HIDDEN=256 D=192",
}
"""Sizes that the specs run at whose text the fix changes, except those that spill."""


def fixed(name: str, folder: Path) -> Path:
    """A copy of a spec, fixed for gfx950."""
    path = folder / f"{name}.tk"
    shutil.copy(SPECS / f"{name}.tk", path)
    result = CliRunner().invoke(app, ["check", "--fix", "-t", TARGET, str(path)])
    assert result.exit_code == 0, result.output
    return path


def cases(names: list[str]) -> list[object]:
    return [n if n in SAMPLE else pytest.param(n, marks=pytest.mark.slow) for n in names]


@pytest.mark.parametrize("name", cases([name for name in NAMES if name not in LEFT]))
def test_a_spec_is_accepted_once_it_is_fixed(name: str, tmp_path: Path) -> None:
    path = fixed(name, tmp_path)
    load(path, target=TARGET).check()
    if name not in ALONE:
        load(path, target="sm_90a").check()
    else:
        assert "target gfx950\n" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", LEFT)
def test_the_others_are_refused_with_the_reason(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.tk"
    shutil.copy(SPECS / f"{name}.tk", path)
    result = CliRunner().invoke(app, ["check", "-t", TARGET, str(path)])
    assert result.exit_code == 1 and LEFT[name] in result.output


def test_the_page_says_how_many() -> None:
    page = (SPECS.parents[1] / "docs" / "port.md").read_text(encoding="utf-8")
    accepted = len(NAMES) - len(LEFT)
    assert f"Of the {len(NAMES)} specs of `specs/hopper`, {accepted} are accepted for gfx950" in page
    assert all(f"`{name}`" in page for name in LEFT)
    assert set(SPILLED) <= set(NAMES) and all(f"`{name}`" in page for name in SPILLED)


@pytest.mark.parametrize("name", cases(sorted(SIZES)))
def test_what_is_fixed_is_right_on_the_emulator(name: str, tmp_path: Path) -> None:
    path = fixed(name, tmp_path)
    arguments = ["run", str(path), "-t", TARGET, "-D", SIZES[name], "--schedules", "2", "--json"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert rows and all(row["ok"] for row in rows)
