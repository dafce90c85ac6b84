"""The parser: what each construct becomes, where nodes stand, and what happens without or with files."""

import os
import shutil
import subprocess
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from tkgen.diagnostics import SpecError
from tkgen.source import SourceFile
from tkgen.syntax import ast
from tkgen.syntax.dump import dump
from tkgen.syntax.loader import Loader
from tkgen.syntax.parser import parse, parse_fragment, parse_path


def statement(text: str) -> ast.Statement:
    (node,) = parse_fragment(SourceFile("fragment.tk", text))
    return node


def dumped(text: str) -> str:
    return dump(statement(text)).rstrip()


def errors(text: str) -> list[tuple[str, int, int]]:
    with pytest.raises(SpecError) as caught:
        parse(SourceFile("spec.tk", text))
    return [(d.code, d.primary.span.line, d.primary.span.column) for d in caught.value.diagnostics if d.primary]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dims M = 8192, N = dynamic", "Dims bindings=[M=8192, N=dynamic]"),
        ("param ROWS = M / 2 + 1", "Param bindings=[ROWS=((M / 2) + 1)]"),
        ("param P = 2 * (3 - 1) % 5", "Param bindings=[P=((2 * (3 - 1)) % 5)]"),
        ("param P = 8 - 2 - 1", "Param bindings=[P=((8 - 2) - 1)]"),
        ("param P = min(A, 4 - -1)", "Param bindings=[P=min(A, (4 - -1))]"),
        ("global A : bf16[M, K]", "Global name=A dtype=bf16 shape=[M, K]"),
        ("scalar beta : f32", "Scalar name=beta dtype=f32"),
        ("scalar alpha : f32 = -0.5", "Scalar name=alpha dtype=f32 default=-0.5"),
        ("scalar alpha : f32 = 1e-3", "Scalar name=alpha dtype=f32 default=0.001"),
        ("target gfx942, gfx90a", "Targets names=[gfx942, gfx90a]"),
        ("block 128 x BN step 64", "Block rows=128 cols=BN step=64"),
        (
            "remap xcd(8, chunk = 16) | row_major",
            "Remap calls=[xcd(8, chunk=16), row_major()]",
        ),
        ("grid linear", "Grid call=linear()"),
        ("grid persistent(304)", "Grid call=persistent(304)"),
        ("clusters 2", "Clusters count=2"),
        ("clusters P along n", "Clusters count=P along=n"),
        ("tail masked", "Tail mode=masked"),
        ("waves 4 x 2", "Waves rows=4 cols=2"),
        ("waves 8", "Waves rows=8"),
        ("occupancy 2 waves per simd", "Occupancy waves_per_simd=2"),
        ("occupancy 1 wave per simd", "Occupancy waves_per_simd=1"),
        ("allow spills, slow_reads", "Allow names=[spills, slow_reads]"),
        ("shared A, B", "Shared names=[A, B]"),
        ("shared A, B buffers 2 via registers", "Shared names=[A, B] buffers=2 via=registers"),
        ("shared A via direct buffers D", "Shared names=[A] buffers=D via=direct"),
        ("registers A, B slice 16 buffers 2", "Registers names=[A, B] slice=16 buffers=2"),
        ("accumulate C : f32 tile 32 x 64", "Accumulate name=C dtype=f32 tile=[32, 64]"),
        (
            "accumulate C = A * B : f32 tile 32 x 32 interleaved mfma 16 x 16",
            "Accumulate name=C product=[A, B] dtype=f32 tile=[32, 32] arrangement=interleaved mfma=[16, 16]",
        ),
        ("epilogue scale(alpha) | add(C, beta) | gelu", "Epilogue calls=[scale(alpha), add(C, beta), gelu()]"),
        ("store C", "Store name=C"),
        ("load A, B", "Load names=[A, B]"),
        ("load A, B by 4 waves", "Load names=[A, B] by=4"),
        ("role p waves 0\n  load A", "Role name=p waves=0..0\n  Load names=[A]"),
        ("role c waves 4..7 as 2 x 2\n  store C", "Role name=c waves=4..7 shape=[2, 2]\n  Store name=C"),
        ("phase waves 4..7 by 1 cluster", "Phase waves=4..7 amount=1"),
        ("phase waves 4..7 by 2 clusters", "Phase waves=4..7 amount=2"),
        ("unroll 2", "Unroll count=2"),
        ("tune BM in 64, 128", "Tune name=BM values=[64, 128]"),
        ("schedule ping_pong", "Schedule preset=ping_pong"),
    ],
)
def test_statements(text: str, expected: str) -> None:
    assert dumped(text) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cluster fetch A[k+1] B[k]", ["Move action='fetch' name=A step=k+1", "Move action='fetch' name=B step=k+0"]),
        ("group write A[k-1] load B copy C", ["Move action='write' name=A step=k-1", "Move action='load' name=B",
                                              "Move action='copy' name=C"]),
        ("cluster read A(0..1; 2) B(*) C", ["Move action='read' name=A frags=0..1 slices=2..2",
                                            "Move action='read' name=B", "Move action='read' name=C"]),
        ("cluster read A[k+1](*; 0)", ["Move action='read' name=A step=k+1 slices=0..0"]),
        ("cluster multiply", ["Multiply"]),
        ("cluster multiply slice 0..1", ["Multiply slices=0..1"]),
        ("cluster multiply (0..1, *; 3) barrier", ["Multiply rows=0..1 slices=3..3", "Barrier"]),
        ("cluster multiply (*, n)", ["Multiply cols=n..n"]),
        ("cluster wait vm 4 wait lds 0", ["Wait counter=vm count=4", "Wait counter=lds count=0"]),
        ("cluster priority high priority 2", ["Priority level=high", "Priority level=2"]),
    ],
)  # fmt: skip
def test_schedule_lines(line: str, expected: list[str]) -> None:
    lines = dumped(f"schedule barriers auto waits auto\n  {line}\n").splitlines()
    assert lines[0] == "Schedule barriers=auto waits=auto"
    assert lines[1] == f"  Cluster kind='{line.split()[0]}'"
    assert [line.strip() for line in lines[2:]] == expected


def test_a_schedule_without_options_leaves_barriers_to_its_author() -> None:
    node = statement("schedule\n  cluster barrier")
    assert isinstance(node, ast.Schedule)
    assert (node.preset, node.barriers, node.waits) == (None, None, None)


def test_spans_cover_the_text_of_their_nodes(spec: Path) -> None:
    kernel = parse_path(spec)
    seen = 0

    def visit(value: object) -> None:
        nonlocal seen
        if isinstance(value, tuple):
            for item in value:
                visit(item)
        elif is_dataclass(value):
            for field in fields(value):
                visit(getattr(value, field.name))
            if isinstance(value, ast.Name):
                assert value.span.text == value.id
                seen += 1
            elif isinstance(value, ast.Number) and isinstance(value.value, int):
                assert value.span.text == str(value.value)
            elif isinstance(value, ast.Node):
                text = value.span.text
                assert text and text == text.strip() and "#" not in text.splitlines()[-1]

    visit(kernel)
    assert seen > 10


def test_the_span_of_a_block_is_its_header() -> None:
    node = statement("role p waves 0..3  # loads\n  load A\n")
    assert isinstance(node, ast.Role)
    assert node.span.text == "role p waves 0..3"


def test_continued_statements_and_comments_anywhere() -> None:
    text = "# a\n\nremap xcd(8)  # b\n\n    # c\n    | group(4)\n  | morton # d\n\n# e"
    assert dumped(text) == "Remap calls=[xcd(8), group(4), morton()]"


@pytest.mark.parametrize("ending", ["\n", "\r\n", ""])
def test_line_endings(ending: str) -> None:
    text = "kernel a\n  role p waves 0\n    load A\n  waves 2" + ending
    kernel = parse(SourceFile("a.tk", text.replace("\n", ending or "\n")))
    assert [type(s) for s in kernel.body] == [ast.Role, ast.Waves]


def test_the_header_is_the_comment_the_file_opens_with() -> None:
    kernel = parse(SourceFile("a.tk", "# one\n#  two\n\n# three\nkernel a\n  waves 1\n"))
    assert kernel.header == "one\n two"


def test_keywords_can_be_names() -> None:
    kernel = parse_path(Path(__file__).parent / "corpus" / "odd_names.tk")
    schedule = kernel.body[-1]
    assert isinstance(schedule, ast.Schedule)
    assert [type(op).__name__ for op in schedule.clusters[0].ops] == [*["Move"] * 6, "Multiply", "Wait"]


# ---------------------------------------------------------------- files


def test_include_puts_statements_in_place(tmp_path: Path) -> None:
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "shapes.tk").write_text('dims M = 8\ninclude "more.tk"\n')
    (tmp_path / "common" / "more.tk").write_text("waves 2\n")
    (tmp_path / "a.tk").write_text('kernel a\n  include "common/shapes.tk"\n  store C\n')
    kernel = parse_path(tmp_path / "a.tk")
    assert dump(kernel).splitlines()[1:] == [
        "  Include path='common/shapes.tk'",
        "    Dims bindings=[M=8]",
        "    Include path='more.tk'",
        "      Waves rows=2",
        "  Store name=C",
    ]
    include = kernel.body[0]
    assert isinstance(include, ast.Include)
    assert include.body[0].span.file.name == str(tmp_path / "common" / "shapes.tk")


def include_error(path: Path, roots: tuple[Path, ...] = ()) -> str:
    with pytest.raises(SpecError) as caught:
        parse_path(path, roots)
    (found,) = caught.value.diagnostics
    assert found.code == "E104" and found.primary is not None
    assert found.primary.span.text.startswith("include ")
    return found.message


def test_includes_stay_within_the_roots(tmp_path: Path) -> None:
    inside, outside = tmp_path / "specs", tmp_path / "other"
    inside.mkdir()
    outside.mkdir()
    (outside / "b.tk").write_text("waves 2\n")
    spec = inside / "a.tk"
    spec.write_text('kernel a\n  include "../other/b.tk"\n')
    assert "is outside of" in include_error(spec)
    assert len(parse_path(spec, [outside]).body) == 1
    (inside / "link.tk").symlink_to(outside / "b.tk")
    spec.write_text('kernel a\n  include "link.tk"\n')
    assert "is outside of" in include_error(spec)
    spec.write_text(f'kernel a\n  include "{outside}/b.tk"\n')
    assert "relative" in include_error(spec, (outside,))
    spec.write_text('kernel a\n  include ""\n')
    assert "not a path" in include_error(spec)
    spec.write_text('kernel a\n  include "missing.tk"\n')
    assert "no such file" in include_error(spec)


def test_include_cycles_and_depth(tmp_path: Path) -> None:
    (tmp_path / "a.tk").write_text('kernel a\n  include "b.tk"\n')
    (tmp_path / "b.tk").write_text('include "sub/../c.tk"\n')
    (tmp_path / "sub").mkdir()
    (tmp_path / "c.tk").write_text('include "b.tk"\n')
    with pytest.raises(SpecError) as caught:
        parse_path(tmp_path / "a.tk")
    (found,) = caught.value.diagnostics
    assert "includes itself" in found.message and found.primary is not None
    places = [found.primary.span, *(label.span for label in found.secondary)]
    assert [os.path.basename(span.file.name) for span in places] == ["c.tk", "b.tk", "a.tk"]

    for i in range(20):
        (tmp_path / f"d{i}.tk").write_text(f'include "d{i + 1}.tk"\n')
    (tmp_path / "a.tk").write_text('kernel a\n  include "d0.tk"\n')
    with pytest.raises(SpecError) as caught:
        parse_path(tmp_path / "a.tk")
    assert "more than 16 files deep" in caught.value.diagnostics[0].message


def test_errors_in_an_included_file_show_both_files(tmp_path: Path) -> None:
    (tmp_path / "a.tk").write_text('kernel a\n  include "b.tk"\n  wavs 2\n')
    (tmp_path / "b.tk").write_text("waves 4 x\n")
    with pytest.raises(SpecError) as caught:
        parse_path(tmp_path / "a.tk")
    assert [d.code for d in caught.value.diagnostics] == ["E103"]
    (tmp_path / "a.tk").write_text('kernel a\n  include "b.tk"\n')
    with pytest.raises(SpecError) as caught:
        parse_path(tmp_path / "a.tk")
    (found,) = caught.value.diagnostics
    assert found.code == "E101" and found.primary is not None
    assert os.path.basename(found.primary.span.file.name) == "b.tk"
    assert [label.span.text for label in found.secondary] == ['include "b.tk"']


def test_a_kernel_cannot_be_included(tmp_path: Path) -> None:
    (tmp_path / "a.tk").write_text('kernel a\n  include "b.tk"\n')
    (tmp_path / "b.tk").write_text("kernel b\n  waves 1\n")
    with pytest.raises(SpecError) as caught:
        parse_path(tmp_path / "a.tk")
    assert [d.code for d in caught.value.diagnostics] == ["E106"]


def test_include_without_files_is_an_error() -> None:
    assert errors('kernel a\n  include "b.tk"\n') == [("E104", 2, 3)]


@pytest.mark.parametrize(
    ("data", "what", "place"),
    [
        (b"kernel a\n  waves \xff1\n", "byte 0xff at offset 17", (2, 9)),
        (b"\xef\xbb\xbfkernel a\n  waves \xe2\x82\n", "byte 0xe2 at offset 20", (2, 9)),
        (b"kernel a\n  wa\0ves 1\n", "NUL", (2, 5)),
        (b"#" * (1 << 20) + b"\n", "larger than 1 MiB", None),
    ],
)
def test_files_that_are_not_text(tmp_path: Path, data: bytes, what: str, place: tuple[int, int] | None) -> None:
    (tmp_path / "a.tk").write_bytes(data)
    with pytest.raises(SpecError) as caught:
        parse_path(tmp_path / "a.tk")
    (found,) = caught.value.diagnostics
    assert found.code == "E100" and what in found.message
    at = found.primary and (found.primary.span.line, found.primary.span.column)
    assert at == place


def test_what_is_not_a_file_is_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "missing", Path("/dev/zero"), Path("nul\0")):
        with pytest.raises(SpecError) as caught:
            parse_path(path)
        assert [d.code for d in caught.value.diagnostics] == ["E100"]


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    (tmp_path / "a.tk").write_bytes(b"\xef\xbb\xbfkernel a\n  waves 1\n")
    assert parse_path(tmp_path / "a.tk").span.text == "kernel a"


def test_loader_names_files_like_the_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "b.tk").write_text("waves 2\n")
    monkeypatch.chdir(tmp_path)
    loaded = Loader.of(["."]).load("b.tk", SourceFile("a.tk", ""))
    assert (loaded.name, loaded.text) == ("b.tk", "waves 2\n")


# ---------------------------------------------------------------- speed


def test_a_first_parse_is_fast(tmp_path: Path) -> None:
    """60 ms for the grammar and a spec, once its tables are cached; doubled for a busy machine."""
    program = (
        "import sys, time, tkgen.syntax.parser as p; start = time.process_time(); "
        "p.parse_path(sys.argv[1]); print(time.process_time() - start)"
    )
    spec = str(Path(__file__).parent / "corpus" / "producer_consumer.tk")
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    times = []
    for _ in range(4):
        out = subprocess.run([sys.executable, "-c", program, spec], env=environment, capture_output=True, check=True)
        times.append(float(out.stdout))
    assert min(times[1:]) < 0.12
    assert list((tmp_path / "tkgen").iterdir())


@pytest.mark.parametrize("make", ["file", "missing"])
def test_no_cache_folder_is_no_problem(tmp_path: Path, make: str) -> None:
    """A home without a usable cache, or with a damaged one, only costs time."""
    if make == "file":
        (tmp_path / "tkgen").mkdir()
        (tmp_path / "tkgen" / "grammar.lark-tables").write_bytes(b"damaged")
        home = tmp_path
    else:
        home = Path("/proc/no/such/folder")
    program = "import sys, tkgen.syntax.parser as p; print(p.parse_path(sys.argv[1]).name.id)"
    spec = str(Path(__file__).parent / "corpus" / "eight_wave.tk")
    environment = {**os.environ, "XDG_CACHE_HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path)}
    out = subprocess.run([sys.executable, "-c", program, spec], env=environment, capture_output=True, text=True)
    assert (out.returncode, out.stdout, out.stderr) == (0, "eight_wave\n", "")


def test_an_installed_package_brings_the_grammar(tmp_path: Path) -> None:
    """As in a wheel: the grammar lies inside the package, and nothing beside it."""
    root = Path(__file__).parents[2]
    shutil.copytree(root / "tkgen", tmp_path / "tkgen", ignore=shutil.ignore_patterns("__pycache__", "kittens"))
    shutil.copytree(root / "grammar", tmp_path / "tkgen" / "grammar")
    program = "import sys, tkgen, tkgen.syntax.parser as p; print(tkgen.__file__, p.parse_path(sys.argv[1]).name.id)"
    spec = str(Path(__file__).parent / "corpus" / "eight_wave.tk")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-P", "-c", program, spec]
    out = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert (out.stdout, out.stderr) == (f"{tmp_path}/tkgen/__init__.py eight_wave\n", "")


def test_work_grows_with_the_text_only() -> None:
    """Counted in calls, which no other load on the machine changes."""
    line = "  dims M = 8192, N = 8192, K = 8192\n"

    def calls(lines: int) -> int:
        file, count = SourceFile("a.tk", "kernel a\n" + line * lines), 0

        def profile(_frame: object, event: str, _argument: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(profile)
        try:
            parse(file)
        finally:
            sys.setprofile(None)
        return count

    calls(10)
    assert calls(800) < 10 * calls(100)  # 8 times the text
