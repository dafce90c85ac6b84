"""Prints a C++ model through the Jinja2 templates; the only place where generated text comes together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

import jinja2

from tkgen.ir.functions import CDNA, helpers
from tkgen.lower.kernel import kernel_model
from tkgen.lower.model import KernelModel, Scope, Statement
from tkgen.schedule import Plan
from tkgen.source import SourceFile

SYNCHRONISING = frozenset({"barrier", "fence", "lds_barrier", "wait"})  # helpers that pin accesses to memory


@dataclass(frozen=True)
class Origin:
    """A line (1-based) of a spec or of a file that it includes."""

    file: SourceFile
    line: int


@dataclass(frozen=True)
class Source:
    """Generated text; `origins` has for every line of it the spec lines it came from.

    `operations` has the lines (1-based) that carry out an operation of the schedule, by role, part and position in
    it: `consumer/body/3` is operation 3 of the steady loop of role `consumer`.
    """

    text: str
    origins: tuple[tuple[Origin, ...], ...] = field(repr=False)
    operations: Mapping[str, tuple[int, ...]] = field(repr=False)

    def origin(self, line: int) -> Origin | None:
        """The first spec line behind generated line `line`, or behind the nearest line above it that has one."""
        above = self.origins[: max(line, 0)]
        return next((found[0] for found in reversed(above) if found), None)


@cache
def environment() -> jinja2.Environment:
    """The template environment: undefined names are errors, blocks leave no blank lines."""
    env = jinja2.Environment(
        loader=jinja2.PackageLoader("tkgen.lower", "templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    env.globals["remark"] = _remark
    return env


def lower(plan: Plan, target: str, spec: str = "") -> Source:
    """The C++ of `plan` for `target`; `spec` is the path its comments name."""
    return render(kernel_model(plan, target, spec))


def render(model: KernelModel) -> Source:
    """The text of a model."""
    env = environment()
    scopes = [_scope(s) for s in model.scopes]
    block = env.get_template("block.jinja").render(m=model, scopes=scopes).rstrip("\n")
    helpers = _helpers(model) if model.helpers else ""
    text = env.get_template("kernel.cpp.jinja").render(
        m=model,
        block=block,
        helpers=f"\n{helpers.strip()}\n" if helpers else "",
        needs_wave=bool(re.search(r"\bwave\b", block)),
        members=[*(t.name for t in model.tensors), *(s.name for s in model.scalars), "stream"],
    )
    text = re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", text))
    marked = text.split("\n")
    operations: dict[str, tuple[int, ...]] = {}
    for number, line in enumerate(marked, 1):
        for name in line.partition(_MARK)[2].split():
            operations[name] = (*operations.get(name, ()), number)
    lines = [line.partition(_MARK)[0] for line in marked]
    return Source("\n".join(lines), tuple(_origins(line, model.files) for line in lines), operations)


def _helpers(model: KernelModel) -> str:
    """The device functions that the kernel calls beside those of the headers."""
    template = environment().get_template("helpers.jinja")
    return template.render(
        helpers=model.helpers,
        pinned=model.helpers & SYNCHRONISING,
        functions=helpers(model.helpers, CDNA),
        masked=model.tail is not None,
        clamped=model.tail == "clamped",
        wide=model.wide,
        shape=model.shape,
    )


_MARK = "\0"  # within `render`: what follows on a line names the operations it carries out


def _origins(line: str, files: Mapping[str, SourceFile]) -> tuple[Origin, ...]:
    """The spec lines that a generated line's comment names."""
    found = re.search(r"// (?:.*, )?spec:(\S+)$", line)
    places = [place.rpartition(":") for place in found[1].split(",")] if found else []
    return tuple(Origin(files[file], int(number)) for file, _, number in places if number.isdecimal() and file in files)


def _remark(origin: str, comment: str = "") -> str:
    """The comment at the end of a line: what it is, then the spec lines it came from."""
    text = ", ".join(part for part in (comment, f"spec:{origin}" if origin else "") if part)
    return f"  // {text}" if text else ""


def _scope(scope: Scope) -> str:
    parts = {name: "\n".join(map(_statement, getattr(scope, name))) for name in ("prologue", "body", "epilogue")}
    return environment().get_template("scope.jinja").render(s=scope, **parts).strip("\n") + "\n"


def _statement(statement: Statement) -> str:
    """A statement with its loops; its first line names the spec lines, all of them the operations."""
    module = environment().get_template("statements.jinja").module
    lines = str(getattr(module, statement.kind)(**statement.args)).strip("\n").split("\n")
    result: list[str] = []
    indent = ""
    for number, loop in enumerate(statement.loops):
        last = number == len(statement.loops) - 1
        brace = " {" if last and len(lines) > 1 else ""
        result.append(f"{indent}#pragma unroll")
        end = loop.first + loop.count
        result.append(
            f"{indent}for (int {loop.variable} = {loop.first}; {loop.variable} < {end}; ++{loop.variable}){brace}"
        )
        indent += "    "
    result += [indent + line for line in lines]
    if statement.loops and len(lines) > 1:
        result.append(indent[4:] + "}")
    if statement.origin:
        at = next(i for i, line in enumerate(result) if line.strip() == lines[0].strip())
        code, _, comment = result[at].partition("  // ")
        result[at] = code + _remark(statement.origin, comment)
    mark = f"{_MARK}{' '.join(statement.operations)}" if statement.operations else ""
    return "\n".join(line + mark for line in result)
