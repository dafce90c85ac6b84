"""Every recipe of the cookbook is proven, and computes what torch does; sections are found by the words people type."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from documentation import ROOT, blocks
from sampling import only
from typer.testing import CliRunner

from tkgen.api import load, load_equations
from tkgen.cli import app
from tkgen.diagnostics import SpecError
from tkgen.report.svg import equation_picture

PAGE = (ROOT / "docs" / "cookbook.md").read_text(encoding="utf-8")
RECIPES = {block.title.removesuffix(".tk"): block.body for block in blocks(PAGE) if block.title}
# Small sizes for the emulator.
SIZES = {
    "bias": "TOKENS=128 OUT=128 IN=128",
    "relu_squared": "TOKENS=100 OUT=77 IN=136",
    "dynamic": "M=100 N=130 K=128",
    "batch": "BATCH=2 M=128 N=128 K=128",
    "alpha_beta": "M=128 N=128 K=128",
    "swiglu": "TOKENS=128 HIDDEN=128 D=128",
    "split_k": "M=128 N=128 K=1024",
    "producer_consumer": "M=128 N=128 K=192",
    "softmax": "ROWS=8 D=512",
    "rmsnorm_int8": "TOKENS=8 D=512",
    "layernorm": "TOKENS=8 D=512",
    "group_norm": "BATCH=2 GROUPS=3 CHANNELS=8 PLACES=60",
    "batch_norm": "BATCH=9 CHANNELS=3 PLACES=784",
    "mean_loss": "TOKENS=9 CLASSES=3000 PARTS=4",
    "cross_entropy": "TOKENS=4 VOCABULARY=9000",
    "top_k": "ROWS=8 D=512",
    "sparsemax": "ROWS=9 D=96",
    "expert_routing": "TOKENS=70",
    "top_k_sampling": "ROWS=3",
    "gumbel_sampling": "ROWS=2 VOCABULARY=9000",
    "top_p": "ROWS=3 VOCABULARY=700",
    "dropout": "ROWS=8 D=512",
    "embedding": "TOKENS=8 VOCABULARY=100 D=512",
    "scatter": "ROWS=30 PLACES=50 D=512",
    "embedding_gradient": "TOKENS=30 VOCABULARY=20 D=512",
    "embedding_bag": "BAGS=9 ITEMS=70 ROWS=40",
    "selected_blocks": "T=3 KV_HEADS=1 BLOCKS=5 PICKED=3",
    "histogram": "N=3000 BINS=50",
    "segments": "ROWS=64 SEGMENTS=9 D=256",
    "cache_write": "TOKENS=9 SLOTS=20",
    "transpose": "ROWS=128 COLUMNS=128",
    "column_sum": "ROWS=128 D=128",
    "conv1d": "BATCH=2 LENGTH=20 D=256",
    "packed_conv1d": "SEQUENCES=3 TOKENS=32 D=256",
    "blur": "H=20 W=300",
    "pool": "H=12 W=36",
    "token_shift": "T=9 D=256",
    "conv2d": "BATCH=2 H=8 W=8 C=64 OUT=128",
    "grouped_conv2d": "BATCH=2 H=8 W=8 C=128 GROUPS=2 OUT=64",
    "conv1d_channels": "BATCH=2 LENGTH=128 C=64 OUT=128",
    "causal": "BATCH=1 HEADS=2 LENGTH=192 D=64",
    "soft_cap": "BATCH=1 HEADS=2 LENGTH=192 D=64",
    "alibi": "BATCH=1 HEADS=2 LENGTH=192 D=64",
    "window": "BATCH=1 HEADS=2 LENGTH=192 D=64 WINDOW=70",
    "gqa": "BATCH=1 HEADS=2 KV_HEADS=1 LENGTH=192 D=64",
    "variants": "BATCH=1 HEADS=4 KV_HEADS=2 LENGTH=192 D=64",
    "output_projection": "HEADS=2 LENGTH=192",
    "fused_cross_entropy": "TOKENS=150 VOCABULARY=260",
    "linear_attention": "HEADS=2 LENGTH=192",
    "gated_channels": "HEADS=2 T=20 E=32",
    "chunked_linear_attention": "HEADS=2 LENGTH=200",
    "cumulative_sum": "ROWS=3 T=2500",
    "chunk_cumsum": "HEADS=1 CHUNKS=2",
    "scan": "HEADS=1 LENGTH=192",
    "selective_scan": "BATCH=1 T=9 CHANNELS=64",
    "fp8": "M=128 N=128 K=128",
    "int4": "M=64 N=128 K=256",
    "moe": "TOKENS=256 SLOTS=300 EXPERTS=3 OUT=128 IN=128",
    "product_scatter": "TOKENS=50 SLOTS=150 EXPERTS=3 D=128 HIDDEN=128",
    "rotary": "TOKENS=4 HEADS=16",
    "lora": "TOKENS=128 OUT=128 IN=128",
    "varlen": "SEQUENCES=3 TOTAL=300 HEADS=1 D=64",
    "paged_decode": "BATCH=2 HEADS=16 KV_HEADS=2 KEYS=256 PARTS=2 CACHED=16",
    "autotune": "M=128 N=128 K=128",
    "wgmma": "M=256 N=256 K=256",
    "key_mask": "BATCH=1 HEADS=2 LENGTH=192 D=64",
    "attention_bias": "BATCH=1 HEADS=2 KV_HEADS=1 LENGTH=192 KEYS=130 D=64",
    "attention_mask": "BATCH=1 HEADS=2 LENGTH=192 D=64",
    "sinks": "BATCH=1 HEADS=2 LENGTH=192 D=64",
}
SAMPLE = ("rmsnorm_int8", "linear_attention", "cache_write")


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_proven_without_a_warning(name: str) -> None:
    assert not load(f"{RECIPES[name]}\n").check().diagnostics


def test_recipes_build_for_all_machines_except_those_that_the_page_names() -> None:
    (sentence,) = re.findall(r"except these, which sm_90a refuses:\s([^.]+)\.", PAGE)
    refused = []
    for name, text in RECIPES.items():
        for target in ("gfx942", "gfx950", "sm_90a") if "\n  target " not in text else ():
            try:
                load(f"{text}\n", target=target).check()
            except SpecError:
                refused.append((name, target))
    assert refused == [(name, "sm_90a") for name in re.findall(r"`(\w+)`", sentence)]


@pytest.mark.parametrize("name", only(RECIPES, SAMPLE))
def test_a_recipe_computes_what_torch_does(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.tk"
    path.write_text(RECIPES[name], encoding="utf-8")
    result = CliRunner().invoke(app, ["run", str(path), "-D", SIZES[name]])
    assert result.exit_code == 0 and " right " in result.output, result.output


def test_every_recipe_has_sizes() -> None:
    assert RECIPES.keys() == SIZES.keys() and len(RECIPES) >= 30


def test_a_recipe_starts_with_its_description() -> None:
    assert not [name for name, text in RECIPES.items() if not text.startswith("# ")]


# Words that people type, and the heading that must have them.
WORDS = {
    **{word: word for word in ("install", "torch.compile", "bias", "dynamic sizes", "split-k", "swiglu", "causal")},
    **{word: word for word in ("soft cap", "alibi", "sliding window", "gqa", "mqa", "varlen", "paged", "conv1d")},
    **{word: word for word in ("mask", "sinks", "group norm", "batch norm", "mean loss")},
    **{word: word for word in ("softmax", "layer norm", "rms norm", "cross entropy", "top-k", "argmax", "dropout")},
    **{word: word for word in ("embedding", "gather", "rotary", "rope", "transpose", "scan", "cumulative sum", "fp8")},
    **{word: word for word in ("int8", "int4", "moe", "mixture of experts", "autotune", "debug a race", "aot")},
    **{word: word for word in ("scatter", "embedding gradient", "histogram", "segment sums", "kv cache write")},
    **{word: word for word in ("expert routing", "sampling", "sort")},
    **{word: word for word in ("stencil", "pooling", "shift")},
    **{word: word for word in ("port a cuda kernel", "benchmark", "convolution", "warp specialisation", "wgmma")},
    "quantise": "int8",
    **{word: word for word in ("nsa", "embedding bag")},
}


@pytest.mark.parametrize("word", WORDS)
def test_a_recipe_is_found_by_its_word(word: str) -> None:
    headings = [heading.lower() for heading in re.findall(r"^##+ (.+)$", PAGE, re.MULTILINE)]
    assert any(WORDS[word] in heading for heading in headings)
    assert re.search(rf"\[[^\]]*{re.escape(word)}", PAGE.split("## Start")[0], re.IGNORECASE) or word in WORDS.values()


def test_what_cannot_be_said_is_said_with_what_comes_closest() -> None:
    sections = re.split(r"^### ", PAGE, flags=re.MULTILINE)
    refused = [s.split("\n")[0] for s in sections if "**Not supported" in s]
    assert refused == ["Linear attention in chunks"]
    assert all("```tk" in section for section in sections if "**Not supported" in section)


@pytest.mark.parametrize("name", RECIPES)
def test_the_playground_draws_each_recipe(name: str) -> None:
    """What the playground does with a recipe before it is proven: its equations, and their graph as a picture."""
    kernels = load_equations(f"{name}.tk", text=RECIPES[name])
    assert kernels
    for kernel in kernels:
        assert "<svg" in equation_picture(kernel, lambda span: span.line if span else 0)
