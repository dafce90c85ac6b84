"""Take what tkgen says now as what is expected: `python tests/diagnostics/bless.py [NAME...]`.

Rewrites the text beside each spec of the corpus, and docs/diagnostics.md.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import corpus

from tkgen.diagnostics.explain import codes, page

DOCS = Path(__file__).parents[2] / "docs" / "diagnostics.md"


def book() -> str:
    """All pages as one Markdown document, `docs/diagnostics.md`, after a table of the codes."""
    pages = [page(code) for code in codes()]
    lines = [
        "# Diagnostics",
        "",
        "Every message of tkgen has a stable code: `E` for errors, which refuse a spec, `W` for warnings. "
        "`tkgen explain E301` prints one of these pages.",
        "",
        "| code | what it says |",
        "|---|---|",
        *(f"| [{p.code}](#{anchor(p.code)}) | {p.title} |" for p in pages),
    ]
    for p in pages:
        text = re.sub(r"^```(?:tk|(cpp)) (fails|passes)[^\n]*$", r"\2:\n\n```\1", p.markdown, flags=re.MULTILINE)
        text = text.replace("fails:\n", "Wrong:\n").replace("passes:\n", "Right:\n")
        lines += ["", f"#{text.strip()}"]
    return "\n".join(lines) + "\n"


def anchor(code: str) -> str:
    """The fragment that Markdown renderers give the section of a code in `docs/diagnostics.md`."""
    return re.sub(r"[^\w\- ]", "", f"{code}: {page(code).title}".lower()).replace(" ", "-")


def main(names: list[str]) -> None:
    changed = 0
    for spec in corpus.SPECS:
        if not names or spec.stem in names:
            path, text = corpus.expected(spec), corpus.rendered(spec)
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")
                print(f"blessed {path.name}")
                changed += 1
    DOCS.write_text(book(), encoding="utf-8")
    print(f"{changed} of {len(corpus.SPECS)} changed")


if __name__ == "__main__":
    main(sys.argv[1:])
