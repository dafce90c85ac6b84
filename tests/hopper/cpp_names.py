"""Names that C++ declares at the scope of namespaces, by reading its text: no preprocessor, no compiler."""

from __future__ import annotations

import re
from collections.abc import Iterator

IGNORED = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', re.DOTALL | re.MULTILINE)
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
NAMESPACE = re.compile(r"\s*(?:inline\s+)?namespace\s+([\w:]*)\s*$")
TYPE = re.compile(
    r"(?:struct|class|concept|enum(?:\s+class)?)\s+(?:alignas\s*\([^)]*\)\s*)?(?:KITTENS_\w+(?:\([^)]*\))?\s*)?(\w+)"
)
ALIAS = re.compile(r"using\s+(\w+)\s*=")
FUNCTION = re.compile(r"(\w+)\s*(?:<[^()]*>)?\s*\(")
VARIABLE = re.compile(r"(\w+)\s*(?:<[^=]*>)?\s*(?:\[[^]]*\]\s*)*(?:=|\{|$)")
SPECIFIER = re.compile(
    r"__(?:launch_bounds|cluster_dims)__\s*\([^)]*\)|__attribute__\s*\(\(.*?\)\)|requires\s*\([^)]*\)"
)


def macros(text: str) -> set[str]:
    """Macros that a text defines."""
    return set(MACRO.findall(text))


def declared(text: str) -> Iterator[tuple[str, str, bool]]:
    """Each name that stands in a namespace: the namespace, such as `kittens::tma`; the name; whether of a function."""
    scopes: list[str | None] = []  # the namespace that a brace opens, None for another
    statement = ""
    for part in re.split(r"([{};])", IGNORED.sub(" ", text)):
        if part not in "{};" or not part:
            statement += part
            continue
        outside = None not in scopes
        opened = NAMESPACE.match(statement) if part == "{" else None
        if outside and part != "}" and not opened and (found := _name(statement)):
            yield "::".join(s for s in scopes if s), *found
        if part == "{":
            scopes.append(opened[1] if opened else None)
        elif part == "}" and scopes:
            scopes.pop()
        statement = ""


def _name(statement: str) -> tuple[str, bool] | None:
    """The name that a statement in a namespace declares; True if that is a function."""
    bare = SPECIFIER.sub(" ", _without_template(statement)).strip()
    if bare.startswith(("using namespace", "static_assert", "asm", "friend")):
        return None
    for kind in (ALIAS, TYPE):
        if named := kind.match(bare):
            return named[1], False
    if (named := FUNCTION.search(bare)) and "=" not in bare[: named.start()]:
        return named[1], True
    named = VARIABLE.search(bare)
    return (named[1], False) if named else None


def _without_template(statement: str) -> str:
    """A declaration without `template<...>` before it."""
    bare = statement.lstrip()
    while bare.startswith("template"):
        depth, end = 0, len(bare)
        for at, sign in enumerate(bare):
            depth += {"<": 1, ">": -1}.get(sign, 0)
            if sign == ">" and not depth:
                end = at + 1
                break
        bare = bare[end:].lstrip()
    return bare
