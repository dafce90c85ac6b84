"""A name of a spec never clashes with one of the generated code, whatever it is and wherever it stands.

Every word of the generated sources, of their templates and headers, and of what the C library declares is taken as the
name of a kernel, of tensors, dimensions, scalars and roles; the code then has to pass the compiler, for the GPU and for
the host, with the harness.
"""

from __future__ import annotations

import re
import subprocess
import sysconfig
from functools import cache
from itertools import islice
from pathlib import Path

import pytest
from lowering import SPECS
from on_host import CLANG, STUB, needs_clang
from planning import planned

from tkgen.backends.cdna.kittens import include_dir
from tkgen.backends.cdna.lower.harness import harness_cpp, harness_python
from tkgen.backends.cdna.lower.names import WORD, cpp_name, is_taken, taken
from tkgen.backends.cdna.lower.render import lower
from tkgen.syntax.grammar import OPERATIONS

pytestmark = needs_clang
LOWER = Path(lower.__code__.co_filename).parent
FAMILIES = """
    _Complex _Atomic _Bool _Imaginary _Static_assert _ __x __CUDA__ __HIP__ EOF NULL NAN INT_MAX I M_PI K_STEP THREADS
    DIM_M DIM_x PyObject Py_None hipMalloc PRIu64 KITTENS_CDNA3 TKGEN_STANDALONE rt_16x32 st_16x32 A_s A_r size_t t
"""
RESERVED = {*OPERATIONS, "dynamic"}  # words of the language that are no names of tensors or dimensions
PLACES = 12  # names that a spec below takes
SPEC = """kernel {0}
  dims {1} = dynamic, {2} = 64, {3} = 96
  global {4} : {dtype}[{1}, {3}]
  global {5} : {dtype}[{2}, {3}]
  global {6} : f32[{1}, {2}]
  global {7} : f32[{2}]
  scalar {8} : f32 = 1.5
  scalar {9} : f32
  block 64 x 64 step 32
  {grid}tail masked
  shared {4}, {5} buffers 2
  role {10} waves 0..3
    load {4}, {5}
  role {11} waves 4..7 as 2 x 2
    accumulate {6} : f32 tile 32 x 32
    epilogue scale({8}) | add({6}, {9}) | bias({7}) | gelu
    store {6}
"""
DIRECT = """kernel {0}
  target gfx950
  dims {1} = dynamic, {2} = 128, {3} = 128
  global {4} : bf16[{1}, {3}]
  global {5} : bf16[{2}, {3}]
  global {6} : f32[{1}, {2}]
  global {7} : f32[{2}]
  scalar {8} : f32 = 1.5
  scalar {9} : f32
  scalar {10} : f32
  scalar {11} : f32
  block 64 x 64 step 64
  remap xcd(8) | hilbert
  waves 2 x 2
  shared {4}, {5} buffers 2 via direct
  registers {4}, {5} slice 32
  accumulate {6} : f32 tile 32 x 32
  epilogue scale({8}) | bias({7})
  store {6}
"""


@cache
def words() -> tuple[str, ...]:
    """All of them, in a fixed order that keeps those of one source apart."""
    folders = [(SPECS.parent / "generated", "*.cpp"), (LOWER / "templates", "*.jinja"), (include_dir(), "*.cuh")]
    found = set(taken()) | set(FAMILIES.split())
    for folder, pattern in folders:
        for path in folder.rglob(pattern):
            found |= set(WORD.findall(path.read_text(encoding="utf-8")))
    found -= RESERVED
    return tuple(sorted(found, key=lambda w: (w[::-1], w)))


def specs(shape: str, first: int, every: int) -> list[str]:
    """Specs that between them have each of every `every`-th dozen of words in each place."""
    names = words()
    dozens = [[names[(i + k) % len(names)] for k in range(PLACES)] for i in range(0, len(names), PLACES)]
    turned = [d[t:] + d[:t] for d in islice(dozens, first, None, every) for t in range(PLACES)]
    return [shape.format(*d, dtype="bf16", grid="") for d in turned]


def compile_all(texts: list[str], target: str, folder: Path) -> None:
    """The kernels of all specs in one file, for the GPU and with their harnesses for the host."""
    plans = [planned(text) for text in texts]
    for i, plan in enumerate(plans):
        (folder / f"{i}.cpp").write_text(lower(plan, target, "t.tk").text)
        harness = harness_cpp(plan, target)
        name = plan.program.name
        harness = harness.replace(f'#include "{name}.cpp"', f'#include "{i}.cpp"').replace("int main(", f"int main{i}(")
        # Each in a namespace for itself: what a harness declares, it declares once.
        head, body = re.split(r"(?=^namespace \{$)", harness, maxsplit=1, flags=re.MULTILINE)
        (folder / f"{i}_check.cpp").write_text(f"{head}\nnamespace harness{i} {{\n{body}\n}}\n")
        compile(harness_python(plan, target), f"{i}_check.py", "exec")
    every = "".join(f'#include "{i}{{}}"\n' for i in range(len(plans)))
    architecture = f"--offload-arch={target}"
    flags = ["-x", "hip", "-std=c++20", "-nogpuinc", "-nogpulib", "-fsyntax-only", f"-I{include_dir()}"]
    cdna = {"gfx942": "3", "gfx950": "4"}[target]
    for what, mine in (
        (".cpp", ["--cuda-device-only", architecture, "-DKITTENS_DEVICE_ONLY", f"-DKITTENS_CDNA{cdna}"]),
        ("_check.cpp", ["--cuda-host-only", f"-I{STUB}", f"-DKITTENS_CDNA{cdna}"]),
    ):
        all_of_them = folder / f"all{what}"
        all_of_them.write_text(every.replace("{}", what))
        done = subprocess.run([str(CLANG), *flags, *mine, str(all_of_them)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:4000]


def test_words_of_the_language_may_name_the_rest(tmp_path: Path) -> None:
    words = sorted(RESERVED)
    turned = [[words[(i + k) % len(words)] for k in range(5)] for i in range(len(words))]
    texts = [SPEC.format(w[0], *"MNKABCV", *w[1:], dtype="bf16", grid="") for w in turned]
    compile_all(texts, "gfx942", tmp_path)


SAMPLE = 80
SHAPES = {"gfx942": SPEC, "gfx950": DIRECT}


@pytest.mark.parametrize("target", SHAPES)
def test_any_word_may_be_any_name(target: str, tmp_path: Path) -> None:
    compile_all(specs(SHAPES[target], 7, 2 * SAMPLE), target, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("target", SHAPES)
@pytest.mark.parametrize("first", range(SAMPLE))
def test_any_word_may_be_any_name_everywhere(target: str, first: int, tmp_path: Path) -> None:
    compile_all(specs(SHAPES[target], first, SAMPLE), target, tmp_path)


@pytest.mark.parametrize("name", [w for w in FAMILIES.split() if w not in ("A_s", "A_r", "I", "t")])
def test_families_of_names_are_taken(name: str) -> None:
    assert is_taken(name) and cpp_name(name) == f"{name}_"


def test_ordinary_names_stay_as_they_are() -> None:
    ordinary = "A B C D X bias x q weights out A_t hidden gate up_proj lse alpha beta eight_wave split_k hk_12c4p_2"
    for name in ordinary.split():
        assert cpp_name(name) == name


def test_a_kernel_may_be_called_as_what_its_harness_declares(tmp_path: Path) -> None:
    """`number`, say, a type of the harness, or `cache`, a namespace of the headers: each stands beside the kernel's."""
    names = ["number", "errors", "samples", "ulp", "reduced", "brain", "cache", "ducks", "transpose"]
    others = [f"n{i}" for i in range(PLACES - 1)]
    compile_all([SPEC.format(name, *others, dtype="bf16", grid="") for name in names], "gfx942", tmp_path)
    assert cpp_name("number") == "number_" and cpp_name("transpose") == "transpose"


def test_names_that_differ_stay_different() -> None:
    names = [w + tail for w in words() for tail in ("", "_", "__")]
    assert len({cpp_name(n) for n in names}) == len(set(names))


@pytest.mark.slow
def test_nothing_that_a_header_of_this_system_declares_is_free(tmp_path: Path) -> None:
    """Names that are visible beside a kernel's namespace, as the compiler's completion lists them."""
    pybind = pytest.importorskip("pybind11").get_include()
    source = tmp_path / "visible.cpp"
    head = '#include "kittens.cuh"\n#include "pyutils/pyutils.cuh"\n'
    head += "".join(
        f"#include <{h}>\n"
        for h in re.findall(r"#include <(\w+)>", (LOWER / "templates/harness.cpp.jinja").read_text())
    )
    source.write_text(head + "using namespace kittens;\nvoid here() {\n\n}\n")
    command = [
        str(CLANG), "-x", "hip", "--cuda-host-only", "-nogpuinc", "-nogpulib", "-std=c++20", "-fsyntax-only",
        "-DKITTENS_CDNA3", f"-I{STUB}", f"-I{include_dir()}", f"-I{pybind}", f"-I{sysconfig.get_paths()['include']}",
        "-Xclang", "-code-completion-macros",
        "-Xclang", f"-code-completion-at={source}:{source.read_text().count(chr(10)) - 1}:1", str(source),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    visible = set(re.findall(r"^COMPLETION: ([A-Za-z_]\w*)", done.stdout, re.MULTILINE)) - {"Pattern", "here"}
    assert len(visible) > 1000, done.stderr[:2000]
    assert [name for name in sorted(visible) if not is_taken(name)] == []
