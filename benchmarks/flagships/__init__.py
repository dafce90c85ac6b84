"""Kernels that `benchmarks/hopper_kernels.py` measures: a spec for each, and in `kernels` what stands beside it."""
