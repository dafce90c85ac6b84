"""No text, however broken, ends in anything but a kernel or diagnostics, and never late."""

import random
import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tkgen.diagnostics import SpecError
from tkgen.diagnostics.render import render_text
from tkgen.source import SourceFile
from tkgen.syntax import ast
from tkgen.syntax.dump import dump
from tkgen.syntax.format import format_source
from tkgen.syntax.loader import decode
from tkgen.syntax.parser import parse, parse_path

CORPUS = [path.read_text() for path in sorted((Path(__file__).parent / "corpus").glob("*.tk"))]
TOKEN = re.compile(r"[A-Za-z_]\w*|\d+|\s+|.", re.DOTALL)


def survives(data: bytes) -> None:
    """A kernel that can be printed and formatted, or diagnostics that can be shown; within a second."""
    start = time.process_time()
    try:
        file = decode(data, "spec.tk")
        assert isinstance(parse(file), ast.Kernel)
        text = dump(parse(file))
        formatted = SourceFile("spec.tk", format_source(file))
        assert format_source(formatted) == formatted.text
        assert dump(parse(formatted)).splitlines()[1:] == text.splitlines()[1:]
    except SpecError as error:
        assert error.diagnostics
        for found in error.diagnostics:
            assert re.fullmatch(r"E1\d\d", found.code)
            if found.primary:
                span = found.primary.span
                assert 0 <= span.start <= span.end <= len(span.file.text)
        shown = render_text(error.diagnostics, color=False, width=100)
        assert "\x1b" not in shown
    assert time.process_time() - start < 2.0  # a second on an idle machine


def mutant(text: str, rng: random.Random) -> bytes:
    """The text with a few tokens deleted, swapped, doubled or replaced, or with bytes that are no text."""
    tokens = TOKEN.findall(text)
    for _ in range(rng.randint(1, 4)):
        i, j = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        kind = rng.randrange(6)
        if kind == 0:
            tokens[i] = ""
        elif kind == 1:
            tokens[i], tokens[j] = tokens[j], tokens[i]
        elif kind == 2:
            tokens[i] *= 2
        elif kind == 3:
            tokens[i] = tokens[j]
        elif kind == 4:
            tokens[i] = rng.choice(
                ["\n", "\t", "\r", "(", "9" * 50, '"', "\u202e", "\x1b[31m", "é", "kernel", "\n\n    "]
            )
        else:
            tokens[i : i + rng.randint(1, 20)] = [""]
    data = bytearray("".join(tokens).encode())
    if rng.random() < 0.1 and data:
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


@pytest.mark.parametrize("seed", range(20))
def test_mutations(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(10):
        survives(mutant(rng.choice(CORPUS), rng))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_more_mutations(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(100):
        survives(mutant(rng.choice(CORPUS), rng))


@settings(derandomize=True, deadline=None, max_examples=150, database=None)
@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_noise(data: bytes) -> None:
    survives(data)


@settings(derandomize=True, deadline=None, max_examples=150, database=None)
@given(st.lists(st.sampled_from(sorted({t for text in CORPUS for t in TOKEN.findall(text)})), max_size=60))
def test_words_in_any_order(tokens: list[str]) -> None:
    survives("".join(tokens).encode())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 100,
        b"\xff\xfe" * 100,
        random.Random(0).randbytes(10_000_000),
        b"kernel a\n" + random.Random(1).randbytes(10_000_000),
        b"kernel a\n  waves 1\n" + b"@!$ %\n" * 170_000,
        b"kernel a\n" + b"".join(b" " * i + b"role p waves 0\n" for i in range(1, 1400)),
        b"kernel a\n  unroll " + b"(" * 1_000_000,
        b"kernel a\n  unroll " + b"(" * 8000,
        b"kernel a\n  unroll " + b"(" * 8000 + b"1" + b")" * 8000,
        b"kernel a\n  unroll " + b"min(" * 3000 + b"1" + b")" * 3000,
        b"kernel a\n  unroll " + b"9" * 1_000_000,
        b"kernel a\n  unroll " + b"-" * 16_000 + b"1",
        b"kernel a\n  wa" + b"w" * 1_000_000 + b" 1",
        b"#" * 1_000_000,
        b"\n" * 1_000_000,
        b"kernel a\n" + b" " * 1_000_000 + b"waves 1",
        b"kernel a\n  waves 1\n" + b"\t\n" * 500_000,
        b"kernel a\n" + b"\twaves 1\n" * 100_000,
        b'kernel a\n  include "' + b"../" * 5000 + b'etc/passwd"\n',
        b"kernel a\n  schedule\n    cluster fetch A[k+" + b"1" * 10_000 + b"]\n",
    ],
    ids=lambda data: repr(data[:24]) + str(len(data)),
)
def test_absurd_files(data: bytes) -> None:
    survives(data)


def test_text_in_memory_is_bounded_too() -> None:
    with pytest.raises(SpecError) as caught:
        parse(SourceFile("a.tk", "x" * 2_000_000))
    assert [d.code for d in caught.value.diagnostics] == ["E100"]


def test_ten_megabytes_from_disk(tmp_path: Path) -> None:
    (tmp_path / "a.tk").write_bytes(random.Random(2).randbytes(10_000_000))
    start = time.process_time()
    with pytest.raises(SpecError):
        parse_path(tmp_path / "a.tk")
    assert time.process_time() - start < 2.0  # a second on an idle machine
