"""C++ identifiers for the names of a spec: nothing it says can collide with, or break out of, the generated code.

A tensor or scalar of a spec is a member of the argument struct, beside constants, types and functions; with a suffix it
is a local of the kernel; the kernel's name is that of a namespace, beside everything that any header declares. There is
one set of names for all of these that generated code or a header uses otherwise (`is_taken`), and a name in it gets an
underscore, which nothing in the set has at its end.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

from tkgen.backends.cdna.kittens import include_dir, surface
from tkgen.ir.functions import CDNA, FUNCTIONS, helpers

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)

# Of C++20, and of C where a compiler knows them in C++ too.
KEYWORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class
    compl concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype
    default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline
    int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public
    register reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct
    switch template this thread_local throw true try typedef typeid typename typeof union unsigned using virtual void
    volatile wchar_t while xor xor_eq
"""
# What the generator writes without a template, and what some lines of the harness call things within.
GENERATED = """
    linux unix main wave_row wave_col grid_rows grid_cols common detail apply element tensor brain fail require parse
    whole real repeats warmup check_and_time partial load_made op part within
"""
# Constants of the generated file and macros of any header are written in capitals.
CAPITALS = re.compile(r"[A-Z][A-Z0-9_]{2,}")
# Reserved for the implementation, or a prefix (an ending) of one header's names.
FAMILIES = re.compile(r"_|DIM_|KITTENS|hip|Py|PY|pybind|pthread_|SYS_|PRI|SCN|M_|L_|.*f(32|64)x?(_[lr])?$")
# What a tensor's name is given to name a local of the kernel.
SUFFIXES = ("_s", "_r", "_acc", "_stage", "_offsets", "_tile", "_e", "_e_rows", "_m", "_i", "_rows")
# Templates whose every word stands in the argument struct, in the kernel, or beside the namespace.
TEMPLATES = ("file.cpp.jinja", "kernel.cpp.jinja", "block.jinja", "scope.jinja")
# Their words that name nothing of the kind: a component of an index, and what a lambda calls its argument.
HARMLESS = {"x"}
# Templates that declare functions, types and constants where lines begin.
DECLARING = ("harness.cpp.jinja",)
# A namespace in `kittens`: what it holds is not visible without its name.
INNER = re.compile(r"^(namespace (?!kittens \{)([\w:]+) \{)$.*?^\} // namespace \2$", re.MULTILINE | re.DOTALL)


@cache
def taken() -> frozenset[str]:
    """The names that mean something in a generated file, beside those with the form of a family."""
    folder = resources.files("tkgen.backends.cdna.lower")
    library = folder.joinpath("library_names.txt").read_text(encoding="utf-8").split("\n", 2)[2]
    found = {*KEYWORDS.split(), *GENERATED.split(), *library.split()}
    found |= {
        n.name for n in surface.values() if n.kind in ("namespace", "type", "constant", "function", "c++", "language")
    }
    for helper in helpers(FUNCTIONS, CDNA):
        found |= set(re.findall(r"__device__ inline \w+ (\w+)\(", helper))
    for name in TEMPLATES:
        text = folder.joinpath("templates", name).read_text(encoding="utf-8")
        bare = re.sub(
            r"\btk::\w+|\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}|//[^\n]*|\"(\\.|[^\"\\])*\"", " ", text, flags=re.DOTALL
        )
        found |= set(WORD.findall(bare)) - HARMLESS
    for name in DECLARING:
        found |= declared(folder.joinpath("templates", name).read_text(encoding="utf-8"))
    for header in include_dir().rglob("*.cuh"):  # of their functions only those that are called stand in `surface`
        text = INNER.sub(r"\1", header.read_text(encoding="utf-8"))
        found |= declared(text, r"namespace|struct|class|union|enum|using|concept")
    return frozenset(found)


def declared(text: str, by: str = r"[a-z\[]") -> frozenset[str]:
    """Names that C++ declares at the start of a line, after a word like `by`: the last word before `(`, `=` or `;`."""
    found = set()
    for line in re.findall(rf"^(?:template <.*> )?(?:{by}).*", text, re.MULTILINE):
        head = re.sub(r"\[\[.*?\]\]|\balignas\([^()]*(\([^()]*\))?[^()]*\)", "", line)
        while (inner := re.sub(r"<[^<>]*>", " ", head)) != head:  # arguments of templates, from within
            head = inner
        words = WORD.findall(re.split(r"[({=;/:<>,]", head)[0])
        found |= {*words[-1:]}
    return frozenset(found)


def is_taken(name: str) -> bool:
    """Return True if generated code cannot use `name`, or a local made from it, for something of a spec."""
    known = taken()
    return (
        name in known
        or CAPITALS.fullmatch(name) is not None
        or FAMILIES.match(name) is not None
        or any(name + suffix in known for suffix in SUFFIXES)
    )


def cpp_name(name: str) -> str:
    """`name` as a C++ identifier of the generated file: itself, or with a trailing underscore where it is taken.

    Raises:
        ValueError: it is no identifier (the grammar admits none such).
    """
    if not IDENTIFIER.match(name):
        raise ValueError(f"{name!r} is not an identifier")
    # Also `int_`, so that `int` and `int_` stay two names.
    return f"{name}_" if is_taken(name.rstrip("_") or name) else name


def comment_text(text: str) -> str:
    """`text` safe inside a `//` comment: printable, on one line, no trigraph, no backslash that continues it."""
    clean = "".join(c if c.isprintable() else "?" for c in text)
    return re.sub(r"\?(?=\?)", "? ", clean).rstrip("\\ ")


EXTENTS = ("batch", "depth", "rows", "cols")  # accessors of gl


def as_given(extent: str) -> str:
    """An extent of a tensor as the launch gets it, in 64 bits: `g.X.rows()` is an `int`, 64 for 2^32 + 64 rows."""
    return f"{extent.removesuffix('()')}_internal.v"


def outside(extent: str, least: int, most: int) -> str:
    """The condition that an extent, which is never negative, is not from `least` to `most`."""
    given = as_given(extent)
    return f"{given} < {least} || {given} > {most}" if least else f"{given} > {most}"
