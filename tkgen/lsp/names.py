"""Declarations and uses of names: definitions, references, renaming, through includes.

Dimensions, parameters, tensors, scalars, roles, axes, values and functions share one namespace; a kernel's name is in
none. Of a sequence each kernel has names of its own, beside those that are declared above the first one. The parameters
of a function are its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from tkgen.backends.cdna.lower.names import IDENTIFIER
from tkgen.diagnostics import Diagnostic, Edit, Severity
from tkgen.diagnostics.fixes import edited
from tkgen.ir.resolve.clauses import GRIDS
from tkgen.ir.typing.desugar import EPILOGUES
from tkgen.ir.typing.vocabulary import BUILT_IN
from tkgen.lsp.analysis import resolved
from tkgen.lsp.outline import Item, Outline, Statement, outline
from tkgen.lsp.project import BufferLoader, Project
from tkgen.remap import REMAPS
from tkgen.source import SourceFile, Span
from tkgen.syntax import ast
from tkgen.syntax.loader import IncludeError, identity

Key = tuple[bool, str, int, str]  # of a kernel; the name; the kernel of a sequence, the function that has it
_WORDS = frozenset((*BUILT_IN, *EPILOGUES, *REMAPS, *GRIDS, "min", "max", "ceil_div"))  # of calls, not declared


class RenameError(Exception):
    """Why a name cannot be renamed, for the user."""


@dataclass(frozen=True)
class Occurrence:
    """A name at a place. `declares` is what it declares there (`dimension`, `tensor`, ...), empty for a use."""

    name: str
    span: Span
    declares: str = ""
    scope: int = 0  # the number of the kernel of a sequence whose own name it is; 0 of all others
    inside: str = ""  # the function of which it is a parameter

    @property
    def key(self) -> Key:
        """Equal for occurrences of the same thing within a spec."""
        return self.declares == "kernel", self.name, self.scope, self.inside


@lru_cache(maxsize=256)
def occurrences(file: Outline) -> tuple[Occurrence, ...]:
    """All names of a file that a declaration gives a meaning, in the order of the text."""
    found = [(n, o) for s, n in _numbered(file) if s.node is not None for o in _in_item(s.node)]
    own = {(n, o.name) for n, o in found if n and o.declares not in ("", "kernel") and not o.inside}
    return tuple(replace(o, scope=n) if o.inside or (n, o.name) in own else o for n, o in found)


def _numbered(file: Outline) -> Iterator[tuple[Statement, int]]:
    """The statements of a file, each with the number of its kernel in a sequence; 0 above the first, and elsewhere."""
    several, number = any(isinstance(s.node, ast.Sequence) for s in file.statements), 0
    for statement in file.statements:
        number += several and isinstance(statement.node, ast.Kernel)
        yield statement, number


def scope_at(file: Outline, offset: int) -> int:
    """The number of the kernel of a sequence that an offset is in; 0 above the first, and elsewhere."""
    return max((number for statement, number in _numbered(file) if statement.start <= offset), default=0)


def occurrence_at(file: Outline, offset: int) -> Occurrence | None:
    """The name that the character at `offset` belongs to, or that ends there."""
    return next((o for o in occurrences(file) if o.span.start <= offset <= o.span.end), None)


def related(project: Project, file: Outline, key: Key) -> list[Outline]:
    """The files in which `key` means the same as in `file`: those that include each other and hold it."""
    mine = {identity(file.file.name): file}
    if key[0] or key[2]:
        return list(mine.values())
    groups = []
    for closure in (project.closure(file.file), *project.specs):
        holding = {identity(o.file.name): o for o in closure if any(x.key == key for x in occurrences(o))}
        if holding:
            groups.append(holding)
    while True:
        joined = [g for g in groups if g.keys() & mine.keys() and g.keys() - mine.keys()]
        if not joined:
            return list(mine.values())
        for group in joined:
            mine = group | mine


def references(project: Project, file: SourceFile, offset: int) -> list[Occurrence]:
    """Every occurrence of the name at `offset`."""
    here = outline(file)
    found = occurrence_at(here, offset)
    if found is None:
        return []
    return [o for f in related(project, here, found.key) for o in occurrences(f) if o.key == found.key]


def definition(project: Project, file: SourceFile, offset: int) -> list[Span]:
    """Return the declaration of the name at `offset`, or the beginning of the file that an
    include at `offset` names.
    """
    statement = outline(file).statement_at(offset)
    if statement is not None and isinstance(statement.node, ast.Include):
        loader = BufferLoader.around(file, project.include_roots, project.texts)
        try:
            return [Span(loader.load(statement.node.path, file), 0, 0)] if loader else []
        except IncludeError:
            return []
    return [o.span for o in references(project, file, offset) if o.declares]


def rename(project: Project, file: SourceFile, offset: int, new: str) -> list[Edit]:
    """The edits that give the thing named at `offset` the name `new`, in every file. Raises RenameError."""
    here = outline(file)
    found = occurrence_at(here, offset)
    if found is None:
        raise RenameError("there is no name here that can be renamed")
    if not IDENTIFIER.match(new):
        raise RenameError(f"`{new}` is no name: names are letters, digits and `_`, and do not start with a digit")
    if new == found.name:
        return []
    files = related(project, here, found.key)
    _refuse_taken(project, files, found, new)
    edits = [Edit(o.span, new) for f in files for o in occurrences(f) if o.key == found.key]
    _refuse_broken(project, files, edits, new)
    return edits


def _refuse_taken(project: Project, files: list[Outline], found: Occurrence, new: str) -> None:
    """Raises RenameError where the new name already means something in a spec that holds one of the files."""
    touched = {identity(f.file.name) for f in files}
    closures = [c for c in project.specs if any(identity(o.file.name) in touched for o in c)]
    every = [o for f in (*files, *(o for c in closures for o in c)) for o in occurrences(f) if o.name == new]
    taken = [
        o
        for o in every
        if not o.key[0] and o.inside == found.inside and (o.scope == found.scope or 0 in (o.scope, found.scope))
    ]
    if taken and not found.key[0]:
        place = max(taken, key=lambda o: bool(o.declares)).span
        raise RenameError(f"`{new}` already has a meaning, see {Path(place.file.name).name}:{place.line}")


def _refuse_broken(project: Project, files: list[Outline], edits: list[Edit], new: str) -> None:
    """Raises RenameError where the edited files have errors that they did not have, or read the name differently."""
    texts: dict[Path, str] = {}
    for f in files:
        mine = [e for e in edits if e.span.file == f.file]
        after = SourceFile(f.file.name, edited(f.file.text, mine))
        texts[identity(f.file.name)] = after.text
        if sum(o.name == new for o in occurrences(outline(after))) < len(mine):
            raise RenameError(f"`{new}` cannot stand everywhere that the old name does: it is a word of the language")
    changed = project.with_texts(texts)
    roots = {identity(c[0].file.name): c[0].file for c in project.specs} | {
        identity(f.file.name): f.file for f in files
    }
    for path, file in roots.items():
        before = _errors(project, file)
        after_file = SourceFile(file.name, texts.get(path, file.text))
        counts = Counter(d.code for d in before)
        for d in _errors(changed, after_file):
            counts[d.code] -= 1
            if counts[d.code] < 0:
                raise RenameError(f"`{new}`: {d.message} ({d.code})")


def _errors(project: Project, file: SourceFile) -> list[Diagnostic]:
    found = resolved(file, project.texts, project.include_roots).diagnostics
    return [d for d in found if d.severity is Severity.ERROR]


# ---------------------------------------------------------------- names in the tree


def _in_item(node: Item) -> Iterator[Occurrence]:
    """The names of one statement or schedule line, in the order of the text."""
    match node:
        case ast.Kernel(name=name) | ast.Sequence(name=name):
            yield _declared(name, "kernel")
        case ast.Dims(bindings=bindings) | ast.Param(bindings=bindings):
            kind = "dimension" if isinstance(node, ast.Dims) else "parameter"
            for binding in bindings:
                yield _declared(binding.name, kind)
                yield from _in_exprs(binding.value)
        case ast.Global(name=name, shape=shape):
            yield _declared(name, "tensor")
            yield from _in_exprs(*shape)
        case ast.Scalar(name=name, default=default):
            yield _declared(name, "scalar")
            yield from _in_exprs(default)
        case ast.Role(name=name, waves=waves, shape=wave_shape):
            yield _declared(name, "role")
            yield from _in_exprs(waves.first, waves.last, *(wave_shape or ()))
        case ast.Accumulate(name=name, others=others, product=product, tile=tile, mfma=mfma):
            yield from _in_exprs(name, *others, *(product or ()), *(tile or ()), *(mfma or ()))
        case ast.Cluster(ops=ops):
            for op in ops:
                yield from _in_operation(op)
        case ast.Over(axes=axes):
            for axis in axes:
                yield from _axes(axis)
                yield from _in_exprs(*_bounds(axis.within), axis.tile)
        case ast.Each(within=within, tile=length, since=since, until=until, part=part):
            yield from _axes(node)
            yield from _in_exprs(*_bounds(within), length, since, until, part)
        case ast.When(condition=condition):
            yield from _in_exprs(condition)
        case ast.Carry(values=values):
            for value in values:
                yield _declared(value.name, "value")
                yield from _in_exprs(*value.axes, value.initial)
        case ast.Function(name=name, parameters=parameters, value=formula):
            yield _declared(name, "function")
            yield from (Occurrence(p.id, p.span, "argument", inside=name.id) for p in parameters)
            own = {p.id for p in parameters}
            yield from (replace(o, inside=name.id * (o.name in own)) for o in _in_exprs(formula))
        case ast.Equation(target=ast.Name() as name, value=formula):
            yield _declared(name, "value")
            yield from _in_exprs(formula)
        case ast.Equation(target=target, value=formula):
            yield from _in_exprs(target, formula)
        case ast.Epilogue(calls=calls) | ast.Remap(calls=calls):
            yield from _in_exprs(*calls)
        case _:
            yield from _in_exprs(*_expressions(node))


def _axes(clause: ast.AxisClause | ast.Each) -> Iterator[Occurrence]:
    """The axes that a clause declares, one or those of a flattened one, and the dimensions that they run over."""
    for axis in clause.parts or (clause,):
        yield _declared(axis.name, "axis")
        yield from _in_exprs(axis.extent)


def _expressions(node: Item) -> tuple[ast.Expr | None, ...]:
    """Return the expressions and names of a statement that declares nothing."""
    match node:
        case ast.Block(rows=rows, cols=cols, step=step):
            return rows, cols, step
        case ast.Grid(call=call):
            return (call,)
        case ast.Reference(call=call):
            return *call.args, *(value for _, value in call.keywords)
        case ast.Waves(rows=rows, cols=cols_or_none, along=along):
            return rows, cols_or_none, along
        case ast.Clusters(count=count, along=along):
            return count, along
        case ast.Occupancy(waves_per_simd=count) | ast.Unroll(count=count):
            return (count,)
        case ast.Shared(names=names, buffers=buffers):
            return *names, buffers
        case ast.Registers(names=names, slice=slice_, buffers=buffers):
            return *names, slice_, buffers
        case ast.Store(name=name):
            return (name,)
        case ast.Stream(names=names):
            return names
        case ast.Load(names=names, by=by):
            return *names, by
        case ast.Phase(waves=waves, amount=amount):
            return waves.first, waves.last, amount
        case ast.Tune(name=name, values=values):
            return name, *values
        case _:
            return ()


def _in_operation(op: ast.ScheduleOp) -> Iterator[Occurrence]:
    match op:
        case ast.Move(name=name, frags=frags, slices=slices):
            yield from _in_exprs(name, *_ends(frags), *_ends(slices))
        case ast.Multiply(name=name, rows=rows, cols=cols, slices=slices, piece=piece):
            yield from _in_exprs(name, *_ends(rows), *_ends(cols), *_ends(slices), piece[1] if piece else None)
        case ast.Compute(name=name, piece=piece):
            yield from _in_exprs(name, piece[1] if piece else None)
        case ast.Wait(count=count):
            yield from _in_exprs(count)
        case ast.Mix(pattern=pattern, times=times):
            yield from _in_exprs(*(size for _, size in pattern), times)


def _ends(index: ast.Index | None) -> tuple[ast.Expr | None, ...]:
    if index is None:
        return ()
    return (index.first,) if index.last is index.first else (index.first, index.last)


def _in_exprs(*expressions: ast.Expr | None) -> Iterator[Occurrence]:
    for expr in expressions:
        match expr:
            case ast.Name(id=name):
                yield Occurrence(name, expr.span)
            case ast.Binary(left=left, right=right):
                yield from _in_exprs(left, right)
            case ast.Call(name=called, args=args, keywords=keywords, along=along):
                if called.id not in _WORDS:
                    yield Occurrence(called.id, called.span)
                yield from _in_exprs(*args, *(value for _, value in keywords), *(clause.extent for clause in along))
                yield from (_declared(clause.name, "axis") for clause in along)
            case ast.Unary(operand=operand) | ast.Transposed(operand=operand):
                yield from _in_exprs(operand)
            case ast.Access(name=tensor, indices=indices):
                yield from _in_exprs(tensor, *indices)


def _bounds(within: ast.Within | None) -> tuple[ast.Name, ...]:
    return () if within is None else (within.offsets, within.of)


def _declared(name: ast.Name, what: str) -> Occurrence:
    return Occurrence(name.id, name.span, what)
