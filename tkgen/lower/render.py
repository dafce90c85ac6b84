"""Prints a C++ model through the Jinja2 templates; the only place where generated text comes together."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import jinja2

from tkgen.lower.kernel import kernel_model
from tkgen.lower.model import KernelModel, Scope, Statement
from tkgen.schedule import Plan

ACTIVATIONS = frozenset({"relu", "gelu", "gelu_tanh", "silu"})


@dataclass(frozen=True)
class Source:
    """Generated text and, for every line of it (1-based), the spec line it came from (0: none)."""

    text: str
    spec_lines: tuple[int, ...]

    def spec_line(self, line: int) -> int:
        """The spec line behind generated line `line`, or the nearest one above it."""
        for number in range(min(line, len(self.spec_lines)), 0, -1):
            if self.spec_lines[number - 1]:
                return self.spec_lines[number - 1]
        return 0


@cache
def environment() -> jinja2.Environment:
    """The template environment: undefined names are errors, blocks leave no blank lines."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("tkgen.lower", "templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


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
    return Source(text, tuple(_spec_line(line) for line in text.split("\n")))


def _helpers(model: KernelModel) -> str:
    """The device functions that the kernel calls beside those of the headers."""
    template = environment().get_template("helpers.jinja")
    return template.render(
        helpers=model.helpers,
        activations=model.helpers & ACTIVATIONS,
        exponential=model.helpers & (ACTIVATIONS - {"relu"}),
        masked=model.tail is not None,
        clamped=model.tail == "clamped",
        wide=model.wide,
        shape=model.shape,
    )


def _spec_line(line: str) -> int:
    found = re.search(r"// (?:.*, )?spec:(\d+)$", line)
    return int(found.group(1)) if found else 0


def _scope(scope: Scope) -> str:
    parts = {name: "\n".join(map(_statement, getattr(scope, name))) for name in ("prologue", "body", "epilogue")}
    return environment().get_template("scope.jinja").render(s=scope, **parts).strip("\n") + "\n"


def _statement(statement: Statement) -> str:
    """A statement with its loops; the first line names the spec line."""
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
    if statement.line and "//" not in result[-1] and lines[0].strip() != "":
        at = next(i for i, line in enumerate(result) if line.strip() == lines[0].strip())
        result[at] += f"  // spec:{statement.line}"
    return "\n".join(result)
