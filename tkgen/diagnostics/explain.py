"""The long explanation of every diagnostic code: one Markdown file each, in `pages/`.

    # E101: a word or sign that is not allowed here
    Prose.
    ```tk fails
    ...
    ```
    ```tk passes
    ...
    ```

`fails` and `passes` may be followed by the command line that the example needs (`target=gfx950`, `-D M=100`),
`fragment` for statements without a kernel, and `escaped` where the text is written with `\\x00`-style bytes that no
page can hold. What `tkgen sanitize` finds has ```cpp examples, with the options of the launch after `fails` and
`passes`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from tkgen.diagnostics.text import nearest


class UnknownCode(LookupError):
    """No page has this code; the message suggests one."""


@dataclass(frozen=True)
class Example:
    """A spec in a page, or a `cpp` kernel; `options` are the words after `fails` or `passes`."""

    text: str
    options: tuple[str, ...] = ()
    language: str = "tk"

    @property
    def data(self) -> bytes:
        """The example as a file's bytes."""
        if "escaped" in self.options:
            return re.sub(r"\\x([0-9a-f]{2})", lambda m: chr(int(m[1], 16)), self.text).encode("latin-1")
        return self.text.encode()


@dataclass(frozen=True)
class Page:
    """The explanation of one code; `markdown` is the complete page, `prose` the text before the first example."""

    code: str
    title: str
    prose: str
    fails: tuple[Example, ...]
    passes: tuple[Example, ...]
    markdown: str


def codes() -> list[str]:
    """All codes that have a page, sorted."""
    names = (entry.name for entry in (files("tkgen.diagnostics") / "pages").iterdir())
    return sorted(name.removesuffix(".md") for name in names if re.fullmatch(r"[EW]\d{3}\.md", name))


@cache
def page(code: str) -> Page:
    """The page of a code, in either case. Raises UnknownCode."""
    name = code.upper()
    if name not in codes():
        meant = nearest(name, codes())
        raise UnknownCode(f"there is no diagnostic `{code}`" + (f"; did you mean {meant}?" if meant else ""))
    return parse_page(name, (files("tkgen.diagnostics") / "pages" / f"{name}.md").read_text(encoding="utf-8"))


def parse_page(code: str, markdown: str) -> Page:
    """The parts of a page. Raises ValueError where its first line is not `# CODE: title`."""
    head = re.match(rf"# {code}: (.+)\n", markdown)
    if head is None:
        raise ValueError(f"the page of {code} must start with `# {code}: title`")
    blocks = re.findall(r"^```(tk|cpp) (fails|passes)([^\n]*)\n(.*?)^```$", markdown, re.MULTILINE | re.DOTALL)
    examples = [(kind, Example(text, tuple(options.split()), language)) for language, kind, options, text in blocks]
    prose = markdown[head.end() :].split("```", 1)[0].strip()
    return Page(
        code,
        head[1].strip(),
        prose,
        tuple(e for kind, e in examples if kind == "fails"),
        tuple(e for kind, e in examples if kind == "passes"),
        markdown,
    )


def explain_text(code: str) -> str:
    """The page for a terminal: examples indented, without Markdown's fences. Raises UnknownCode."""
    out: list[str] = []
    inside = False
    for line in page(code).markdown.splitlines():
        fence = re.fullmatch(r"```(?:(?:tk|cpp) (fails|passes)(.*))?(?:text)?", line)
        if fence:
            inside = not inside
            if fence[1]:
                out.append({"fails": "Wrong:", "passes": "Right:"}[fence[1]])
            continue
        out.append(f"    {line}".rstrip() if inside else line.removeprefix("# "))
    return "\n".join(out).strip() + "\n"
