"""The gallery: every spec with a line, a picture, its figures, and the lines that peers take for the same.

    python benchmarks/gallery.py --write          docs/gallery.md, and the pictures in docs/img/gallery

Figures are those of the machine code; times are predictions. Lines are counted without blanks and comments: of ours
here, of peers' as `peers.toml` says.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thumbnail import thumbnail

import tkgen
from tkgen.backends import protocol
from tkgen.build import Build
from tkgen.predict import PredictError, predict
from tkgen.sequence.build import SequenceBuild

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/gallery.md"
PICTURES = ROOT / "docs/img/gallery"
FOLDERS = {
    ".": "Matrix products", "attention": "Attention", "groups": "Groups", "rows": "Rows",
    "quantise": "Quantising", "low_precision": "Low precision",
    "sequences": "Sequences of kernels", "hopper": "Hopper",
}  # fmt: skip
HEAD = """# Gallery

Every spec in `specs`. A picture shows the tile of a block and the waves that own its parts. The
figures are those of the machine code; the rate is predicted at the spec's own sizes. The lines of a
spec are compared with those of other people's kernels for the same task, without blanks, comments,
and code that launches or checks a kernel. `benchmarks/peers.toml` lists the counted files.
Written by `python benchmarks/gallery.py --write`.
"""


@dataclass(frozen=True)
class Entry:
    """A spec of the gallery, with what its page says of it."""

    path: Path
    line: str
    lines: int
    peers: tuple[str, ...]
    figures: str = ""
    rate: str = ""

    @property
    def name(self) -> str:
        return self.path.stem


def specs() -> Iterator[tuple[str, list[Path]]]:
    """The families in order, with their specs."""
    found = {path.parent.relative_to(ROOT / "specs").as_posix() for path in (ROOT / "specs").rglob("*.tk")}
    for folder in [*FOLDERS, *sorted(found - FOLDERS.keys())]:
        if folder in found:
            yield FOLDERS.get(folder, folder.capitalize()), sorted((ROOT / "specs" / folder).glob("*.tk"))


def peers() -> Mapping[str, tuple[str, ...]]:
    """For each spec that peers have, how many lines each takes."""
    data: dict[str, dict[str, Any]] = tomllib.loads((ROOT / "benchmarks/peers.toml").read_text(encoding="utf-8"))
    found: dict[str, list[str]] = {}
    for peer in data.values():
        for name, value in peer.items():
            if isinstance(value, list):
                found.setdefault(name, []).append(f"{peer['name']} {value[0]:,}")
    return {name: tuple(lines) for name, lines in found.items()}


def described(path: Path, known: Mapping[str, tuple[str, ...]]) -> Entry:
    """The entry of a spec from its text: its first sentence, its lines."""
    text = path.read_text(encoding="utf-8")
    comment = []
    for line in text.splitlines():
        if not line.startswith("#") or line.startswith("# expect"):
            break
        comment.append(line.lstrip("# "))
    words = " ".join(comment).split(". ")[0].split(": ")
    first = ": ".join(words).rstrip(".")
    code = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return Entry(path, first, len(code), known.get(path.stem, ()))


def measured(entry: Entry) -> Entry:
    """The same with figures of its machine code, and its predicted rate."""
    build = tkgen.load(entry.path).check().build()
    rate = predicted(build) if isinstance(build, Build | SequenceBuild) else ""
    return Entry(entry.path, entry.line, entry.lines, entry.peers, " + ".join(figures(build)), rate)


def figures(build: protocol.Build) -> Iterator[str]:
    """Registers, LDS and the main loop of each kernel."""
    if isinstance(build, SequenceBuild):
        for kernel in build.kernels:
            yield from figures(kernel)
        return
    report: dict[str, Any] = build.report()
    if "resources" not in report:
        found = report["figures"]
        yield f"{found['registers']} registers, {report['shared_bytes'] // 1024} KiB"
        return
    resources, loop = report["resources"], report.get("main_loop") or {}
    parts = [f"{resources['vgpr']} VGPR", f"{report['lds_bytes'] / 1024:g} KiB" if report["lds_bytes"] else ""]
    if loop.get("mfma"):
        parts.append(f"{loop['other_per_mfma']:.2f} others/MFMA")
    if resources["vgpr_spills"]:
        parts.append(f"{resources['vgpr_spills']} spills")
    yield ", ".join(filter(None, parts))


def predicted(build: protocol.Build) -> str:
    """TFLOP/s or GB/s at the spec's sizes; empty where they are not known, or no model tells."""
    try:
        found = predict(build, {}, what_if=False)
    except PredictError:
        return ""
    return f"{found.tflops:.0f} TFLOP/s" if found.tflops else f"{found.gbps:.0f} GB/s"


def page(families: Mapping[str, list[Entry]]) -> str:
    """All of it."""
    text = HEAD
    for family, entries in families.items():
        text += f"\n## {family}\n\n| | spec | machine code | predicted | lines |\n|---|---|---|---|---|\n"
        for e in entries:
            where = e.path.relative_to(ROOT).as_posix()
            lines = " · ".join([str(e.lines), *e.peers])
            text += (
                f"| ![](img/gallery/{e.name}.svg) | [`{where}`](../{where}): {e.line.replace('|', chr(92) + '|')} "
                f"| {e.figures} | {e.rate} | {lines} |\n"
            )
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--write", action="store_true", help="rewrite the page and its pictures")
    options = parser.parse_args()
    known = peers()
    families = {family: [measured(described(p, known)) for p in paths] for family, paths in specs()}
    if not options.write:
        print(page(families))
        return
    PICTURES.mkdir(parents=True, exist_ok=True)
    for old in PICTURES.glob("*.svg"):
        old.unlink()
    for e in (e for entries in families.values() for e in entries):
        (PICTURES / f"{e.name}.svg").write_text(thumbnail(tkgen.load(e.path)), encoding="utf-8")
    PAGE.write_text(page(families), encoding="utf-8")


if __name__ == "__main__":
    main()
