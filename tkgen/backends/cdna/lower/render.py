"""Prints a C++ model through the Jinja2 templates; the only place where generated text comes together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from tkgen.backends.cdna.lower.kernel import kernel_model
from tkgen.backends.cdna.lower.model import FileModel, KernelModel, Scope
from tkgen.backends.cdna.lower.origins import Marks, Source
from tkgen.schedule.plan import Plan

if TYPE_CHECKING:
    import jinja2


@cache
def environment(package: str = "tkgen.backends.cdna.lower") -> jinja2.Environment:
    """The templates of a package: undefined names are errors, blocks leave no blank lines."""
    import jinja2  # a check prints nothing

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
        remark=marks.remark,
        marks=marks,
    )
    if alone:
        text = file_of(text, model, bool(model.groups))
    return marks.source(tidy(text))


def file_of(body: str, model: FileModel, looks: bool) -> str:
    """The file around the namespace of one kernel; `looks`: it has a function that looks at offsets."""
    members = [*(t.name for t in model.tensors), *(s.name for s in model.scalars), "stream"]
    functions = ("dispatch", "check_offsets") if looks else ("dispatch",)
    return file_text(body, model.header, model.spec, model.target, model.module, model.name, members, functions)


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
    names = ("declared", "before", "prologue", "body", "epilogue", "after")
    parts = {name: "\n".join(s.text(marks) for s in getattr(scope, name)) for name in names}
    scoped = environment().get_template("scope.jinja").render(s=scope, remark=marks.remark, **parts)
    return scoped.strip("\n") + "\n"
