"""Every page's failing example produces its code and no other, its mended example passes without a word."""

from __future__ import annotations

from pathlib import Path

import pytest
from diagnosing import diagnose, options

from tkgen.diagnostics.explain import Example, codes, page
from tkgen.diagnostics.render import render_text
from tkgen.machine_check.words import CODES

OF_BUILDS = ("E405", "W402", *CODES)  # test_resources.py, tests/machine_check
OWN = [code for code in codes() if code[1] not in "17" and code not in OF_BUILDS]  # E7xx: tests/sanitize


def found(example: Example, folder: Path) -> tuple[set[str], str]:
    spec = folder / "example.tk"
    spec.write_bytes(example.data)
    diagnostics = diagnose(spec, *options(example.options))
    return {d.code for d in diagnostics}, render_text(diagnostics)


@pytest.mark.parametrize("code", OWN)
def test_failing_examples_fail_with_their_code_alone(code: str, tmp_path: Path) -> None:
    for example in page(code).fails:
        produced, text = found(example, tmp_path)
        assert produced == {code}, text


@pytest.mark.parametrize("code", OWN)
def test_mended_examples_pass_clean(code: str, tmp_path: Path) -> None:
    for example in page(code).passes:
        produced, text = found(example, tmp_path)
        assert not produced, text
