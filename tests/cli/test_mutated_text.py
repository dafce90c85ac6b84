"""Mutated spec texts go through the whole front end and end in diagnostics, never in a traceback."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest

from tkgen.api import load
from tkgen.diagnostics import SpecError
from tkgen.diagnostics.render import render_text

SPECS = sorted((Path(__file__).parents[2] / "specs").glob("*.tk"))
MUTANTS = 200


def mutate(text: str, rng: random.Random) -> str:
    """One to three tokens deleted, swapped, duplicated, or replaced by another of the text or by a hostile one."""
    tokens = re.findall(r"\s+|\w+|[^\w\s]", text)
    words = [t for t in tokens if t.strip()]
    for _ in range(rng.randint(1, 3)):
        i, j = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        match rng.randrange(5):
            case 0:
                tokens[i] = ""
            case 1:
                tokens[i], tokens[j] = tokens[j], tokens[i]
            case 2:
                tokens.insert(i, tokens[j])
            case 3:
                tokens[i] = rng.choice(words)
            case 4:
                tokens[i] = rng.choice(
                    ["0", "-1", "999999999999", "1", "3", "*", "(", "\u202e", "é", "17", "7 x 7", '"']
                )
    return "".join(tokens)


@pytest.mark.parametrize("part", range(10))
def test_mutants_end_in_a_spec_or_in_diagnostics_within_a_second(part: int, tmp_path: Path) -> None:
    rng = random.Random(part)
    path = tmp_path / "mutant.tk"
    refused = 0
    for _ in range(MUTANTS // 10):
        text = mutate(rng.choice(SPECS).read_text(), rng)
        path.write_text(text)
        start = time.process_time()
        try:
            diagnostics = load(path).diagnostics
        except SpecError as error:
            diagnostics = tuple(error.diagnostics)
            refused += 1
            assert diagnostics
        render_text(diagnostics)
        assert time.process_time() - start < 1, text
    assert refused > 0
