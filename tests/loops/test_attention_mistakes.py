"""Mistakes that people make in specs of attention: what `tkgen check` says of each, and nothing of the right ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import tkgen
from tkgen.backends.cdna.spec import Spec
from tkgen.diagnostics import SpecError
from tkgen.ir.meaning import evaluate

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "specs/attention/attention_causal.tk").read_text(encoding="utf-8")
MASK = "    s = where(q >= j, s, -inf)\n"
POWERS = "    n = max(m, rowmax(s))\n    p = exp2(s - n)\n"
# What is written, what people write instead, and what is said first: a code, and words of its message.
MISTAKES = {
    "scale forgotten": ("scale * Q", "Q", "W502", "the scalar `scale` is never used"),
    "K not transposed": ("@ K[b, j, h / GROUP].T", "@ K[b, j, h / GROUP]", "E224", "`@` sums over the last axis"),
    "V transposed": ("V[b, j, h / GROUP]", "V[b, j, h / GROUP].T", "E224", "`@` sums over the last axis"),
    "wrong head of keys": ("V[b, j, h / GROUP]", "V[b, j, h]", "E223", "`h` runs over `HEADS`"),
    "head by the remainder": ("V[b, j, h / GROUP]", "V[b, j, h % GROUP]", "E223", "`h % GROUP` is no index"),
    "P not rounded": ("bf16(p) @", "p @", "E204", "one product of f32 and bf16"),
    "queries by the loop": ("Q[b, q, h]", "Q[b, j, h]", "E224", "both factors have `j` and `D`"),
    "sum over queries": ("rowsum(p)", "colsum(p)", "E226", "`colsum` along `q` would be over only the block's tile"),
    "maximum not kept": ("    m = n\n", "", "E227", "no loop assigns `m` a new value"),
    "K not in LDS": ("shared K, V", "shared V", "E230", "all waves multiply by `K`"),
    "V in place of K": ("@ K[b, j", "@ V[b, j", "E200", "`shared` names `K`, which no equation reads"),
    "maximum of a tile": ("max(m, rowmax(s))", "rowmax(s)", "W203", "`m` becomes the maximum of this tile only"),
    "maximum starts at 0": ("m : f32[q] = -3.4e38", "m : f32[q] = 0", "W203", "the maximum `m` starts at 0"),
    "o not rescaled": ("o = o * r +", "o = o +", "W203", "`o` adds a value relative to `n`"),
    "l not rescaled": ("l = l * r +", "l = l +", "W203", "`l` adds a value relative to `n`"),
    "rescaled the wrong way": ("exp2(m - n)", "exp2(n - m)", "W203", "`l` is multiplied by a factor that grows"),
    "powers of e and 2": ("p = exp2(", "p = exp(", "W203", "`r` is a power by `exp2`, what it rescales by `exp`"),
    "sum of scores": ("rowsum(p)", "rowsum(s)", "W203", "`l` is rescaled from `m` to `n`, and adds"),
    "not divided": ("= o / l", "= o", "W203", "`O` is relative to the maximum `m`"),
    "logarithm without the maximum": ("= m + log2(l)", "= log2(l)", "W203", "`LSE2` is relative to the maximum `m`"),
    "no mask": (MASK, "", "W203", "nothing behind the tile `to q` is visited, and no mask excludes"),
    "mask the wrong way": ("where(q >= j", "where(q <= j", "W203", "nothing behind the tile `to q` is visited"),
    "mask one too far": ("where(q >= j", "where(q + 1 >= j", "W203", "nothing behind the tile `to q` is visited"),
    "mask without itself": ("where(q >= j", "where(q > j", "W203", "the first position of `q` sees no position of `j`"),
    "masked with 0": ("s, -inf)", "s, 0)", "W203", "a score is masked with 0"),
    "powers masked with -inf": (MASK + POWERS, POWERS + MASK.replace("s", "p"), "W203",
                                "a power is masked with -inf"),
}  # fmt: skip
FOLDERS = ("specs/attention", "specs/hopper", "tkgen/ops/specs")
# Of these the numbers change with the tile: nobody means that.
TILED = ["o not rescaled", "l not rescaled", "rescaled the wrong way", "powers of e and 2", "sum of scores", "no mask",
         "mask the wrong way", "masked with 0"]  # fmt: skip


def written(mistake: str) -> str:
    old, new, _, _ = MISTAKES[mistake]
    assert old in TEXT
    return TEXT.replace(old, new)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_is_said(mistake: str) -> None:
    _, _, code, message = MISTAKES[mistake]
    try:
        spec = tkgen.load(written(mistake))
        said = spec.diagnostics
    except SpecError as error:
        said = error.diagnostics
    assert said and said[0].code == code and said[0].message.startswith(message), said
    assert said[0].fix is not None and said[0].primary.span.text


@pytest.mark.parametrize("mistake", TILED)
def test_what_is_warned_of_hangs_on_the_tile(mistake: str) -> None:
    """The right kernel means the same whatever its tiles are; these do not: the warning is no matter of taste."""

    def stored(text: str, tile: int) -> torch.Tensor:
        sizes = {"BATCH": 1, "HEADS": 1, "KV_HEADS": 1, "LENGTH": 64, "D": 16}
        spec = tkgen.load(text.replace("by 64 to q", f"by {tile} to q").replace("by 128", f"by {2 * tile}"), sizes)
        assert isinstance(spec, Spec)
        generator = torch.Generator().manual_seed(1)
        given = {t.name: 2 * torch.randn([d.size or 0 for d in t.dims], generator=generator).bfloat16()
                 for t in spec.program.kernel.inputs}  # fmt: skip
        return evaluate(spec.program.kernel, given, {"scale": 0.36})["O"].value

    assert torch.allclose(stored(TEXT, 16), stored(TEXT, 32), rtol=2e-2, atol=2e-2)
    assert not torch.allclose(stored(written(mistake), 16), stored(written(mistake), 32), rtol=5e-2, atol=5e-2)


@pytest.mark.parametrize("folder", ["specs/rows", *(pytest.param(f, marks=pytest.mark.slow) for f in FOLDERS)])
def test_right_kernels_are_not_warned_of(folder: str) -> None:
    paths = [p for p in (ROOT / folder).glob("*.tk") if "carry" in p.read_text(encoding="utf-8")]
    assert paths and not [p.name for p in paths if any(d.code == "W203" for d in tkgen.load(p).diagnostics)]
