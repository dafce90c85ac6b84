"""Every example of docs/language.md parses and is formatted, and every statement has one."""

import re
from pathlib import Path

import pytest

from tkgen.ir.typing import typed
from tkgen.ir.typing.vocabulary import CALLS, CONSTANTS, PLACE, REDUCTIONS
from tkgen.source import SourceFile
from tkgen.syntax import ast
from tkgen.syntax.format import format_source
from tkgen.syntax.grammar import FILE_WORDS, OPERATIONS, STATEMENTS
from tkgen.syntax.parser import parse_any, parse_fragment
from tkgen.syntax.statements import has_equations

TEXT = (Path(__file__).parents[2] / "docs" / "language.md").read_text()
EXAMPLES = re.findall(r"^```tk( fragment)?\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def kernels_of(found: ast.Kernel | ast.Sequence) -> tuple[ast.Kernel, ...]:
    return (found,) if isinstance(found, ast.Kernel) else found.kernels


@pytest.mark.parametrize(("kind", "text"), EXAMPLES, ids=[text.split("\n")[0] for _, text in EXAMPLES])
def test_examples_parse(kind: str, text: str) -> None:
    file = SourceFile("language.md", text)
    if kind:
        assert parse_fragment(file)
    else:
        found = parse_any(file)
        assert all(kernel.body for kernel in kernels_of(found))
    tight = re.sub(r"(?<=\S) +(?=#)", " ", format_source(file))
    assert tight == re.sub(r"(?<=\S) +(?=#)", " ", text)


def test_kernels_of_equations_are_typed() -> None:
    files = [parse_any(SourceFile("language.md", text)) for kind, text in EXAMPLES if not kind]
    kernels = [kernel for found in files for kernel in kernels_of(found)]
    names = [typed(kernel).kernel.name for kernel in kernels if has_equations(kernel)]
    assert names == [
        "quarters",
        "finish",
        "mx",
        "quantise",
        "rmsnorm",
        "convolve",
        "embedding_gradient",
        "capped_softmax",
        "attention",
        "grouped",
        "gated",
        "convolution",
        "block_scales",
        "weights",
        "weights_of_4_bits",
        "linear_softmax",
        "block_scaled",
        "attend",
        "expert_silu",
        "long_softmax",
        "group_norm",
        "mean_loss",
        "squares",
        "total",
        "long_cumsum",
        "routing",
        "gated_delta_rule",
    ]


def test_every_function_and_reduction_is_named() -> None:
    for word in (*CALLS, *REDUCTIONS, *CONSTANTS, PLACE):
        assert re.search(rf"`{word}[`(]", TEXT), word


def test_all_fences_are_examples_or_closed() -> None:
    assert len(re.findall(r"^```", TEXT, re.MULTILINE)) == 2 * len(EXAMPLES)


def test_every_construct_has_an_example() -> None:
    code = "\n".join(text for _, text in EXAMPLES)
    for word in (*FILE_WORDS, *STATEMENTS):
        assert re.search(rf"^ *{word}\b", code, re.MULTILINE) or f'`{word} "' in TEXT
        assert f"`{word} " in TEXT or f"`{word}`" in TEXT
    for word in OPERATIONS:
        assert f"`{word} " in TEXT or f"`{word}`" in TEXT
