"""The bundled sequences: sources as checked in, figures as promised, no spills, numbers right."""

from __future__ import annotations

from pathlib import Path

import pytest
from sampling import sample

from tkgen.api import load
from tkgen.execute.cases import unmet
from tkgen.execute.compare import Inputs
from tkgen.execute.launch import run
from tkgen.sequence import SequenceSpec

ROOT = Path(__file__).parents[2]
SPECS = sorted((ROOT / "specs/sequences").glob("*.tk"))


def spec_of(path: Path, target: str | None = None, **sizes: int | None) -> SequenceSpec:
    spec = load(path, sizes, target)
    assert isinstance(spec, SequenceSpec)
    return spec


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_source_figures_and_machine_code(path: Path) -> None:
    spec = spec_of(path)
    assert not spec.diagnostics
    golden = ROOT / "generated" / spec.target.name / f"{path.stem}.cpp"
    assert golden.read_text(encoding="utf-8") == spec.source.text
    build = spec.build().check()
    assert "# expect " in path.read_text() and not unmet(build)
    assert all(k.machine_check.outcome == "right" and k.resources.clean for k in build.kernels)


@pytest.mark.parametrize("target", ["gfx90a", "gfx950"])
@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_other_targets_build_without_spills(path: Path, target: str) -> None:
    build = spec_of(path, target).build().check()
    assert all(k.machine_check.outcome == "right" and k.resources.clean for k in build.kernels)


@pytest.mark.parametrize("sizes", [{"IN": 1}, {"IN": 500, "PARTS": 3}, {"IN": 576, "PARTS": 9}], ids=str)
@pytest.mark.parametrize("target", sample(["gfx942", "gfx950"], 2))
def test_split_k_at_sizes_that_do_not_divide(target: str, sizes: dict[str, int]) -> None:
    path = ROOT / "specs/sequences/split_k_gelu.tk"
    build = spec_of(path, target, TOKENS=129, OUT=72, **sizes).build().check()
    for kind in Inputs:
        tried = run(build, kind=kind)
        assert tried.ok, tried.failure


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_some_blocks_of_the_code_that_is_shipped(path: Path) -> None:
    for build in spec_of(path).build().kernels:
        assert run(build, blocks=build.spec.launch().sample()).ok
