"""Generated files are ThunderKittens': what they use beside the libraries' names is in namespace tk.

With the variables below naming checkouts, every generated file is built with the headers of each library, and has the
outcome that `libraries.json` and the table in docs/limits.md say. Without one our headers are held to public names.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
import torch
from kittens_libraries import LIBRARIES, PAGE, RECORD, files, outcome, with_table

import tkgen
from tkgen.backends.cdna.kittens import include_dir, surface

ROOT = Path(__file__).parents[2]
OURS = sorted((include_dir() / "tkgen").glob("*.cuh"))
GENERATED = sorted((ROOT / "generated").glob("gfx9*/*.cpp"))
RECORDED: dict[str, dict[str, str]] = json.loads(RECORD.read_text(encoding="utf-8"))
VARIABLES = {
    "thunderkittens-hip": "TKGEN_THUNDERKITTENS_HIP",
    "hipkittens-cdna3": "TKGEN_HIPKITTENS_CDNA3",
    "hipkittens": "TKGEN_HIPKITTENS",
}
HIPKITTENS = """
    st_shape st_16x32 st_16x32_s rt_shape rt_16x16 rt_32x32 rt_16x32 rt_16x32_s rt_32x16 rt_32x16_s row_l col_l
    prefill_swizzled_offsets fp8e4m3 rt_fp8e4m3 st_fp8e4m3
"""
"""Names of HipKittens for gfx950, which `surface` marks as additions to ThunderKittens-HIP."""
ADDITIONS = {name for name, entry in surface.items() if entry.addition}
OWN_TYPES = re.compile(r"_fp\d|_i8|_u8|fp8|fp6|fp4|int8_t|[ui]4x2|e8m0")


def without_embedded(text: str) -> str:
    """The code of a header as a library's user compiles it: no comment, nothing for the embedded headers alone."""
    kept, open_conditions = list[str](), list[bool | None]()
    for line in re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL).splitlines():
        word = line.strip()
        if word.startswith("#if"):
            open_conditions.append({"#ifdef KITTENS_EMBEDDED": False, "#ifndef KITTENS_EMBEDDED": True}.get(word))
        elif word.startswith("#else"):
            last = open_conditions[-1]
            open_conditions[-1] = None if last is None else not last
        elif word.startswith("#endif"):
            open_conditions.pop()
        elif False not in open_conditions:
            kept.append(line)
    return "\n".join(kept)


# ---------------------------------------------------------------- without a checkout


def test_what_is_for_the_embedded_headers_is_found() -> None:
    text = "a\n#ifdef KITTENS_EMBEDDED // x\nb\n#ifdef X\nc\n#endif\n#else\nd\n#endif\n#ifdef Y\ne\n#else\nf\n#endif\n"
    assert without_embedded(text).split() == ["a", "d", "e", "f"]


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.stem)
def test_our_headers_use_public_names(path: Path) -> None:
    code = without_embedded(path.read_text(encoding="utf-8"))
    assert "detail::" not in code and not re.search(r"\bpositions\b|\bpanels\b", code)
    assert not set(re.findall(r"\w+", code)) & (ADDITIONS - set(HIPKITTENS.split()))


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_generated_files_use_public_names(path: Path) -> None:
    """But for the element types that the libraries lack."""
    code = re.sub(r"//[^\n]*", "", path.read_text(encoding="utf-8"))
    assert "detail::" not in code
    used = set(re.findall(r"\w+", re.sub(r"\btk::\w+", "", code))) & ADDITIONS
    if path.parent.name == "gfx950":
        used -= set(HIPKITTENS.split())
    assert not used or OWN_TYPES.search(code), used


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_file_has_an_outcome(library: str) -> None:
    assert set(RECORDED[library]) == {path.stem for path in files(LIBRARIES[library][1])}


def test_the_page_has_the_outcomes() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_table(page, RECORDED)


def test_files_of_the_libraries_element_types_compile() -> None:
    """But one: HipKittens has 8-bit floats in tiles of other shapes than 16-bit ones (st_16x128)."""
    found = {(name, file) for name, of in RECORDED.items() for file, o in of.items() if o.startswith("does not")}
    assert found == {("hipkittens", "fp8_direct")}


# ---------------------------------------------------------------- with one

ATTENTION = ({"BATCH": 1, "HEADS": 1, "LENGTH": 256}, [(1, 1, 256, 128)] * 3)
SMALL = {
    "single_buffer": ({"M": 256, "N": 256, "K": 256}, [(256, 256)] * 2),
    "at_b": ({"M": 256, "N": 256, "K": 256}, [(256, 256)] * 2),
    "hk_ab": ({"M": 256, "N": 256, "K": 384}, [(256, 384), (384, 256)]),
    "attention/attention": ATTENTION,
    "attention/attention_direct": ATTENTION,
}
"""Sizes of specs, and the shapes of their inputs."""


def checkout_of(library: str) -> Path:
    """The checkout of a library; skips without one."""
    found = os.environ.get(VARIABLES[library], "")
    if not found:
        pytest.skip(f"{VARIABLES[library]} names no checkout")
    return Path(found)


@pytest.mark.parametrize(
    ("library", "path"), [(name, path) for name in LIBRARIES for path in files(LIBRARIES[name][1])],
    ids=lambda value: value.stem if isinstance(value, Path) else value,
)  # fmt: skip
def test_outcomes_with_a_checkout(library: str, path: Path) -> None:
    checkout = checkout_of(library)
    assert outcome(path, library, checkout) == RECORDED[library][path.stem]


@pytest.mark.parametrize(
    ("library", "name"),
    [
        ("thunderkittens-hip", "single_buffer"), ("thunderkittens-hip", "at_b"),
        ("thunderkittens-hip", "attention/attention"), ("hipkittens-cdna3", "at_b"),
        ("hipkittens-cdna3", "attention/attention"), ("hipkittens", "hk_ab"),
        ("hipkittens", "attention/attention_direct"),
    ],
)  # fmt: skip
def test_results_are_those_of_the_embedded_headers(library: str, name: str) -> None:
    sizes, shapes = SMALL[name]
    checkout = checkout_of(library)
    spec = tkgen.load(ROOT / f"specs/{name}.tk", sizes, LIBRARIES[library][1]).check()
    dtype = torch.float16 if name == "hk_ab" else torch.bfloat16
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]
    scalars = {"scale": 0.125} if name.startswith("attention") else {}
    found, expected = (tkgen.run(spec.build(kittens=kittens), *tensors, **scalars) for kittens in (checkout, None))
    torch.testing.assert_close(found, expected, rtol=2.0**-7, atol=2.0**-7)
