"""NVIDIA Hopper: CUDA C++ against the names of ThunderKittens 2.0, compiled by nvcc, launched on the GPU.

`layout` is how a block's tiles lie, `lowering` makes the source, `checks` refuses what that cannot do, `toolchain`
compiles, `launch` runs, `spec` is a spec of one kernel, `sequence` joins several.
"""
