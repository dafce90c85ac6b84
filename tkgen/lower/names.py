"""C++ identifiers for the names of a spec: nothing it says can collide with, or break out of, the generated code."""

from __future__ import annotations

import re

from tkgen.kittens import surface

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

# Words that have a meaning in a generated file beside those of ThunderKittens: of C++20; of the file itself; of the
# harness; of the C library, which declares functions in the scope where a kernel's namespace stands.
WORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class
    compl concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype
    default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline
    int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public
    register reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch
    template this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile
    wchar_t while xor xor_eq

    linux unix main g al wave wave_row wave_col tile tile_row tile_col block_id k steps grid block grid_rows grid_cols
    dynamic_shared_memory stream globals kernel dispatch check detail common chunk half_chunk fetch apply barrier
    lds_barrier buffer_at element add_to_rows add_to_columns for_each_inside rows_from store_masked load_masked
    store_add silu gelu gelu_tanh exponential

    tensor brain fail require parse repeats warmup check_and_time

    abort abs access acos alarm asin atan atof atoi brk bsearch calloc ceil clock close connect cos cosh creat
    ctime dup erf erfc exit fabs floor fma fmod fopen fork fputs fread free frexp fwrite gamma getc gets hypot
    index isnan j0 j1 jn kill labs ldexp link listen localtime log log10 log2 longjmp lseek malloc memcpy memset
    mkdir modf nan nice open pause perror pipe pow printf putc puts qsort raise rand random read realloc
    remainder remove rename rewind rint round scalb select send setjmp signal sin sinh sleep socket sqrt srand
    stat strcmp strlen swab sync system tan tanh tgamma time times tolower toupper trunc truncate umask uname
    unlink wait write y0 y1 yn
"""
RESERVED = frozenset(WORDS.split()) | {
    n.name for n in surface.values() if n.kind in ("namespace", "type", "constant", "function", "c++")
}


def cpp_name(name: str) -> str:
    """`name` as a C++ identifier of the generated file: itself, or with a trailing underscore where it is taken.

    Raises:
        ValueError: it is no identifier (the grammar admits none such).
    """
    if not IDENTIFIER.match(name):
        raise ValueError(f"{name!r} is not an identifier")
    # Also `int_`, so that `int` and `int_` stay two names.
    return f"{name}_" if name.rstrip("_") in RESERVED or name.startswith(("__", "hip", "KITTENS")) else name


def comment_text(text: str) -> str:
    """`text` safe inside a `//` comment: printable, on one line, no trigraph, no backslash that continues it."""
    clean = "".join(c if c.isprintable() else "?" for c in text)
    return re.sub(r"\?(?=\?)", "? ", clean).rstrip("\\ ")
