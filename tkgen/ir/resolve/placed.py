"""Left operands of products that are read at affine indices, `X[b, p + r - 1, q + s - 1, c]`: what lanes can read.

A lane loads chunks of 16 bytes along the contraction. The chunks of a row begin at the row's own position plus that of
the K-step, and elements outside of the tensor are zero: a chunk is inside as a whole, or not at all.
"""

from __future__ import annotations

from math import prod

from tkgen.diagnostics import Label
from tkgen.ir.equation_text import access_text
from tkgen.ir.equations import Axis, Index, Term
from tkgen.ir.limits import BUFFER_BYTES
from tkgen.ir.products import Sums, View
from tkgen.ir.resolve import clauses
from tkgen.ir.resolve.names import Scope
from tkgen.ir.tensors import Dim
from tkgen.ir.types import ACCESS_BYTES
from tkgen.syntax import ast


def placed(scope: Scope, found: Sums, v: View) -> None:
    """E230 for an operand of affine indices that lanes cannot read in chunks."""
    staged = {n.id: s for s in scope.all(ast.Shared) for n in s.names}
    via = staged[v.tensor.name].via if v.tensor.name in staged else None
    text, name = access_text(v.access), v.tensor.name
    if name not in staged or (via is not None and via.id == "direct"):
        raise scope.error(
            "E230", f"`{text}` is read at computed positions, which needs registers on the way to LDS", v.tensor.span,
            fix=f"write `shared {name}`, with `via registers` or without `via`",
        )  # fmt: skip
    if v.tensor.dtype.packed:
        raise scope.error(
            "E230", f"`{text}` is {v.tensor.dtype.spelling}, of which lanes cannot compute positions", v.tensor.span,
            fix="use a type of 8 or 16 bits",
        )  # fmt: skip
    if clauses.tail(scope) == "clamped":
        raise scope.error("E230", f"`tail clamped` would move the tiles of `{name}` inward", v.tensor.span,
                          fix="write `tail masked`")  # fmt: skip
    first = next(n for n, index in enumerate(v.access.indices) if index.terms or _varies(found, index))
    unknown = next((d for n, d in enumerate(v.tensor.dims) if d.size is None and (n > 0 or first == 0)), None)
    if unknown is not None:
        raise scope.error(
            "E230", f"`{unknown.name}` is dynamic, but `{text}` needs the sizes of `{name}` at build time",
            v.tensor.span, secondary=(Label(unknown.span, "dynamic"),), fix=f"give `{unknown.name}` a size",
        )  # fmt: skip
    _in_chunks(scope, found, v)
    size = v.tensor.dtype.sized(prod(d.size or 1 for d in v.tensor.dims[first:]))
    if size > BUFFER_BYTES:
        outer = v.tensor.dims[first].name
        raise scope.error(
            "E230", f"`{text}` reaches {size} bytes of `{name}`, and offsets reach {BUFFER_BYTES}", v.tensor.span,
            fix=f"give `{outer}` a separate axis: `over b in {outer}, ...`",
        )  # fmt: skip


def _varies(found: Sums, index: Index) -> bool:
    """Return True if an index is not the same for all of a block."""
    return any(axis in (found.rows, found.contraction) for axis in index.axes)


def _in_chunks(scope: Scope, found: Sums, v: View) -> None:
    """E230 unless neighbours along the contraction are neighbours in memory, in whole aligned chunks."""
    tensor, chunk = v.tensor, v.tensor.dtype.elements(ACCESS_BYTES)
    *others, last = v.access.indices
    inner, name = tensor.dims[-1], tensor.name
    along = [term for term in last.terms if term.axis == found.contraction]
    ways = [t.of for t in along if t.factor == 1 and not isinstance(t.of, Dim)]
    inmost = [way for way in ways if isinstance(way, Axis) or way.divisor == 1]
    fast = found.contraction if last.axis == found.contraction else next(iter(inmost), None)
    if fast is None or any(fast in index.ways for index in others):
        what = f"`{access_text(v.access)}` does not read neighbors of `{inner.name}` along the contraction"
        raise scope.error(
            "E230", what, tensor.span, f"lanes read {chunk} elements at a time",
            fix="make the innermost axis of the loop the last index: `each (r in R, s in S, c in C) by 64` and "
                f"`{name}[..., c]`",
        )  # fmt: skip
    size = Term(fast).size
    for what, number in ((inner.name, inner.size), (fast.name, size)):
        if number is None or number % chunk:
            raise scope.error(
                "E230", f"`{name}` is read in chunks of {chunk} elements, and `{what}` has {number}", tensor.span,
                "a chunk would reach into the next row",
                fix=f"make it a multiple of {chunk}: pad channels with zeros, in the weights, too",
            )  # fmt: skip
    beside = [t for t in last.terms if t.of != fast]
    if moved := next((t.of.name for t in beside if t.factor % chunk), None) or (last.at % chunk and str(last.at)):
        raise scope.error(
            "E230", f"`{name}` is read in chunks of {chunk} elements, and `{moved}` shifts its last index by less",
            tensor.span, fix=f"shift it by multiples of {chunk}, or another dimension",
        )  # fmt: skip
