"""Every command in the documentation prints what stands below it; `TKGEN_BLESS=1 pytest tests/docs` writes it anew."""

from __future__ import annotations

import ast
import inspect
import os
import re
import shutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import typer
import typer.core
from documentation import PAGES, ROOT, UNRUN, blocks, changed, commands, elided, matches, run, unrun
from planning import scheduled
from sampling import slow

from tkgen.cli import app
from tkgen.diagnostics.explain import codes
from tkgen.ir.program import matrix_program as resolve
from tkgen.syntax.parser import parse_path


@pytest.fixture(autouse=True)
def _variables_stay() -> Iterator[None]:
    """Restore variables that a page sets: Triton's cache was left in the folder that tests run in."""
    before = dict(os.environ)
    yield
    own = {"PYTEST_CURRENT_TEST"}
    assert {k: v for k, v in os.environ.items() if k not in own} == {k: v for k, v in before.items() if k not in own}


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the specs, in which output is 100 columns wide and without colour; pages may set variables."""
    shutil.copytree(ROOT / "specs", tmp_path / "specs")
    monkeypatch.chdir(tmp_path)
    with patch.dict(os.environ, {"COLUMNS": "100", "NO_COLOR": "1"}):
        yield tmp_path


RUN = [page for page in PAGES if any(block.runs for block in blocks(page.read_text(encoding="utf-8")))]


LONG = ("examples", "tuning", "porting", "attention", "prediction")  # pages whose commands build and search for long


@pytest.mark.parametrize("page", [slow(p) if p.stem in LONG else p for p in RUN], ids=[page.stem for page in RUN])
def test_what_a_page_shows_is_what_happens(page: Path, workplace: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if "from triton_" in text:
        pytest.importorskip("triton", reason="needs the extra `peer`: pip install --no-deps triton==3.9.0")
    bless = bool(os.environ.get("TKGEN_BLESS"))
    text, wrong, failed = run(page, text, exact=bless)
    if bless:
        page.write_text(text, encoding="utf-8")
        wrong = []
    assert not wrong + failed, "\n\n".join(wrong + failed)


def test_no_block_has_a_command_that_is_not_run() -> None:
    left = {command: page.name for page in PAGES for command in unrun(page.read_text(encoding="utf-8"))}
    assert left.keys() == UNRUN.keys(), left
    assert unrun("```sh\ntkgen a \\\n  b  # c\nelse\n```\n") == ["tkgen a b"]
    assert unrun("```console\n$ tkgen a\n```\n") == []


def test_make_run_runs_what_the_readme_shows() -> None:
    recipe = re.search(r"^run:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert recipe
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = [c.text for block in blocks(page) if block.language == "console" for c in commands(block.body)]
    assert [line.strip().removeprefix("$(BIN)/") for line in recipe[1].splitlines()] == shown


def test_the_tutorial_reaches_the_kernel_of_the_readme(workplace: Path) -> None:
    """The tutorial builds up to the kernel that the README shows; the repository has it as specs/eight_wave.tk."""
    wanted = scheduled(resolve(parse_path(ROOT / "specs" / "eight_wave.tk"))).to_text().splitlines()[1:]
    found, spec = [], Path("gemm.tk")
    for block in blocks((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")):
        if block.title == spec.name:
            spec.write_text(changed(spec.read_text(), block.body) if block.language == "diff" else block.body)
            found.append(scheduled(resolve(parse_path(spec))).to_text().splitlines()[1:])
    assert wanted in found and len(found) >= 13
    kernel = next(b.body for b in blocks((ROOT / "README.md").read_text(encoding="utf-8")) if b.language == "tk")
    spec.write_text(kernel)
    assert scheduled(resolve(parse_path(spec))).to_text().splitlines()[1:] == wanted


def test_numbers_that_depend_on_the_compiler() -> None:
    stated = ["a (gfx942): 100 VGPR, 0 spills, error 2e-05, +40 more", "| ###### | v12 at 0x19a4 |"]
    for right in (["a (gfx942): 90 VGPR, 0 spills, error 9e-05, +3 more", "| ########   | v[1:2] at 0x1ff |"], stated):
        assert matches(stated, right, about=True)
    for old, new in (("100", "140"), ("0 spills", "1 spills"), ("2e-05", "3e-03"), ("+40", "-1"), ("gfx942", "gfx950")):
        assert not matches(stated, [line.replace(old, new) for line in stated], about=True), (old, new)
    assert matches(stated, stated) and not matches(stated, ["x", "y"], about=True)
    assert not matches(["5 VGPR"], ["6 VGPR"])


def test_the_map_of_the_code_names_what_is_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paths = set(re.findall(r"`(?:python )?((?:[\w.]+/)+[\w.*]*|\w+\.(?:py|md|jinja))(?: --\w+)?`", text))
    assert len(paths) > 40
    inside = ("", "diagnostics", "ir", "schedule", "backends/cdna", "backends/cdna/lower/templates", "backends/hopper",
              "backends/cdna/kittens/include", "backends/hopper/templates")  # fmt: skip
    folders = [ROOT, *(ROOT / "tkgen" / folder for folder in inside)]

    def named(path: str) -> bool:
        """A file, a module without its suffix, or a name that a module has: `ir/launch.Launch`."""
        plain = path.removeprefix("../").rstrip("/")
        module, _, name = plain.rpartition(".")
        if any(list(f.glob(plain)) or list(f.glob(f"{plain}.py")) for f in folders):
            return True
        found = [file for f in folders for file in f.glob(f"{module}.py")] if module else []
        return any(name in file.read_text(encoding="utf-8") for file in found)

    assert not [p for p in paths if not named(p)]
    for family, name in (("ir.typing.desugar", "ACTIVATIONS"), ("ir.typing.desugar", "EPILOGUES"),
                         ("checks.families", "FAMILIES"), ("syntax.grammar", "OPERATIONS"),
                         ("syntax.ast", "ScheduleOp")):  # fmt: skip
        assert f"`{name}`" in text and hasattr(import_module(f"tkgen.{family}"), name), name


def test_every_code_has_its_page() -> None:
    used = {c for p in (ROOT / "tkgen").rglob("*.py") for c in re.findall(r'"([EW][1-7]\d\d)"', p.read_text("utf-8"))}
    assert len(used) > 50 and used <= set(codes())


def test_changes_and_elisions() -> None:
    assert matches(["a", "...", "z ...!"], ["a", "b", "c", "z 12!"])
    assert not matches(["a", "..."], ["b"])
    assert matches(["...", "end"], ["end"])
    assert elided(["a", "...", "c ...", "d"], ["a", "x", "y", "c 1", "e"]) == ["a", "...", "c ...", "e"]
    assert [c.text for c in commands("$ tkgen a \\\n    b\nout\n$ tkgen c\n")] == ["tkgen a \\\n    b", "tkgen c"]
    assert commands("$ tkgen a\nout\n")[0].expected == ["out"]
    assert changed("a\n\nb\nc\n", " a\n-\n-b\n+x\n") == "a\nx\nc\n"


def snippets() -> list[tuple[str, str]]:
    """The Python blocks that are not run, with their pages: they need more than a folder of specs."""
    found = [(page, block) for page in PAGES for block in blocks(page.read_text(encoding="utf-8"))]
    return [(page.name, b.body) for page, b in found if b.language == "python" and not b.runs]


@pytest.mark.parametrize(("page", "code"), snippets(), ids=lambda value: value if value.endswith(".md") else "")
def test_what_other_python_blocks_import_is_there(page: str, code: str) -> None:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            for name in node.names:
                import_module(name.name)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            for name in node.names:
                assert hasattr(import_module(node.module), name.name), f"{page}: {node.module}.{name.name}"


def stated() -> Iterator[tuple[str, str]]:
    """Every `tkgen ...` in the pages with the page: commands of blocks, and inline code."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        lines = [line for block in blocks(text) for line in block.body.replace("\\\n", " ").splitlines()]
        inline = re.findall(r"`(tkgen [^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))
        for line in [*lines, *inline]:
            command = line.strip().removeprefix("$ ").split("#")[0]
            if command.startswith("tkgen "):
                yield page.name, command


def test_every_command_named_anywhere_exists_with_its_options() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    known = {name: {o for p in c.params for o in (*p.opts, *p.secondary_opts)} for name, c in group.commands.items()}
    wrong = []
    for page, command in stated():
        own = command.partition(" -- ")[0]  # what follows is another program's
        name, *words = re.split(r"[\s,|]+", own.removeprefix("tkgen ").strip())
        if name.startswith("-") or name.isupper():
            continue
        options = {word.split("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)} - {"-h", "--help"}
        if name not in known or not options <= known[name]:
            wrong.append(f"{page}: {command}")
    assert not wrong, "\n".join(wrong)


SIGNATURE = re.compile(r"^### `(?P<name>tkgen[\w.]*)(?P<parameters>\(.*\))?`$", re.MULTILINE)
API = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")


def found(name: str) -> Any:
    """The object with this dotted name."""
    thing, path = import_module("tkgen"), "tkgen"
    for part in name.split(".")[1:]:
        path = f"{path}.{part}"
        thing = getattr(thing, part) if hasattr(thing, part) else import_module(path)
    return thing


def parameters(function: object) -> str:
    """A signature without types."""
    assert callable(function)
    signature = inspect.signature(function)
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values() if p.name != "self"]
    text = str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    return re.sub(r"<(\w+\.\w+): [^>]+>", r"\1", text)


@pytest.mark.parametrize("match", list(SIGNATURE.finditer(API)), ids=lambda m: m["name"])
def test_the_api_reference_is_that_of_the_code(match: re.Match[str]) -> None:
    thing = found(match["name"])
    assert inspect.getdoc(thing)
    if match["parameters"]:
        assert match["parameters"] == parameters(thing)
    section = API[match.end() :].split("\n##")[0]
    for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE):
        for member in re.findall(r"`(\w+)`", row):
            assert hasattr(thing, member) or member in getattr(thing, "__dataclass_fields__", {}), member


def test_the_api_reference_is_found() -> None:
    assert len(SIGNATURE.findall(API)) >= 15
