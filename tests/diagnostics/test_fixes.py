"""`check --fix` makes nothing worse: whatever it changes in a spec is judged before it is written."""

from __future__ import annotations

import re
import shutil
import sys
from collections import Counter
from pathlib import Path

import corpus
import pytest
from diagnosing import diagnose
from sampling import sample
from typer.testing import CliRunner

from tkgen.cli import app
from tkgen.cli.fixing import Builder
from tkgen.diagnostics import Diagnostic, Edit, Fix, Label, Severity
from tkgen.diagnostics.fixes import apply_fixes, harmless_fixes
from tkgen.source import SourceFile, Span
from tkgen.targets import load_target
from tkgen.toolchain.compiler import CompilerKind
from tkgen.toolchain.discover import find_compiler

ROOT = Path(__file__).parents[2]
RIGHT = """kernel t
  dims M = 128, N = 128, K = 128
  global A : bf16[M, K]
  global B : bf16[N, K]
  global C : f32[M, N]
  scalar beta : f32
  block 128 x 128 step 32
  waves 2 x 2
  shared A, B buffers 1
  accumulate C : f32 tile 32 x 32
  store C
"""


GUESSED = {
    "k11_collective_of_eight": 1, "k13_collective_of_eight": 1, "k15_one_wave_loads": 1, "group_does_not_divide": 1,
    "fragments_apart": 2, "eq_store_in_loop": 1, "eq_stored_twice": 1, "k04_store_twice": 1, "unused_tensor": 2,
    "k08_unused_tile": 1, "phase_without_schedule": 1, "unknown_arrangement": 1, "eq_waves_do_not_divide": 1,
    "k14_accumulators": 1, "k14_rows_past_the_tile": 1,
}  # fmt: skip
"""Specs whose fixes are edits for a reader to judge, and how many of them, made one by one, leave nothing to find."""


@pytest.mark.parametrize("name", GUESSED)
def test_a_fix_to_judge_leaves_a_spec_without_findings(name: str, tmp_path: Path) -> None:
    spec = tmp_path / f"{name}.tk"
    shutil.copy(corpus.FOLDER / spec.name, spec)
    for _ in range(GUESSED[name]):
        first = corpus.diagnosed(spec)[0]
        assert first.fix is not None and first.fix.edits
        spec.write_text(apply_fixes(spec.read_text(encoding="utf-8"), [first], guesses=True), "utf-8")
    assert not corpus.diagnosed(spec)


def test_a_row_is_padded_to_whole_accesses(tmp_path: Path) -> None:
    spec = tmp_path / "odd.tk"
    text = RIGHT.replace("B : bf16[N, K]", "B : bf16[K, N]").replace("N = 128", "N = 204")
    spec.write_text(text + "  tail clamped\n", "utf-8")
    (found,) = (d for d in diagnose(spec) if d.code == "E606")
    assert found.fix is not None and found.fix.text == "pad N to 208"
    spec.write_text(apply_fixes(spec.read_text(encoding="utf-8"), [found], guesses=True), "utf-8")
    assert "N = 208," in spec.read_text(encoding="utf-8")
    assert not errors(diagnose(spec))


def errors(found: tuple[Diagnostic, ...] | list[Diagnostic]) -> Counter[str]:
    return Counter(d.code for d in found if d.severity is Severity.ERROR)


@pytest.mark.parametrize("spec", sample(corpus.SPECS, 4), ids=lambda s: s.stem)
def test_no_spec_of_the_corpus_gets_worse(spec: Path, tmp_path: Path) -> None:
    before = corpus.diagnosed(spec)
    copy = tmp_path / spec.name
    shutil.copy(spec, copy)
    line = re.search(r"^# options: (.*)$", spec.read_text(encoding="utf-8"), re.MULTILINE)
    words = [w.replace("target=", "--target=") for w in line[1].split()] if line else []
    CliRunner().invoke(app, ["check", str(copy), "--fix", *words])
    after = corpus.diagnosed(copy)
    if not any(code.startswith(("E1", "E2")) for code in errors(before)):  # they hide what comes behind them
        assert not errors(after) - errors(before)
    if not errors(before):
        assert not errors(after)


@pytest.mark.parametrize("name", [
    "buffers_never_filled", "eq_parts_do_not_divide", "four_xcds", "k07_lds_budget", "k09_spills", "lds_mixed",
    "must_spill", "never_stored", "occupancy_too_high", "odd_steps", "persistent_blocks",
])  # fmt: skip
def test_a_fix_of_one_number_or_line_is_an_edit_that_holds(name: str, tmp_path: Path) -> None:
    """The remedy can be applied, and the spec that it makes has no error and does not need it again."""
    copy = tmp_path / f"{name}.tk"
    shutil.copy(ROOT / "tests" / "diagnostics" / copy.name, copy)
    found = before = corpus.diagnosed(copy)
    for _ in range(4):
        text = copy.read_text(encoding="utf-8")
        copy.write_text(apply_fixes(text, [d for d in found if d.code == before[0].code], guesses=True))
        found = corpus.diagnosed(copy)
    assert before[0].fix is not None and before[0].fix.edits
    assert before[0].code not in {d.code for d in found} and not errors(found)


def test_a_fix_that_breaks_a_right_spec_is_left_out(tmp_path: Path) -> None:
    """Two fixes of a right spec, one of which takes its store away: the other is made."""
    path = tmp_path / "t.tk"
    file = SourceFile(str(path), RIGHT)

    def removal(line: str) -> Diagnostic:
        start = RIGHT.index(line)
        span = Span(file, start, start + len(line))
        return Diagnostic("W502", "not needed", Label(span), fix=Fix("remove it", (Edit(span, ""),)))

    def judge(text: str) -> tuple[Diagnostic, ...]:
        path.write_text(text)
        return diagnose(path)

    found = [removal("  store C\n"), removal("  scalar beta : f32\n")]
    assert not errors(judge(RIGHT))
    assert harmless_fixes(RIGHT, found, judge, lambda _: True) == RIGHT.replace("  scalar beta : f32\n", "")


def test_a_fix_of_a_text_that_cannot_be_read_may_bring_up_what_it_hid(tmp_path: Path) -> None:
    path = tmp_path / "t.tk"
    path.write_text(RIGHT.replace("global B", "globl B").replace("buffers 1", "buffers 99"))
    CliRunner().invoke(app, ["check", str(path), "--fix"])
    assert "global B" in path.read_text() and set(errors(diagnose(path))) == {"E203", "E501"}


def test_a_fix_that_is_uncertain_is_named_and_applied_where_asked(tmp_path: Path) -> None:
    path = tmp_path / "t.tk"
    right = RIGHT.replace("  scalar beta : f32\n", "")
    wrong = right.replace("shared A, B", "shared A, Bs").replace("store C", "store CC")
    path.write_text(wrong)
    done = CliRunner().invoke(app, ["check", str(path), "--fix"])
    assert done.exit_code == 1 and path.read_text() == wrong
    assert (
        f"note: {path}: the fixes of lines 8, 10 are uncertain and were not applied: `--unsafe-fixes` applies them, too"
        in done.stderr
    )
    done = CliRunner().invoke(app, ["check", str(path), "--unsafe-fixes"])
    assert done.exit_code == 0 and path.read_text() == right and f"{path}: fixed\n" in done.stderr
    assert "unsafe-fixes" not in done.stderr


def test_one_uncertain_fix_is_named_alone(tmp_path: Path) -> None:
    path = tmp_path / "t.tk"
    shutil.copy(corpus.FOLDER / "k11_collective_of_eight.tk", path)
    done = CliRunner().invoke(app, ["check", str(path), "--fix"])
    assert "the fix of line 13 is uncertain and was not applied: `--unsafe-fixes` applies it, too\n" in done.stderr


def test_a_spec_without_uncertain_fixes_is_not_told_of_them(tmp_path: Path) -> None:
    path = tmp_path / "t.tk"
    path.write_text(RIGHT.replace("buffers 1", "buffers 99"))
    assert "unsafe-fixes" not in CliRunner().invoke(app, ["check", str(path), "--fix"]).stderr


BARRIER = "        tk::lds_barrier();"
OTHER = """
import subprocess, sys
from pathlib import Path
for name in (a for a in sys.argv if a.endswith("in.cpp")):
    Path(name).write_text(Path(name).read_text().replace({old!r}, {new!r}))
sys.exit(subprocess.run([*{command}, *sys.argv[1:]]).returncode)
"""


@pytest.fixture
def waiting(tmp_path: Path) -> Path:
    """A right spec with a wait that W302 calls needless: the plan has one of its own in front of the barrier then."""
    return Path(shutil.copy(ROOT / "tests" / "soundness" / "specs" / "fix_breaks.tk", tmp_path / "spec.tk"))


def compiler(folder: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    """Builds are made by a compiler that replaces a text of the C++."""
    script = folder / "other.py"
    found = find_compiler(load_target("gfx942"))
    if found.kind is CompilerKind.ZIGLANG:
        pytest.skip("the ziglang wheel links by a command of its own, which another compiler's script does not have")
    command = list(found.command)
    script.write_text(OTHER.format(command=command, old=old, new=new))
    monkeypatch.setenv("TKGEN_CXX", f"{sys.executable} {script}")


@pytest.fixture
def losing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that loses the wait in front of a barrier, where the plan has put one there."""
    compiler(tmp_path, monkeypatch, BARRIER, "tk::pin(); __builtin_amdgcn_s_barrier(); tk::pin();")


def test_a_fix_that_is_proven_and_builds_is_made(waiting: Path) -> None:
    done = CliRunner().invoke(app, ["check", str(waiting), "--fix"])
    assert done.exit_code == 0 and done.stderr == f"{waiting}: fixed\n"
    assert "wait" not in waiting.read_text()


def test_a_fix_whose_machine_code_races_is_left_out(waiting: Path, losing: None) -> None:
    before = waiting.read_text()
    done = CliRunner().invoke(app, ["check", str(waiting), "--fix"])
    assert done.exit_code == 0 and waiting.read_text() == before
    assert f"note: {waiting}: a fix was not applied, because the build fails with it: E32" in done.stderr
    assert "warning[W302]" in done.stderr and "1 warning left" in done.stdout


def test_only_the_build_finds_that_it_races(waiting: Path, losing: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the check the fix comes through, and its machine code is refused."""
    monkeypatch.setattr(Builder, "no_worse", lambda *_: True)
    assert CliRunner().invoke(app, ["check", str(waiting), "--fix"]).exit_code == 0
    assert "wait" not in waiting.read_text()
    refused = CliRunner().invoke(app, ["build", str(waiting), "-o", str(waiting.parent / "out")])
    assert refused.exit_code == 1 and "error[E32" in refused.stderr


def test_a_fix_that_does_not_compile_is_left_out(
    waiting: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(tmp_path, monkeypatch, BARRIER, "nonsense")
    before = waiting.read_text()
    done = CliRunner().invoke(app, ["check", str(waiting), "--fix"])
    assert done.exit_code == 0 and waiting.read_text() == before and "a fix was not applied" in done.stderr


def test_where_nothing_builds_a_fix_does_no_harm(
    waiting: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(tmp_path, monkeypatch, "__global__", "nonsense")
    assert CliRunner().invoke(app, ["check", str(waiting), "--fix"]).exit_code == 0
    assert "wait" not in waiting.read_text()


def test_without_a_compiler_a_fix_is_proven_alone_and_that_is_said(
    waiting: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TKGEN_CXX", "/nowhere/clang++")
    done = CliRunner().invoke(app, ["check", str(waiting), "--fix"])
    assert done.exit_code == 0 and "wait" not in waiting.read_text()
    assert f"{waiting}: fixed (not built: " in done.stderr and "/nowhere/clang++" in done.stderr


def test_without_the_emulator_a_fix_is_built_and_not_watched(waiting: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tkgen.emulate import EmulateError, native

    def missing() -> None:
        raise EmulateError("no C++ compiler")

    monkeypatch.setattr(native, "core", missing)
    done = CliRunner().invoke(app, ["check", str(waiting), "--fix"])
    assert done.exit_code == 0 and "wait" not in waiting.read_text()
    assert "fixed (machine code not checked: no C++ compiler" in done.stderr
