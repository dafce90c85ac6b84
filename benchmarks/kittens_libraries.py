"""Build the generated files for AMD GPUs with the headers of ThunderKittens-HIP and HipKittens, and count outcomes.

    python benchmarks/kittens_libraries.py thunderkittens-hip=PATH ...    builds all with a checkout's headers
    python benchmarks/kittens_libraries.py                                writes the table of docs/limits.md alone

Libraries are the keys of `LIBRARIES`; each PATH is a checkout with `include/kittens.cuh`. Outcomes are kept
in `tests/kittens/libraries.json`; the table in `docs/limits.md` is made of them. `--only NAME ...` limits the specs.

An outcome is `right`, where the machine code compiles, spills nothing and is what the schedule was proven to be;
spills, such as `19 spills`, or the codes of other errors that the build reports; or, where it does not compile, the
element types that the library lacks, or else the compiler's first error.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

from shipped import SPECS, shipped

from tkgen.api import load
from tkgen.backends.spec import AnySpec
from tkgen.diagnostics import Severity, SpecError
from tkgen.toolchain.compiler import ToolchainError

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "tests" / "kittens" / "libraries.json"
PAGE = ROOT / "docs" / "limits.md"
LIBRARIES = {
    "thunderkittens-hip": ("ThunderKittens-HIP", "gfx942", ("bf16", "half", "float", "int")),
    "hipkittens-cdna3": ("HipKittens, branch cdna3", "gfx942", ("bf16", "half", "float", "int")),
    "hipkittens": ("HipKittens", "gfx950", ("bf16", "half", "float", "int", "fp8e4m3")),
}
"""The name of a library, its target, and the element types that it has."""

Outcomes = dict[str, str]


def files(target: str) -> list[Path]:
    """The specs of the files in generated/TARGET."""
    of = {path.stem: path for path, t in shipped() if t == target}
    return [of[path.stem] for path in sorted((ROOT / "generated" / target).glob("*.cpp"))]


def lacking(spec: AnySpec, types: tuple[str, ...]) -> list[str]:
    """The element types of a generated file that a library lacks."""
    used = set(re.findall(r"\bgl<(\w+),", spec.text)) | set(re.findall(r"\bst_(\w+)<", spec.text))
    names = {"bf": "bf16", "hf": "half", "fl": "float"}
    return sorted({names.get(t, t) for t in used} - set(types))


def outcome(path: Path, library: str, checkout: Path) -> str:
    """The outcome of building a spec with the headers of a checkout."""
    _, target, types = LIBRARIES[library]
    spec: AnySpec = load(path, target=target)
    try:
        build = spec.build(kittens=checkout)
    except ToolchainError as error:
        lacks = lacking(spec, types)
        return f"no {', '.join(lacks)}" if lacks else f"does not compile: {error.message.split(': ', 1)[-1]}"
    except SpecError as error:
        errors = error.diagnostics
    else:
        errors = [d for d in build.diagnostics if d.severity is Severity.ERROR]
    words = set[str]()
    for d in errors:
        spilled = re.search(r"(\d+) spilled", d.message)
        words.add(f"{spilled[1]} spills" if spilled else d.code)
    return ", ".join(sorted(words)) or "right"


def table(record: dict[str, Outcomes]) -> str:
    """The table of the page: a row for each outcome that is not `right`, and how many are."""
    lines = ["| library | target | files | right |", "|---|---|---|---|"]
    for library, (name, target, _) in LIBRARIES.items():
        found = record.get(library, {})
        right = sum(o == "right" for o in found.values())
        lines.append(f"| {name} | {target} | {len(found)} | {right} |")
    lines += ["", "| file | library | outcome |", "|---|---|---|"]
    for library, (name, _, _) in LIBRARIES.items():
        by_outcome: dict[str, list[str]] = {}
        for file, o in sorted(record.get(library, {}).items()):
            if o != "right":
                by_outcome.setdefault(o, []).append(f"`{file}`")
        lines += [f"| {', '.join(names)} | {name} | {o} |" for o, names in sorted(by_outcome.items())]
    return "\n".join(lines)


def with_table(page: str, record: dict[str, Outcomes]) -> str:
    """The page with the table of a record."""
    head, rest = page.split("<!-- libraries -->\n", 1)
    _, tail = rest.split("<!-- end of libraries -->\n", 1)
    return f"{head}<!-- libraries -->\n{table(record)}\n<!-- end of libraries -->\n{tail}"


def main() -> None:
    """Build with the checkouts that are named, keep the outcomes, write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="*", metavar="LIBRARY=PATH")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="specs")
    args = parser.parse_args()
    record: dict[str, Outcomes] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    for word in args.checkouts:
        library, _, checkout = word.partition("=")
        if library not in LIBRARIES or not (Path(checkout) / "include/kittens.cuh").is_file():
            parser.error(f"{word}: LIBRARY is one of {', '.join(LIBRARIES)}, PATH has include/kittens.cuh")
        for path in files(LIBRARIES[library][1]):
            if args.only is None or path.stem in args.only:
                found = outcome(path, library, Path(checkout))
                record.setdefault(library, {})[path.stem] = found
                print(f"{library} {path.relative_to(SPECS)}: {found}", flush=True)
                RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), record), encoding="utf-8")


if __name__ == "__main__":
    main()
