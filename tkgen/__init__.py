"""tkgen: from a declarative spec of a tiled kernel to proven ThunderKittens HIP C++ for AMD Instinct GPUs.

>>> import tkgen
>>> build = tkgen.load("specs/eight_wave.tk").check().build()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tkgen.api import Spec, load, load_products, write
    from tkgen.build import Build
    from tkgen.diagnostics import Diagnostic, SpecError
    from tkgen.execute.operator import operator, run
    from tkgen.just_in_time import jit

__version__ = "0.1.0"
__all__ = [
    "Build",
    "Diagnostic",
    "Spec",
    "SpecError",
    "__version__",
    "jit",
    "load",
    "load_products",
    "operator",
    "run",
    "write",
]

_HOMES = {
    "jit": "tkgen.just_in_time",
    "load": "tkgen.api",
    "load_products": "tkgen.api",
    "Spec": "tkgen.api",
    "Build": "tkgen.build",
    "Diagnostic": "tkgen.diagnostics",
    "SpecError": "tkgen.diagnostics",
    "operator": "tkgen.execute.operator",
    "run": "tkgen.execute.operator",
    "write": "tkgen.api",
}


def __dir__() -> list[str]:
    """Return the names for `dir` and completion, those that are not imported yet included."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Public names are imported when first used, so that `import tkgen` (and the command line's help) stays quick."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tkgen' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
