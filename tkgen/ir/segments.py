"""The meaning of a tensor of offsets: the parts of a dimension that a ragged axis traverses, in order.

Group g of `within OFFSETS[g]` goes from OFFSETS[g] to OFFSETS[g + 1]. Offsets are data, so they may lie. What they then
mean is said here, once, and is what the generated code does: the ends of the groups never decrease and never leave the
dimension,

    end(-1) = clamp(OFFSETS[0], 0, size)      end(g) = max(end(g - 1), min(OFFSETS[g + 1], size))

and group g has the places from end(g - 1) to before end(g). So **whatever the offsets hold, no place is outside the
dimension, and none is in two groups**: end is monotone by its definition, and between two of its values nothing
overlaps. Where offsets do not lie, that is what they say.

`below LENGTH[g]` is the first places of a dimension that each place of an index has for itself, clamp(LENGTH[g], 0,
size) of them: none is outside either. `problem` says how they lie, for whoever can look at them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tkgen.ir.equations import Within


def parts(of: Within, held: Sequence[int], size: int) -> list[range]:
    """The places of each group, of a dimension of `size`, by what its tensor holds."""
    return [range(min(max(length, 0), size)) for length in held] if of.lengths else segments(held, size)


def segments(offsets: Sequence[int], size: int) -> list[range]:
    """The places of each group, of a dimension of `size`; there is one offset more than there are groups."""
    ends = [min(max(offsets[0], 0), size)]
    for offset in offsets[1:]:
        ends.append(max(ends[-1], min(offset, size)))
    return [range(first, end) for first, end in pairwise(ends)]


def alike(of: Within, count: int, size: int) -> list[int]:
    """Return offsets that divide a dimension evenly into `count` groups, or lengths that give all of it to each."""
    return [size] * count if of.lengths else [size * g // count for g in range(count + 1)]


def problem(offsets: Sequence[int], size: int, lengths: bool = False) -> str:
    """In which way offsets into a dimension of `size`, or lengths, lie; empty where they do not."""
    for at, offset in enumerate(offsets):
        if not 0 <= offset <= size:
            return f"[{at}] is {offset}, which is not in 0..{size}"
        if at and offset < offsets[at - 1] and not lengths:
            return f"[{at}] is {offset}, less than the {offsets[at - 1]} before it"
    return ""
