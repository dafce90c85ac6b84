"""`tkgen sanitize FOLDER`: all kernels of the code objects in a folder, launched by a rule."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import typer

from tkgen.cli.common import OK, USAGE, WRONG, Format, complain, fail, need_emulator, say, show_diagnostics

_MOST = 5  # findings of a kernel that are printed
UNCHECKED = 4  # nothing was found, and not everything was checked


def swept(folder: Path, how: Format, options: Mapping[str, object]) -> int:
    """Print a table of all kernels and their findings, or JSON; return the exit code.

    `options` are those of one launch, by name: none of them may be given. Raises typer.BadParameter for one that is,
    and for another format than text and JSON; ends the command where the folder has no code object.
    """
    for name, value in options.items():
        if value:
            raise typer.BadParameter("the kernels of a folder are launched by a rule", param_hint=name)
    if how not in (Format.TEXT, Format.JSON):
        raise typer.BadParameter("a folder is printed as text or JSON", param_hint="--format")
    need_emulator()
    from tkgen.sanitize import sweep

    try:
        rows = list(sweep.sweep(folder, lambda name: complain(f"{folder / name} ...")))
    except OSError as error:
        fail(f"cannot read {folder}: {error.strerror}", USAGE)
    if not rows:
        fail(f"{folder} has no code object: no ELF file for AMD's GPUs, and no offload bundle", USAGE)
    if how is Format.JSON:
        say(json.dumps([row.to_json() for row in rows], indent=2))
    else:
        for row in rows:
            show_diagnostics(row.diagnostics[:_MOST])
            if len(row.diagnostics) > _MOST:
                complain(f"{len(row.diagnostics) - _MOST} more in {row.kernel}; --json has all")
        say(sweep.table(rows))
    results = {row.result for row in rows}
    return WRONG if results & {sweep.FINDINGS, sweep.WAIT_STATES} else OK if results == {sweep.CLEAN} else UNCHECKED
