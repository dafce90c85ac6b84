"""Prints a C++ model through the Jinja2 templates; the only place where generated text comes together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, partial

import jinja2
from jinja2.environment import TemplateModule

from tkgen.backends.cdna.lower.kernel import kernel_model
from tkgen.backends.cdna.lower.model import KernelModel, Scope
from tkgen.backends.cdna.lower.origins import NOWHERE, Marks, Source
from tkgen.backends.cdna.lower.statements import Statement
from tkgen.schedule import Plan


@cache
def environment(package: str = "tkgen.backends.cdna.lower") -> jinja2.Environment:
    """The templates of a package: undefined names are errors, blocks leave no blank lines."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader(package, "templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def lower(plan: Plan, target: str, spec: str = "", alone: bool = True) -> Source:
    """The C++ of `plan` for `target`; `spec` is the path its comments name. It is a file, or a namespace of one."""
    return render(kernel_model(plan, target, spec), alone)


def render(model: KernelModel, alone: bool = True) -> Source:
    """The text of a model."""
    env, marks = environment(), Marks()
    scopes = [_scope(s, marks) for s in model.scopes]
    block = env.get_template("block.jinja").render(m=model, scopes=scopes, remark=marks.remark).rstrip("\n")
    text = env.get_template("kernel.cpp.jinja").render(
        m=model,
        alone=alone,
        block=block,
        needs_wave=named("wave", block),
        named=named,
        remark=marks.remark,
    )
    if alone:
        members = [*(t.name for t in model.tensors), *(s.name for s in model.scalars), "stream"]
        functions = ("dispatch", "check_offsets") if model.groups else ("dispatch",)
        text = file_text(text, model.header, model.spec, model.target, model.module, model.name, members, functions)
    return marks.source(tidy(text))


def named(name: str, text: str) -> bool:
    """Return True if C++ text names something."""
    return re.search(rf"\b{name}\b", text) is not None


def file_text(
    body: str, header: Sequence[str], spec: str, target: str, module: str, name: str, members: Sequence[str],
    functions: Sequence[str] = ("dispatch",),
) -> str:  # fmt: skip
    """The file around the namespace `name`, with the Python module of it, whose `functions` take `members`."""
    return environment().get_template("file.cpp.jinja").render(
        header=header, spec=spec, target=target, body=body, module=module, name=name, members=members,
        functions=functions,
    )  # fmt: skip


def tidy(text: str) -> str:
    """Without blanks at the ends of lines, and with one blank line at a time."""
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", text))


def _scope(scope: Scope, marks: Marks) -> str:
    macros = environment().get_template("statements.jinja").make_module({"note": partial(marks.remark, NOWHERE)})
    parts = {
        name: "\n".join(_statement(s, macros, marks) for s in getattr(scope, name))
        for name in ("prologue", "body", "epilogue")
    }
    scoped = environment().get_template("scope.jinja").render(s=scope, remark=marks.remark, **parts)
    return scoped.strip("\n") + "\n"


def _statement(statement: Statement, macros: TemplateModule, marks: Marks) -> str:
    """A statement with its loops; its first line comes from the spec lines, all of them carry out the operations."""
    lines = str(getattr(macros, statement.code.macro)(statement.code)).strip("\n").split("\n")
    lines[0] += marks.remark(statement.origin)
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
    return "\n".join(line + marks.carries_out(statement.operations) for line in result)
