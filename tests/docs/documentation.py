"""The pages of the documentation as the blocks a test runs, in their order: files, commands with output, Python.

A page's blocks share one folder, in which `specs/` lies as it does in the repository.

    ```tk title="gemm.tk"      the block is written to gemm.tk
    ```diff title="gemm.tk"    the file is changed
    ```console                 `$ tkgen ...` is run, what stands below is compared with what it prints
    ```python with `>>> `      is run as a doctest

In expected output a line `...` stands for any number of lines, and `...` in a line for any text. In a block marked
`console about` numbers may be a quarter off, and registers and addresses others: they depend on the compiler. A zero
stays a zero. Rounding errors (`2.29e-05`), which depend on the order of torch's sums, may be ten times as large.

No other command may stand in a block, except for the few of `UNRUN`, each with the reason why no test of a page runs
it.
"""

from __future__ import annotations

import doctest
import re
import shlex
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from typer.testing import CliRunner

from tkgen.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "tkgen/lsp/vscode/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "case-studies").glob("*.md")),
]
FENCE = re.compile(r"^```(?P<language>\w*)(?P<info>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
ANYTHING = "..."
# What may differ in a block marked `about`: registers and addresses, bars and rules, numbers, the spaces between.
VARIES = re.compile(
    r"(?P<place>\b[asv]\[\d+:\d+\]|\b[asv]\d+\b|\b0x[0-9a-f]+)"
    r"|(?P<rule>(?P<mark>[#━─-])(?P=mark){2,})"
    r"|(?P<number>(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]\d+)?)"
    r"|(?P<space> +)"
)
PLACE = r"(?:[asv]\[\d+:\d+\]|[asv]\d+|0x[0-9a-f]+)"
A_NUMBER = r"([-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]\d+)?)"
TOLERANCE = 0.25
ROUNDING = 10.0  # times
PROGRAM = re.compile(
    r"\$ |(tkgen|make|python3?|pip|npm|npx|node|code|cd|hipcc|clang\S*|git|pytest|pre-commit|apt-get|TKGEN_\w+=\S*)\b"
)
DOCTEST_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# Commands that may stand in a block without being run, and why.
UNRUN = {
    "make run": "it is run by .ci/run; a test compares the commands of the Makefile with those of the page",
    "make test": "it runs this test",
    'pip install "dist/tkgen_compiler-0.1.0-py3-none-any.whl[emulate,toolchain]"': "tests/cli/test_distribution.py"
    " installs the wheel and compares its name",
    'pip install ".[lsp]"': "tests/cli/test_distribution.py installs the package",
    "make dist": "tests/cli/test_distribution.py and tests/lsp/test_lsp_vscode.py run its two halves",
    "hipcc -O3 -gline-tables-only --offload-arch=gfx942 --cuda-device-only --no-gpu-bundle-output gemm.cpp"
    " -o gemm.hsaco": "needs ROCm; the tests make the same code object with clang",
    "code --install-extension dist/tkgen.vsix": "needs VS Code",
    "$ tkgen build specs/rows/softmax.tk -t gfx942 -D ROWS=64 --emit module,harness -o out": "needs HIP's headers, and"
    " tests/hip/test_check_programs.py makes the same files",
    "$ tkgen emulate -- python out/softmax_check.py --repeats 1 --warmup 0": "tests/hip/test_check_programs.py runs it",
    "$ tkgen verify hipkittens/kernels/gemm/bf16fp32/mi350x/256_256_64_32_with16x32.cpp --kittens hipkittens"
    " --target gfx950 --grid 1 --block 512 --lds 163840 --reference hipkittens.py:gemm"
    " --arg '{gl(A:bf16[256,8192]=randn:in), u64, gl(B:bf16[256,8192]=randn:in), u64,"
    " gl(C:bf16[256,256]=nan:out), u64, u64}'": "a published kernel, which is not here",
    "$ tkgen verify hipkittens/kernels/attn/gqa/kernel.cpp --kittens hipkittens --target gfx950"
    ' -D "ATTN_B=1 ATTN_H=1 ATTN_H_KV=1 ATTN_N=512 HIP_ENABLE_WARP_SYNC_BUILTINS" --grid 1,2 --block 512 --lds 163840'
    " --reference hipkittens.py:attention --arg '{gl(Q:bf16[1,512,1,128]=randn:in), u64,"
    " gl(K:bf16[1,512,1,128]=randn:in), u64, gl(V:bf16[1,512,1,128]=randn:in), u64, gl(O:bf16[1,512,1,128]=nan:out),"
    " u64, gl(L:f32[1,1,1,512]=nan), u64, u64}'": "a published kernel, which is not here",
    "$ hipcc -O2 -gline-tables-only --offload-arch=gfx942 reverse.hip -o reverse": "needs ROCm; tests/hip compiles"
    " such programs with clang",
    "tkgen hardware-check": "needs an AMD GPU; tests/hardware runs it on the stand-in",
    "$ tkgen emulate -- ./reverse": "needs the program; tests/hip/test_runtime.py runs it",
    "$ tkgen emulate -- ./racing": "needs the program; tests/hip/test_runtime.py runs it",
    "$ tkgen emulate --sanitize -- ./racing": "needs the program; tests/hip/test_runtime.py runs it",
    "clang++-22 -x hip --offload-arch=gfx942 -O2 -gline-tables-only --rocm-path=/usr -D__AMDGCN_WAVEFRONT_SIZE=64"
    " -mcode-object-version=5 --hip-device-lib-path=/usr/lib/x86_64-linux-gnu/amdgcn/bitcode"
    " --hip-device-lib={hip,ocml,ockl,oclc_daz_opt_off,oclc_unsafe_math_off,oclc_finite_only_off}.bc"
    " --hip-device-lib={oclc_correctly_rounded_sqrt_on,oclc_wavefrontsize64_on,oclc_abi_version_500,"
    "oclc_isa_version_940}.bc reverse.hip -o reverse -lamdhip64": "needs HIP's device libraries; tests/hip compiles"
    " such programs where they are",
}


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, title and mark, and where its body lies in the page's text."""

    language: str
    title: str
    about: bool
    body: str
    start: int
    line: int

    @property
    def runs(self) -> bool:
        """Return True if a test uses it."""
        return bool(self.title) or self.language == "console" or (self.language == "python" and ">>> " in self.body)


@dataclass(frozen=True)
class Command:
    """A line after `$ ` (with its continuations) and the output stated below it."""

    text: str
    expected: list[str]


def blocks(text: str) -> list[Block]:
    """All fenced blocks of a page."""
    found = []
    for match in FENCE.finditer(text):
        title = re.search(r'title="([^"]+)"', match["info"])
        line = text.count("\n", 0, match.start()) + 1
        about = match["info"].split() == ["about"]
        start = match.start("body")
        found.append(Block(match["language"], title[1] if title else "", about, match["body"], start, line))
    return found


def commands(body: str) -> list[Command]:
    """The commands of a console block."""
    found: list[Command] = []
    continued = False
    for line in body.splitlines():
        if continued:
            found[-1] = Command(f"{found[-1].text}\n{line}", [])
        elif line.startswith("$ "):
            found.append(Command(line.removeprefix("$ "), []))
        else:
            assert found, f"a console block starts with `$ `, not with {line!r}"
            found[-1].expected.append(line)
            continue
        continued = line.endswith("\\")
    return found


def unrun(text: str) -> list[str]:
    """The commands in blocks of a page that no test of the page runs."""
    lines = [x.strip() for b in blocks(text) if not b.runs for x in b.body.replace("\\\n", " ").splitlines()]
    return [" ".join(line.split("  #")[0].split()) for line in lines if PROGRAM.match(line)]


def changed(text: str, diff: str) -> str:
    """`text` after a change: the lines of `diff` that are not added occur once in it."""
    lines = diff.splitlines(keepends=True)
    old = "".join(line[1:] or "\n" for line in lines if line[0] != "+")
    new = "".join(line[1:] or "\n" for line in lines if line[0] != "-")
    assert text.count(old) == 1, f"{old!r} occurs {text.count(old)} times"
    return text.replace(old, new)


def output_of(command: str) -> list[str]:
    """The output of a `tkgen` command, both streams in their order."""
    program, *arguments = shlex.split(command.replace("\\\n", " "))
    assert program == "tkgen", f"`{program}` is not run by the tests: show it in another kind of block"
    result = CliRunner().invoke(app, arguments)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return [line.rstrip() for line in result.output.rstrip("\n").splitlines()]


def matches(expected: list[str], actual: list[str], about: bool = False) -> bool:
    """Return True if `actual` is what `expected` describes; `about`: up to what may differ in a block marked so."""
    numbers: list[str] = []
    parts = [r"(?:.*\n)*?" if line.strip() == ANYTHING else _line(line, about, numbers) + r" *\n" for line in expected]
    match = re.fullmatch("".join(parts), "".join(line + "\n" for line in actual))
    return match is not None and all(near(*pair) for pair in zip(numbers, match.groups(), strict=True))


def near(stated: str, found: str) -> bool:
    """Return True if a number may replace another: of changes (`+40`, `-0.2`) only the sign counts."""
    if stated[0] in "+-":
        return stated[0] == found[0]
    one, other = (float(text.replace(",", "")) for text in (stated, found))
    if "e-" in stated or "e-" in found:
        return one / ROUNDING <= other <= one * ROUNDING
    return abs(one - other) <= TOLERANCE * max(one, other)


def _line(expected: str, about: bool, numbers: list[str]) -> str:
    """A pattern for a line; `about`: with a group for each number, the numbers themselves added to `numbers`."""
    return ".*".join(_about(part, numbers) if about else re.escape(part) for part in expected.rstrip().split(ANYTHING))


def _about(text: str, numbers: list[str]) -> str:
    pattern, end = "", 0
    for match in VARIES.finditer(text):
        pattern += re.escape(text[end : match.start()])
        end = match.end()
        if match["number"]:
            numbers.append(match["number"])
            pattern += A_NUMBER
        else:
            pattern += PLACE if match["place"] else " +" if match["space"] else re.escape(match["mark"]) + "+"
    return pattern + re.escape(text[end:])


def elided(expected: list[str], actual: list[str]) -> list[str]:
    """`actual` with what `expected` leaves out left out again, where the lines around it are still there."""
    places = [i for i, line in enumerate(expected) if line.strip() != ANYTHING]
    known = [expected[i].rstrip() for i in places]
    kept = list(actual)
    for at, line in enumerate(actual):
        kept[at] = next((k for k in known if ANYTHING in k and re.fullmatch(_line(k, False, []), line)), line)
    pairs = {-1: -1, len(expected): len(actual)}
    for i, j, size in SequenceMatcher(a=known, b=kept, autojunk=False).get_matching_blocks():
        pairs.update({places[i + n]: j + n for n in range(size)})
    for i in sorted((i for i, line in enumerate(expected) if line.strip() == ANYTHING), reverse=True):
        if i - 1 in pairs and i + 1 in pairs:
            kept[pairs[i - 1] + 1 : pairs[i + 1]] = [expected[i]]
    return kept


def run(page: Path, text: str, exact: bool = False) -> tuple[str, list[str], list[str]]:
    """Run the blocks of `text` in the current folder: the text as it should read, commands and doctests that differ.

    `exact` compares numbers everywhere.
    """
    wrong: list[str] = []
    failed: list[str] = []
    replaced: list[tuple[Block, str]] = []
    names: dict[str, object] = {}
    for block in blocks(text):
        place = f"{page.name}:{block.line}"
        if block.title:
            file = Path(block.title)
            file.write_text(changed(file.read_text(), block.body) if block.language == "diff" else block.body)
        elif block.language == "console":
            body = ""
            for command in commands(block.body):
                actual = output_of(command.text)
                right = matches(command.expected, actual, about=block.about and not exact)
                shown = command.expected if right else elided(command.expected, actual)
                body += "\n".join([f"$ {command.text}", *shown]) + "\n"
                if not right:
                    wrong.append("\n".join([f"{place}: $ {command.text}", *actual]))
            replaced.append((block, body))
        elif block.runs:
            failed += _doctest(block, place, names)
    for block, body in reversed(replaced):
        text = text[: block.start] + body + text[block.start + len(block.body) :]
    return text, wrong, failed


def _doctest(block: Block, place: str, names: dict[str, object]) -> list[str]:
    example = doctest.DocTestParser().get_doctest(block.body, names, place, place, block.line)
    said: list[str] = []
    doctest.DocTestRunner(optionflags=DOCTEST_FLAGS).run(example, out=said.append, clear_globs=False)
    names.update(example.globs)
    return said
