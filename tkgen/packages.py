"""Packages that only parts of tkgen need, and the line that installs them; the modules of a package.

`tkgen` on the Python Package Index is another project, and the name of our distribution, under which nothing is
published there, may be anyone's tomorrow. So no line names either: it names the packages that an extra brings.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType, ModuleType
from typing import Any

DISTRIBUTION = "tkgen-compiler"

# The wheels hold a whole nvcc, 130 MB together; the bindings launch what it makes.
CUDA = (
    "nvidia-cuda-nvcc>=13.0,<14",
    "nvidia-nvvm>=13.0,<14",
    "nvidia-cuda-crt>=13.0,<14",
    "nvidia-cuda-runtime>=13.0,<14",
    "nvidia-cuda-cccl>=13.0,<14",
    "nvidia-cuda-cuobjdump>=13.0,<14",
    "nvidia-cuda-nvdisasm>=13.0,<14",
    "cuda-bindings>=13.0,<14",
)

# The extras of pyproject.toml that a message may ask for, and what they bring.
EXTRAS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "cuda": CUDA,
        "emulate": ("numpy>=1.26", "tinygrad==0.14.0", "torch>=2.4,<=2.13.0"),
        "lsp": ("pygls>=2.0",),
        "module": ("pybind11>=2.12",),
        "peer": ("triton==3.9.0",),
        "ray": ("ray>=2.40",),
        "toolchain": ("ziglang==0.17.0",),
        "tune": ("optuna>=4",),
    }
)
# Modules that come with a package of another name.
BROUGHT_BY = {"lsprotocol": "pygls"}


def _name(requirement: str) -> str:
    return requirement.split("=")[0].rstrip("<>")


def install_line(extra: str) -> str:
    """The command that adds what `extra` brings; pip leaves alone what is here already."""
    return "pip install " + " ".join(f"'{requirement}'" for requirement in EXTRAS[extra])


def needed_by(module: str) -> str | None:
    """The extra that brings a module, by the module's full name; None where none does."""
    package = module.split(".")[0]
    package = BROUGHT_BY.get(package, package)
    return next((extra for extra, brought in EXTRAS.items() if package in map(_name, brought)), None)


def modules_of(package: ModuleType) -> list[Any]:
    """All modules directly in a package, imported, sorted by name: a new file there is found by itself."""
    names = sorted(module.name for module in iter_modules(package.__path__))
    return [import_module(f"{package.__name__}.{name}") for name in names]
