"""Kernels of products whose dimensions share sizes and names: those of other families, changed.

Indices say which dimension stands where, so a kernel means the same when two dimensions of one size get one name; what
its clauses say by names of dimensions is refused then.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import lcm

from fuzzing.specs import Sample

SIZE = re.compile(r"\b([A-Z]) = (\d+)\b(?! [*/+%-])")
MOST = 384  # elements along a dimension that is made as long as another one


def alike(draw: Callable[[int], Sample], share: float) -> Callable[[int], Sample]:
    """The samples of `draw`; a `share` of the seeds have dimensions of equal sizes, and mostly of equal names."""
    return partial(_alike, draw, share)


def _alike(draw: Callable[[int], Sample], share: float, seed: int) -> Sample:
    made = draw(seed)
    rng = random.Random(f"alike {made.family} {seed}")
    if rng.random() >= share or made.files:
        return made
    head, text = [line for line in made.text.split("\n") if line.startswith("  dims ")], made.text
    sizes = {name: int(size) for line in head for name, size in SIZE.findall(line)}
    found, features = rng.sample(sorted(sizes), len(sizes)), set(made.features)
    for one, other in pairwise(found):
        size = lcm(sizes[one], sizes[other])
        if size > MOST or (min(sizes[one], sizes[other]) < 8 and size != sizes[one]):
            continue
        for name in (one, other):
            text = _declared(text, name, sizes[name], size)
            sizes[name] = size
        features.add("dimensions of one size")
        if rng.random() < 0.7:
            kept, left = sorted((one, other), key=list(sizes).index)  # as declared: others may be made of the first
            text = re.sub(rf"\b{left}\b", kept, _declared(text, left, size, None))
            features.add("dimensions of one name")
            break
    return replace(made, text=text, features=frozenset(features))


def _declared(text: str, name: str, size: int, new: int | None) -> str:
    """The text with another size of a dimension, or without its declaration."""
    lines = []
    for line in text.split("\n"):
        if line.startswith("  dims "):
            listed = line.removeprefix("  dims ").split(", ")
            if f"{name} = {size}" in listed:
                at = listed.index(f"{name} = {size}")
                listed[at : at + 1] = [] if new is None else [f"{name} = {new}"]
            if not listed:
                continue
            line = f"  dims {', '.join(listed)}"
        lines.append(line)
    return "\n".join(lines)
