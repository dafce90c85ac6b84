"""Compiling with the headers of a real ThunderKittens or HipKittens checkout, where no HIP need be installed.

The stand-ins have the parts of HIP and of the standard library that such headers need; they also serve sources of
others under `tkgen sanitize`. Where they do not do and a HIP is installed, its own headers are tried.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from tkgen.targets import Target
from tkgen.toolchain.cache import Cache
from tkgen.toolchain.compile import CompileResult, Output, compile_device
from tkgen.toolchain.compiler import Compiler, ToolchainError
from tkgen.toolchain.hip import HIP_INSTALL, find_hip, knows_hip

# Functions of HIP's headers and the host side, for sources compiled without these.
STAND_INS: Final = Path(__file__).parents[1] / "sanitize" / "include"


def with_host(text: str, name: str) -> str:
    """A source that begins with the stand-in for the host side, and keeps its name and its lines."""
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'#include "host.cuh"\n#line 1 "{quoted}"\n{text}'


def compile_with_checkout(
    text: str,
    target: Target,
    compiler: Compiler,
    *,
    kittens: Path,
    headers: Path,
    source_name: str,
    own: Sequence[Path] = (),
    outputs: Collection[Output] = ("asm", "hsaco"),
    defines: Mapping[str, str] | None = None,
    log: Path | None = None,
    cache: Cache | None = None,
) -> CompileResult:
    """As `compile_device`, with the headers of the checkout at `kittens`; those at `headers` have what HIP has.

    Folders of `own` come first. Raises ToolchainError; where HIP's own headers may do, it says what to install.
    """
    if not (kittens / "include/kittens.cuh").is_file():
        raise ToolchainError(f"not a ThunderKittens checkout, include/kittens.cuh is missing: {kittens}")
    folders = [*own, STAND_INS / "checkout", kittens / "include", STAND_INS, headers]
    given = {**(defines or {}), "KITTENS_LANGUAGE_ONLY": ""}
    try:
        return compile_device(
            with_host(text, source_name), target, compiler, include_dirs=folders, defines=given, outputs=outputs,
            source_name=source_name, log=log, cache=cache,
        )  # fmt: skip
    except ToolchainError as error:
        hip = find_hip()
        if hip is None and not knows_hip(compiler):
            advice = f"{error}; HIP's own headers may do: {HIP_INSTALL}"
            raise ToolchainError(
                advice, errors=error.errors, output=error.output, command=error.command, log=error.log
            ) from error
        try:
            found = compile_device(
                text, target, compiler, include_dirs=own, defines=defines, kittens=kittens, rest=headers, hip=hip,
                outputs=outputs, source_name=source_name, cache=cache,
            )  # fmt: skip
        except ToolchainError:
            raise error from None
        if log is not None:
            log.unlink(missing_ok=True)  # of the first try
        return found
