"""The kernels of the pages E7xx and W701: the wrong one is found out with its code alone, the right one is clean.

The text of what is found is exactly the file in golden/; `python tests/sanitize/test_sanitize_pages.py` writes
those anew.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from typer.testing import CliRunner, Result

from tkgen.cli import app
from tkgen.diagnostics.explain import Example, codes, page

CODES = [code for code in codes() if code[1] == "7" and page(code).fails[0].language == "cpp"]
GOLDEN = Path(__file__).parent / "golden"
# The one page whose kernel needs to be told what is right.
TWOS = """
import numpy as np
from tkgen.emulate import Buffer
def arguments():
    return [Buffer(np.ones(64, np.float32)), Buffer(np.zeros(64, np.float32), "out")]
def check(outcome, arguments):
    return "" if (arguments[1].data == 2).all() else "out is not 2 everywhere"
"""


def sanitize(example: Example, folder: Path, *more: str) -> Result:
    """The command on an example of a page, with the options that stand there."""
    source = folder / "kernel.cpp"
    source.write_text(example.text)
    options = list(example.options)
    if options[0] == "twos":
        (folder / "twos.py").write_text(TWOS)
        options = ["--args-from", str(folder / "twos.py"), *shlex.split("--grid 1 --block 64")]
    return CliRunner().invoke(app, ["sanitize", str(source), "--schedules", "3", *options, *more])


def shown(result: Result, folder: Path) -> str:
    """The output without what another version of the compiler may choose: registers, addresses, instruction counts."""
    text = result.output.replace(f"{folder}/", "")
    text = re.sub(r"`(\w+)[^`]*` at\s+0x[0-9a-f]+", r"`\1` at ADDRESS", text)
    text = re.sub(r"for [va]\d+:", "for vN:", text)
    text = re.sub(r"iteration \d{4,}", "iteration N", text)
    return re.sub(r"\d+ instructions$", "N instructions", text, flags=re.MULTILINE)


@pytest.mark.parametrize("code", CODES)
def test_the_wrong_kernel_is_found_out(code: str, tmp_path: Path) -> None:
    result = sanitize(page(code).fails[0], tmp_path)
    found = {
        line[line.index("[") + 1 : line.index("]")]
        for line in result.output.splitlines()
        if line[:5] in ("error", "warni")
    }
    assert found == {code}, result.output
    assert result.exit_code == (4 if code == "E714" else 1 if code[0] == "E" else 0)  # 4: wait states alone
    assert shown(result, tmp_path) == (GOLDEN / f"{code}.txt").read_text(), "run this file to bless"


@pytest.mark.parametrize("code", [pytest.param(c, marks=pytest.mark.slow) if n % 2 else c for n, c in enumerate(CODES)])
def test_the_mended_kernel_is_clean(code: str, tmp_path: Path) -> None:
    result = sanitize(page(code).passes[0], tmp_path)
    assert result.exit_code == 0 and ": no findings; " in result.output, result.output


def test_a_race_has_both_accesses_as_data(tmp_path: Path) -> None:
    (found, *_) = json.loads(sanitize(page("E701").fails[0], tmp_path, "--json").stdout)
    lines = [label["line"] for label in (found["primary"], *found["secondary"])]
    assert found["code"] == "E701" and len(found["interleaving"]) == 2
    for step in found["interleaving"]:
        assert re.fullmatch(r"wave \d+", step["agent"]) and step["barriers"] >= 0 and step["at"]["line"] in lines
        assert re.match(r"(reads|writes|updates): `\w+ ", step["action"])


def test_every_code_has_a_page() -> None:
    assert [code for code in codes() if code[1] == "7"] == [
        *(f"E{n}" for n in range(701, 716)),
        *(f"W{n}" for n in range(701, 704)),
    ]


def bless() -> None:
    for code in CODES:
        with TemporaryDirectory() as folder:
            result = sanitize(page(code).fails[0], Path(folder))
            (GOLDEN / f"{code}.txt").write_text(shown(result, Path(folder)))


if __name__ == "__main__":
    sys.exit(bless())
