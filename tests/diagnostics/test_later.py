"""Errors of later stages that an earlier error hides are said with it, and none that follows from it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import corpus
import pytest
from diagnosing import diagnose, options
from sampling import sample
from small_specs import ATTENTION, CLAUSES, PRODUCT, ROWS
from typer.testing import CliRunner

from tkgen.cli import app
from tkgen.cli.common import findings
from tkgen.diagnostics import Diagnostic, Edit, Fix, Label, Severity
from tkgen.diagnostics.later import with_later
from tkgen.lsp.analysis import Request, analyze
from tkgen.overview import overview
from tkgen.source import SourceFile, Span

# (spec, pairs of what it has and what is written instead, the code and the text of each error)
SPECS: list[tuple[str, Sequence[tuple[str, str]], list[tuple[str, str]]]] = [
    (PRODUCT, [("M = 256", "M = 250"), ("bias[n]", "bias[m]")], [("E223", "m"), ("E604", "M = 250")]),
    (PRODUCT, [("buffers 2", "buffers 9"), ("B[n, k].T", "B[n, k]")],
     [("E224", "A[m, k] @ B[n, k]"), ("E501", "shared A, B buffers 9")]),
    (PRODUCT, [("N = 256", "N = 250"), ("C[m, n] =", "C[n, m] =")], [("E223", "n"), ("E604", "N = 250")]),
    (CLAUSES, [("M = 256", "M = 250"), ("bias(b) | relu", "bias(b) | reluu")],
     [("E211", "reluu"), ("E604", "M = 250")]),
    (CLAUSES, [("buffers 2", "buffers 9"), ("  store C", "  occupancy 9 waves per simd\n  store C")],
     [("E203", "occupancy 9 waves per simd"), ("E501", "shared A, B buffers 9")]),
    (ATTENTION, [("K, V\n", "K, V buffers 9\n"), ("l : f32[q] = 0, ", "")],
     [("E227", "l"), ("E230", "shared K, V buffers 9")]),
    (ATTENTION, [("  shared", "  waves 3 along q\n  shared"), ("rowmax(s)", "rowmaxx(s)")],
     [("E200", "rowmaxx"), ("E214", "waves 3 along q")]),
    (ROWS, [("Y : bf16", "Y : bf17"), ("  x = X[t]", "  x = X[tt]")], [("E204", "bf17"), ("E200", "tt")]),
    (PRODUCT, [("M = 256", "M = 250"), ("c + bias[n]", "c + nope")], [("E200", "nope"), ("E604", "M = 250")]),
    (ATTENTION, [("  shared", "  waves 3 along q\n  shared"), ("exp2(s - n)", "exp2(s - nope)")],
     [("E200", "nope"), ("E214", "waves 3 along q")]),
    (CLAUSES, [("M = 256", "M = 250"), ("bias(b) | relu", "bias(b) | reluu | softplus")],
     [("E211", "reluu"), ("E211", "softplus"), ("E604", "M = 250")]),
    (CLAUSES, [("M = 256", "M = 250"), ("  block", "  occupancy 9 waves per simd\n  block")],
     [("E203", "occupancy 9 waves per simd"), ("E604", "M = 250")]),
]  # fmt: skip


def written(spec: str, changes: Sequence[tuple[str, str]]) -> str:
    for has, instead in changes:
        assert has in spec
        spec = spec.replace(has, instead, 1)
    return spec


@pytest.mark.parametrize(("spec", "changes", "errors"), SPECS)
def test_errors_of_two_stages_are_said_at_once(
    spec: str, changes: Sequence[tuple[str, str]], errors: list[tuple[str, str]], tmp_path: Path
) -> None:
    path = tmp_path / "two.tk"
    path.write_text(written(spec, changes), "utf-8")
    found = [d for d in findings(path, None, None, None) if d.severity is Severity.ERROR]
    assert sorted((d.code, d.primary.span.text) for d in found if d.primary) == sorted(errors)
    assert all(d.primary and d.primary.span.file.text == path.read_text("utf-8") for d in found)
    shown = [d for d in overview(path.read_text("utf-8"), "two.tk")["diagnostics"] if d["severity"] == "error"]
    assert sorted(d["code"] for d in shown) == sorted(code for code, _ in errors)
    edited = analyze(Request(SourceFile("/two.tk", path.read_text("utf-8")))).diagnostics
    assert sorted(d.code for d in edited if d.severity is Severity.ERROR) == sorted(code for code, _ in errors)


@pytest.mark.parametrize(("spec", "changes", "errors"), SPECS)
def test_each_of_them_is_an_error_of_its_own(
    spec: str, changes: Sequence[tuple[str, str]], errors: list[tuple[str, str]], tmp_path: Path
) -> None:
    codes = set()
    for change in changes:
        (tmp_path / "one.tk").write_text(written(spec, [change]), "utf-8")
        codes |= {d.code for d in diagnose(tmp_path / "one.tk") if d.severity is Severity.ERROR}
    assert {code for code, _ in errors} <= codes


@pytest.mark.parametrize("spec", sample(corpus.SPECS, 8), ids=lambda s: s.stem)
def test_a_spec_with_one_mistake_has_no_more_errors_than_before(spec: Path) -> None:
    """What a repair brings up is not the repair's own doing: specs of the corpus have the errors that they should."""
    file = SourceFile(str(spec), spec.read_text("utf-8"))
    before = corpus.diagnosed(spec)
    if not before or any(d.primary is None or d.primary.span.file.text != file.text for d in before):
        return

    def judge(text: str) -> list[Diagnostic]:
        return findings(spec, None, None, None, text)

    assert len(with_later(before, file.text, judge)) == len(before)


SECOND = {
    "remap": ("  remap gruop(rows = 4)\n", "gruop"),
    "occupancy": ("  occupancy 9 waves per simd\n", "occupancy 9"),
    "equation": ("  zz = relu(nope)\n", "nope"),
}
"""Mistakes that have to do with no other line, by what a spec must not have yet."""
DEPENDENT = {
    ("eq_clause_of_products", "equation"): "which equations are products is not known",
    ("eq_parts_on_hopper", "remap"): "without `part` the grid has other axes",
    ("register_buffers_differ", "remap"): "the order of reads is not known",
    ("row_too_long", "remap"): "no lane has a part of a row",
    ("seq_half_written", "remap"): "the kernels of a sequence do not fit together",
    ("seq_out_of_order", "remap"): "the kernels of a sequence do not fit together",
}
"""The mistakes of the corpus that hide one of `SECOND`, and why; besides those that the grammar does not read."""


def with_second(text: str, name: str) -> str | None:
    """A spec with one of `SECOND`; None if it has such a line, or none could be."""
    lines, clauses = text.splitlines(keepends=True), "over " not in text
    if "sequence" in text.split("kernel")[0] or name in text or (name == "occupancy") > clauses:
        return None
    if name == "equation":
        if clauses or not lines[-1].startswith("  ") or lines[-1].startswith("    "):
            return None
        return "".join([*lines[:-1], SECOND[name][0], lines[-1]])
    after = max((n for n, line in enumerate(lines) if line.strip().startswith("global")), default=None)
    if after is not None and name == "remap":
        after = next((n for n, line in enumerate(lines) if line.strip().startswith(("over", "block"))), after)
    return None if after is None else "".join([*lines[: after + 1], SECOND[name][0], *lines[after + 1 :]])


@pytest.mark.parametrize("spec", sample(corpus.SPECS, 6), ids=lambda s: s.stem)
def test_a_mistake_of_the_corpus_hides_no_other_one(spec: Path) -> None:
    """A second mistake, in a separate line, is reported beside it, and takes its place nowhere."""
    text = spec.read_text("utf-8")
    line = re.search(r"^# options: (.*)$", text, re.MULTILINE)
    defines, target = options(line[1].split() if line else ())
    given = [f"{name}={'dynamic' if size is None else size}" for name, size in defines.items()]

    def errors(of: str) -> list[Diagnostic]:
        return [d for d in findings(spec, given, target, None, of) if d.severity is Severity.ERROR]

    before = errors(text)
    if not before or any(d.primary is None or d.code.startswith("E10") for d in before):
        return
    for name, (_, token) in SECOND.items():
        if (other := with_second(text, name)) is None:
            continue
        found = errors(other)
        said = any(d.primary and token in d.primary.span.text for d in found)
        said &= Counter(d.code for d in before) <= Counter(d.code for d in found)
        assert said != ((spec.stem, name) in DEPENDENT), (name, [d.message for d in found])


def test_the_second_error_is_printed_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "two.tk"
    path.write_text(written(PRODUCT, [("M = 256", "M = 250"), ("bias[n]", "bias[m]")]), "utf-8")
    done = CliRunner().invoke(app, ["check", str(path)])
    assert "2 errors, 0 warnings" in done.stdout
    assert "error[E604]" in done.stderr and "2 |   dims M = 250, N = 256, K = 256" in done.stderr


def test_what_touches_a_repaired_line_is_left_out() -> None:
    file = SourceFile("a.tk", "one\ntwo\nthree\n")
    first = Diagnostic(
        "E200", "a", Label(Span(file, 4, 7)), fix=Fix("", (Edit(Span(file, 4, 7), "zwei und mehr"),), certain=False)
    )

    def judge(text: str) -> list[Diagnostic]:
        new = SourceFile("a.tk", text)
        at = {word: text.index(word) for word in ("one", "zwei", "three")}
        spans = {word: Span(new, start, start + len(word)) for word, start in at.items()}
        return [
            Diagnostic("E604", "kept", Label(spans["three"]), (Label(spans["one"]),)),
            Diagnostic("E604", "touches", Label(spans["zwei"])),
            Diagnostic("E604", "names", Label(spans["one"]), (Label(spans["zwei"]),)),
            Diagnostic("W201", "a warning", Label(spans["one"])),
        ]

    found = with_later([first], file.text, judge)
    assert [d.message for d in found] == ["a", "kept"]
    assert found[1].primary is not None and found[1].primary.span == Span(file, 8, 13)


@pytest.mark.parametrize("code", ["E101", "E209", "E206"])
def test_an_error_without_a_repair_ends_it(code: str) -> None:
    file = SourceFile("a.tk", "one\ntwo\n")
    first = Diagnostic(code, "a", Label(Span(file, 4, 7)))
    assert with_later([first], file.text, lambda _: pytest.fail("judged")) == [first]
