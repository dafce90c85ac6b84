"""Comparisons: of two variants, of a build with the report of an earlier one, of a build with itself."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from report_specs import SPECS, spec_of
from rich.console import Console

from tkgen.api import load
from tkgen.build import Build
from tkgen.build.outputs import write
from tkgen.report import diff, render_diff, render_diff_html
from tkgen.report.diff import SHOWN, Diff


def printed(change: Diff) -> str:
    out = io.StringIO()
    render_diff(change, Console(file=out, width=140))
    return out.getvalue()


@pytest.fixture
def report(eight_wave: Build) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(json.dumps(eight_wave.report()))
    return loaded


def test_one_word_of_the_spec() -> None:
    change = diff(spec_of("single_buffer"), spec_of("double_buffer"))
    spec = next(t for t in change.texts if t.name == "spec")
    assert ("-", "  shared A, B buffers 1") in spec.lines and ("+", "  shared A, B buffers 2") in spec.lines
    schedule = next(t for t in change.texts if t.name == "schedule")
    assert ("+", "    load A[k+1]") in schedule.lines
    cpp = next(t for t in change.texts if t.name == "C++")
    assert any(mark == "+" and "A_s)[2]" in line for mark, line in cpp.lines)


def test_a_build_and_itself(eight_wave: Build) -> None:
    change = diff(eight_wave, eight_wave)
    assert change.same
    assert printed(change) == "eight_wave -> eight_wave (new)\nnothing changed\n"


def test_machine_code_is_compared_whatever_its_registers_are(eight_wave: Build) -> None:
    code = eight_wave.function.instructions
    renamed = replace(
        eight_wave.function,
        instructions=tuple(
            replace(x, operands=tuple(re.sub(r"\bv(\d+)\b", r"v9\1", o) for o in x.operands)) for x in code
        ),
    )
    other = replace(eight_wave)
    vars(other)["function"] = renamed
    assert diff(eight_wave, other).same
    vars(other)["function"] = replace(renamed, instructions=renamed.instructions[1:])
    (changed,) = (x for x in diff(eight_wave, other).texts if x.lines)
    assert changed.name == "machine code" and changed.counts == (1, 0)
    assert changed.lines[1] == ("-", f"{code[0].mnemonic} s[4], s[2], {code[0].operands[2]}")


def test_a_previous_build_is_compared_with_all_that_it_wrote(eight_wave: Build, tmp_path: Path) -> None:
    write(eight_wave, tmp_path, ["cpp", "asm", "report"])
    change = diff(tmp_path / "eight_wave.json", eight_wave)
    assert change.same
    assert {x.name for x in change.texts if x.known} == {"C++", "machine code"}
    (tmp_path / "eight_wave.cpp").write_bytes(b"\xff")
    (tmp_path / "eight_wave.s").write_text("nothing")
    assert not any(x.known for x in diff(tmp_path / "eight_wave.json", eight_wave).texts)


def test_long_changes_are_cut_on_a_terminal_only() -> None:
    change = diff(spec_of("eight_wave"), spec_of("producer_consumer_4p8c"))
    lines = max(len(x.lines) for x in change.texts)
    assert lines > SHOWN and f"... {lines - SHOWN} more lines" in printed(change)
    assert render_diff_html(change).count('class="row ') >= lines


def test_figures_are_judged(eight_wave: Build, report: dict[str, Any]) -> None:
    report["resources"]["vgpr"] -= 4
    report["resources"]["scratch_bytes"] += 16
    report["occupancy"]["waves_per_simd"] += 1
    report["main_loop"]["valu"] += 12
    change = diff(report, eight_wave)
    said = {c.key: (c.difference, c.judgement) for c in change.figures if c.judgement != "same"}
    assert said == {
        "resources.vgpr": ("+4", "worse"),
        "resources.scratch_bytes": ("-16 B", "better"),
        "occupancy.waves_per_simd": ("-1", "changed"),
    }
    valu = next(m for m in change.mix if m.label == "VALU")
    assert valu.before - valu.after == 6  # per K-step; a pass makes two
    assert not any(t.known for t in change.texts)
    text = printed(change)
    assert "worse" in text and "better" in text


def test_a_figure_on_one_side_only(eight_wave: Build, report: dict[str, Any]) -> None:
    del report["resources"]["sgpr"]
    change = next(c for c in diff(report, eight_wave).figures if c.key == "resources.sgpr")
    assert (change.before, change.judgement) == (None, "changed")


def test_report_files(eight_wave: Build, report: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report))
    assert diff(path, eight_wave).same
    for broken in ("", "[]", "{}", "\ufffd{"):
        path.write_text(broken)
        with pytest.raises(ValueError, match="is no report"):
            diff(path, eight_wave)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="is no report"):
        diff(path, eight_wave)
    with pytest.raises(OSError):
        diff(tmp_path / "missing.json", eight_wave)


def test_moved_line_numbers_are_no_change(tmp_path: Path) -> None:
    text = (SPECS / "four_wave.tk").read_text()
    path = tmp_path / "four_wave.tk"
    path.write_text(text.replace("\nkernel", "\n\n\nkernel"))
    change = diff(spec_of("four_wave"), load(path))
    assert [t.name for t in change.texts if t.lines] == ["spec"]
    path.write_text(text.replace("step 32", "step 64"))
    assert all(t.lines for t in diff(spec_of("four_wave"), load(path)).texts if t.name in ("spec", "C++"))
