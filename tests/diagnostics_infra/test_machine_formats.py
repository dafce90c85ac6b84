"""JSON, SARIF and GitHub commands; applying fixes; spelling suggestions."""

import json

import pytest

from tkgen.diagnostics import Diagnostic, Edit, Fix, InterleavedStep, Label
from tkgen.diagnostics.render import apply_fixes, render_github, render_json, render_sarif
from tkgen.diagnostics.text import distance, nearest
from tkgen.source import SourceFile, Span

FILE = SourceFile("specs/a b%.tk", "kernel a\n  waves 4 x 2\n  store C\n")
WAVES = Span(FILE, 11, 22)
STORE = Span(FILE, 25, 32)


def error() -> Diagnostic:
    fix = Fix("drop, it: now", (Edit(WAVES, "waves 8"),))
    steps = InterleavedStep("wave 1", "reads", 2, STORE), InterleavedStep("wave 0", "writes")
    message, that = "100% wrong,\nreally", (Label(STORE, "that"),)
    return Diagnostic("E101", message, Label(WAVES, "this"), that, ("why",), fix, steps)


def test_json() -> None:
    (found, bare) = json.loads(render_json([error(), Diagnostic("W101", "m")]))
    assert found["code"] == "E101" and found["severity"] == "error" and found["notes"] == ["why"]
    assert found["primary"] == {
        "file": "specs/a b%.tk", "line": 2, "column": 3, "end_line": 2, "end_column": 14,
        "offset": 11, "end_offset": 22, "text": "this",
    }  # fmt: skip
    assert found["secondary"][0]["line"] == 3
    assert found["fix"]["text"] == "drop, it: now"
    assert found["fix"]["edits"][0]["replacement"] == "waves 8"
    assert (bare["severity"], bare["primary"], bare["secondary"], bare["fix"]) == ("warning", None, [], None)
    read, write = found["interleaving"]
    assert read == {"agent": "wave 1", "action": "reads", "barriers": 2, "at": read["at"]}
    assert (read["at"]["line"], read["at"]["offset"]) == (3, 25)
    assert write == {"agent": "wave 0", "action": "writes", "barriers": None, "at": None}
    assert bare["interleaving"] == []
    assert json.loads(render_json([])) == []


def test_sarif() -> None:
    log = json.loads(render_sarif([error(), Diagnostic("E999", "m"), error()]))
    assert log["version"] == "2.1.0" and len(log["runs"]) == 1
    run = log["runs"][0]
    assert run["tool"]["driver"]["name"] == "tkgen" and run["columnKind"] == "unicodeCodePoints"
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["E101", "E999"]
    assert rules[0]["shortDescription"]["text"] and "```tk" in rules[0]["help"]["markdown"]
    assert [(r["ruleId"], r["ruleIndex"], r["level"]) for r in run["results"]] == [
        ("E101", 0, "error"), ("E999", 1, "error"), ("E101", 0, "error"),
    ]  # fmt: skip
    result = run["results"][0]
    assert result["message"]["text"] == "100% wrong,\nreally\nwhy\ndrop, it: now"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "specs/a%20b%25.tk"
    region = {"startLine": 2, "startColumn": 3, "endLine": 2, "endColumn": 14}
    assert place["region"] == region
    assert result["relatedLocations"][0]["message"]["text"] == "that"
    (change,) = result["fixes"][0]["artifactChanges"]
    assert change["replacements"] == [{"deletedRegion": region, "insertedContent": {"text": "waves 8"}}]
    assert "locations" not in run["results"][1]
    absolute = Label(Span(SourceFile("/tmp/é.tk", "x"), 0, 1))
    other = json.loads(render_sarif([Diagnostic("E101", "m", absolute)]))
    uri = other["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == "file:///tmp/%C3%A9.tk"


def test_github() -> None:
    out = render_github([error(), Diagnostic("W101", "m")])
    assert out.splitlines() == [
        "::error file=specs/a b%25.tk,line=2,endLine=2,col=3,endColumn=14,title=E101::"
        "100%25 wrong,%0Areally%0Awhy%0Ahelp: drop, it: now",
        "::warning title=W101::m",
    ]
    hostile = SourceFile("a,b:c\n::error::x", "x")
    (line,) = render_github([Diagnostic("E101", "m\n::set-output::\r\x1b", Label(Span(hostile, 0, 1)))]).splitlines()
    assert line.startswith("::error file=a%2Cb%3Ac\\x0a%3A%3Aerror%3A%3Ax,line=1") and "\x1b" not in line


def test_fixes_are_made_whole_and_never_overlap() -> None:
    text = FILE.text
    other = SourceFile("b.tk", "waves 2\n")
    fixes = [
        Diagnostic("E101", "m", fix=Fix("a", (Edit(WAVES, "waves 8"),))),
        Diagnostic("E101", "m", fix=Fix("overlaps", (Edit(Span(FILE, 20, 22), "3"), Edit(STORE, "store D")))),
        Diagnostic("E101", "m", fix=Fix("elsewhere", (Edit(STORE, "x"), Edit(Span(other, 0, 5), "y")))),
        Diagnostic("E101", "m", fix=Fix("insert", (Edit(Span(FILE, 0, 0), "# c\n"),))),
        Diagnostic("E101", "m", fix=Fix("insert again", (Edit(Span(FILE, 0, 0), "# d\n"),))),
        Diagnostic("E101", "m", fix=Fix("words only")),
        Diagnostic("E101", "m"),
    ]
    assert apply_fixes(text, fixes) == "# c\nkernel a\n  waves 8\n  store C\n"
    assert apply_fixes("something else", fixes) == "something else"
    assert apply_fixes(text, fixes[1:]) == "# c\nkernel a\n  waves 4 x3\n  store D\n"


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [("step", "stp", 1), ("step", "setp", 1), ("Step", "sTEP", 0), ("", "abc", 3), ("ab", "ba", 1)],
)
def test_distance(a: str, b: str, expected: int) -> None:
    assert distance(a, b) == distance(b, a) == expected


def test_nearest() -> None:
    words = ("step", "store", "shared", "x")
    assert nearest("stp", words) == "step"
    assert nearest("sotre", words) == "store"
    assert nearest("SHARED", words) == "shared"
    assert nearest("zzzz", words) is None
    assert nearest("y", words) is None
    assert nearest("s" * 10_000, words) is None
