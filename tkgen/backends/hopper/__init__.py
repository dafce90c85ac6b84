"""NVIDIA Hopper: CUDA C++ against the names of ThunderKittens 2.0, compiled by nvcc, launched on the GPU.

`layout` is how a block's tiles lie, `lowering` makes the source, `checks` refuses what that cannot do, `toolchain`
compiles, `launch` runs, `spec` holds a spec and its build together.
"""

from tkgen.backends.hopper.spec import HopperBuild, HopperSpec

__all__ = ["HopperBuild", "HopperSpec"]
