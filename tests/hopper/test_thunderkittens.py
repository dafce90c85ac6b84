"""Generated files are ThunderKittens': their names mean there what they mean in the embedded headers.

With TKGEN_THUNDERKITTENS naming a checkout of ThunderKittens 2.0 they are compiled against its headers, and the lists
of names here are held to what it declares. Without one the embedded headers and the generated files are held to them.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from pathlib import Path

import pytest
from cpp_names import declared, macros
from gemms import gemm
from loop_cases import Attention

from tkgen.api import load
from tkgen.backends.cdna.kittens import include_dir
from tkgen.backends.hopper.build import include_dirs
from tkgen.backends.hopper.toolchain import STANDARD, find_nvcc
from tkgen.ir.functions import FUNCTIONS, HOPPER, helpers
from tkgen.toolchain.process import run_tool

ROOT = Path(__file__).parents[2]
HEADERS = ROOT / "tkgen/backends/hopper/include"
GENERATED = sorted((ROOT / "generated/sm_90a").glob("*.cu"))
OF_KERNELS = [
    HEADERS / "tkgen.cuh",
    *sorted((HEADERS / "tkgen").glob("*.cuh")),
    *(include_dir() / f"tkgen/{name}.cuh" for name in ("common", "sorted")),
]  # device functions of generated files
OWN = ("kittens::tkgen", "tk")  # what the headers need beside ThunderKittens' names, and what kernels do
CHECKOUT = os.environ.get("TKGEN_THUNDERKITTENS", "")
given = pytest.mark.skipif(not CHECKOUT, reason="TKGEN_THUNDERKITTENS names no checkout of ThunderKittens")

LIBRARY = {
    "kittens": """
        WARPGROUP_WARPS WARP_THREADS arrive bf16 bf16_2 cache_policy cluster_ctarank coord dim fp8e4m3 fp8e5m2 gl group
        init_semaphore laneid rt rt_base rt_bf rt_fl rt_fp8e4m3 rt_fp8e5m2 rt_hf semaphore st st_bf st_fl st_fp8e4m3
        st_fp8e5m2 st_hf tma_swizzle_allocator wait warp warpgroup warpid
    """,
    "kittens::base_ops": "max min sum",
    "kittens::everyone::tma::cluster": "arrive wait",
    "kittens::pdl": "arrive wait",
    "kittens::tma": """
        descriptor expect expect_bytes load_async store_add_async store_async store_async_read_wait store_async_wait
    """,
    "kittens::tma::cluster": "arrive load_async",
}
"""Names of ThunderKittens that the embedded headers have."""

FUNCTIONS_OF_LIBRARY = """
    arrive arrive_and_wait barrier_all careful_wait cdiv check clusterIdx cluster_ctarank cluster_nctarank clusterid
    fill_identity fill_value get_phasebit get_rt_type_name get_swizzled_2d_idx get_tile_type_name init_semaphore
    invalidate_semaphore laneid load_async_wait make_cache_policy make_gl make_pgl make_unsafe_gl_arg mm mm2 mm2_AB
    mm2_ABt mm2_AtB mm2_AtBt mm_AB mm_ABt mm_AtB mm_AtBt mma mma2 mma2_AB mma2_ABt mma2_AtB mma2_AtBt mma_AB mma_ABt
    mma_AtB mma_AtBt nclusterid num_sms packed_shfl_down_sync packed_shfl_sync print print_bits print_fp4 ring_advance
    ring_retreat signal signal_all smid subtile tensor_after_thread_sync tensor_before_thread_sync tensor_commit
    tensor_load_wait tensor_store_wait test_wait try_wait update_phasebit wait warpgroupid warpid
"""
"""Its functions in `kittens`: a call with one of its types finds them from any namespace, too."""

MACROS_OF_LIBRARY = """
    CHECK_CUDA_ERROR CUCHECK CUDACHECK KITTENS_ALIGN_AS KITTENS_CHECK_WARP KITTENS_CHECK_WARPGROUP KITTENS_DEFAULT_ALIGN
    typeof
"""

OWN_MEMBERS = ("described", "map", "matrix", "moves", "panel_bytes", "panel_cols", "panels")
"""Of the embedded headers' tiles and tensors, beside those of the library."""

VARIANTS = {
    "f16": gemm(operand="f16", output="f16", layouts="NT"),
    "both transposed": gemm(layouts="TT", output="f32"),
    "bytes out": gemm(layouts="NT", operand="fp8", block=(128, 128, 128), output="fp8"),
    "from bf16 to bytes": gemm(block=(128, 128, 64), output="fp8"),
    "bias": gemm(epilogue="relu", tail="tail masked", dims=(200, 328, 136)),
    "ends of both factors": gemm(layouts="NT", tail="tail masked", dims=(200, 328, 136)),
    "models' order": Attention(384, 384, order="models'").text,
    "causal, three consumers": Attention(384, 384, rows=192, block=64, causal=True).text,
}


def names_of(folder: Path) -> dict[str, set[str]]:
    """The names that the headers below a folder declare in each namespace."""
    found = defaultdict[str, set[str]](set)
    for path in sorted(folder.rglob("*.cuh")):
        for namespace, name, _ in declared(path.read_text(encoding="utf-8")):
            found[namespace].add(name)
    return found


def of_generated(texts: list[str]) -> set[str]:
    """The functions that generated files declare."""
    return {name for text in texts for _, name, function in declared(text) if function}


def library() -> Path:
    """The headers of the checkout."""
    folder = Path(CHECKOUT) / "include"
    assert (folder / "kittens.cuh").is_file(), f"{CHECKOUT} is no checkout of ThunderKittens"
    return folder


def refused(text: str, name: str, folder: Path) -> str:
    """The errors of nvcc for a generated file with the library's headers, with the flags of its makefiles."""
    source = folder / f"{name}.cu"
    source.write_text(text, encoding="utf-8")
    folders = [f"-I{each}" for each in (library(), *include_dirs())]
    command = [str(find_nvcc().path), STANDARD, "-gencode", "arch=compute_90a,code=sm_90a", "-DKITTENS_HOPPER",
               "--expt-extended-lambda", "--expt-relaxed-constexpr", *folders,
               "-cubin", "-o", str(folder / "made.cubin"), str(source)]  # fmt: skip
    done = run_tool(command, timeout=600)
    return "" if done.ok else done.stdout + done.stderr


# ---------------------------------------------------------------- without a checkout


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "namespace a::b { struct c { void d(); }; int e(int x) { return x; } }",
            [("a::b", "c", False), ("a::b", "e", True)],
        ),
        ("namespace a { template<int N = (1 > 0)> void f(); using g = h<2>; }", [("a", "f", True), ("a", "g", False)]),
        ("namespace a { constexpr int n = 3; // int m;\n#define q(x) \\\n int x;\n}", [("a", "n", False)]),
        ("namespace a { namespace { } enum class e { x }; }", [("a", "e", False)]),
    ],
)
def test_names_are_read(text: str, expected: list[tuple[str, str, bool]]) -> None:
    assert list(declared(text)) == expected


def test_headers_have_names_of_the_library_alone() -> None:
    ours = {namespace: names for namespace, names in names_of(HEADERS).items() if namespace not in OWN}
    assert ours == {namespace: set(names.split()) for namespace, names in LIBRARY.items()}


@pytest.mark.parametrize("path", [*GENERATED, *OF_KERNELS], ids=lambda path: path.stem)
def test_generated_files_clash_with_no_name(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not of_generated([text]) & set(FUNCTIONS_OF_LIBRARY.split())
    assert not set(re.findall(r"\w+", text)) & set(MACROS_OF_LIBRARY.split())


@pytest.mark.parametrize("path", [*GENERATED, *OF_KERNELS], ids=lambda path: path.stem)
def test_generated_files_name_nothing_of_the_headers_own(path: Path) -> None:
    code = re.sub("//.*", "", path.read_text(encoding="utf-8"))
    assert "tkgen::" not in code and "detail::" not in code
    assert not set(re.findall(r"(?:\.|::|->)\s*(\w+)", code)) & set(OWN_MEMBERS)


def test_functions_of_equations_clash_with_no_name() -> None:
    texts = [text for f in FUNCTIONS.values() for text in helpers({f.name}, HOPPER)]
    assert not of_generated([f"namespace a {{ {text} }}" for text in texts]) & set(FUNCTIONS_OF_LIBRARY.split())


# ---------------------------------------------------------------- with one


@given
def test_the_lists_are_the_librarys() -> None:
    found = names_of(library())
    for namespace, names in LIBRARY.items():
        assert set(names.split()) <= found[namespace] | found[f"{namespace}::detail"], namespace
    texts = [path.read_text(encoding="utf-8") for path in library().rglob("*.cuh") if "pyutils" not in path.parts]
    functions = {name for text in texts for namespace, name, f in declared(text) if f and namespace == "kittens"}
    assert functions <= set(FUNCTIONS_OF_LIBRARY.split())
    assert {name for text in texts for name in macros(text) if "__" not in name} <= set(MACROS_OF_LIBRARY.split())


@given
@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.stem)
def test_generated_files_compile_against_the_library(path: Path, tmp_path: Path) -> None:
    assert not refused(path.read_text(encoding="utf-8"), path.stem, tmp_path)


@given
@pytest.mark.parametrize("name", VARIANTS)
def test_others_compile_against_the_library(name: str, tmp_path: Path) -> None:
    assert not refused(load(VARIANTS[name]).text, "variant", tmp_path)
