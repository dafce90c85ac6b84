"""Figures of the machine code of every shipped spec, for each target that accepts it.

    python benchmarks/figures.py --compare      prints what differs from the table; exits 1 if something is worse
    python benchmarks/figures.py --write        rewrites the table
    python benchmarks/figures.py [NAME ...]     prints the lines of these specs

Names of specs, such as `attention`, and `--target` limit each of them. The table is
`tests/specs/figures/machine_code.jsonl`, or what `--table` says.

First come the compilers that made it, then a line a kernel. `digest` is of the bytes of the code alone. For AMD GPUs,
`loop` counts the instructions of one iteration of the loop that multiplies, and `whole` those of the whole kernel.
`macs` are multiplications of one wave: loops of different depth are compared per multiplication. Figures of another
version of a compiler are not compared.

Worse is: more registers, spills, scratch or shared memory, fewer waves on a SIMD, or more instructions of any kind in
the loop - in the whole kernel where no loop multiplies. Other differences are printed only.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile
from shipped import SPECS, accepted

import tkgen
from tkgen.backends.hopper.toolchain import find_nvcc
from tkgen.diagnostics import SpecError
from tkgen.targets import load_target
from tkgen.toolchain.compiler import NoCompilerError, ToolchainError
from tkgen.toolchain.discover import find_compiler
from tkgen.toolchain.isa import Instruction, instruction_mix, main_loop, parse_asm

TABLE = Path(__file__).parents[1] / "tests" / "specs" / "figures" / "machine_code.jsonl"
COSTS = ("registers", "spills", "scratch_bytes", "stack_bytes", "shared_bytes")  # more of them is worse
Record = dict[str, Any]


def compilers() -> dict[str, str]:
    """The compiler of each kind of target, with its version; a kind without one is missing."""
    found = {}
    with contextlib.suppress(NoCompilerError):
        compiler = find_compiler(load_target("gfx942"))
        found["gfx"] = f"{compiler.kind.value} {compiler.version}"
    with contextlib.suppress(NoCompilerError):
        found["sm"] = f"nvcc {find_nvcc().version}"
    return found


def kind_of(target: str) -> str:
    """The key of a target in `compilers`."""
    return "sm" if target.startswith("sm_") else "gfx"


def code_of(binary: bytes) -> tuple[int, str]:
    """The size of the machine code of an ELF file in bytes, and a digest of it."""
    sections = [s.data() for s in ELFFile(io.BytesIO(binary)).iter_sections() if s.name.split(".")[1:2] == ["text"]]
    code = b"".join(sections)
    return len(code), hashlib.sha256(code).hexdigest()[:16]


def kinds(instructions: Sequence[Instruction]) -> dict[str, int]:
    """Instructions of each kind, of CDNA."""
    mix = instruction_mix(instructions)
    macs = sum(count * math.prod(map(int, re.findall(r"\d+", shape)[:3])) for shape, count in mix.mfma.items())
    moved = (mix.global_loads, mix.global_to_lds, mix.global_stores)
    return {
        "macs": macs, "total": mix.total, "mfma": mix.mfma_total, "valu": mix.valu,
        "scalar": mix.salu + mix.scalar_loads, "lds": sum(mix.lds_reads.values()) + sum(mix.lds_writes.values())
        + mix.lds_other, "global": sum(sum(table.values()) for table in moved) + mix.global_other,
        "scratch": mix.scratch + mix.flat, "waits": mix.waits, "barriers": mix.barriers, "branches": mix.branches,
        "other": mix.other,
    }  # fmt: skip


def of_amd(build: Any) -> Record:
    """The figures of a kernel for CDNA."""
    r = build.resources
    function = parse_asm(build.asm)[r.kernel]
    loop = main_loop(function)
    code, digest = code_of(build.hsaco)
    return {
        "registers": r.total_vgpr, "vgpr": r.vgpr, "agpr": r.agpr, "sgpr": r.sgpr,
        "spills": r.vgpr_spills + r.sgpr_spills, "scratch_bytes": r.scratch_bytes,
        "shared_bytes": build.lds_bytes, "waves_per_simd": build.occupancy.waves_per_simd, "code_bytes": code,
        "loop": kinds(loop.instructions) if loop else None, "whole": kinds(function.instructions), "digest": digest,
    }  # fmt: skip


def of_nvidia(build: Any) -> Record:
    """The figures of a kernel for Hopper. Nothing here depends on a disassembler."""
    f = build.figures
    code, digest = code_of(build.cubin)
    return {
        "registers": f.registers, "spills": f.spill_bytes, "stack_bytes": f.stack_bytes,
        "shared_bytes": build.shared_bytes, "code_bytes": code, "digest": digest,
    }  # fmt: skip


def records(path: Path, target: str) -> list[Record]:
    """The figures of each kernel of a spec, or the error that there is instead."""
    name = str(path.relative_to(SPECS).with_suffix(""))
    try:
        spec: Any = tkgen.load(path, target=target).check()
        build = spec.build(machine_check=False) if kind_of(target) == "gfx" else spec.build()
        kernels = build.kernels
        figures = of_amd if kind_of(target) == "gfx" else of_nvidia
        return [{"spec": name, "target": target, "kernel": k.spec.name, **figures(k)} for k in kernels]
    except (SpecError, ToolchainError) as error:
        return [{"spec": name, "target": target, "kernel": "", "error": str(error).splitlines()[0]}]


def key(record: Record) -> tuple[str, str, str]:
    """The place of a record in the table."""
    return record["target"], record["spec"], record["kernel"]


def differences(old: Record, new: Record) -> tuple[list[str], bool]:
    """Each figure that differs as `old -> new`, and whether something is worse."""
    if "error" in new:
        return [str(new["error"])], True
    found, worse = list[str](), False
    for name in (n for n in new if n not in ("loop", "whole", "digest") and old.get(n, 0) != new[n]):
        found.append(_change(name, old.get(name, 0), new[name]))
        worse |= name in COSTS and new[name] > old.get(name, 0)
        worse |= name == "waves_per_simd" and new[name] < old[name]
    if bool(old.get("loop")) != bool(new.get("loop")):
        found.append("the loop that multiplies is " + ("new" if new.get("loop") else "gone"))
        worse |= not new.get("loop")
    for part in ("loop", "whole"):
        if old.get(part) and new.get(part):
            changes, more = _instructions(part, old[part], new[part])
            found += changes
            worse |= more and (part == "loop" or not (old.get("loop") or new.get("loop")))
    if not found and old["digest"] != new["digest"]:
        found.append("other machine code with the same figures")
    return found, worse


def _instructions(part: str, old: Mapping[str, int], new: Mapping[str, int]) -> tuple[list[str], bool]:
    """Instructions of each kind that differ, per multiplication where both multiply, and whether there are more."""
    scale = old["macs"] / new["macs"] if old["macs"] and new["macs"] else 1
    changed = [n for n in new if n != "macs" and not math.isclose(old[n], new[n] * scale)]
    found = [_change(f"{part}.{name}", old[name], round(new[name] * scale, 3)) for name in changed]
    if scale != 1 and part == "loop":
        found.append(_change("multiplications of an iteration", old["macs"], new["macs"]))
    return found, any(new[name] * scale > old[name] for name in changed)


def _change(name: str, old: float, new: float) -> str:
    return f"{name} {old:g} -> {new:g}" + (f" (x{new / old:.3f})" if old and new else "")


def compare(stored: Sequence[Record], made: Sequence[Record], used: Mapping[str, str], here: Mapping[str, str]) -> int:
    """Print what differs; 1 if something is worse, 2 if nothing could be compared, otherwise 0."""
    skipped = {kind for kind in used.keys() | here.keys() if used.get(kind) != here.get(kind)}
    for kind in sorted(skipped):
        print(f"{kind}: stored by {used.get(kind, 'no compiler')}, here is {here.get(kind, 'none')}: not compared")
    old, new = ({key(r): r for r in rows if kind_of(r["target"]) not in skipped} for rows in (stored, made))
    counts: Counter[str] = Counter()
    for place in sorted(old.keys() | new.keys()):
        if place not in new or place not in old:
            found, worse = [str(new[place].get("error", "is new")) if place in new else "is gone"], place not in new
            worse |= "error" in new.get(place, {})
        else:
            found, worse = differences(old[place], new[place])
        counts["worse" if worse else "different" if found else "same"] += 1
        if found:
            target, spec, kernel = place
            label = spec if kernel in ("", Path(spec).name) else f"{spec} ({kernel})"
            print(f"{'WORSE ' if worse else ''}{target} {label}: " + ", ".join(found))
    print(f"{sum(counts.values())} kernels: {counts['same']} with the same machine code and figures, "
          f"{counts['different']} that differ, {counts['worse']} that are worse")  # fmt: skip
    return 1 if counts["worse"] else 0 if counts else 2


def read(file: Path) -> tuple[dict[str, str], list[Record]]:
    """The compilers and the records of a table; none of a table that is missing."""
    if not file.is_file():
        return {}, []
    first, *rest = file.read_text(encoding="utf-8").splitlines()
    return json.loads(first)["compilers"], [json.loads(line) for line in rest]


def write(file: Path, used: Mapping[str, str], rows: Sequence[Record]) -> None:
    """Store a table."""
    lines = [json.dumps({"compilers": dict(sorted(used.items()))})]
    lines += [json.dumps(row) for row in sorted(rows, key=key)]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def build_all(wanted: Sequence[tuple[Path, str]], jobs: int) -> Iterator[Record]:
    """The records of each spec and target, in order, with progress on standard error."""
    with ThreadPoolExecutor(jobs) as pool:
        for at, made in enumerate(pool.map(lambda each: records(*each), wanted), 1):
            print(f"\r{at} of {len(wanted)} specs", end="", file=sys.stderr)
            yield from made
    print(file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="names of specs, such as `attention`; all without one")
    parser.add_argument("--target", help="only kernels of this target")
    parser.add_argument("--jobs", type=int, default=1, help="compilers at a time")
    parser.add_argument("--table", type=Path, default=TABLE, metavar="FILE", help="another table")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--compare", action="store_true", help="print what differs from the table")
    action.add_argument("--write", action="store_true", help="rewrite the table")
    options = parser.parse_args()
    if options.compare and not options.table.is_file():
        parser.error(f"there is no table {options.table}")
    if unknown := set(options.names) - {path.stem for path, _ in accepted()}:
        parser.error(f"no spec has the name {', '.join(sorted(unknown))}")
    here = compilers()

    def named(spec: str, target: str) -> bool:
        return (not options.names or Path(spec).name in options.names) and options.target in (None, target)

    wanted = [(p, t) for p, t in accepted() if named(p.stem, t) and kind_of(t) in here]
    made = list(build_all(wanted, options.jobs))
    errors = [r for r in made if "error" in r]
    if options.compare:
        used, stored = read(options.table)
        return compare([r for r in stored if named(r["spec"], r["target"])], made, used, here)
    if not options.write:
        print("\n".join(json.dumps(r) for r in sorted(made, key=key)))
        return 1 if errors else 0
    used, stored = read(options.table)
    kept = [r for r in stored if not named(r["spec"], r["target"]) or kind_of(r["target"]) not in here]
    mixed = {kind for kind in map(kind_of, (r["target"] for r in kept)) if here.get(kind, used[kind]) != used[kind]}
    for error in errors:
        print(f"{error['target']} {error['spec']}: {error['error']}", file=sys.stderr)
    if mixed:
        print("the rest of the table is of another version of the compiler: write all of it", file=sys.stderr)
    if errors or mixed:
        return 1
    write(options.table, {**used, **here}, [*kept, *made])
    return 0


if __name__ == "__main__":
    sys.exit(main())
