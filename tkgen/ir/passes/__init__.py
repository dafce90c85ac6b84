"""Passes over the equations of a kernel: each is a module here, with its name in `PASSES`.

`run(kernel)` of a module returns a kernel that stores the same. A value that is not removed keeps its number.
"""

PASSES = ("common_reductions", "dead_operations")  # in the order in which they run
