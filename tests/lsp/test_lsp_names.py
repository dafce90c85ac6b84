"""Names: where they are, what they mean across includes, and what renaming refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsp_editor import SPEC
from sampling import sample

from tkgen.diagnostics.fixes import edited
from tkgen.lsp.names import RenameError, definition, occurrences, references, rename
from tkgen.lsp.outline import outline
from tkgen.lsp.project import Project
from tkgen.source import SourceFile
from tkgen.syntax.loader import identity

ROOT = Path(__file__).parents[2]

EVERYTHING = """\
kernel all
  dims M = 64 * P, N = 64
  param P = 2, Q = P
  global A : bf16[M, K]
  scalar s : f32 = 1.0
  target gfx942
  block P x Q step max(P, Q)
  remap xcd(P, chunk = Q)
  grid persistent(P)
  tail masked
  waves P x Q
  occupancy P waves per simd
  allow spills
  shared A, B buffers P via registers
  registers A, B slice Q buffers P
  accumulate C = A * B : f32 tile P x Q interleaved mfma P x Q
  epilogue scale(s) | add(C, s) | gelu
  store C
  load A by P waves
  role r waves P..Q as P x Q
    load B
  phase waves P..Q by P clusters
  unroll P
  tune P in 1, Q
  over m in M by P, b in K
  waves P along m
  carry v : f32[m, K] = s + P
  each j in N by Q to m
    v = -v * A[m / Q, P].T @ C[j] + exp2(s)
  C[m, j] = v
  reference f(A, C)
  schedule barriers auto
    cluster fetch A[k+1]  read B(P..Q; *) wait vm P priority high
    group multiply (P, *; Q..3)
"""


def at(text: str, piece: str, plus: int = 0) -> int:
    return text.index(piece) + plus


def test_every_construct_gives_its_names() -> None:
    file = SourceFile("/all.tk", EVERYTHING)
    assert all(s.node is not None for s in outline(file).statements)
    found: dict[str, int] = {}
    for o in occurrences(outline(file)):
        assert o.span.text == o.name
        found[o.name] = found.get(o.name, 0) + 1
    text = EVERYTHING.replace("gfx942", "").replace("bf16", "").replace("spills", "")
    for name in "PQABCMKsmjv":
        expected = sum(1 for i, c in enumerate(text) if c == name and not (text[i - 1] + text[i + 1]).isalnum()
                       and not text[i - 1].isalnum() and not text[i + 1].isalnum())  # fmt: skip
        assert found[name] == expected, name
    assert {o.name: o.declares for o in occurrences(outline(file)) if o.declares} == {
        "all": "kernel", "M": "dimension", "N": "dimension", "P": "parameter", "Q": "parameter", "A": "tensor",
        "s": "scalar", "r": "role", "m": "axis", "b": "axis", "j": "axis", "v": "value",
    }  # fmt: skip
    assert not {"auto", "vm", "high", "k", "masked", "xcd", "chunk", "f32", "exp2", "f"} & found.keys()


def test_a_broken_line_hides_no_other_names() -> None:
    file = SourceFile("/a.tk", SPEC.replace("waves 2 x 2", "waves 2 y 2 A"))
    found = references(Project({}), file, at(file.text, "store C", 6))
    assert [o.span.line for o in found] == [7, 14, 15]


def project(tmp_path: Path, **texts: str) -> tuple[Project, dict[str, SourceFile]]:
    """Files on disk, and a project that sees them without any open buffer."""
    files = {}
    for name, text in texts.items():
        path = tmp_path / f"{name}.tk"
        path.write_text(text)
        files[name] = SourceFile(str(path), text)
    return Project({}, (str(tmp_path),)), files


SHAPES = "dims M = 4096, N = 2048, K = 1024\nglobal A : bf16[M, K]\nglobal B : bf16[N, K]\nglobal C : f32[M, N]\n"


def including(extra: str = "") -> str:
    body = SPEC[SPEC.index("  block") :]
    return f'kernel a\n  include "shapes.tk"\n  param DEPTH = 2\n{extra}{body}'


def test_renaming_in_a_fragment_reaches_every_spec_that_includes_it(tmp_path: Path) -> None:
    known, files = project(tmp_path, shapes=SHAPES, one=including(), two=including(), other=SPEC)
    edits = rename(known, files["shapes"], at(SHAPES, "A :"), "Left")
    assert {Path(e.span.file.name).stem for e in edits} == {"shapes", "one", "two"}
    for name in ("one", "shapes"):
        after = edited(files[name].text, [e for e in edits if Path(e.span.file.name).stem == name])
        assert "Left" in after and " A" not in after


def test_a_name_of_its_own_stays_in_its_spec(tmp_path: Path) -> None:
    known, files = project(tmp_path, shapes=SHAPES, one=including(), two=including())
    edits = rename(known, files["one"], at(files["one"].text, "DEPTH"), "D")
    assert {Path(e.span.file.name).stem for e in edits} == {"one"} and len(edits) == 2


def test_a_fragments_use_of_a_specs_name(tmp_path: Path) -> None:
    shapes = SHAPES + "shared A, B buffers DEPTH\n"
    spec = including().replace("  shared A, B buffers DEPTH   # both\n", "")
    known, files = project(tmp_path, shapes=shapes, one=spec, two=spec)
    (found,) = {s.file.name for s in definition(known, files["shapes"], at(shapes, "DEPTH"))[:1]}
    assert Path(found).stem in ("one", "two")
    edits = rename(known, files["one"], at(spec, "DEPTH"), "D")
    assert {Path(e.span.file.name).stem for e in edits} == {"shapes", "one", "two"}


def test_open_buffers_count_rather_than_the_disk(tmp_path: Path) -> None:
    known, files = project(tmp_path, shapes=SHAPES, one=including())
    longer = SourceFile(files["shapes"].name, "# a line more\n" + SHAPES)
    known = Project({identity(longer.name): longer}, known.folders)
    (span,) = definition(known, files["one"], at(files["one"].text, "shared A", 7))
    assert span.line == 3


def test_a_kernels_name_is_no_tensors(tmp_path: Path) -> None:
    known, files = project(tmp_path, one=SPEC.replace("kernel sample", "kernel A"))
    text = files["one"].text
    assert len(rename(known, files["one"], at(text, "kernel A", 7), "B")) == 1
    assert len(rename(known, files["one"], at(text, "global A", 7), "Z")) == 3


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("A :", "B", "`B` already has a meaning, see one.tk:6"),
        ("A :", "DEPTH", "already has a meaning"),
        ("A :", "fetch", "reserved word"),
        ("M =", "dynamic", "reserved word"),
        ("A :", "", "is no name"),
        ("A :", "1A", "is no name"),
        ("A :", "A-B", "is no name"),
        ("A :", "\u00c4", "is no name"),
        ("A :", "A\n", "is no name"),
        ("dims", "sizes", "no name here"),
        ("bf16", "bf17", "no name here"),
    ],
)
def test_renaming_refuses(tmp_path: Path, old: str, new: str, reason: str) -> None:
    known, files = project(tmp_path, one=SPEC)
    with pytest.raises(RenameError) as caught:
        rename(known, files["one"], at(SPEC, old), new)
    assert reason in str(caught.value)


def test_renaming_to_the_same_name_is_nothing(tmp_path: Path) -> None:
    known, files = project(tmp_path, one=SPEC)
    assert rename(known, files["one"], at(SPEC, "A :"), "A") == []


@pytest.mark.parametrize("new", ["step", "x", "tile", "buffers", "slice", "k", "kernel", "class"])
def test_names_like_keywords_are_fine(tmp_path: Path, new: str) -> None:
    known, files = project(tmp_path, one=SPEC)
    edits = rename(known, files["one"], at(SPEC, "A :"), new)
    after = SourceFile(files["one"].name, edited(SPEC, edits))
    assert sum(o.name == new for o in occurrences(outline(after))) == len(edits) == 3


def test_a_broken_spec_can_still_be_renamed_in(tmp_path: Path) -> None:
    text = SPEC.replace("waves 2 x 2", "waves 2 y 2")
    known, files = project(tmp_path, one=text)
    assert len(rename(known, files["one"], at(text, "A :"), "Z")) == 3


def test_includes_that_loop_or_escape(tmp_path: Path) -> None:
    known, files = project(tmp_path, one='kernel a\n  include "two.tk"\n', two='include "one.tk"\ninclude "../x.tk"\n')
    assert len(known.closure(files["one"])) == 2
    assert definition(known, files["two"], at(files["two"].text, "../x")) == []


@pytest.mark.parametrize("path", sample(sorted((ROOT / "specs").glob("*.tk")), 4), ids=lambda p: p.stem)
def test_every_use_in_the_specs_has_its_declaration(path: Path) -> None:
    file = SourceFile(str(path), path.read_text())
    found = occurrences(outline(file))
    declared = [o.name for o in found if o.declares]
    assert {o.name for o in found} == set(declared) and len(declared) == len(set(declared))
