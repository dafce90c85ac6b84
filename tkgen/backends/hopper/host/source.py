"""A generated kernel and the embedded headers as C++ for the host: rewritten statement by statement.

Three things of CUDA C++ have no meaning for a host compiler: `asm` statements with PTX, `__shared__` variables, and the
size of a cluster in an attribute. All else compiles as it is, with the names of `include/cuda_host.h`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tkgen.backends.hopper.build import include_dirs

EMBEDDED, COMMON = include_dirs()
HOST = Path(__file__).parent / "include"

ASM = re.compile(r"\basm\s*(?:volatile\s*)?\(")
OPERAND = re.compile(r'"([=+]?)[rlhfdn]"\s*\(')
INCLUDE = re.compile(r'^#include ["<]([^">]+)[">].*$', re.MULTILINE)
SHARED = re.compile(r"^(\s*)__shared__\s+(?:alignas\(\d+\)\s*)?([^;]*);", re.MULTILINE)
DYNAMIC = re.compile(r"extern\s+__shared__\s+(?:alignas\(\d+\)\s*)?(\w+)\s+(\w+)\[\];")
CLUSTER = re.compile(r"__cluster_dims__\(([^()]*)\)")
BOUNDS = re.compile(r"__launch_bounds__\(([^(),]*)")
NAMESPACE = re.compile(r"^namespace (\w+) \{", re.MULTILINE)


@dataclass(frozen=True)
class HostSource:
    """The C++ of one kernel for the host, complete except for the runtime."""

    text: str


def host_source(kernel: str) -> HostSource:
    """The rewritten kernel with everything that it includes, and the functions that `run` calls.

    Raises:
        ValueError: the text is not a generated kernel.
    """
    found = NAMESPACE.search(kernel)
    if found is None or "__global__" not in kernel:
        raise ValueError("this is not a generated kernel: it has no namespace with a `__global__` function")
    cluster, bounds = CLUSTER.search(kernel), BOUNDS.search(kernel)
    parts = ['#include "cuda_host.h"']
    included: set[Path] = set()
    parts += [_header(name, EMBEDDED, included) for name in INCLUDE.findall(kernel)]
    parts += ['#line 1 "kernel.cu"', rewritten(INCLUDE.sub("", kernel))]
    parts.append(
        f"""
namespace {found[1]} {{
constexpr int tkgen_host_cluster = {cluster[1] if cluster else 1}, tkgen_host_threads = {bounds[1] if bounds else 1024};
}}
#include "entry.h"
TKGEN_HOST_ENTRY({found[1]})
"""
    )
    return HostSource("\n".join(parts))


def _header(name: str, beside: Path, included: set[Path]) -> str:
    """An embedded header, rewritten, after those that it includes; standard ones are the compiler's."""
    path = next((p for p in (beside / name, EMBEDDED / name, COMMON / name) if p.is_file()), None)
    if path is None:
        return "" if name.startswith("cuda_") else f"#include <{name}>"
    if path in included:
        return ""
    included.add(path)
    text = path.read_text(encoding="utf-8")
    before = [_header(n, path.parent, included) for n in INCLUDE.findall(text)]
    own = rewritten(INCLUDE.sub("", text).replace("#pragma once", ""))
    return "\n".join([*before, f'#line 1 "{name}"', own])


def rewritten(text: str) -> str:
    """The text with `asm` statements as calls and shared variables as places in a block's memory."""
    return "".join(_calls(_shared(OPERAND.sub(_operand, text))))


def _operand(match: re.Match[str]) -> str:
    return "TKGEN_OUT(" if match[1] else "TKGEN_IN("  # without a colon, which separates operands


def _calls(text: str) -> Iterator[str]:
    """The text in pieces, each `asm` statement as a call of the runtime; one without a text is nothing."""
    at = 0
    for match in ASM.finditer(text):
        if match.start() < at or "//" in text[text.rfind("\n", 0, match.start()) + 1 : match.start()]:
            continue
        yield text[at : match.start()]
        parts, at = _parts(text, match.end())
        operands = ", ".join(part for part in parts[1:3] if part.strip(" \t\n\\"))
        if parts[0].strip() == '""':
            yield "((void)0)"
        else:
            yield (f"do {{ static const ::tkgen_host::code tkgen_code({parts[0]}); "
                   f"::tkgen_host::execute(tkgen_code, {{{operands}}}); }} while (0)")  # fmt: skip
    yield text[at:]


def _parts(text: str, start: int) -> tuple[list[str], int]:
    """The parts of an `asm` statement between colons, and the position of its last bracket."""
    depth, at, cuts = 1, start, [start - 1]
    while depth:
        c = text[at]
        if c == '"':
            at += 1
            while text[at] != '"':
                at += 2 if text[at] == "\\" else 1
        elif depth == 1 and c == ":":
            cuts.append(at)
        depth += (c in "([{") - (c in ")]}")
        at += 1
    ends = [*cuts[1:], at - 1]
    return [text[a + 1 : b] for a, b in zip(cuts, ends, strict=True)], at


def _shared(text: str) -> str:
    """Shared variables as places in the block's memory: one structure for each declaration."""
    text = DYNAMIC.sub(r"auto *\2 = static_cast<\1 *>(::tkgen_host::dynamic_shared());", text)
    return SHARED.sub(_declaration, text)


def _declaration(match: re.Match[str]) -> str:
    indent, declared = match[1], match[2]
    names = [found[1] for part in _split(declared) if (found := re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)*$", part))]
    made = f"tkgen_shared_{'_'.join(names)}"
    fields = ", ".join(
        f'{{"{n}", offsetof({made}, {n}), sizeof({made}::{n}), sizeof(std::remove_extent_t<decltype({made}::{n})>)}}'
        for n in names
    )
    return (
        f"{indent}struct {made} {{ {declared}; }}; static const char {made}_key = 0; "
        f"auto &[{', '.join(names)}] = *static_cast<{made} *>(::tkgen_host::static_shared("
        f"&{made}_key, sizeof({made}), alignof({made}), {{{fields}}}));"
    )


def _split(text: str) -> list[str]:
    """The declarators of a declaration: what commas outside brackets separate."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([{<") - (c in ")]}>")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return parts
