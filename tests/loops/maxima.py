"""Every shipped spec that carries a running maximum, on rows whose parts are -inf and on scores near f32's largest.

`SPECS` finds them by their text, except for 8-bit floats, which hold neither (`test_byte_loops.py` has scores for
them); `wrong` runs one on the emulator, the model, the host or a GPU, and compares it with a softmax of torch in f64.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from executed import computed
from hurting import as_torchs, laid
from torch import Tensor

import tkgen

ROOT = Path(__file__).parents[2]
FOLDERS = ("specs/**", "tkgen/ops/specs/**")
SPECS = {
    str(path.relative_to(ROOT)): path
    for folder in FOLDERS
    for path in sorted(ROOT.glob(f"{folder}/*.tk"))
    if "carry m : " in (text := path.read_text(encoding="utf-8")) and ": fp8[" not in text
}
# Parts of the keys, or elements, that are -inf, in thirds.
PLACES = {"first": (0, 2), "middle": (1, 2), "last": (1, 3), "all": (0, 3)}
D = 64
LARGE = 1e18  # what queries and keys are multiplied by: scores of more than 1e36


def target_of(name: str) -> str:
    """Return the target that a spec is for."""
    text = SPECS[name].read_text(encoding="utf-8")
    if "sm_90a" in text:
        return "sm_90a"
    return "gfx950" if "gfx950" in text else "gfx942"


def part(place: str, size: int) -> slice:
    """The range of elements that are -inf, of `size`."""
    begin, end = PLACES[place]
    return slice(begin * size // 3, -(-end * size // 3))


def wrong(name: str, kind: str, device: str = "cpu") -> list[str]:
    """Return the differences of a spec from torch; `kind` is "-inf", all places in one launch, or "large"."""
    text = SPECS[name].read_text(encoding="utf-8")
    return _rows(name, kind, device) if "X : bf16[ROWS" in text else _attention(name, text, kind, device)


def _build(name: str, sizes: Mapping[str, int]) -> Any:
    text = SPECS[name].read_text(encoding="utf-8")
    found = {n: size for n, size in sizes.items() if re.search(rf"\b{n} =", text)}
    return tkgen.load(SPECS[name], found, target=target_of(name)).build()


def _run(build: Any, device: str, *tensors: Tensor, **scalars: float) -> tuple[Tensor, ...]:
    """On the CPU, a GPU, or the C++ on the host."""
    if device == "host":
        return computed(build, *tensors, host=True, **scalars)
    return computed(build, *(x.to(device) for x in tensors), **scalars)


def _compared(what: str, found: Tensor, meant: Tensor) -> list[str]:
    found, meant = found.double().cpu(), meant.double()
    if not torch.equal(found.isnan(), meant.isnan()):
        return [f"{what}: {int(found.isnan().sum())} are NaN, torch has {int(meant.isnan().sum())}"]
    near = torch.isclose(found, meant, rtol=2**-6, atol=2**-7, equal_nan=True)
    return [] if near.all() else [f"{what}: {int((~near).sum())} of {near.numel()} are wrong"]


# ---------------------------------------------------------------- rows


def _rows(name: str, kind: str, device: str) -> list[str]:
    rows, size = len(PLACES) + 1, 9000
    build = _build(name, {"ROWS": rows, "D": size})
    x = torch.randn(rows, size, generator=torch.Generator().manual_seed(1)) * 3
    if kind == "large":
        x = x.clamp(-3, 3) * 1e38
    else:
        for row, place in enumerate(PLACES):
            x[row, part(place, size)] = -torch.inf
    x = x.bfloat16()
    y, lse = _run(build, device, x)
    meant = x.double()
    return _compared("Y", y, meant.softmax(-1)) + _compared("LSE", lse, meant.logsumexp(-1))


# ---------------------------------------------------------------- attention


def _attention(name: str, text: str, kind: str, device: str) -> list[str]:
    hopper, alone = target_of(name) == "sm_90a", "\nsequence " in text  # alone: one query of each
    batch, (heads, of_keys) = len(PLACES), (8, 2) if alone else (1, 1)
    keys = 300 if hopper else 147
    queries = 1 if alone else keys
    sizes = {
        "BATCH": batch, "SETS": batch, "SEQUENCES": batch, "HEADS": heads, "KV_HEADS": of_keys, "LENGTH": queries,
        "KEYS": batch * keys if "TOTAL" in text else keys, "TOTAL": batch * queries, "D": D, "WINDOW": 40,
        "PARTS": 3, "CACHED": batch * 3,
    }  # fmt: skip
    build = _build(name, {**sizes, "KEYS": 192} if "PAGE" in text else sizes)
    generator = torch.Generator().manual_seed(2)
    q, k, v = (torch.randn(batch, h, n, D, generator=generator) for h, n in ((heads, queries), *[(of_keys, keys)] * 2))
    if kind == "large":
        q, k = (x * (1e4 if "f16" in text and "bf16[B" not in text else LARGE) for x in (q, k))
    else:
        q[..., 0] = q[..., 0].abs() + 0.5
        for at, place in enumerate(PLACES):
            k[at, :, part(place, keys), 0] = -torch.inf
    dtype = torch.float16 if "f16[BATCH" in text.replace("bf16", "") else torch.bfloat16
    q, k, v = (x.to(dtype) for x in (q, k, v))
    tensors = {t.name: t for t in build.spec.program.reads}
    given = _given(tensors, q, k, v)
    outputs = _run(build, device, *(given[n].contiguous() for n in tensors), scale=math.log2(math.e) / D**0.5)
    found = dict(zip([t.name for t in build.spec.program.outputs], outputs, strict=True))
    scores = (q.double() @ k.double().repeat_interleave(heads // of_keys, 1).mT) / D**0.5
    place, other = torch.arange(queries)[:, None], torch.arange(keys)
    if "q >= j" in text or "length(q) >= j" in text or "LENGTH) >= j" in text:
        scores = scores.masked_fill(place < other, -torch.inf)
    if "WINDOW" in text:
        scores = scores.masked_fill(place - other >= sizes["WINDOW"], -torch.inf)
    meant = scores.softmax(-1) @ v.double().repeat_interleave(heads // of_keys, 1)
    if "-3e38)" in text or ("where(l > 0" in text and not alone):  # what sees nothing is zero, else NaN as torch's
        meant = meant.nan_to_num(0)
    dims = {t.name: t for t in build.spec.program.outputs}
    wrongs = _compared("O", _as_torchs(dims["O"], found["O"].cpu(), batch), meant)
    if "LSE2" in found and kind != "large":
        sums = scores.logsumexp(-1) * math.log2(math.e)
        wrongs += _compared("LSE2", _as_torchs(dims["LSE2"], found["LSE2"].cpu(), batch)[..., 0], sums)
    return wrongs


def _given(tensors: Mapping[str, Any], q: Tensor, k: Tensor, v: Tensor) -> dict[str, Tensor]:
    """The tensors as a spec has them: dense, packed, or in pages."""
    if "FIRST" in tensors:
        found = {n: x.transpose(1, 2).flatten(0, 1) for n, x in zip("QKV", (q, k, v), strict=True)}
        starts = [torch.arange(len(x) + 1) * x.shape[2] for x in (q, k)]
        return found | dict(zip(("FIRST", "FIRST_K"), (s.int() for s in starts), strict=True))
    if "PAGES" in tensors:
        count, page = k.shape[2], 64
        listed = -(-count // page)
        pages = torch.arange(len(k) * listed).reshape(len(k), listed).flip(0)
        found = {"Q": q[:, :, 0], "PAGES": pages.int(), "LENGTH": torch.full((len(k),), count, dtype=torch.int32)}
        for n, x in (("K", k), ("V", v)):
            padded = torch.zeros(len(x), listed * page, x.shape[1], x.shape[3], dtype=x.dtype)
            padded[:, :count] = x.transpose(1, 2)
            cache = torch.zeros(len(x) * listed, page, x.shape[1], x.shape[3], dtype=x.dtype)
            cache[pages] = padded.unflatten(1, (listed, page))
            found[n] = cache
        return found
    return {n: laid(tensors[n], x) for n, x in zip("QKV", (q, k, v), strict=True)}


def _as_torchs(of: Any, tensor: Tensor, batch: int) -> Tensor:
    """[BATCH, HEADS, LENGTH, D]."""
    names = [d.name for d in of.dims]
    if "TOTAL" not in names:
        return as_torchs(of, tensor)
    tensor = tensor.unflatten(names.index("TOTAL"), (batch, -1))
    return tensor.permute(0, 2, 1, 3) if "D" in names else tensor.permute(1, 0, 2)[..., None]
