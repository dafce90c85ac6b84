"""The VS Code extension: its grammar knows the language, its package holds what it must."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from lark.lexer import PatternStr
from sampling import sample

import tkgen
from tkgen.lsp.outline import outline
from tkgen.lsp.server import Options
from tkgen.source import SourceFile
from tkgen.syntax.grammar import parser, spellings
from tkgen.targets import known_names

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / "tkgen" / "lsp" / "vscode"
SPECS = sorted((ROOT / "specs").glob("*.tk"))


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((EXTENSION / name).read_text())
    return found


def rules(grammar: dict[str, Any], patterns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rules of a TextMate grammar in order, includes followed."""
    return [grammar["repository"][p["include"][1:]] if "include" in p else p for p in patterns]


def scopes(grammar: dict[str, Any], text: str) -> dict[tuple[int, int], str]:
    """Scopes of the grammar for a text, line by line as an editor does it: (start, end) of a token to its scope."""
    found: dict[tuple[int, int], str] = {}
    start = 0
    for line in text.splitlines(keepends=True):
        active = rules(grammar, grammar["patterns"])
        position = 0
        while position < len(line):
            hits = [(m, r) for r in active if (m := re.compile(r.get("match") or r["begin"]).search(line, position))]
            if not hits:
                break
            match, rule = min(hits, key=lambda hit: hit[0].start())
            captures = rule.get("captures") or rule.get("beginCaptures") or {"0": {"name": rule.get("name", "")}}
            for group, scope in captures.items():
                found[start + match.start(int(group)), start + match.end(int(group))] = scope["name"]
            if "begin" in rule:
                active = rules(grammar, rule["patterns"])
            position = max(match.end(), position + 1)
        start += len(line)
    return found


def test_every_keyword_of_the_grammar_is_in_the_textmate_grammar() -> None:
    grammar = read("syntaxes/tk.tmLanguage.json")
    words = set(re.findall(r"\b[a-z]+\b", " ".join(re.findall(r"\(([a-z|]+)\)", json.dumps(grammar)))))
    keywords = {t.pattern.value for t in parser().terminals if isinstance(t.pattern, PatternStr)}
    assert {k for k in keywords if k.isalpha()} <= words


@pytest.mark.parametrize("path", sample([*SPECS, ROOT / "tests/pygments/every_keyword.tk"], 4), ids=lambda p: p.stem)
def test_the_textmate_grammar_colours_the_specs(path: Path) -> None:
    text = path.read_text()
    found = scopes(read("syntaxes/tk.tmLanguage.json"), text)
    for statement in outline(SourceFile(str(path), text)).statements:
        for piece in statement.pieces:
            scope = found.get((piece.start, piece.end), "")
            if spellings().get(piece.type, "").isalpha():
                assert scope.startswith(("keyword", "storage")), (piece, scope)
            elif piece.type in ("INT", "FLOAT"):
                assert scope == "constant.numeric.tk", (piece, scope)
            elif piece.type == "STRING":
                assert scope.startswith("string"), (piece, scope)
    for comment in re.finditer(r"#.*$", text, re.MULTILINE):
        assert found[comment.start(), comment.end()].startswith("comment")


def test_headers_indent_what_follows() -> None:
    rule = re.compile(read("language-configuration.json")["indentationRules"]["increaseIndentPattern"])
    for line in ("kernel a", "  role r waves 0..3 as 2 x 2  # c", "  schedule", "  schedule barriers auto waits auto"):
        assert rule.match(line), line
    for line in ("  schedule ping_pong", "  block 128 x 128 step 64", "# kernel a", "kernel"):
        assert not rule.match(line), line


def test_the_manifest_says_what_is_so() -> None:
    """`TKGEN_BLESS=1` writes the names of the targets."""
    if os.environ.get("TKGEN_BLESS"):
        text = (EXTENSION / "package.json").read_text(encoding="utf-8")
        named = ", ".join(json.dumps(name) for name in ("", *known_names()))
        text, found = re.subn(r'("tkgen.target": \{\s*"type": "string",\s*"enum": )\[[^]]*\]', rf"\1[{named}]", text)
        assert found == 1
        (EXTENSION / "package.json").write_text(text, encoding="utf-8")
    manifest = read("package.json")
    assert manifest["version"] == tkgen.__version__
    settings = manifest["contributes"]["configuration"]["properties"]
    assert settings["tkgen.target"]["enum"] == ["", *known_names()]
    given = {"target": "gfx950", "includeRoots": ["/a"]}
    assert {f"tkgen.{key}" for key in given} < settings.keys()
    assert Options.of(given, Options()) == Options("gfx950", ("/a",))
    contributed = [
        manifest["contributes"]["languages"][0]["configuration"],
        manifest["contributes"]["grammars"][0]["path"],
    ]
    assert all((EXTENSION / path).is_file() for path in contributed)


def npm(folder: Path, *command: str) -> None:
    ran = subprocess.run(["npm", *command], cwd=folder, capture_output=True, text=True, timeout=300)
    if any(code in ran.stderr for code in ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ETIMEDOUT", "ENETUNREACH")):
        pytest.skip("the package registry cannot be reached")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def check_package(path: Path) -> None:
    """It holds what VS Code needs and nothing else, and the bundle loads where there are no packages."""
    with zipfile.ZipFile(path) as package:
        names = {n.removeprefix("extension/").lower() for n in package.namelist()}
        bundle = Path(package.extract("extension/out/extension.js", path.parent / "unpacked"))
    assert {"package.json", "readme.md", "language-configuration.json", "syntaxes/tk.tmlanguage.json"} <= names
    assert not any("node_modules" in n or n.startswith("src/") for n in names)
    loader = Path(__file__).with_name("load_extension.js")
    ran = subprocess.run(["node", loader, bundle], capture_output=True, text=True, timeout=60)
    assert ran.stdout.split() == ["activate", "deactivate"], ran.stderr
    assert path.stat().st_size < 1 << 20


def test_the_package_builds(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    if not (EXTENSION / "node_modules").is_dir():
        pytest.skip("the packages of the extension are not installed: run `npm ci` in tkgen/lsp/vscode")
    command = ["make", "-o", "extension", "vsix", f"DIST={tmp_path}"]  # as `make dist` does, the packages being there
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    check_package(tmp_path / "tkgen.vsix")


@pytest.mark.slow
def test_the_package_builds_by_one_command(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    copy = shutil.copytree(
        EXTENSION, tmp_path / "vscode", ignore=shutil.ignore_patterns("node_modules", "out", "*.vsix")
    )
    npm(copy, "run", "package")
    check_package(copy / "tkgen.vsix")


def test_a_server_that_does_not_start_is_explained() -> None:
    """The client rejects with an Error, or, where the command is not found, with a sentence."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    script = Path(__file__).with_name("failing_start.js")
    ran = subprocess.run(
        ["node", script, EXTENSION / "src" / "extension.js"], capture_output=True, text=True, timeout=60
    )
    first, second = ran.stdout.splitlines()
    assert first.startswith("The language server did not start: it ended. Install it with")
    assert second.startswith("The language server did not start: Launching server using command tkgen failed. Install")


def test_the_documented_settings_are_those_there_are() -> None:
    page = (ROOT / "docs" / "editor.md").read_text()
    (settings,) = (section for section in page.split("\n## ") if "| `debounce` |" in section)
    options = re.findall(r"^\| `(\w+)` \|", settings, re.MULTILINE)
    given = {"target": "gfx90a", "includeRoots": ["/a"], "debounce": 1, "deadline": 2}
    assert options == list(given)
    assert Options.of(given, Options()) == Options("gfx90a", ("/a",), 1.0, 2.0)
    assert f"| `debounce` | {Options().debounce:g} |" in page and f"| `deadline` | {Options().deadline:g} |" in page
    assert tomllib.loads(re.search(r"```toml\n(.*?)```", page, re.DOTALL)[1])["language"][0]["file-types"] == ["tk"]  # type: ignore[index]
    shown = json.loads(re.search(r"```json\n(.*?)```", page, re.DOTALL)[1])  # type: ignore[index]
    assert shown.keys() <= read("package.json")["contributes"]["configuration"]["properties"].keys()


def test_options_that_make_no_sense_change_nothing() -> None:
    for given in (None, [], "gfx942", {"target": 3, "includeRoots": "a", "debounce": -1, "deadline": "soon"}):
        assert Options.of(given, Options()) == Options()
