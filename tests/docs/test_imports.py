"""The map of the code in CONTRIBUTING.md is also the direction of imports: from a row to itself and to those above."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).parents[2]
MODULES = {".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): p
           for p in (ROOT / "tkgen").rglob("*.py")}  # fmt: skip


def imports(path: Path) -> Iterator[str]:
    """The modules that a module imports, also where that is inside of functions; those for types alone left out."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    guarded = [n for n in nodes if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test)]
    typing = {id(n) for guard in guarded for n in ast.walk(guard)}
    for node in nodes:
        if id(node) in typing:
            continue
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: imports name modules in full"
            of = f"{node.module}"
            yield from (f"{of}.{n.name}" if f"{of}.{n.name}" in MODULES else of for n in node.names)


def rows(text: str) -> list[list[str]]:
    """The modules and packages of each row of the map."""
    table = re.findall(r"^\| (`.*?`) \|", text.split("## To add")[0], re.MULTILINE)
    found = [re.findall(r"`tkgen/([\w/]*)(?:\.py)?`", row) for row in table]
    return [["tkgen." + name.strip("/").replace("/", ".") for name in row] for row in found]


def row_of(module: str, layers: list[list[str]]) -> int:
    """The row of the longest name that a module is or is in; -1 for the package itself."""
    fit = [(len(name), i) for i, names in enumerate(layers) for name in names if f"{module}.".startswith(f"{name}.")]
    return max(fit)[1] if fit else -1


def upward(edges: list[tuple[str, str]], layers: list[list[str]]) -> list[tuple[str, str]]:
    """The imports of something that stands further down."""
    return [(a, b) for a, b in edges if row_of(a, layers) < row_of(b, layers)]


@cache
def edges() -> list[tuple[str, str]]:
    return [(name, other) for name, path in MODULES.items() for other in imports(path) if other in MODULES]


def test_imports_point_up_the_map() -> None:
    layers = rows((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert [m for m in MODULES if row_of(m, layers) < 0] == ["tkgen"]
    assert not upward(edges(), layers)


def test_an_import_of_something_below_is_found() -> None:
    layers = rows("| `tkgen/a/`, `tkgen/b.py` | x |\n| `tkgen/c/` | y |\n| `tkgen/a/late.py` | z |\n## To add\n")
    assert layers == [["tkgen.a", "tkgen.b"], ["tkgen.c"], ["tkgen.a.late"]]
    wrong = [("tkgen.a.x", "tkgen.c"), ("tkgen.c.d", "tkgen.a.late")]
    assert upward([*wrong, ("tkgen.c.d", "tkgen.a.x"), ("tkgen.a.late", "tkgen.c"), ("tkgen.b", "tkgen.a")],
                  layers) == wrong  # fmt: skip


def test_no_modules_import_each_other() -> None:
    graph = nx.DiGraph(edge for edge in edges() if edge[0] != edge[1])
    assert len(graph) > 150
    assert not [sorted(c) for c in nx.strongly_connected_components(graph) if len(c) > 1]


def test_only_what_reads_text_knows_its_tree() -> None:
    """After resolution no AST is held: what a spec says stands in its typed program, with places in the text."""
    readers = (
        "syntax",
        "ir.resolve",
        "ir.typing",
        "ir.program",
        "pipeline",
        "api",
        "edits",
        "tune",
        "lsp",
        "cli",
    )
    known = re.compile(r"^\s*(from|import) tkgen\.syntax(\.ast)?\b(?!\.)", re.MULTILINE)
    found = [name for name, path in MODULES.items() if known.search(path.read_text(encoding="utf-8"))]
    assert "tkgen.ir.resolve.names" in found and "tkgen.edits" in found
    assert not [m for m in found if not any(f"{m}.".startswith(f"tkgen.{reader}.") for reader in readers)]


def test_no_file_changes_where_python_looks_for_modules() -> None:
    """A command finds what stands beside it, a test what pyproject.toml names."""
    scripts = [p for folder in ("benchmarks", "docs", "tests", "tkgen") for p in (ROOT / folder).rglob("*.py")]
    calls = ("sys.path.insert", "sys.path.append", "sys.path.extend")
    texts = {p: text for p in scripts if "sys.path" in (text := p.read_text(encoding="utf-8"))}
    assert not [
        p for p, text in texts.items() for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in calls
    ]  # fmt: skip
