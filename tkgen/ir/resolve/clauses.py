"""The clauses around the product: remap, grid, clusters, tail, occupancy, unrolling, allowances."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tkgen.diagnostics import Diagnostic, Edit, Fix, Label
from tkgen.ir.resolve.names import Scope
from tkgen.ir.resolve.sizes import number, positive
from tkgen.ir.types import Clusters, GridKind, RemapStage
from tkgen.remap import RemapCall, problems
from tkgen.source import Span
from tkgen.syntax import ast
from tkgen.targets import compute_units, known_names, largest, meant_target

GRIDS = ("linear", "persistent", "split_k", "stream_k")
TAILS = ("masked", "clamped")
ALLOWANCES = ("spills", "slow_reads", "low_occupancy")
MOST_OF_SIMD = largest(lambda target: target.max_waves_per_simd)
MOST_UNROLL = 64  # K-steps of one pass; their code is written out


def remap(scope: Scope) -> tuple[RemapStage, ...]:
    """The stages of the block order, their arguments evaluated."""
    stages = []
    for call in [c for r in scope.all(ast.Remap) for c in r.calls]:
        positional = tuple(number(scope, a) for a in call.args)
        keywords = tuple((n.id, number(scope, v)) for n, v in call.keywords)
        stages.append(RemapStage(call.name.id, positional, keywords, call.span))
    return tuple(stages)


def remap_problems(stages: Sequence[RemapStage]) -> Iterator[Diagnostic]:
    """E601 for everything that is wrong with a block order."""
    calls = [RemapCall(s.name, dict(s.keywords), s.positional) for s in stages]
    for problem in problems(calls):
        span = stages[problem.call].span
        edits: tuple[Edit, ...] = ()
        if problem.suggestion:
            word = re.search(rf"\b{re.escape(problem.parameter or calls[problem.call].name)}\b", span.text)
            assert word is not None, "the call has a name that is similar to a known one"
            at = Span(span.file, span.start + word.start(), span.start + word.end())
            edits = (Edit(at, problem.suggestion),)
        yield Diagnostic("E601", problem.message, Label(span), fix=Fix(problem.remedy, edits, certain=not edits))


def grid(scope: Scope) -> GridKind:
    """Read the `grid` clause: the way in which work is distributed to blocks."""
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
            fix=_blocks(scope, call, wanted),
        )  # fmt: skip
    count = positive(scope, values[0], "blocks") if values else 0
    if call.name.id == "split_k" and count == 1:  # a tile of its own for every block: nothing is added to it
        return GridKind("linear", 0, call.span)
    return GridKind(call.name.id, count, call.span)


def _blocks(scope: Scope, call: ast.Call, wanted: int) -> Fix:
    """The grid with the arguments that it takes; the number of blocks is a guess."""
    blocks = 4 if call.name.id == "split_k" else compute_units(scope.chosen)
    text = f"{call.name.id}({blocks})" if wanted else call.name.id
    return Fix(f"write `grid {text}`", (Edit(call.span, text),), certain=False)


def clusters(scope: Scope, axes: tuple[str, str]) -> Clusters | None:
    """Blocks that share the tiles of a factor; None where each has its own. `axes` are those of the output tile."""
    for clause in scope.all(ast.Clusters):
        along = clause.along
        if along is not None and along.id not in axes:
            raise scope.error(
                "E200", f"`{along.id}` is no axis of the output tile", along.span,
                fix=f"write `along {axes[0]}` or `along {axes[1]}`", known=axes,
            )  # fmt: skip
        count = positive(scope, clause.count, "blocks of a cluster")
        return Clusters(count, along is None or along.id == axes[0], clause.span) if count > 1 else None
    return None


def tail(scope: Scope) -> str | None:
    """Read the `tail` clause: the way in which sizes that are no multiples of the block are handled."""
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
                "E200", f"`{name.id}` is not a condition that `allow` accepts", name.span,
                fix=f"one of {', '.join(ALLOWANCES)}", known=ALLOWANCES,
            )  # fmt: skip
    return frozenset(n.id for n in names)


def targets(scope: Scope) -> tuple[str, ...]:
    """The targets that a spec is for; E219 for names that none has."""
    names = [n for t in scope.all(ast.Targets) for n in t.names]
    known = known_names()
    for name in names:
        if name.id in known:
            continue
        meant, product = meant_target(name.id)
        notes: tuple[str, ...] = ()
        fix = Fix(f"the targets are {', '.join(known)}")
        if meant is not None and meant not in (n.id for n in names):
            about = f": {product} is a product" if product else ""
            notes = (fix.text,)
            fix = Fix(f"write `{meant}`{about}", (Edit(name.span, meant),), certain=False)
        scope.error("E219", f"there is no target `{name.id}`", name.span, fix=fix, notes=notes)
    return tuple(n.id for n in names)


def streamed(scope: Scope) -> frozenset[str]:
    """The tensors that should not displace others in the caches."""
    return frozenset(scope.tensor_named(n, "`stream`").name for s in scope.all(ast.Stream) for n in s.names)


def unroll(scope: Scope) -> int | None:
    """K-steps of one iteration of the loop, where the spec says."""
    return next((positive(scope, u.count, "unroll", MOST_UNROLL) for u in scope.all(ast.Unroll)), None)
