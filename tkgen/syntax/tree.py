"""From Lark's parse tree to the AST: one method per rule of the grammar, named after it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeVar

from lark import Token, Tree

from tkgen.diagnostics import Diagnostic, Edit, Fix, Label
from tkgen.source import SourceFile, Span
from tkgen.syntax import ast
from tkgen.syntax.grammar import OPERATIONS

Branch = Tree[Token]
N = TypeVar("N")

# The largest number a spec may hold: dimensions travel as 32-bit signed integers in kernel arguments.
MAX_INT = 2**31 - 1
MAX_DEPTH = 64
MAX_LOOPS = 4  # within each other: a tensor has no more dimensions

_ONCE = {
    ast.Block: "block",
    ast.Remap: "remap",
    ast.Grid: "grid",
    ast.Clusters: "clusters",
    ast.Tail: "tail",
    ast.Waves: "waves",
    ast.Occupancy: "occupancy",
    ast.Epilogue: "epilogue",
    ast.Unroll: "unroll",
    ast.Schedule: "schedule",
    ast.Reference: "reference",
}


class TreeBuilder:
    """Builds AST nodes for one file and collects what is wrong with them in `diagnostics`.

    `offset` is where the parsed text starts in `file`; `include` returns the statements of an included file.
    """

    def __init__(
        self, file: SourceFile, include: Callable[[str, Span], tuple[ast.Statement, ...]], offset: int = 0
    ) -> None:
        self.file = file
        self.offset = offset
        self.diagnostics: list[Diagnostic] = []
        self.loops = 0  # those around the statement at hand
        self.conditions = 0  # likewise
        self._include_file = include

    # ------------------------------------------------------------ pieces

    def span(self, node: Branch | Token) -> Span:
        """Return the place of a tree or token."""
        place = node if isinstance(node, Token) else node.meta
        return Span(self.file, (place.start_pos or 0) + self.offset, (place.end_pos or 0) + self.offset)

    def error(self, code: str, message: str, span: Span, label: str = "", fix: Fix | None = None) -> None:
        """Note an error."""
        self.diagnostics.append(Diagnostic(code, message, Label(span, label), fix=fix))

    def name(self, token: Token | Branch) -> ast.Name:
        """A NAME token, or a tree of one, as a name."""
        return ast.Name(self.span(token), str(token if isinstance(token, Token) else token.children[0]))

    def names(self, trees: Iterable[Token | Branch]) -> tuple[ast.Name, ...]:
        """Several of them."""
        return tuple(self.name(t) for t in trees)

    def number(self, token: Token, sign: str = "") -> ast.Number:
        """An INT or FLOAT token as a number; E105 where it is out of range."""
        span = self.span(token)
        value: int | float
        if token.type == "INT":
            digits = token.lstrip("0") or "0"
            value = int(digits) if len(digits) <= 10 else MAX_INT + 1
            if value > MAX_INT:
                self.error("E105", "this number is out of range", span, "too large", Fix(f"the largest is {MAX_INT}"))
                value = MAX_INT
        else:
            value = float(token)
            if math.isinf(value):
                self.error("E105", "this number is out of range", span, "more than a 64-bit float can hold",
                           Fix("write a smaller one"))  # fmt: skip
                value = 0.0
        return ast.Number(span, -value if sign == "-" else value)

    def expr(self, node: Branch | Token, depth: int = 0) -> ast.Expr:
        """An expression tree; E110 where it nests deeper than anyone would write."""
        if isinstance(node, Token):
            return self.name(node)
        if node.data in ("number", "literal"):
            *sign, digits = _tokens(node)
            value = self.number(digits, "".join(sign))
            return ast.Number(self.span(node), value.value)
        if node.data == "name":
            return self.name(node)
        if depth == MAX_DEPTH:
            self.error("E110", f"this expression nests more than {MAX_DEPTH} operations", self.span(node))
            return ast.Number(self.span(node), 1)
        if node.data == "binary":
            left, op, right = node.children
            return ast.Binary(self.span(node), str(op), self.expr(left, depth + 1), self.expr(right, depth + 1))
        if node.data == "unary":
            op, operand = node.children
            return ast.Unary(self.span(node), str(op), self.expr(operand, depth + 1))
        if node.data == "transposed":
            return ast.Transposed(self.span(node), self.expr(node.children[0], depth + 1))
        if node.data == "access":
            return self.access(node)
        return self.call(node, depth)

    def exprs(self, trees: Iterable[Branch | Token]) -> tuple[ast.Expr, ...]:
        """Several of them."""
        return tuple(self.expr(t) for t in trees)

    def access(self, node: Branch) -> ast.Access:
        """`K[b, h / GROUP, j]`."""
        name, *indices = node.children
        return ast.Access(self.span(node), self.name(name), self.exprs(indices))

    def call(self, node: Branch, depth: int = 0) -> ast.Call:
        """`name(a, b = c)`, `fast name(a)`, `name(a, w in W)`; the same keyword twice is E107."""
        args: list[ast.Expr] = []
        keywords: dict[str, tuple[ast.Name, ast.Expr]] = {}
        along: list[ast.AxisClause] = []
        fast = isinstance(node.children[0], Token) and node.children[0].type == "FAST"
        name, *arguments = node.children[fast:]
        for argument in arguments:
            if isinstance(argument, Tree) and argument.data == "keyword":
                key = self.name(argument.children[0])
                if key.id in keywords:
                    self.repeated(f"argument `{key.id}`", key.span, keywords[key.id][0].span)
                keywords[key.id] = (key, self.expr(argument.children[1], depth + 1))
            elif isinstance(argument, Tree) and argument.data == "places":
                along.append(self._axis(argument))
            else:
                args.append(self.expr(argument, depth + 1))
                if keywords:
                    self.error("E101", "a positional argument follows a keyword argument", args[-1].span)
        return ast.Call(self.span(node), self.name(name), tuple(args), tuple(keywords.values()), fast, tuple(along))

    def repeated(self, what: str, span: Span, first: Span) -> None:
        """E107."""
        self.diagnostics.append(
            Diagnostic(
                "E107",
                f"{what} is given twice",
                Label(span, "given again here"),
                (Label(first, "first given here"),),
                fix=Fix("remove one of the two"),
            )
        )

    def options(self, trees: Iterable[Branch | Token]) -> dict[str, ast.Expr]:
        """`buffers 2 via registers` as a dictionary; the same option twice is E107."""
        found: dict[str, tuple[Branch | Token, ast.Expr]] = {}
        for tree in trees:
            assert isinstance(tree, Tree)
            word, value = tree.children
            if str(word) in found:
                self.repeated(f"`{word}`", self.span(tree), self.span(found[str(word)][0]))
            found[str(word)] = (tree, self.expr(value))
        return {word: value for word, (_, value) in found.items()}

    def wave_range(self, node: Branch) -> ast.WaveRange:
        """`0..3`, or `2` for `2..2`."""
        ends = self.exprs(node.children)
        return ast.WaveRange(self.span(node), ends[0], ends[-1])

    def index(self, node: Branch) -> ast.Index | None:
        """`2`, `0..1`; None for `*`."""
        if not node.children:
            return None
        ends = self.exprs(node.children)
        return ast.Index(self.span(node), ends[0], ends[-1])

    # ------------------------------------------------------------ statements

    def statement(self, node: Branch) -> ast.Statement:
        """Any statement."""
        build: Callable[[Branch], ast.Statement] = getattr(self, f"_{node.data}")
        return build(node)

    def body(self, nodes: Iterable[Branch | Token]) -> tuple[ast.Statement, ...]:
        """The statements of a body."""
        return tuple(self.statement(node) for node in nodes if isinstance(node, Tree))

    def kernel(self, node: Branch, header: str) -> ast.Kernel:
        """A kernel and its body; `header` is the file's opening comment."""
        head = _tree(node.children[0])
        name = self.name(head.children[0])
        return ast.Kernel(self.span(head), name, self.body(node.children[1:]), header)

    def _binding(self, node: Branch, dynamic: bool) -> ast.Binding:
        name, value = self.name(node.children[0]), self.expr(node.children[1])
        if name.id == "dynamic":
            self.error("E108", "`dynamic` is a reserved word", name.span, "no dimension can have this name",
                       Fix("give it another name"))  # fmt: skip
        if isinstance(value, ast.Name) and value.id == "dynamic":
            if not dynamic:
                self.error("E101", "a parameter needs a number", value.span, "only `dims` can be `dynamic`",
                       Fix("give it a number, or declare it with `dims`"))  # fmt: skip
            return ast.Binding(self.span(node), name, None)
        return ast.Binding(self.span(node), name, value)

    def _dims(self, node: Branch) -> ast.Dims:
        return ast.Dims(self.span(node), tuple(self._binding(_tree(b), True) for b in node.children))

    def _param(self, node: Branch) -> ast.Param:
        return ast.Param(self.span(node), tuple(self._binding(_tree(b), False) for b in node.children))

    def _global(self, node: Branch) -> ast.Global:
        name, dtype, *shape = node.children
        last = shape[-1]
        order = self.name(last) if isinstance(last, Tree) and last.data == "order" else None
        tensor = self.name(name)
        if tensor.id in OPERATIONS:
            text = "an operation of schedules has this name"
            self.error("E108", f"`{tensor.id}` is a reserved word", tensor.span, text, Fix("rename the tensor"))
        extents = self.exprs(shape if order is None else shape[:-1])
        return ast.Global(self.span(node), tensor, self.name(dtype), extents, order)

    def _scalar(self, node: Branch) -> ast.Scalar:
        name, dtype, *default = node.children
        return ast.Scalar(
            self.span(node), self.name(name), self.name(dtype), self.expr(default[0]) if default else None
        )

    def _target(self, node: Branch) -> ast.Targets:
        return ast.Targets(self.span(node), self.names(node.children))

    def _tune(self, node: Branch) -> ast.Tune:
        return ast.Tune(self.span(node), self.name(node.children[0]), self.exprs(node.children[1:]))

    def _include(self, node: Branch) -> ast.Include:
        (token,) = _tokens(node)
        span = self.span(node)
        path = str(token)[1:-1]
        return ast.Include(span, path, self._include_file(path, span))

    def _block(self, node: Branch) -> ast.Block:
        rows, cols, step = self.exprs(node.children)
        return ast.Block(self.span(node), rows, cols, step)

    def _remap(self, node: Branch) -> ast.Remap:
        return ast.Remap(self.span(node), tuple(self.call(_tree(c)) for c in node.children))

    def _grid(self, node: Branch) -> ast.Grid:
        return ast.Grid(self.span(node), self.call(_tree(node.children[0])))

    def _clusters(self, node: Branch) -> ast.Clusters:
        count, *along = (_tree(t) for t in node.children)
        return ast.Clusters(self.span(node), self.expr(count), self.name(_tokens(along[0])[0]) if along else None)

    def _tail(self, node: Branch) -> ast.Tail:
        return ast.Tail(self.span(node), self.name(node.children[0]))

    def _waves(self, node: Branch) -> ast.Waves:
        rows, *rest = (_tree(t) for t in node.children)
        if rest and rest[0].data == "along":
            return ast.Waves(self.span(node), self.expr(rows), None, self.name(_tokens(rest[0])[0]))
        return ast.Waves(self.span(node), self.expr(rows), self.expr(rest[0]) if rest else None)

    def _occupancy(self, node: Branch) -> ast.Occupancy:
        return ast.Occupancy(self.span(node), self.expr(node.children[0]))

    def _allow(self, node: Branch) -> ast.Allow:
        return ast.Allow(self.span(node), self.names(node.children))

    def _stream(self, node: Branch) -> ast.Stream:
        return ast.Stream(self.span(node), self.names(node.children))

    def _shared(self, node: Branch) -> ast.Shared:
        names, options = _split(node)
        given = self.options(options)
        return ast.Shared(self.span(node), self.names(names), given.get("buffers"), _as_name(given.get("via")))

    def _registers(self, node: Branch) -> ast.Registers:
        names, options = _split(node)
        given = self.options(options)
        return ast.Registers(self.span(node), self.names(names), given.get("slice"), given.get("buffers"))

    def _accumulate(self, node: Branch) -> ast.Accumulate:
        parts = {t.data: t for t in node.children if isinstance(t, Tree)}
        name, *others, dtype = (self.name(t) for t in node.children if isinstance(t, Token))
        product = self.names(parts["product"].children) if "product" in parts else ()
        tile = self.exprs(parts["tile"].children) if "tile" in parts else ()
        mfma = self.exprs(parts["mfma"].children) if "mfma" in parts else ()
        return ast.Accumulate(
            self.span(node),
            name,
            tuple(others),
            (product[0], product[1]) if product else None,
            dtype,
            (tile[0], tile[1]) if tile else None,
            self.name(parts["arrangement"]) if "arrangement" in parts else None,
            (mfma[0], mfma[1]) if mfma else None,
        )

    def _epilogue(self, node: Branch) -> ast.Epilogue:
        return ast.Epilogue(self.span(node), tuple(self.call(_tree(c)) for c in node.children))

    def _store(self, node: Branch) -> ast.Store:
        return ast.Store(self.span(node), self.name(node.children[0]))

    def _load(self, node: Branch) -> ast.Load:
        trees = [_tree(t) for t in node.children]
        names = [t for t in trees if t.data == "operand"]
        return ast.Load(self.span(node), self.names(names), self.expr(trees[-1]) if len(names) < len(trees) else None)

    def _role(self, node: Branch) -> ast.Role:
        head = _tree(node.children[0])
        name, waves, *shape = head.children
        for inner in node.children[1:]:
            if isinstance(inner, Tree) and inner.data == "role":
                span = self.span(inner.children[0])
                self.error(
                    "E109", "a role cannot be inside another role", span, fix=Fix("move it next to the other role")
                )
        sizes = self.exprs(shape)
        return ast.Role(
            self.span(head),
            self.name(name),
            self.wave_range(_tree(waves)),
            (sizes[0], sizes[1]) if sizes else None,
            self.body(t for t in node.children[1:] if isinstance(t, Tree) and t.data != "role"),
        )

    def _role_head(self, node: Branch) -> ast.Role:
        return self._role(Tree("role", [node]))

    def _phase(self, node: Branch) -> ast.Phase:
        return ast.Phase(self.span(node), self.wave_range(_tree(node.children[0])), self.expr(node.children[1]))

    def _unroll(self, node: Branch) -> ast.Unroll:
        return ast.Unroll(self.span(node), self.expr(node.children[0]))

    # ------------------------------------------------------------ equations

    def _over(self, node: Branch) -> ast.Over:
        return ast.Over(self.span(node), tuple(self._axis(_tree(t)) for t in node.children))

    def _axis(self, node: Branch) -> ast.AxisClause:
        name, *rest = node.children
        if isinstance(name, Tree):
            joined, parts = self._flattened(name)
            return ast.AxisClause(self.span(node), joined, joined, None, self.expr(rest[0]), parts)
        extent, *rest = rest
        within, tile = self._apart(rest)
        return ast.AxisClause(self.span(node), self.name(name), self.expr(extent), within,
                              self.expr(tile[0]) if tile else None)  # fmt: skip

    def _flattened(self, node: Branch) -> tuple[ast.Name, tuple[ast.AxisClause, ...]]:
        """The axes of a flattened one, and a name for all of them, which is no name of the spec."""
        parts = tuple(self._axis(_tree(t)) for t in node.children)
        return ast.Name(self.span(node), "_".join(part.name.id for part in parts)), parts

    def _apart(self, children: list[Branch | Token]) -> tuple[ast.Within | None, list[Branch | Token]]:
        """Split off the `within` or `below` after the extent of an axis, and return it with the rest."""
        if children and isinstance(children[0], Tree) and children[0].data in ("within", "below"):
            offsets, of = children[0].children
            lengths = children[0].data == "below"
            within = ast.Within(self.span(children[0]), self.name(offsets), self.name(of), lengths)
            return within, children[1:]
        return None, children

    def _each(self, node: Branch) -> ast.Each:
        head, *body = (_tree(t) for t in node.children)
        first, *rest = head.children
        parts: tuple[ast.AxisClause, ...] = ()
        if isinstance(first, Tree):
            name, parts = self._flattened(first)
            extent: ast.Expr = name
        else:
            name, extent = self.name(first), self.expr(rest.pop(0))
        within, rest = self._apart(rest)
        end = {t.data: t.children[0] for t in rest if isinstance(t, Tree) and t.data in ("since", "until", "part")}
        tile = rest[0] if len(rest) > len(end) else None
        statements: tuple[ast.Statement, ...] = ()
        self.loops += 1
        if self.loops > MAX_LOOPS:
            self.error("E110", f"loops nest more than {MAX_LOOPS} deep", self.span(head))
        else:
            statements = self.body(body)
        self.loops -= 1
        return ast.Each(
            self.span(head),
            name,
            extent,
            within,
            None if tile is None else self.expr(tile),
            self.expr(end["since"]) if "since" in end else None,
            self.expr(end["until"]) if "until" in end else None,
            self.name(end["part"]) if "part" in end else None,
            statements,
            parts,
        )

    def _each_head(self, node: Branch) -> ast.Each:
        return self._each(Tree("each", [node]))

    def _when(self, node: Branch) -> ast.When:
        head, *body = (_tree(t) for t in node.children)
        statements: tuple[ast.Statement, ...] = ()
        self.conditions += 1
        if self.conditions > 1:
            self.error("E110", "a `when any` is inside another one", self.span(head), "join the conditions with `and`")
        else:
            statements = self.body(body)
        self.conditions -= 1
        return ast.When(self.span(head), self.expr(head.children[0]), statements)

    def _when_head(self, node: Branch) -> ast.When:
        return self._when(Tree("when", [node]))

    def _carry(self, node: Branch) -> ast.Carry:
        return ast.Carry(self.span(node), tuple(self._carried(_tree(t)) for t in node.children))

    def _carried(self, node: Branch) -> ast.Carried:
        name, dtype, *axes, initial = node.children
        names = self.names(_tree(axes[0]).children) if axes else ()
        return ast.Carried(self.span(node), self.name(name), self.name(dtype), names, self.expr(initial))

    def _equation(self, node: Branch) -> ast.Equation:
        *before, value = node.children
        distinct = isinstance(before[0], Token) and before[0].type == "DISTINCT"
        target, *update = before[distinct:]
        at = self.name(target) if isinstance(target, Token) else self.access(target)
        return ast.Equation(self.span(node), at, self.expr(value), "".join(map(str, update)), distinct)

    def _definition(self, node: Branch) -> ast.Function:
        name, *parameters, value = node.children
        names = self.names(parameters)
        for n, parameter in enumerate(names):
            if (first := next((p for p in names[:n] if p.id == parameter.id), None)) is not None:
                self.repeated(f"parameter `{parameter.id}`", parameter.span, first.span)
        return ast.Function(self.span(node), self.name(name), names, self.expr(value))

    def _reference(self, node: Branch) -> ast.Reference:
        return ast.Reference(self.span(node), self.call(_tree(node.children[0])))

    # ------------------------------------------------------------ schedules

    def schedule(self, node: Branch, has_lines: bool) -> ast.Schedule:
        """A schedule; E102 or E109 where it has no lines but needs them, or the other way round."""
        head = _tree(node.children[0])
        preset = next((self.name(t) for t in head.children if isinstance(t, Token)), None)
        if preset and has_lines:
            fix = Fix("remove the name or the lines")
            self.error("E109", "a preset schedule has no lines", preset.span, "tkgen builds this schedule itself", fix)
        if not preset and not has_lines:
            self.error("E102", "`schedule` has no lines", self.span(head), "lines must follow, indented further",
                       Fix("write its clusters, or name a schedule: `schedule auto`"))  # fmt: skip
        given = self.options(t for t in head.children if isinstance(t, Tree))
        return ast.Schedule(
            self.span(head),
            preset,
            _as_name(given.get("barriers")),
            _as_name(given.get("waits")),
            tuple(self.cluster(_tree(c)) for c in node.children[1:]),
        )

    def _schedule(self, node: Branch) -> ast.Schedule:
        return self.schedule(node, len(node.children) > 1)

    def cluster(self, node: Branch) -> ast.Cluster:
        """A line of a schedule."""
        words = [str(t) for t in node.children if isinstance(t, Token)]
        ops = tuple(op for tree in node.children if isinstance(tree, Tree) for op in self._ops(tree))
        return ast.Cluster(self.span(node), words[-1], ops, words[0] if len(words) > 1 else None)

    def _ops(self, node: Branch) -> list[ast.ScheduleOp]:
        span = self.span(node)
        if node.data == "moves":
            action, *moves = node.children
            first, *rest = (self._move(str(action), _tree(m)) for m in moves)
            return [
                ast.Move(
                    self.span(action).to(first.span), first.action, first.name, first.step, first.frags, first.slices
                ),
                *rest,
            ]
        if node.data == "multiply":
            return [self._multiply(node)]
        if node.data == "computes":
            return [self._compute(_tree(tree)) for tree in node.children]
        if node.data == "wait":
            return [ast.Wait(span, self.name(node.children[0]), self.expr(node.children[1]))]
        if node.data == "priority":
            return [ast.Priority(span, self.expr(node.children[0]))]
        if node.data == "mix":
            *pattern, times = node.children
            kinds = (_tree(p).children for p in pattern)
            return [ast.Mix(span, tuple((str(kind), self.expr(size)) for kind, size in kinds), self.expr(times))]
        return [ast.Barrier(span)]

    def _multiply(self, node: Branch) -> ast.Multiply:
        parts = [_tree(t) for t in node.children]
        step = self._step(parts.pop(0)) if parts and parts[0].data == "step" else None
        name = self.name(parts.pop(0)) if parts and parts[0].data == "operand" else None
        if parts and parts[0].data == "step":  # `multiply s[k+1]`
            step = self._step(parts.pop(0))
        piece = self._piece(parts.pop(0)) if parts and parts[0].data == "piece" else None
        if parts and parts[0].data == "only_slice":
            return ast.Multiply(self.span(node), name, None, None, self.index(_tree(parts[0].children[0])), step, piece)
        rows, cols, slices, *_ = *(self.index(p) for p in parts), None, None, None
        return ast.Multiply(self.span(node), name, rows, cols, slices, step, piece)

    def _compute(self, node: Branch) -> ast.Compute:
        name, *piece = node.children
        return ast.Compute(self.span(node), self.name(name), self._piece(_tree(piece[0])) if piece else None)

    def _piece(self, node: Branch) -> tuple[str, ast.Expr]:
        word, number = node.children
        return str(word), self.expr(number)

    def _move(self, action: str, node: Branch) -> ast.Move:
        name, *parts = node.children
        step: ast.StepRef | None = None
        indices: list[ast.Index | None] = []
        for part in parts:
            tree = _tree(part)
            if tree.data == "step":
                step = self._step(tree)
            else:
                indices.append(self.index(tree))
        frags, slices, *_ = *indices, None, None
        return ast.Move(self.span(node), action, self.name(name), step, frags, slices)

    def _step(self, node: Branch) -> ast.StepRef:
        variable, *offset = _tokens(node)
        if variable.type == "INT":
            return ast.StepRef(self.span(node), int(self.number(variable).value), "zero")
        if variable not in ("k", "end"):
            span = self.span(variable)
            fix = Fix("write `k`", (Edit(span, "k"),))
            self.error("E101", f"expected `k`, found `{variable}`", span, "the loop's K-step is `k`", fix)
        value = self.number(offset[1], offset[0]).value if offset else 0
        return ast.StepRef(self.span(node), int(value), str(variable))


def check_once(statements: Iterable[ast.Statement], builder: TreeBuilder) -> None:
    """E107 for statements that may stand only once in a body, counting those of included files."""
    seen: dict[type, ast.Statement] = {}
    pending = list(statements)[::-1]
    while pending:
        statement = pending.pop()
        if isinstance(statement, ast.Include):
            pending.extend(statement.body[::-1])
        elif isinstance(statement, ast.Role | ast.Each | ast.When):
            check_once(statement.body, builder)
        elif type(statement) in _ONCE:
            first = seen.setdefault(type(statement), statement)
            if first is not statement:
                builder.repeated(f"`{_ONCE[type(statement)]}`", statement.span, first.span)


def _tree(node: Branch | Token) -> Branch:
    assert isinstance(node, Tree)
    return node


def _tokens(node: Branch) -> list[Token]:
    return [t for t in node.children if isinstance(t, Token)]


def _split(node: Branch) -> tuple[list[Branch], list[Branch]]:
    trees = [_tree(t) for t in node.children]
    return [t for t in trees if t.data == "operand"], [t for t in trees if t.data == "option"]


def _as_name(value: ast.Expr | None) -> ast.Name | None:
    assert value is None or isinstance(value, ast.Name)
    return value
