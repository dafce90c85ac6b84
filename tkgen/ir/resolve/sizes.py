"""Size expressions as numbers within their limits, and the names of element types."""

from __future__ import annotations

from collections.abc import Callable

from tkgen.diagnostics import Edit, Fix, Label
from tkgen.ir.limits import LARGEST_INT
from tkgen.ir.resolve.names import Scope, Stop
from tkgen.ir.types import DTYPE_NAMES, OWN_ENCODING, DType
from tkgen.syntax import ast, habits
from tkgen.targets import fp8_cited, known_names, own_fp8, scales_blocks

ELEMENTS = (*DTYPE_NAMES, *OWN_ENCODING)  # the names of element types in a spec
LARGEST_F32 = (2 - 2**-23) * 2.0**127


def number(scope: Scope, expr: ast.Expr) -> int:
    """The value of a size expression, which must be known now."""
    match expr:
        case ast.Number(value=value):
            if not isinstance(value, int):
                raise scope.error("E203", f"a size is an integer, not {value:g}", expr.span,
                                  fix=f"other numbers are scalars: `scalar eps : f32 = {value:g}`")  # fmt: skip
            return value
        case ast.Name(id=name):
            if name in scope.broken:
                raise Stop()
            if name not in scope.values:
                raise scope.error(
                    "E200",
                    f"`{name}` is not a dimension or parameter",
                    expr.span,
                    "not declared",
                    fix=f"declare it: `param {name} = ...`",
                    known=scope.values,
                )
            size = scope.values[name]
            if size is None:
                raise scope.error(
                    "E203",
                    f"`{name}` is dynamic, so it cannot be a size at build time",
                    expr.span,
                    secondary=(Label(scope.declared[name], "dynamic"),),
                    fix=f"give `{name}` a size, or use a `param`",
                )
            return size
        case ast.Binary(op=op, left=left, right=right):
            result = _arithmetic(scope, expr, op, number(scope, left), number(scope, right))
            if abs(result) >= 1 << 63:
                raise scope.error("E203", "the value of a size expression must fit 64 bits", expr.span,
                                 fix="use smaller factors")  # fmt: skip
            return result
        case ast.Call(name=name, args=args):
            values = [number(scope, a) for a in args]
            functions: dict[str, Callable[[int, int], int]] = {
                "min": min, "max": max, "ceil_div": lambda a, b: -(-a // b),
            }  # fmt: skip
            if name.id not in functions or len(values) != 2 or (name.id == "ceil_div" and values[1] == 0):
                raise scope.error(
                    "E200",
                    f"`{name.id}` with {len(values)} arguments is no size function",
                    expr.span if name.id in functions else name.span,
                    fix="use min(a, b), max(a, b) or ceil_div(a, b)",
                    known=() if name.id in functions else functions,
                )
            return functions[name.id](values[0], values[1])
    raise AssertionError(expr)


def _arithmetic(scope: Scope, expr: ast.Expr, op: str, left: int, right: int) -> int:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
    if right == 0:
        raise scope.error(
            "E203", "division by zero", expr.span, "the divisor is 0", fix="give the divisor another value"
        )
    if op == "%":
        return left % right
    if left % right:
        raise scope.error(
            "E203",
            f"{left} / {right} is not an integer",
            expr.span,
            f"{left} % {right} = {left % right}",
            fix=f"use `ceil_div({left}, {right})` to round up",
        )
    return left // right


def positive(scope: Scope, expr: ast.Expr, what: str, most: int = LARGEST_INT) -> int:
    """The value of a size expression from 1 to `most`; `what` names it in E203."""
    value = number(scope, expr)
    if value <= 0:
        raise scope.error("E203", f"{what} must be positive, not {value}", expr.span, fix="write 1 or more")
    if value >= 1 << 31:
        raise scope.error(
            "E203", f"{what} must fit 31 bits, {value} does not", expr.span, fix=f"write less than {1 << 31}"
        )
    if value > most:
        raise scope.error("E203", f"{what} is at most {most}, not {value}", expr.span, fix=f"write {most} or less")
    return value


def real(scope: Scope, at: ast.Expr, value: float) -> float:
    """The value of a number that the kernel takes as an f32."""
    if abs(value) > LARGEST_F32:
        raise scope.error("E203", f"{value:g} is more than an f32 can hold", at.span,
                         fix=f"write at most {LARGEST_F32:.7g}")  # fmt: skip
    return float(value)


def element(scope: Scope, name: ast.Name) -> DType:
    """The element type of that name on the target that the kernel is for, else E204."""
    if name.id not in ELEMENTS:
        known = ", ".join(dict.fromkeys([*(d.spelling for d in DType), *OWN_ENCODING]))
        if (meant := habits.TYPES.get(name.id)) is not None:
            fix = Fix(f"write `{meant}`", (Edit(name.span, meant),))
            raise scope.error("E204", f"`{name.id}` is called `{meant}` here", name.span, fix=fix)
        if (instead := habits.NO_TYPES.get(name.id)) is not None:
            meant = instead.split("`")[1]
            edits = (Edit(name.span, meant),) if meant in ELEMENTS else ()
            raise scope.error("E204", f"there is no type `{name.id}`", name.span,
                              fix=Fix(instead, edits, certain=False), notes=(f"the types are {known}",))  # fmt: skip
        raise scope.error(
            "E204",
            f"unknown data type `{name.id}`",
            name.span,
            fix=f"the types are {known}",
            known=ELEMENTS,
        )
    own = own_fp8(scope.chosen)
    if name.id in OWN_ENCODING and own:
        return DTYPE_NAMES[own[OWN_ENCODING.index(name.id)]]
    found = DTYPE_NAMES.get(name.id)
    of_blocks = found is not None and (found is DType.E8M0 or found.in_blocks)
    if of_blocks and not scales_blocks(scope.chosen):
        having = [t for t in known_names() if scales_blocks(t)]
        why, other = "none of its instructions multiplies or converts it", "use a wider type"
        if found is DType.E8M0:
            why, other = "its matrix instructions do not scale blocks of elements", "store scales as f32"
        raise scope.error("E204", f"{scope.chosen} has no {name.id}: {why}", name.span,
                          fix=f"{other}, or build for `target {', '.join(having)}`")  # fmt: skip
    if found is None or (found.encoded and found.spelling not in own):
        raise _foreign(scope, name, own)
    return found


def unmade(dtype: DType) -> str:
    """Return the note of an error about storing or computing values of a type that only products read."""
    return "no product stores such values yet"


def _foreign(scope: Scope, name: ast.Name, own: tuple[str, ...]) -> Stop:
    """E204 for an 8-bit float that the target does not know."""
    having = [t for t in known_names() if (own_fp8(t) if name.id in OWN_ENCODING else name.id in own_fp8(t))]
    elsewhere = f"`target {', '.join(having)}`"
    if not own:
        return scope.error(
            "E204", f"{scope.chosen} has no 8-bit floats", name.span,
            notes=("none of its instructions converts or multiplies them", fp8_cited(scope.chosen)),
            fix=f"use bf16, f16 or i8, or build for a target that has them: {elsewhere}",
        )  # fmt: skip
    kind = OWN_ENCODING[0] if "e4m3" in name.id else OWN_ENCODING[1]
    mine = own[OWN_ENCODING.index(kind)]
    return scope.error(
        "E204", f"{scope.chosen} has no {name.id}: its {kind} is {mine}", name.span,
        notes=(
            "a byte of the fnuz encoding means half of what the same byte means in OCP's encoding; 0x80 is NaN in the "
            "fnuz encoding, -0 in OCP's",
            f"write `{kind}` for the encoding of the target; `tkgen.fp8.convert` converts tensors"
            " between encodings",
            fp8_cited(scope.chosen),
        ),
        fix=Fix(f"write `{kind}`, or build for {elsewhere}", (Edit(name.span, kind),), certain=False),
    )  # fmt: skip
