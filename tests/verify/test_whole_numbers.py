"""Outputs of integers and of packed floats: `tkgen verify` on a right kernel and on wrong ones."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tkgen.api import load
from tkgen.backends.cdna import kittens
from tkgen.build import Build
from tkgen.cli import app
from tkgen.toolchain.compile import compile_device
from tkgen.toolchain.metadata import read_resources
from tkgen.verify import Verdict, verify

SPECS = Path(__file__).parents[2] / "specs"
QUANTISE = """
__device__ int whole(float x) { return (int)__builtin_fminf(__builtin_fmaxf(__builtin_rintf(x), -128.0f), 127.0f); }
extern "C" __global__ void quantise(const float *x, unsigned *q, float scale, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= n) return;
    unsigned packed = 0;
    for (int e = 0; e < 4; ++e) packed |= (unsigned)(whole(x[4 * i + e] * scale CHANGED) & 0xff) << 8 * e;
    q[i] = packed;
}
"""


@pytest.fixture
def quantised(tmp_path: Path) -> Callable[..., Result]:
    (tmp_path / "meaning.py").write_text("def quantised(x, scale): return x * scale\n")

    def of(changed: str) -> Result:
        path = tmp_path / "quantise.hip"
        path.write_text(QUANTISE.replace("CHANGED", changed))
        arguments = ["x:f32[256]=randn", "q:i8[256]=nan:out", "scale:f32=50", "i32=64"]
        words = [w for a in arguments for w in ("--arg", a)]
        reference = f"{tmp_path / 'meaning.py'}:quantised"
        command = ["verify", str(path), "--reference", reference, "--grid", "1", "--block", "64", *words]
        return CliRunner().invoke(app, command)

    return of


def test_a_quantised_output_is_compared_as_what_was_rounded(quantised: Callable[..., Result]) -> None:
    right = quantised("")
    assert right.exit_code == 0 and "as meant" in right.output, right.output
    for changed in ("+ 1e-4f", "+ 1e-4f * x[0]"):  # no byte changes
        wrong = quantised(changed)
        assert wrong.exit_code == 1 and "WRONG q: not the intended value" in wrong.output, wrong.output


def changed(name: str, sizes: dict[str, int], old: str, new: str, folder: Path) -> Verdict:
    """The verdict on a build of a spec whose source, or a header of it, has a mistake."""
    build = load(SPECS / f"{name}.tk", sizes, "gfx950").build(machine_check=False)
    assert isinstance(build, Build | Build)
    text, headers = build.spec.source.text, folder / "include"
    shutil.copytree(kittens.include_dir(), headers)
    if old not in text:
        (header,) = (path for path in headers.rglob("*.cuh") if old in path.read_text())
        header.write_text(header.read_text().replace(old, new))
    result = compile_device(
        text.replace(old, new), build.spec.target, build.compiler, include_dirs=[headers],
        source_name="changed.cpp",
    )  # fmt: skip
    assert result.asm is not None and result.hsaco is not None
    (resources,) = read_resources(result.hsaco).values()
    return verify(replace(build, asm=result.asm, hsaco=result.hsaco, resources=resources))


SIX = {  # a number one bit too far, another number's neighbour, an exponent that is one too large
    "words[i * bits / 32] |= code << i * bits % 32;": "words[i * bits / 32] |= code << i * bits % 32 + (i == 2);",
    "Q_w.at[e] = times_power(x, v8[i])": "Q_w.at[e ^ 1] = times_power(x, v8[i])",
    "- uint32_t(least + 127)) << fraction": "- uint32_t(least + 126)) << fraction",
}


@pytest.mark.parametrize("old", [next(iter(SIX)), *(pytest.param(o, marks=pytest.mark.slow) for o in list(SIX)[1:])])
def test_numbers_of_six_bits_that_the_kernel_packs(old: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tkgen.verify.changes._SECONDS", 1)  # of the search for a cause
    verdict = changed("quantise/mxfp6_rows", {"TOKENS": 1, "BLOCKS": 3}, old, SIX[old], tmp_path)
    assert not verdict.ok and "Q" in {wrong.output for wrong in verdict.wrong}
