"""Functions of a spec's own: what their bodies may name. `expressions` expands them where equations call them.

A body sees its parameters, constants and functions, and nothing else of a kernel: no name of the place of a call has a
meaning there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from tkgen.diagnostics import Diagnostic, Fix, Label
from tkgen.ir.resolve.names import Scope, guarded
from tkgen.ir.typing import suggestions
from tkgen.ir.typing.vocabulary import BUILT_IN, CALLS, CONSTANTS, LARGEST, OF_AXES, REDUCTIONS
from tkgen.source import Span
from tkgen.syntax import ast

MOST_DEEP = 100  # nested operations


def check_functions(scope: Scope) -> None:
    """E202 and E234 where functions of the spec are wrong, whoever calls them: these are broken then."""
    for function in scope.functions.values():
        before = len(scope.errors)
        for name in (function.name, *function.parameters):
            guarded(partial(_free, scope, function, name))
        said: set[str] = set()
        for node in _nodes(function.value):
            if not isinstance(node, ast.Name):
                guarded(partial(_known, scope, function, node))
            elif node.id not in said:
                said.add(node.id)
                guarded(partial(_known, scope, function, node))
        if len(scope.errors) > before:
            scope.broken.add(function.name.id)
    _too_deep(scope)


def no_value(function: ast.Function, at: Span) -> Diagnostic:
    """E200 for the name of a function where a value is wanted."""
    form = f"{function.name.id}({', '.join(p.id for p in function.parameters)})"
    message = f"`{function.name.id}` is a function, which needs arguments"
    return Diagnostic("E200", message, Label(at, "no value"), fix=Fix(f"call it: `{form}`"))


def wrong_call(function: ast.Function, node: ast.Call, given: int, most: int) -> Diagnostic:
    """E234 for a call with another number of arguments, or one more than `most` calls."""
    form = f"{function.name.id}({', '.join(p.id for p in function.parameters)})"
    count = len(function.parameters)
    message, fix = f"functions of this kernel expand to more than {most} calls", "name what is used several times"
    if given != count:
        message = f"`{function.name.id}` takes {count} argument{'s' * (count != 1)}, not {given}"
        fix = f"write `{form}`"
    return Diagnostic("E234", message, Label(node.span), (Label(function.span, "defined here"),), fix=Fix(fix))


def _free(scope: Scope, function: ast.Function, name: ast.Name) -> None:
    """E202 for a name that already has a meaning in every equation."""
    other = scope.functions.get(name.id)
    if name.id not in BUILT_IN and (other is None or name is function.name):
        return
    own = other is not None and name is not function.name
    what = "a function of this spec" if own else "a constant" if name.id in CONSTANTS else "a function of equations"
    here = "no function" if name is function.name else "no parameter"
    raise scope.error(
        "E202", f"`{name.id}` is {what}, so {here} can have this name", name.span, "has a meaning already",
        secondary=(Label(other.name.span, "defined here"),) if own and other else (), fix="give it another name",
    )  # fmt: skip


def _known(scope: Scope, function: ast.Function, node: ast.Expr) -> None:
    """E234 for what a body names and does not see."""
    parameters = [p.id for p in function.parameters]
    match node:
        case ast.Name(id=name) if name not in parameters and name not in CONSTANTS:
            declared = name in scope.declared and name not in scope.functions
            what = "is a function, not a value" if name in scope.functions else "is no parameter"
            known = Label(scope.declared[name], "declared here, for the kernel") if declared else None
            raise scope.error(
                "E234", f"`{name}` {what} of `{function.name.id}`" if what == "is no parameter" else f"`{name}` {what}",
                node.span, "functions can use only their parameters", secondary=(known,) if known else (),
                fix=f"pass it as an argument: `{function.name.id}({', '.join([*parameters, name])})`"
                if what == "is no parameter" else f"call it: `{name}(...)`",
                known=() if declared else parameters,
            )  # fmt: skip
        case ast.Access(name=name):
            value = name.id in parameters
            raise scope.error(
                "E234", f"`{name.id}` is a parameter, which has no index" if value
                else f"a function takes values and cannot read a tensor such as `{name.id}`",
                node.span, "not a part of a tensor", fix="drop the index" if value else "pass the part as an argument",
            )  # fmt: skip
        case ast.Call(along=(clause, *_)):
            raise scope.error(
                "E234", f"`{clause.span.text}` names positions, and `{function.name.id}` sees no tensor to index",
                clause.span, "functions can use only their parameters", fix="sum where the function is called",
            )  # fmt: skip
        case ast.Call(name=name) if name.id in OF_AXES:
            raise scope.error(
                "E234", f"`{name.id}` needs the name of an axis, which `{function.name.id}` cannot use", node.span,
                "functions can use only their parameters", fix=f"pass `{node.span.text}` as an argument",
            )  # fmt: skip
        case ast.Call(name=name) if name.id not in BUILT_IN and name.id not in scope.functions:
            said, fix = suggestions.renamed(node) or ("", None)
            raise scope.error(
                "E200", f"`{name.id}` is not a function of equations{said}", name.span, "not known",
                fix=fix or f"define it: `function {name.id}(x) = ...`",
                known=() if fix else [*scope.functions, *CALLS, *REDUCTIONS],
            )  # fmt: skip


def _too_deep(scope: Scope) -> None:
    """E234 for functions that call themselves, or that expand to more than `MOST_DEEP` nested operations."""
    depth = dict.fromkeys(scope.functions, 0)
    for _ in range(MOST_DEEP + 1):
        depth = {name: _depth(f.value, depth) for name, f in scope.functions.items()}
    deep = [f for name, f in scope.functions.items() if depth[name] > MOST_DEEP]
    scope.broken |= {f.name.id for f in deep}
    cycles = {f.name.id: _cycle(scope, f) for f in deep}
    said: set[str] = set()
    for function in deep:
        cycle = cycles[function.name.id]
        if said & {function.name.id, *(call.name.id for call in cycle)}:
            continue
        if cycle:
            said |= {call.name.id for call in cycle}
            scope.error(
                "E234", f"`{function.name.id}` calls itself", cycle[0].name.span,
                "functions are expanded where they are called",
                secondary=tuple(Label(call.name.span, "which calls this") for call in cycle[1:]),
                fix="repeat the expression, or write a loop: `each k in K by 64`",
            )  # fmt: skip
        elif not any(cycles.values()):
            said |= {*scope.functions}
            scope.error(
                "E234", f"`{function.name.id}` expands to more than {MOST_DEEP} nested operations",
                function.name.span, "too deep", fix="define parts of it in equations of the kernel",
            )  # fmt: skip


def _depth(node: ast.Expr, depth: Mapping[str, int]) -> int:
    """The nested operations of an expression, with those of the functions that it calls."""
    match node:
        case ast.Binary(left=left, right=right):
            return min(1 + max(_depth(left, depth), _depth(right, depth)), MOST_DEEP + 1)
        case ast.Unary(operand=operand) | ast.Transposed(operand=operand):
            return min(1 + _depth(operand, depth), MOST_DEEP + 1)
        case ast.Call(name=name, args=args):
            return min(1 + max(depth.get(name.id, 0), *(_depth(a, depth) for a in args)), MOST_DEEP + 1)
    return 0


def _cycle(scope: Scope, function: ast.Function) -> tuple[ast.Call, ...]:
    """The fewest calls that lead from a function back to it; none where there are none."""
    reached: dict[str, tuple[ast.Call, ...]] = {function.name.id: ()}
    for name in (waiting := [function.name.id]):
        for node in _nodes(scope.functions[name].value):
            if isinstance(node, ast.Call) and node.name.id in scope.functions:
                if node.name.id == function.name.id:
                    return (*reached[name], node)
                if node.name.id not in reached:
                    reached[node.name.id] = (*reached[name], node)
                    waiting.append(node.name.id)
    return ()


def _nodes(node: ast.Expr) -> Iterator[ast.Expr]:
    """An expression and those in it; not the type in `largest(fp8)`."""
    yield node
    match node:
        case ast.Binary(left=left, right=right):
            yield from _nodes(left)
            yield from _nodes(right)
        case ast.Unary(operand=operand) | ast.Transposed(operand=operand):
            yield from _nodes(operand)
        case ast.Call(name=name, args=args) if name.id not in (LARGEST, *OF_AXES):
            for argument in args:
                yield from _nodes(argument)
