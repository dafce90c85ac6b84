"""Random kernels of sums of products whose rows are ragged, gathered, or both: those of `fuzzing.sums`, changed.

What is drawn there without a batch has a group of rows for each of a few matrices here: some of the right factors and
of the vectors by the column have one for each group, and the left one may lie at places that a tensor holds.
"""

from __future__ import annotations

import random
import re
from dataclasses import replace

from fuzzing.specs import Sample
from fuzzing.sums import sums

UNFIT = re.compile(r"\bb in B\b|\b[hp] in [HP]\b|split_k|stream_k|m / \d|A\[k, m\]|include")


def groups(seed: int) -> Sample:
    """A kernel of groups of rows, of the first draw from this seed on that can be changed to one."""
    rng = random.Random(f"groups {seed}")
    made = sums(seed)
    while UNFIT.search(made.text):
        made = sums(rng.randrange(1 << 30))
    text, features = made.text.replace(made.text.split()[1], f"fuzz_{seed}", 1), set(made.features)
    groups_, ragged, gathered = rng.choice([1, 2, 3, 5]), rng.random() < 0.8, rng.random() < 0.5
    more = []
    if ragged:
        features.add("groups")
        more += [f"dims E = {groups_}, ENDS = E + 1", "global FIRST : i32[ENDS]"]
        text = re.sub(r"over m in M by", "over e in E, m in M within FIRST[e] by", text)
        for name in re.findall(r"global (B\w|w) ", text):
            if rng.random() < 0.7:
                text = re.sub(rf"(global {name} : \w+)\[", r"\1[E, ", text)
                text = re.sub(rf"\b{name}\[(?!E, |k\]|k\+|\d)", f"{name}[e, ", text)  # no step of a schedule
        if rng.random() < 0.95:
            text = re.sub(r"  tail \w+\n", "", text)
            text = re.sub(r"(  over .*\n)", r"\1  tail masked\n", text)
    if gathered or not ragged:
        features.add("gathered")
        more += [f"dims T = {rng.choice([1, 7, 64, 200])}", "global ROW : i32[M]"]
        text = re.sub(r"(global A : \w+)\[M, ", r"\1[T, ", text).replace("A[m, k]", "A[ROW[m], k]")
    at = text.index("  global A")
    text = text[:at] + "".join(f"  {line}\n" for line in more) + text[at:]
    return replace(made, seed=seed, text=text, features=frozenset(features), family="groups")
