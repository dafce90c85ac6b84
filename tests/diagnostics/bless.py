"""Take what tkgen says now as what is expected: `python tests/diagnostics/bless.py [NAME...]`.

Rewrites the text beside each spec of the corpus, and docs/diagnostics.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

import corpus

from tkgen.diagnostics.explain import book

DOCS = Path(__file__).parents[2] / "docs" / "diagnostics.md"


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
