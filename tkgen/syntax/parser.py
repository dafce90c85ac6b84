"""Source text to AST.

    kernel = parse_path("specs/eight_wave.tk")

Every problem is a `SpecError` with diagnostics E100..E110, all of a file's syntax errors at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lark import Tree, UnexpectedInput
from lark.indenter import DedentError

from tkgen.diagnostics import Diagnostic, Fix, Label, SpecError
from tkgen.diagnostics.text import suggestion
from tkgen.source import SourceFile, Span
from tkgen.syntax import ast, statements
from tkgen.syntax.grammar import FILE_WORDS, MAX_STATEMENT, parser
from tkgen.syntax.loader import IncludeError, Loader, check_text, identity, read_source
from tkgen.syntax.sequence import sequence
from tkgen.syntax.statements import flatten
from tkgen.syntax.tree import Branch, TreeBuilder, check_once

MAX_INCLUDES = 16
MAX_REST = 1 << 16  # characters of a text with errors whose other statements are looked at


def parse_path(
    path: str | os.PathLike[str], include_roots: Sequence[str | os.PathLike[str]] = (), text: str | None = None
) -> ast.Kernel:
    """The kernel in the file at `path`; includes may reach its own folder and `include_roots`. Raises SpecError.

    `text` stands for the file's content where it is given.
    """
    return _alone(parse_spec(path, include_roots, text))


def parse_spec(
    path: str | os.PathLike[str], include_roots: Sequence[str | os.PathLike[str]] = (), text: str | None = None
) -> ast.Kernel | ast.Sequence:
    """As `parse_path`, for a file that may hold a sequence of kernels.

    A path with line breaks is no path but a text, as `parse_text` takes it.
    """
    if isinstance(path, str) and "\n" in path:
        return parse_any(_unnamed(path), loader=Loader.of([".", *include_roots]))
    file = read_source(Path(path), os.fspath(path)) if text is None else SourceFile(os.fspath(path), text)
    return parse_any(file, loader=Loader.of([os.path.dirname(file.name) or ".", *include_roots]))


def parse_text(text: str, include_roots: Sequence[str | os.PathLike[str]] = ()) -> ast.Kernel:
    """The kernel in `text`, called `<text>` in diagnostics. Raises SpecError.

    Includes are found from the current folder, and may reach it and `include_roots`.
    """
    return parse(_unnamed(text), loader=Loader.of([".", *include_roots]))


def _unnamed(text: str) -> SourceFile:
    file = SourceFile("<text>", text)
    check_text(file)
    return file


def parse(file: SourceFile, *, loader: Loader | None = None) -> ast.Kernel:
    """The one kernel of a spec. Without a loader, `include` is an error. Raises SpecError."""
    return _alone(parse_any(file, loader=loader))


@dataclass(frozen=True)
class Rest:
    """The rest of a spec beside the statements `unread`, which cannot be read; `words` are the names in these."""

    tree: ast.Kernel | ast.Sequence
    words: frozenset[str]
    unread: tuple[Span, ...]

    def beside(self, problem: Diagnostic) -> bool:
        """Return True if a problem lies in no statement that cannot be read: those have their own errors."""
        at = problem.primary.span if problem.primary else None
        return at is None or not any(s.start <= at.start < s.end and s.file is at.file for s in self.unread)


class UnreadError(SpecError):
    """Errors of statements, of which the others make a spec; `rest` is None where they do not."""

    rest: Rest | None = None


def parse_any(file: SourceFile, *, loader: Loader | None = None) -> ast.Kernel | ast.Sequence:
    """The kernel of a spec, or its sequence of them. Raises SpecError as `parse`, UnreadError for its statements."""
    try:
        tree = parse_tree(file)
    except SpecError as error:
        unread = UnreadError(error.diagnostics)
        unread.rest = _rest(file, loader, error.diagnostics)
        raise unread from None
    return _built(file, loader, tree)


def _rest(file: SourceFile, loader: Loader | None, found: Sequence[Diagnostic]) -> Rest | None:
    """The spec without the statements that have errors; None of a text that nobody writes."""
    if len(file.text) > MAX_REST:
        return None
    from tkgen.syntax.errors import statements_of
    from tkgen.syntax.recovery import readable

    wrong = statements_of(file, [d.primary.span.start for d in found if d.primary])
    if not wrong or any(d.code not in ("E101", "E103", "E108") for d in found):
        return None
    other = readable(file, wrong, found)
    if other is None:
        return None
    words = frozenset(w for s in wrong for w in re.findall(r"[A-Za-z_]\w*", file.text[s.start : s.end]))
    try:
        tree = parse_tree(SourceFile(file.name, other.text))
        other.placed(tree)
        return Rest(_built(file, loader, tree), words, tuple(Span(file, s.start, s.end) for s in wrong))
    except SpecError:
        return None


def _built(file: SourceFile, loader: Loader | None, tree: Branch) -> ast.Kernel | ast.Sequence:
    """The nodes of a tree. Raises SpecError."""
    builder = _Includer(file, loader).builder
    items = [t for t in tree.children if isinstance(t, Tree)]
    found: ast.Kernel | ast.Sequence | None
    if any(t.data == "sequence" for t in items):
        found = sequence(items, builder, header_comment(file))
    else:
        found = _kernel(file, items, builder)
    if builder.diagnostics or found is None:
        raise SpecError(builder.diagnostics)
    return found


def _kernel(file: SourceFile, items: list[Branch], builder: TreeBuilder) -> ast.Kernel | None:
    """The one kernel of a file; what is wrong goes to the builder's diagnostics."""
    kernels = [t for t in items if t.data == "kernel"]
    above = [t for t in items if t.data in ("definition", "include")] if kernels else []
    functions = builder.body(above)
    strange = {s.span for s in functions if not all(isinstance(f, ast.Function) for f in flatten([s]))}
    loose = [t for t in items if t.data != "kernel" and (t not in above or builder.span(t) in strange)]
    kernel = builder.kernel(kernels[0], header_comment(file)) if kernels else None
    if kernel is not None and functions:
        kernel = replace(kernel, body=(*functions, *kernel.body))
    for other in kernels[1:]:
        first, again = builder.span(kernels[0].children[0]), builder.span(other.children[0])
        labels = (Label(first, "the first one"),)
        fix = Fix("for a sequence of kernels write `sequence NAME` in the first line")
        builder.diagnostics.append(
            Diagnostic(
                "E106", "a spec has one kernel, but this file has more", Label(again, "another one"), labels, fix=fix
            )
        )
    if loose or kernel is None:
        builder.diagnostics.append(_not_a_spec(file, [_header(t, builder) for t in loose], kernel))
    if kernel is not None:
        check_once(kernel.body, builder)
    return kernel


def spec_paths(path: str | os.PathLike[str], include_roots: Sequence[str | os.PathLike[str]] = ()) -> set[Path]:
    """The file of a spec and those that it includes. Raises SpecError as `parse_spec`."""
    return {Path(path), *map(Path, statements.files(parse_spec(path, include_roots)))}


def _alone(found: ast.Kernel | ast.Sequence) -> ast.Kernel:
    """The kernel; E231 where there are several."""
    if isinstance(found, ast.Kernel):
        return found
    label = Label(found.name.span, f"{len(found.kernels)} kernels")
    fix = Fix("put that kernel into a separate file")
    message = f"`{found.name.id}` is a sequence of kernels, but a single kernel is needed"
    raise SpecError(Diagnostic("E231", message, label, fix=fix))


def parse_fragment(file: SourceFile, *, loader: Loader | None = None) -> tuple[ast.Statement, ...]:
    """The statements of a file made for `include`. Raises SpecError."""
    includer = _Includer(file, loader)
    statements = includer.fragment()
    check_once(statements, includer.builder)
    if includer.builder.diagnostics:
        raise SpecError(includer.builder.diagnostics)
    return statements


def parse_tree(file: SourceFile) -> Branch:
    """Lark's tree of a file. Raises SpecError with all its syntax errors."""
    check_text(file)
    if _needs_line_checks(file.text):
        from tkgen.syntax.errors import line_errors

        found = line_errors(file)
        if found:
            raise SpecError(found)
    try:
        return parser().parse(file.text.rstrip(), start="file")
    except (DedentError, UnexpectedInput) as error:
        raise SpecError(_syntax_errors(file, error)) from None


def _syntax_errors(file: SourceFile, error: DedentError | UnexpectedInput) -> list[Diagnostic]:
    """The errors of a file that the grammar refuses, whose module is imported for such files alone."""
    from tkgen.syntax.errors import line_errors, unexpected

    found = line_errors(file)
    return found if found or isinstance(error, DedentError) else [unexpected(file, error)]


def header_comment(file: SourceFile) -> str:
    """The comment block that the file opens with, without its `#`s."""
    lines: list[str] = []
    for number in range(1, len(file.line_starts) + 1):
        line = file.line(number).strip()
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").removeprefix(" "))
    return "\n".join(lines)


class _Includer:
    """A file being parsed, the chain of files that include it, and the builder of its nodes."""

    def __init__(self, file: SourceFile, loader: Loader | None, chain: tuple[Span, ...] = ()) -> None:
        self.file = file
        self.loader = loader
        self.chain = chain  # the include statements that lead here, outermost first
        self.builder = TreeBuilder(file, self.include)

    def fragment(self) -> tuple[ast.Statement, ...]:
        """This file's statements; what is wrong goes to the builder's diagnostics."""
        try:
            tree = parse_tree(self.file)
        except SpecError as error:
            self.builder.diagnostics += error.diagnostics
            return ()
        for item in tree.children:
            if isinstance(item, Tree) and item.data in FILE_WORDS:
                span = self.builder.span(item.children[0] if item.data == "kernel" else item)
                self.builder.error("E106", f"an included file contains statements, not a {item.data}", span)
        return self.builder.body(t for t in tree.children if isinstance(t, Tree) and t.data not in FILE_WORDS)

    def include(self, path: str, span: Span) -> tuple[ast.Statement, ...]:
        """The statements of the file that an include names; E104 where it cannot be followed."""
        chain = (*self.chain, span)
        try:
            if self.loader is None:
                raise IncludeError("there are no files around this text")
            if len(chain) > MAX_INCLUDES:
                raise IncludeError(f"includes nest more than {MAX_INCLUDES} files deep")
            file = self.loader.load(path, self.file)
            if identity(file.name) in [identity(s.file.name) for s in chain]:
                raise IncludeError("this file includes itself")
        except IncludeError as error:
            outer = tuple(Label(s, "included from here") for s in reversed(self.chain))
            message = f'cannot include "{path}": {error}'
            self.builder.diagnostics.append(Diagnostic("E104", message, Label(span, str(error)), outer))
            return ()
        except SpecError as error:
            self.builder.diagnostics += [_included(d, span) for d in error.diagnostics]
            return ()
        inner = _Includer(file, self.loader, chain)
        statements = inner.fragment()
        self.builder.diagnostics += [_included(d, span) for d in inner.builder.diagnostics]
        return statements


def _included(diagnostic: Diagnostic, span: Span) -> Diagnostic:
    """The same finding, with the include that leads to its file."""
    if diagnostic.primary is None:
        return replace(diagnostic, primary=Label(span, "included here"))
    if any(label.span == span and label.span.file is span.file for label in diagnostic.secondary):
        return diagnostic
    return replace(diagnostic, secondary=(*diagnostic.secondary, Label(span, "included from here")))


def _header(tree: Branch, builder: TreeBuilder) -> Span:
    """The span of a statement's header line."""
    inner = tree.children[0] if tree.data in ("role", "schedule") else tree
    return builder.span(inner)


def _not_a_spec(file: SourceFile, loose: list[Span], kernel: ast.Kernel | None) -> Diagnostic:
    """E106 for statements outside a kernel, or no kernel at all."""
    if kernel is not None:
        label = Label(loose[0], "indent it under the kernel")
        return Diagnostic("E106", "a statement outside the kernel", label, (Label(kernel.span, "the kernel"),))
    if not loose:
        label = Label(Span(file, 0, 0), "a spec starts with `kernel NAME`")
        return Diagnostic("E106", "this file has no kernel", label)
    label = Label(loose[0], "expected `kernel NAME` before the first statement")
    return Diagnostic(
        "E106",
        "this file has statements but no kernel",
        label,
        notes=("a file that has only statements is a fragment for `include`",),
    )


def _needs_line_checks(text: str) -> bool:
    """True if the text may have errors that the grammar does not see: tabs as indentation, or absurdly long lines."""
    if "\t" in text and re.search(r"^ *\t", text, re.MULTILINE):
        return True
    return len(text) > MAX_STATEMENT and max(map(len, text.split("\n"))) > MAX_STATEMENT


def unknown_defines(kernel: ast.Kernel, given: Iterable[str]) -> list[Diagnostic]:
    """An error E210 for each of the given names that is no dimension and no parameter of the kernel."""
    names = statements.bound(kernel)
    return [
        Diagnostic(
            "E210",
            f"-D {name} sets nothing in kernel `{kernel.name.id}`{suggestion(name, names)}",
            primary=Label(kernel.name.span, "no dimension or parameter of that name"),
            notes=(f"it has {', '.join(sorted(names)) or 'none'}",),
            fix=Fix("remove it, or use one of these"),
        )
        for name in given
        if name not in names
    ]
