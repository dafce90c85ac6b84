"""Edits of a spec: what they are, that they are tried as they say, applied with one command, and offered to tune."""

from __future__ import annotations

import difflib
import json
import shutil
from pathlib import Path

import pytest
from sampling import slow
from typer.testing import CliRunner

import tkgen
from tkgen import edits
from tkgen.cli import app
from tkgen.predict import predict
from tkgen.tune import edits as tried
from tkgen.tune.evaluate import editable
from tkgen.tune.space import Space

SPECS = Path(__file__).parents[2] / "specs"


def by_name(spec: tkgen.Spec) -> dict[str, str]:
    return {change.name: change.text for change in edits.changes(spec)}


def test_an_edit_changes_what_its_name_says_and_nothing_else() -> None:
    spec = tkgen.load(SPECS / "eight_wave.tk")
    before = (SPECS / "eight_wave.tk").read_text().splitlines()
    found = by_name(spec)
    assert {"buffers 2", "block 128 x 256 step 64", "group(rows = 8)", "waves 2 x 2", "schedule ping_pong"} <= set(
        found
    )
    for name, text in found.items():
        changed = [line for line in difflib.ndiff(before, text.splitlines()) if line[0] in "+-" and line[2:].strip()]
        assert len(changed) == (1 if name.startswith(("schedule", "remap")) else 2), name
        key = name.split("(")[0].split(" ...")[0].split()[0]
        assert key in changed[-1] or key in ("group", "xcd"), name
    assert "remap xcd(8, chunk = 16) | group(rows = 8)" in found["group(rows = 8)"]
    assert tkgen.load(spec.path, text=found["buffers 2"]).program.a.buffers == 2


def test_a_parameters_default_is_what_changes() -> None:
    found = by_name(tkgen.load(SPECS / "tunable.tk"))
    text = next(text for name, text in found.items() if name == "buffers 1")
    assert "BUFFERS = 1" in text and "buffers BUFFERS" in text


def test_no_schedule_is_offered_where_one_is_written() -> None:
    assert not [name for name in by_name(tkgen.load(SPECS / "ping_pong.tk")) if name.startswith(("schedule", "via"))]


def test_what_is_tried_is_the_prediction_of_the_edited_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = tkgen.load(SPECS / "single_buffer.tk")
    every = edits.changes(spec)
    few = tuple(c for c in every if c.name in ("block 128 x 128 step 32", "schedule ping_pong", "buffers 2"))
    monkeypatch.setattr(tried, "changes", lambda *_: few)
    base = predict(spec.build(), what_if=False).seconds
    seen: list[tuple[int, int]] = []
    found = tried.try_edits(spec, base, progress=lambda done, total: seen.append((done, total)))
    assert {t.name for t in found} == {"block 128 x 128 step 32", "buffers 2"}  # the checks refuse the schedule here
    assert [t.seconds for t in found] == sorted(t.seconds for t in found) and seen == [(0, 2), (1, 2), (2, 2)]
    for t in found:
        text = next(c.text for c in few if c.name == t.name)
        again = predict(tkgen.load(spec.path, text=text).build(), what_if=False).seconds
        assert t.seconds == again and t.speedup == base / again


def test_one_command_applies_an_edit(tmp_path: Path) -> None:
    path = tmp_path / "gemm.tk"
    shutil.copy(SPECS / "single_buffer.tk", path)
    wanted = by_name(tkgen.load(path))["buffers 2"]
    done = CliRunner().invoke(app, ["predict", str(path), "--apply", "buffers  2"])
    assert done.exit_code == 0 and done.stdout.strip().endswith("buffers 2")
    assert path.read_text() == wanted and tkgen.load(path).check().program.a.buffers == 2


def test_an_edit_of_a_spec_whose_include_stands_in_another_folder_is_applied(tmp_path: Path) -> None:
    shared, path = tmp_path / "shared" / "waves.tk", tmp_path / "specs" / "gemm.tk"
    shared.parent.mkdir()
    path.parent.mkdir()
    shared.write_text("waves 2 x 2\n")
    text = (SPECS / "single_buffer.tk").read_text()
    assert text.count("  waves 2 x 2\n") == 1
    path.write_text(text.replace("  waves 2 x 2\n", '  include "../shared/waves.tk"\n'))
    arguments = ["predict", str(path), "-I", str(tmp_path), "--apply", "buffers 2"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert tkgen.load(path, include_roots=[tmp_path]).check().program.a.buffers == 2


@pytest.mark.parametrize(
    ("edit", "code", "said"),
    [("buffer 2", 2, "did you mean"), ("nonsense", 2, "there are"), ("schedule ping_pong", 1, "does not pass")],
)
def test_what_cannot_be_applied_leaves_the_spec_alone(tmp_path: Path, edit: str, code: int, said: str) -> None:
    path = tmp_path / "gemm.tk"
    shutil.copy(SPECS / "single_buffer.tk", path)
    done = CliRunner().invoke(app, ["predict", str(path), "--apply", edit])
    assert done.exit_code == code and said in " ".join(done.stderr.split())
    assert path.read_text() == (SPECS / "single_buffer.tk").read_text()


@pytest.mark.parametrize("name", ["single_buffer", "ping_pong", "macro_tiles", "producer_consumer_4p4c"])
def test_a_tunable_text_is_a_spec_of_the_same_kernel(name: str, tmp_path: Path) -> None:
    spec = tkgen.load(SPECS / f"{name}.tk")
    path = tmp_path / f"{name}_tunable.tk"
    path.write_text(edits.tunable(spec))
    again = tkgen.load(path).check()
    assert again.plan.to_text() == spec.plan.to_text() and again.program.block == spec.program.block
    space = Space.of([path], {}, {})
    assert space.size > 2
    for axis, values in space.variants[0].axes.items():  # each value of a parameter passes by itself
        for value in values:
            tkgen.load(path, {axis: value}).check()


def test_tune_offers_parameters_where_there_are_none(tmp_path: Path) -> None:
    out = tmp_path / "tune"
    arguments = ["tune", str(SPECS / "one_wave.tk"), "-D", "M=256 N=256 K=256", "-j", "1", "-o", str(out), "--json"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    offered = json.loads(done.stdout)["offers"]
    assert list(offered.values()) == [str(out / "one_wave_tunable.tk")]
    assert Space.of([out / "one_wave_tunable.tk"], {}, {}).size > 2


@pytest.mark.parametrize(
    ("target", "names"),
    [
        ("gfx942", {"interleave", "ping_pong"}),
        slow("gfx950", {"interleave", "ping_pong", "direct", "interleave_direct", "ping_pong_direct"}),
    ],
)
def test_tune_offers_schedules_of_attention(target: str, names: set[str], tmp_path: Path) -> None:
    """A file for each schedule and way to LDS: what is no number varies from file to file."""
    out, path = tmp_path / "tune", SPECS / "attention/attention.tk"
    text = path.read_text().replace("q in LENGTH by 128", "q in LENGTH by 256").replace("waves 4", "waves 8")
    (tmp_path / "attention.tk").write_text(text)
    sizes = "BATCH=1 HEADS=1 LENGTH=256 D=64"
    arguments = ["tune", str(tmp_path / "attention.tk"), "-t", target, "-D", sizes, "-j", "1", "--json", "-o", str(out)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    (first,), (others,) = told["offers"].values(), told["variants"].values()
    assert Path(first).name == "attention_tunable.tk"
    assert {Path(o).name for o in others} == {f"attention_{name}_tunable.tk" for name in names}
    for other in others:
        words = Path(other).stem.removeprefix("attention_").removesuffix("_tunable")
        spec = tkgen.load(Path(other), target=target).check()
        assert ("via direct" in Path(other).read_text()) == words.endswith("direct")
        assert ("schedule" in Path(other).read_text()) == (words != "direct")
        assert spec.source.text
    assert Space.of([Path(first), *map(Path, others)], {}, {}).size > 10


FAMILIES = {
    "attention/attention": {"Q_TILE", "J_STEP", "WAVES", "BUFFERS"},
    "attention/attention_decode": {"PARTS_SIZE", "J_STEP", "BUFFERS", "H_TILE", "WAVES"},
    "rows/softmax": {"R_TILE", "WAVES"},
    "groups/grouped_persistent": {"M_TILE", "N_TILE", "K_STEP", "WAVE_ROWS", "WAVE_COLS", "GRID", "BUFFERS"},
    "low_precision/fp8_blocks": {"M_TILE", "WAVE_ROWS", "WAVE_COLS"},
}


@pytest.mark.parametrize("name", FAMILIES)
def test_what_a_family_can_vary_is_offered(name: str, tmp_path: Path) -> None:
    spec = editable(tkgen.load(SPECS / f"{name}.tk"))
    path = tmp_path / "tunable.tk"
    path.write_text(edits.tunable(spec))
    (variant,) = Space.of([path], {}, {}).variants
    assert variant.axes.keys() >= FAMILIES[name]
    assert tkgen.load(path).check().source.text.count("\n") == spec.source.text.count("\n")
    for axis, values in variant.axes.items():
        tkgen.load(path, {axis: values[-1]}).check()
