"""Stores to computed positions, `Y[ROW[m], d] += x`, and stores that combine a value with an element."""

from __future__ import annotations

from tkgen.diagnostics import Edit, Fix, Label
from tkgen.ir.affine import overlaps
from tkgen.ir.coverage import tells_apart
from tkgen.ir.equations import Access, Axis, Index, Kernel, Update
from tkgen.ir.products import chains_products
from tkgen.ir.resolve.names import Stop
from tkgen.ir.types import DType
from tkgen.ir.typing.expressions import Expressions
from tkgen.source import Span
from tkgen.syntax import ast

DISTINCT = "distinct"
# The types that a machine combines in memory, one store at a time.
COMBINED = {Update.ADD: (DType.F32, DType.I32), Update.MAX: (DType.F32, DType.I32), Update.MIN: (DType.F32, DType.I32)}
OF_TORCH = {Update.ADD: "index_add_", Update.MAX: "scatter_reduce_", Update.MIN: "scatter_reduce_"}


def unproven(access: Access) -> tuple[Index, ...]:
    """The indices that may be one position for several elements, as far as equations tell."""
    return tuple(i for i in access.indices if i.through is not None or (i.terms and not tells_apart(i)))


def check_word(at: Expressions, equation: ast.Equation, access: Access, update: Update) -> None:
    """E233 where `distinct` is missing, or says nothing; E602 where an index takes one position several times."""
    target = equation.target
    assert isinstance(target, ast.Access)
    if paged := next((i for i in access.indices if i.of_page or i.remainder), None):
        raise at.scope.error(
            "E233", f"`{access.tensor.name}` is stored by pages", target.span,
            "pages are for loads of fused matmuls", secondary=_declared(paged.axis),
            fix="list the position of each row in an i32 tensor, `SLOT[t]`, and store by it",
        )  # fmt: skip
    if equation.distinct and (not access.computed or update is not Update.SET):
        word = Span(target.span.file, equation.span.start, target.span.start)
        why = f"`{update.value}` combines values at equal positions" if access.computed else "axes differ by themselves"
        raise at.scope.error(
            "E233", f"`{DISTINCT}` says nothing here", word, why, fix=Fix(f"remove `{DISTINCT}`", (Edit(word, ""),)),
        )  # fmt: skip
    if update is not Update.SET:
        return
    if (index := next((i for i in access.indices if i.terms and overlaps(i)), None)) is not None:
        raise at.scope.error(
            "E602", f"`{target.span.text}` is the same element for several values of "
            f"{' and '.join(f'`{a.name}`' for a in index.axes)}", target.span, "there are fewer positions than values",
            fix=f"use larger factors, or add the values up: `{target.span.text} += ...`",
        )  # fmt: skip
    if (index := next(iter(unproven(access)), None)) is not None and not equation.distinct:
        held = index.through is not None and index.through.tensor.name
        what = f"`{held}` may hold a position twice" if held else "positions may be equal"
        before = Span(target.span.file, target.span.start, target.span.start)
        raise at.scope.error(
            "E233", f"nothing says that `{target.span.text}` is a different element for each value", target.span,
            f"{what}, and then either value may remain", secondary=_declared(index.axis),
            fix=Fix(f"if the positions are distinct, write `{DISTINCT} {target.span.text} = ...`; to combine values, "
                    "write `+=`, `max=` or `min=`", (Edit(before, f"{DISTINCT} "),), certain=False),
        )  # fmt: skip


def check_type(at: Expressions, access: Access, update: Update, span: Span) -> None:
    """E204 for types that memory does not combine."""
    if update is Update.SET or access.tensor.dtype in COMBINED[update]:
        return
    raise at.scope.error(
        "E204", f"`{update.value}` of `{access.tensor.name}`, which is {access.tensor.dtype.spelling}", span,
        f"memory combines {' and '.join(d.spelling for d in COMBINED[update])}",
        secondary=(Label(access.tensor.span, "declared here"),),
        fix=f"declare `{access.tensor.name}` as f32, and round it in a later kernel",
    )  # fmt: skip


def check_read_positions(at: Expressions, kernel: Kernel) -> None:
    """E228 where a tensor of positions is stored to, E230 for computed stores of fused matmuls."""
    stores = {s.target.tensor: s for s in kernel.stores}
    for access in kernel.places:
        store = stores.get(access.tensor)
        if store is not None and store.target != access:
            message = f"`{access.tensor.name}` holds positions, and the kernel stores to it"
            raise _error(at, "E228", message, store.span, "another block may read its positions before or after that",
                         "store to another tensor")  # fmt: skip
    if not chains_products(kernel):
        return
    if (store := next((s for s in kernel.stores if s.target.computed), None)) is not None:
        raise _error(at, "E230", f"a fused matmul stores to computed positions of `{store.target.tensor.name}`",
                     store.span, "row kernels and sums of products do",
                     "store by the axes, and scatter in a row kernel of the same sequence")  # fmt: skip


def _error(at: Expressions, code: str, message: str, span: Span | None, label: str, fix: str) -> Stop:
    return at.scope.error(code, message, span or at.scope.kernel.name.span, label, fix=fix)


def _declared(axis: Axis | None) -> tuple[Label, ...]:
    return (Label(axis.span, "the axis"),) if axis is not None and axis.span else ()
