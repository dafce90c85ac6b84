"""A new target is one file: until it is complete, `tkgen check -t` lists what it lacks, and then it takes specs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import tkgen

PACKAGE = Path(tkgen.__file__).parent
SPECS = PACKAGE.parent / "specs"
# A new target of each kind, a target that it resembles, and a spec for this one.
KINDS = {"cdna": ("gfx943", "gfx942", "eight_wave"), "hopper": ("sm_91a", "sm_90a", "hopper/h100_lcf_abt")}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the package, to which each test adds the file of a new target."""
    tmp_path = tmp_path_factory.mktemp("package")
    shutil.copytree(PACKAGE, tmp_path / "tkgen", ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
    shutil.copytree(PACKAGE.parent / "grammar", tmp_path / "grammar")
    return tmp_path


def check(package: Path, spec: str, *options: str) -> subprocess.CompletedProcess[str]:
    """`tkgen check` of a shipped spec, whose own choice of targets is left out."""
    text = (SPECS / f"{spec}.tk").read_text(encoding="utf-8")
    (package / "a.tk").write_text(re.sub(r"^ *target .*\n", "", text, flags=re.MULTILINE), encoding="utf-8")
    return ran(package, "-m", "tkgen", "check", "a.tk", *options)


def ran(package: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": str(package), "PATH": "/usr/bin:/bin", "HOME": str(package)}
    return subprocess.run(
        [sys.executable, *command], cwd=package, env=environment, capture_output=True, text=True, check=False
    )


def copied(package: Path, kind: str) -> str:
    """The file of the target that a new one resembles, with the name and the machine number of the new one."""
    new, old, _ = KINDS[kind]
    text = (package / f"tkgen/targets/{old}.toml").read_text(encoding="utf-8")
    return text.replace(f'name = "{old}"', f'name = "{new}"').replace("value = 0x4C", "value = 0x7C")


def facts(table: dict[str, Any], path: str = "") -> list[str]:
    """The names of all facts of a stub, without those that may be left out."""
    found: list[str] = []
    for key, value in table.items():
        if isinstance(value, dict) and "unit" in value:
            found += [] if "optional" in value else [path + key]
        elif isinstance(value, dict) and "optional" not in value:
            found += facts(value, f"{path}{key}.")
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_stub_is_asked_for_every_fact(package: Path, kind: str) -> None:
    new, old, spec = KINDS[kind]
    folder = package / "tkgen/targets"
    stub = (folder / "stubs" / f"{kind}.toml").read_text(encoding="utf-8")
    (folder / f"{new}.toml").write_text(stub.replace('"NAME"', f'"{new}"'), encoding="utf-8")
    done = check(package, spec, "-t", new)
    assert done.returncode == 2 and f"targets/{new}.toml lacks" in done.stderr and "Traceback" not in done.stderr
    said = {line.strip().split(":")[0] for line in done.stderr.splitlines()}
    wanted = facts(tomllib.loads(stub))
    assert len(wanted) > 20 and not set(wanted) - said
    assert "architecture" in said
    assert {"cdna": "mfma.the name of a matrix instruction.cycles", "hopper": "product.the name of a device.sms"}[
        kind
    ] in said
    assert check(package, spec, "-t", old).returncode == 0  # the others are as before


@pytest.mark.parametrize("kind", KINDS)
def test_a_complete_file_takes_specs(package: Path, kind: str) -> None:
    """The C++ is that of the target whose numbers it has, and editors offer it."""
    new, old, spec = KINDS[kind]
    file = package / f"tkgen/targets/{new}.toml"
    file.write_text(copied(package, kind), encoding="utf-8")
    made, known = (check(package, spec, "-t", name, "--print-after", "lower") for name in (new, old))
    assert made.returncode == 0, made.stderr
    assert made.stdout == known.stdout.replace(old, new)
    hover = (
        "from tkgen.lsp.words import CHOICES, word as w; print('{0}' in CHOICES['target'], w('target', '{0}').meaning)"
    )
    assert re.match(r"True .* of (LDS|shared memory) per block", ran(package, "-c", hover.format(new)).stdout)
    file.unlink()


@pytest.mark.parametrize(
    ("kind", "pattern", "text", "said"),
    [
        ("cdna", r"wave_size = \{ value = 64", "wave_size = { value = 32", "compute.wave_size: 64, as the compiler"),
        ("cdna", r"banks = \{ value = 32", 'banks = { value = "32"', "lds.banks: integer, not '32'"),
        ("cdna", r"\nl2_bytes_per_xcd = ", "\nl2_bytes_per_xdc = ", "cache.l2_bytes_per_xdc: no such fact is known"),
        ("cdna", r"value = 0x7C", "value = 0x4C", "code_object.machine: its own, not that of gfx942"),
        ("cdna", r'source = "AMD CDNA3 white paper" }', 'source = "" }', "cache.l2_bytes_per_xcd: its source"),
        ("cdna", r'"s_barrier"', '"other"', "meeting: the tables of the stub"),
        ("cdna", r"(?s)\[\[product\]\].*", "[product]\n", "product.compute_units: integer, CUs"),
        ("cdna", r'\[\[product\]\]\nname = "MI300X"', "[[product]]", "product.name: the name of a device"),
        ("hopper", r'backend = "hopper"', 'backend = "volta"', "backend: one of cdna, hopper"),
        ("hopper", r'name = "sm_91a"', 'name = "sm_92a"', 'name: "sm_91a", as the file'),
        ("hopper", r"rows = \{ value = 64", "rows = { value = [64]", "wgmma.rows: integer, not [64]"),
        ("hopper", r"\[shared\]", "[shared", "it is no TOML"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_file_is_named(package: Path, kind: str, pattern: str, text: str, said: str) -> None:
    new, _, spec = KINDS[kind]
    whole, count = re.subn(pattern, text, copied(package, kind), count=1)
    assert count == 1
    (package / f"tkgen/targets/{new}.toml").write_text(whole, encoding="utf-8")
    done = check(package, spec, "-t", new)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr, done.stderr
