"""Prose linter: patterns that make a page, a message or a docstring hard to read, and how many each file may have.

A page may have as many findings as its allowance says, the modules of a top folder as many as theirs together.

`python tests/docs/prose.py` prints the findings of files that have more than their allowance; `make lint` runs it.
`python tests/docs/prose.py FILE...` prints all findings of these files. `--write` writes the allowances anew; their
sum never grows, so a renamed file takes its allowance along and a cleaned file gives it up.
"""

from __future__ import annotations

import ast
import json
import re
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
ALLOWANCE = Path(__file__).with_name("prose_allowance.json")
MAX_COLUMNS = 100
MAX_PARAGRAPH = 6  # lines
MIN_MESSAGE_WORDS = 4  # shorter strings in code are names, keys and paths


@dataclass(frozen=True)
class Rule:
    """A pattern, what to write in its place, and whether case matters."""

    name: str
    pattern: re.Pattern[str]
    instead: str


def _rule(name: str, pattern: str, instead: str, flags: re.RegexFlag = re.IGNORECASE) -> Rule:
    return Rule(name, re.compile(pattern, flags), instead)


HEADLESS = re.compile(r"(What(?!'s| is the)|Whether|Where|Who|Which|How)\b")
START = r"(?:^|(?<=[.!:;] ))"
PHRASES = [
    _rule("headless subject", START + r"(?:What|Whatever|Who|Whoever)\s(?![^.!?]*\?)", "a noun as the subject",
          re.MULTILINE),
    _rule("behind", r"\bbehind\b", "after"),
    _rule("stands", r"\b(?:may |can |must |which |that |it |what )?(?:stands?|stood)\b(?! for\b|-)", "is, is written"),
    _rule("as it stands", r"\bas (?:it|they) (?:stands?|lies?)\b", "name the state"),
    _rule("but for", r"\b(?:but for|all but|none but|nothing but|no one but)\b", "except"),
    _rule("of its own", r"\b(?:a|an|no) [\w-]+ of (?:one's|its|their|our|your|his) own\b", "its own, a separate"),
    _rule("of one's own", r"\bof one's own\b", "your own"),
    _rule("at the fewest", r"\bat the fewest\b", "at least"),
    _rule("looked at", r"\b(?:is|are|be) looked at\b", "is checked"),
    _rule("known to run time", r"\brun time(?: alone)? knows\b|\b(?:alone|only) run time\b", "known only at run time"),
    _rule("nothing to", r"\bthere is nothing to\b", "no ... is needed"),
    _rule("so many", r"\bso (?:many|few)\b", "the number"),
    _rule("for who", r"\bfor (?:who|whom)\b", "for users who"),
    _rule("whole numbers", r"\bwhole numbers?\b", "integers"),
    _rule("products of products", r"\bproducts? of products\b|\bloops? of products\b", "fused matmuls"),
    _rule("others per MFMA", r"\bothers per MFMA\b", "non-MFMA instructions per MFMA"),
    _rule("carried out", r"\bcarr(?:y|ies|ied) (?:\w+ )?out\b", "executed, computed"),
    _rule("mend", r"\bmend(?:s|ed|ing)?\b", "fix"),
    _rule("meeting", r"\bmeetings?\b", "barrier"),
    _rule("slips", r"\bslips\b(?! (?:through|past)\b)", "mutants"),
    _rule("turned", r"\b(?:is|are) turned\b(?! (?:on|off|into))", "transposed"),
    _rule("a pass", r"\b(?:each|every|a|one|of a|next|first|last) pass\b|\bpass(?:es)? of (?:the|a) loop\b|"
          r"\b(?:to|by|in) passes\b|\bpass to pass\b", "iteration"),
    _rule("at any rate", r"\bat any rate\b", "say which"),
]  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """A place that a rule names."""

    path: str
    line: int
    rule: str
    text: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.text!r}; write: {self.instead}"


def of_text(path: str, text: str, line: int = 1) -> Iterator[Finding]:
    """Findings of the phrase rules in prose that starts at `line`."""
    for rule in PHRASES:
        for match in rule.pattern.finditer(text):
            shown = text[match.start() : match.end() + 30].split("\n")[0].strip()
            yield Finding(path, line + text.count("\n", 0, match.start()), rule.name, shown, rule.instead)


def of_page(path: str, text: str) -> Iterator[Finding]:
    """Findings in a Markdown page; fenced blocks, code spans and addresses of links are no prose."""
    prose = re.sub(r"^```.*?^```$", lambda m: "\n" * m[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^<!--.*?-->$", lambda m: "\n" * m[0].count("\n"), prose, flags=re.MULTILINE | re.DOTALL)
    paragraph = 0
    for number, line in enumerate(prose.splitlines(), 1):
        wide = len(re.sub(r"\]\([^)]*\)", "]", line)) > MAX_COLUMNS
        if wide and not line.startswith(("|", "[", "#")):
            yield Finding(path, number, "long line", line[:40], f"at most {MAX_COLUMNS} columns")
        plain = bool(line.strip()) and not re.match(r"\s*(?:[-*|>#]|\d+\.) ?", line)
        paragraph = paragraph + 1 if plain else 0
        if paragraph == MAX_PARAGRAPH + 1:
            yield Finding(path, number, "long paragraph", line[:40], f"at most {MAX_PARAGRAPH} lines")
    words = re.sub(r"`[^`\n]*`", "`", prose)
    words = re.sub(r"\]\([^)\n]*\)", "]", words)
    yield from of_text(path, words)


def of_code(path: str, text: str) -> Iterator[Finding]:
    """Findings in a Python module: docstrings that start without a noun or verb, phrases of docstrings and messages."""
    tree = ast.parse(text)
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if not (isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)):
                continue
            value = first.value.value
            if isinstance(value, str):
                docstrings.add(id(first.value))
                prose = re.sub(r"`[^`\n]*`", "`", value.strip())
                if headless := HEADLESS.match(prose):
                    start = prose.split("\n")[0][:40]
                    yield Finding(path, first.lineno, "headless docstring", start, "start with a noun or a verb")
                    prose = prose[headless.end() :]
                yield from of_text(path, prose, first.lineno)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            message = " " in node.value and len(re.findall(r"[A-Za-z]{2,}", node.value)) >= MIN_MESSAGE_WORDS
            if message:
                yield from of_text(path, re.sub(r"`[^`\n]*`", "`", node.value), node.lineno)


def files() -> list[Path]:
    """All pages and modules that are linted: not the changelog, nor `docs/diagnostics.md`, which repeats pages."""
    pages = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "tkgen/lsp/vscode/README.md")]
    pages += [p for p in (ROOT / "docs").rglob("*.md") if p.name != "diagnostics.md"]
    pages += (ROOT / "tkgen" / "diagnostics" / "pages").glob("*.md")
    code = [p for folder in ("tkgen", "tests", "benchmarks", "docs") for p in (ROOT / folder).rglob("*.py")]
    own = {"prose.py", "test_prose.py"}  # they have the patterns
    words = ROOT / "tkgen" / "lsp" / "words.toml"
    return sorted(p for p in [*pages, *code, words] if "node_modules" not in p.parts and p.name not in own)


def findings(paths: Iterable[Path]) -> dict[str, list[Finding]]:
    """Findings by file, in the order of lines; files without any are left out."""
    found = {}
    for path in paths:
        name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)
        text = path.read_text(encoding="utf-8")
        reader = {".md": of_page, ".py": of_code, ".toml": of_text}[path.suffix]
        of = reader(name, text)
        if these := sorted(of, key=lambda f: (f.line, f.rule)):
            found[name] = these
    return found


def allowances() -> dict[str, int]:
    """The number of findings that each file may have."""
    found: dict[str, int] = json.loads(ALLOWANCE.read_text(encoding="utf-8"))
    return found


def group(name: str) -> str:
    """The files that share an allowance: a page is alone, modules of a top folder share one as code moves."""
    return name if name.endswith(".md") else name.split("/")[0]


def excess(found: dict[str, list[Finding]], allowed: dict[str, int]) -> list[str]:
    """The findings of files that have more than they may, in groups that have more than they may."""
    spare: dict[str, int] = {}
    for name in {*found, *allowed}:
        spare[group(name)] = spare.get(group(name), 0) + allowed.get(name, 0) - len(found.get(name, ()))
    lines = []
    for name, these in found.items():
        if len(these) > allowed.get(name, 0) and spare[group(name)] < 0:
            lines += [f"{name}: {len(these)} findings, {allowed.get(name, 0)} allowed", *map(str, these)]
    return [*lines, "after a rename: python tests/docs/prose.py --write"] if lines else []


def renewed(found: dict[str, list[Finding]], allowed: dict[str, int]) -> dict[str, int]:
    """Allowances as the files are now. Raises ValueError if their sum would grow."""
    now = {name: len(these) for name, these in sorted(found.items())}
    if allowed and sum(now.values()) > sum(allowed.values()):
        raise ValueError(f"{sum(now.values())} findings, {sum(allowed.values())} allowed: the allowance only shrinks")
    return now


def main() -> int:
    """The command: see the module. Returns the exit code."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="print all findings of these files")
    parser.add_argument("--write", action="store_true", help="write the allowances anew")
    given = parser.parse_args()
    if absent := [str(path) for path in given.files if not path.is_file()]:
        parser.error(f"no such file: {', '.join(absent)}")
    if given.write:
        now = renewed(findings(files()), allowances() if ALLOWANCE.exists() else {})
        ALLOWANCE.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
        print(f"{sum(now.values())} findings in {len(now)} files")
        return 0
    if given.files:
        shown = [str(f) for these in findings(path.resolve() for path in given.files).values() for f in these]
    else:
        shown = excess(findings(files()), allowances())
    print("\n".join(shown) or "prose: nothing found beyond the allowances")
    return 1 if shown else 0


if __name__ == "__main__":
    raise SystemExit(main())
