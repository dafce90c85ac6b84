"""From a spec to a cubin, where an nvcc can be had: figures, words where it cannot, and names that collide."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from gemms import gemm
from nvcc import compiles
from sampling import sample
from typer.testing import CliRunner

from tkgen.api import load
from tkgen.backends.hopper.build import CudaBuild, include_dirs
from tkgen.backends.hopper.spec import HopperSpec
from tkgen.backends.hopper.toolchain import candidates, find_nvcc, lost, read_figures
from tkgen.cli import app
from tkgen.toolchain.compiler import NoCompilerError, ToolchainError

ROOT = Path(__file__).parents[2]
GENERATED = sorted((ROOT / "generated" / "sm_90a").glob("*.cu"))
ROWS = ("elementwise", "layernorm", "long_softmax", "norm_gradient", "rmsnorm", "rotary", "softmax", "transpose")
SEQUENCES = ("split_k_gelu",)
SPECS = [
    path for path in sorted((ROOT / "specs" / "hopper").glob("*.tk")) if not path.stem.endswith((*ROWS, *SEQUENCES))
]

REMARKS = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN4gemm6kernelENS_7globalsE' for 'sm_90a'
ptxas info    : Function properties for _ZN4gemm6kernelENS_7globalsE
    16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 168 registers, used 16 barriers, 64 bytes smem
"""
SASS = """
        /*0680*/                   HGMMA.64x256x16.F32.BF16 R24, gdesc[UR20].tnspB, RZ, !UPT ;
        /*0690*/              @!P0 BRA 0x32d0 ;
        /*10680*/             @UP0 HGMMA.64x256x16.F32.BF16 R24, gdesc[UR20].tnspB, R24, gsb0 ;
"""


def built(text: str) -> CudaBuild:
    spec = load(text)
    assert isinstance(spec, HopperSpec)
    return spec.build()


def test_assembly_of_generated_files_is_arithmetic() -> None:
    """Synchronisation, copies and products stand in ThunderKittens' headers alone; those of kernels pin registers."""

    def found(paths: Iterable[Path]) -> set[str]:
        return {w for p in paths for w in re.findall(r'\basm(?: volatile)?\("([^ "]*)', p.read_text())}

    assert found(GENERATED) == {"ex2.approx.ftz.f32", "rcp.approx.ftz.f32"}
    headers = {path.stem: path for path in (include_dirs()[0] / "tkgen").glob("*.cuh")}
    stored = headers.pop("filled"), headers.pop("tiles")  # tiles that warps store, which the library has not
    assert found(stored) == {"", "st.shared.v4.b32", "fence.proxy.async.shared::cta;"}
    assert found(headers.values()) == {""}


MEETING = r"    __syncthreads\(\);|    everyone::tma::cluster::arrive\(\);.*\n    everyone::tma::cluster::wait\(\);"
SET_UP = rf"    if \(threadIdx\.x == 0\) \{{\n(?:        .*init_semaphore.*\n)+    \}}\n(?:{MEETING})\n"


def test_all_threads_meet_behind_the_set_up_of_mbarriers() -> None:
    """No order of the host run shows that they do not: there a thread's set-up is not overtaken."""
    texts = [text for path in GENERATED if "init_semaphore" in (text := path.read_text())]
    assert len(texts) > 10 and all(len(re.findall(SET_UP, text)) == text.count("threadIdx.x == 0") for text in texts)


def test_figures_are_read() -> None:
    found = read_figures(REMARKS, SASS)
    assert (found.registers, found.spill_bytes, found.stack_bytes, found.static_shared_bytes) == (168, 20, 16, 64)
    assert found.products == 2 and found.instructions == {"HGMMA": 2, "BRA": 1}
    assert read_figures(REMARKS, "").products is None
    with pytest.raises(ToolchainError):
        read_figures("", "")


def test_broken_promises_of_ptxas_are_seen() -> None:
    line = "ptxas info : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to ..."
    assert lost(REMARKS + line) == [line] and not lost(REMARKS)


def test_where_nvcc_is_looked_for(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / "nvcc"
    tool.write_text("#!/bin/sh\necho release 99.1\n")
    tool.chmod(0o755)
    assert ("CUDA_HOME", tool) in list(candidates({"PATH": "", "CUDA_HOME": str(tmp_path)}))
    assert next(iter(candidates({"PATH": str(tmp_path / "bin")}))) == ("PATH", tool)
    assert next(iter(candidates({"PATH": "", "TKGEN_NVCC": str(tool)}))) == ("TKGEN_NVCC", tool)
    assert find_nvcc(str(tool)).version == "99.1"


def test_without_nvcc_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tkgen.backends.hopper.toolchain.candidates", lambda *_: [])
    with pytest.raises(NoCompilerError, match="pip install 'nvidia-cuda-nvcc"):
        find_nvcc()
    result = CliRunner().invoke(app, ["build", str(SPECS[0]), "-o", str(tmp_path / "out")])
    assert result.exit_code == 3 and "nvidia-cuda-nvcc" in result.output and not (tmp_path / "out").exists()


@compiles
@pytest.mark.parametrize("path", sample(SPECS, 6), ids=lambda p: p.stem)
def test_specs_compile_without_a_spill(path: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["build", str(path), "-o", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    (report,) = json.loads(result.stdout)
    figures = report["figures"]
    assert figures["spill_bytes"] == figures["stack_bytes"] == 0 and not report["diagnostics"]
    assert report["shared_bytes"] <= 232448 and figures["registers"] == 168
    assert (tmp_path / f"{path.stem}.cubin").read_bytes()[:4] == b"\x7fELF"
    counts = figures["instructions"]
    if counts:  # a K-step is four products, and what the pipeline promises is in the machine code
        products = counts.get("HGMMA", 0) + counts.get("QGMMA", 0)
        stores = counts["UTMAREDG" if path.stem in ("h100_split_k", "h100_stream_k") else "UTMASTG"]
        assert products and products % 4 == 0 and counts["UTMALDG"] and stores and counts["USETMAXREG"] == 2


@compiles
def test_names_of_a_spec_collide_with_nothing() -> None:
    text = gemm(epilogue="scale(alpha)", dims=(256, 256, 256))
    for old, new in (("A", "memory"), ("B", "full"), ("C", "panel"), ("alpha", "stage"), ("gemm", "kernel_")):
        text = re.sub(rf"\b{old}\b", new, text)
    assert built(text).figures.registers > 0


def test_a_compiler_that_refuses_is_quoted(tmp_path: Path) -> None:
    tool = tmp_path / "nvcc"
    answers = 'case "$1" in --version) echo release 1.0;; *) echo "x.cu(3): error: no" >&2; exit 1;; esac'
    tool.write_text(f"#!/bin/sh\n{answers}\n")
    tool.chmod(0o755)
    result = CliRunner().invoke(app, ["build", str(SPECS[0]), "-o", str(tmp_path / "out"), "--cxx", str(tool)])
    assert result.exit_code == 3 and "x.cu(3): error: no" in result.output


def test_a_report_shows_what_is_known_of_each(tmp_path: Path) -> None:
    """Spec, C++ and figures of all; of rows which lane has what."""
    names, page = ("h100_attention", "h100_lcf", "h100_softmax"), tmp_path / "report.html"
    specs = [str(SPECS[0].with_name(f"{name}.tk")) for name in names]
    result = CliRunner().invoke(app, ["report", *specs, "-o", str(page), "--no-predict", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [f["kernel"] for f in found] == list(names)
    assert all({"figures.registers", "shared_bytes"} <= {x["key"] for x in f["figures"]} for f in found)
    assert [f["problem"]["product"] for f in found] == ["", "C = A B", ""]
    assert all(f["ownership"] and f["pipeline"] and f["lds"] and f["order"] for f in found)
    text = page.read_text(encoding="utf-8")
    assert all(f'id="k{n}-figures"' in text and f'id="k{n}-pipeline"' in text for n in range(3))
    shown = CliRunner().invoke(app, ["report", specs[2], "-o", str(page), "--no-predict"])
    assert "whole block to a row" in re.sub(r"\s+", " ", shown.stdout) and "used by a lane" in shown.stdout
    changed = CliRunner().invoke(app, ["diff", *specs[1:]])
    assert changed.exit_code == 0 and "registers per thread" in changed.stdout, changed.output


def test_the_check_says_what_is_tested_where() -> None:
    result = CliRunner().invoke(app, ["check", str(SPECS[0])])
    assert result.exit_code == 0 and "tested on the GPU" in result.output
