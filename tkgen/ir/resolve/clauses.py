"""The clauses around the product: epilogue, remap, grid, tail, occupancy, unrolling, allowances."""

from __future__ import annotations

from contextlib import suppress

from tkgen.diagnostics import Label
from tkgen.ir.resolve.names import Scope, Stop
from tkgen.ir.resolve.sizes import number, positive, real
from tkgen.ir.types import EpilogueStep, GridKind, Operand, RemapStage, Tensor
from tkgen.syntax import ast
from tkgen.targets import largest

ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu", "tanh")  # functions of one element
EPILOGUES = ("scale", "add", "bias", "mul", "clamp", *ACTIVATIONS)
GRIDS = ("linear", "persistent", "split_k", "stream_k")
TAILS = ("masked", "clamped")
ALLOWANCES = ("spills", "slow_reads", "low_occupancy")
MOST_OF_SIMD = largest(lambda target: target.max_waves_per_simd)
MOST_UNROLL = 64  # K-steps of one pass; their code is written out


def epilogue(scope: Scope, output: Tensor) -> tuple[EpilogueStep, ...]:
    """The steps between the sums and the store; every wrong one is said."""
    steps = []
    for call in [c for e in scope.all(ast.Epilogue) for c in e.calls]:
        if call.name.id not in EPILOGUES:
            scope.error(
                "E211", f"unknown epilogue step `{call.name.id}`", call.name.span,
                fix=f"the steps are {', '.join(EPILOGUES)}", known=EPILOGUES,
            )  # fmt: skip
            continue
        with suppress(Stop):  # what is wrong with the other steps is said, too
            steps.append(_epilogue_step(scope, call, output))
    return tuple(steps)


def _epilogue_step(scope: Scope, call: ast.Call, output: Tensor) -> EpilogueStep:
    name, args = call.name.id, list(call.args)
    shapes = {
        "scale": "scale(factor)", "add": "add(tensor, factor)", "bias": "bias(vector)", "mul": "mul(tensor)",
        "clamp": "clamp(least, most)",
    }  # fmt: skip
    expected = {"scale": (1, 1), "add": (1, 2), "bias": (1, 1), "mul": (1, 1), "clamp": (2, 2)}.get(name, (0, 0))
    if call.keywords or not expected[0] <= len(args) <= expected[1]:
        raise scope.error(
            "E211", f"`{name}` does not take these arguments", call.span,
            fix=f"write `{shapes.get(name, name)}`",
        )  # fmt: skip
    tensor = None
    if name in ("add", "bias", "mul"):
        head = args.pop(0)
        if not isinstance(head, ast.Name):
            raise scope.error("E211", f"the first argument of `{name}` is a tensor", head.span, fix="name a `global`")
        tensor = scope.tensor_named(head, f"`{name}`")
        vectors = ((output.dims[0],), (output.dims[1],))
        wanted = {"add": (output.dims,), "bias": vectors, "mul": (output.dims, *vectors)}[name]
        if tensor.dims not in wanted:
            raise scope.error(
                "E211", f"`{name}({tensor.name})` needs a tensor shaped "
                + " or ".join(f"[{', '.join(d.name for d in w)}]" for w in wanted), head.span,
                secondary=(Label(tensor.span, "declared here"),),
                fix="use a `global` of that shape" + (", or `add` for a whole matrix" * (name == "bias")),
            )  # fmt: skip
    factors = [_factor(scope, argument) for argument in args]
    return EpilogueStep(name, tensor, next(iter(factors), None), call.span, factors[1] if len(factors) > 1 else None)


def _factor(scope: Scope, argument: ast.Expr) -> float | str:
    """A number, or the name of a scalar."""
    match argument:
        case ast.Number(value=value):
            return real(scope, argument, value)
        case ast.Unary(op="-", operand=ast.Number(value=value)):
            return -real(scope, argument, value)
        case ast.Name(id=scalar) if scalar in scope.scalars:
            return scalar
    raise scope.error(
        "E211", f"a factor is a number or a scalar, not `{argument.span.text}`", argument.span,
        fix="declare `scalar alpha : f32 = 1.0`",
    )  # fmt: skip


def remap(scope: Scope) -> tuple[RemapStage, ...]:
    """The stages of the block order, their arguments evaluated."""
    stages = []
    for call in [c for r in scope.all(ast.Remap) for c in r.calls]:
        positional = tuple(number(scope, a) for a in call.args)
        keywords = tuple((n.id, number(scope, v)) for n, v in call.keywords)
        stages.append(RemapStage(call.name.id, positional, keywords, call.span))
    return tuple(stages)


def grid(scope: Scope) -> GridKind:
    """How the work is dealt to blocks."""
    found = scope.all(ast.Grid)
    if not found:
        return GridKind("linear", 0, None)
    call = found[0].call
    if call.name.id not in GRIDS:
        raise scope.error(
            "E212", f"unknown grid `{call.name.id}`", call.name.span,
            fix=f"the grids are {', '.join(GRIDS)}", known=GRIDS,
        )  # fmt: skip
    values = [*call.args, *(v for n, v in call.keywords)]
    wanted = 0 if call.name.id == "linear" else 1
    if len(values) != wanted or any(n.id != "blocks" for n, _ in call.keywords):
        raise scope.error(
            "E212", f"`{call.name.id}` takes {'no argument' if not wanted else 'the number of blocks'}", call.span,
            fix=f"write `grid {call.name.id}`" if not wanted else f"write `grid {call.name.id}(blocks = 304)`",
        )  # fmt: skip
    count = positive(scope, values[0], "blocks") if values else 0
    if call.name.id == "split_k" and count == 1:  # a tile of its own for every block: nothing is added to it
        return GridKind("linear", 0, call.span)
    return GridKind(call.name.id, count, call.span)


def short_runs(scope: Scope, grid: GridKind, operands: tuple[Operand, ...]) -> None:
    """E608 where more buffers are to be filled than a run of `stream_k` may have K-steps."""
    deep = max(operands, key=lambda o: o.steps_ahead)
    if grid.name == "stream_k" and grid.span and deep.steps_ahead > 1:
        buffers = f"{deep.buffers} buffers" if deep.shared else f"{deep.register_depth} register buffers"
        raise scope.error(
            "E608",
            f"a run of `stream_k` may be one K-step long, and {buffers} are filled {deep.steps_ahead} steps ahead",
            grid.span,
            secondary=(Label(deep.span, "the depth comes from these buffers"),),
            fix="use at most two LDS buffers and one register buffer",
        )


def tail(scope: Scope) -> str | None:
    """How sizes that are no multiples of the block are handled."""
    for tail in scope.all(ast.Tail):
        if tail.mode.id not in TAILS:
            raise scope.error(
                "E212", f"unknown tail `{tail.mode.id}`", tail.mode.span,
                fix="`tail masked` or `tail clamped`", known=TAILS,
            )  # fmt: skip
        return tail.mode.id
    return None


def occupancy(scope: Scope) -> int | None:
    """The waves per SIMD that the registers must allow."""
    for occupancy in scope.all(ast.Occupancy):
        value = positive(scope, occupancy.waves_per_simd, "waves per SIMD")
        if value > MOST_OF_SIMD:
            message = f"a SIMD holds at most {MOST_OF_SIMD} waves"
            raise scope.error("E203", message, occupancy.span, fix=f"ask for 1 to {MOST_OF_SIMD}")
        return value
    return None


def allow(scope: Scope) -> frozenset[str]:
    """The checks that the author takes responsibility for."""
    names = [n for a in scope.all(ast.Allow) for n in a.names]
    for name in names:
        if name.id not in ALLOWANCES:
            scope.error(
                "E200", f"nothing called `{name.id}` can be allowed", name.span,
                fix=f"one of {', '.join(ALLOWANCES)}", known=ALLOWANCES,
            )  # fmt: skip
    return frozenset(n.id for n in names)


def streamed(scope: Scope) -> frozenset[str]:
    """The tensors that should not displace others in the caches."""
    return frozenset(scope.tensor_named(n, "`stream`").name for s in scope.all(ast.Stream) for n in s.names)


def unroll(scope: Scope) -> int | None:
    """K-steps of one pass of the loop, where the spec says."""
    return next((positive(scope, u.count, "unroll", MOST_UNROLL) for u in scope.all(ast.Unroll)), None)
