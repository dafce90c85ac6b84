"""A number is the same wherever it is shown: build line, report, graph, prediction, JSON and language server."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from report_specs import SPECS
from sampling import only
from typer.testing import CliRunner

from tkgen.api import load
from tkgen.backends.hopper.build import CudaBuild
from tkgen.backends.hopper.toolchain import Figures, Nvcc
from tkgen.cli import app
from tkgen.lsp.analysis import Request, analyze
from tkgen.lsp.block_facts import of_statement
from tkgen.predict import predict
from tkgen.report import facts, prediction
from tkgen.report.facts import Facts
from tkgen.source import SourceFile
from tkgen.syntax.parser import parse_any
from tkgen.tile.table import as_data, as_text

AMD = [
    "eight_wave", "ping_pong", "producer_consumer_4p4c", "swiglu", "low_precision/fp8", "groups/moe", "split_k",
    "rows/softmax", "rows/layernorm", "quantise/quantise_rows", "attention/attention", "attention/attention_direct",
    "attention/attention_backward", "sequences/split_k_gelu",
]  # fmt: skip
HOPPER = ["h100_lcf", "h100_ping_pong", "h100_attention", "h100_rmsnorm", "h100_fp8_blocks"]


def figures(found: Facts) -> dict[str, float]:
    return {f.key: f.value for f in found.figures}


def number(pattern: str, text: str) -> float:
    """The one number that a text has at this place."""
    (found,) = {match.replace(",", "") for match in re.findall(pattern, text)}
    return float(found)


def insist_on_plan(kernel: Any, path: Path) -> None:
    """The predicted numbers of a block: those of `graph`, as text and as data, and of the language server."""
    data = as_data(kernel.tiles, kernel.footprint)["budgets"]
    text = as_text(kernel.tiles, kernel.footprint)
    source = SourceFile(str(path), path.read_text(encoding="utf-8"))
    known = next(k for k in analyze(Request(source, target=kernel.target.name)).kernels
                 if k.equations is not None and k.equations.name == kernel.program.kernel.name)  # fmt: skip
    tree = parse_any(source)
    node = next(k for k in getattr(tree, "kernels", (tree,)) if k.name.id == kernel.name)
    hover = "\n".join(of_statement(node, known))
    memory = kernel.footprint.memory
    (budget,) = (line for line in text.splitlines() if line.startswith(f"{memory}: "))
    used = data["memory"]["used"]
    assert number(rf"{memory}: (\d+) of", budget) == used == number(rf"{memory}: ([\d,]+) of", hover)
    for role in data["registers"]:
        assert f"registers: {role['role']} needs about {role['needs']} of {role['budget']}" in text
        assert f"{role['role']}: about {role['needs']} of {role['budget']} registers" in hover


@pytest.mark.parametrize("name", only(AMD, ["eight_wave", "rows/softmax", "attention/attention"]))
def test_every_place_has_the_numbers_of_the_build(name: str, tmp_path: Path) -> None:
    path = SPECS / f"{name}.tk"
    build = load(path).build(machine_check=False)
    predicted = predict(build)
    said = CliRunner().invoke(app, ["predict", str(path), "--json"])
    assert json.loads(said.stdout)["seconds"] == predicted.seconds, said.output
    for kernel, each in zip(build.kernels, predicted.kernels or (predicted,), strict=True):
        line, plain, timed = kernel.line(), kernel.report(), prediction(kernel)
        shown = facts(kernel, timed)
        found = figures(shown)
        resources = plain["resources"]
        assert number(r"(\d+) VGPR\b", line) == resources["vgpr"] == found["resources.vgpr"]
        assert number(r"(\d+) SGPR\b", line) == resources["sgpr"] == found["resources.sgpr"]
        assert number(r"(\d+) B LDS", line) == plain["lds_bytes"] == found["lds_bytes"] == kernel.spec.footprint.used
        waves = plain["occupancy"]["waves_per_simd"]
        assert number(r"([\d.]+) waves?/SIMD", line) == waves == found["occupancy.waves_per_simd"]
        if "main_loop" in plain:
            assert plain["main_loop"]["total"] == found["main_loop.total"]
            other = plain["main_loop"]["other_per_mfma"]
            assert number(r"([\d.]+) non-MFMA instructions per MFMA", line) == round(other, 2)
            assert other == found["main_loop.other_per_mfma"]
        if "layout" in plain:
            needs = max(r.needs for r in kernel.spec.footprint.registers)
            assert plain["layout"]["predicted_registers"] == needs
        assert timed.seconds == each.seconds
        assert {f.key: f.value for f in timed.figures}["predict.time"] == round(each.seconds * 1e3, 3)
        assert timed.hot is not None
        assert timed.hot.total.instructions == len(kernel.function.instructions) == len(shown.texts.isa)
        insist_on_plan(kernel.spec, path)


@pytest.mark.parametrize("name", only(HOPPER, ["h100_attention", "h100_lcf"]))
def test_every_place_has_the_numbers_of_the_build_for_hopper(name: str) -> None:
    path = SPECS / "hopper" / f"{name}.tk"
    spec: Any = load(path)
    shared = 48  # bytes that the machine code has beside the tiles, such as its barriers
    build: Any = CudaBuild(Nvcc(Path("nvcc"), "PATH", "13.0"), b"", Figures("k", 168, 0, 0, shared), "", "", spec)
    line, plain, found = build.line(), build.report(), figures(facts(build))
    assert number(r"(\d+) registers", line) == plain["figures"]["registers"] == found["figures.registers"]
    assert number(r"(\d+) B shared", line) == plain["shared_bytes"] == found["shared_bytes"] == build.shared_bytes
    assert number(r"(\d+) threads", line) == plain["threads"] == found["threads"]
    insist_on_plan(spec, path)
