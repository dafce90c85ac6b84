"""The generated C++ for Hopper, executed on the CPU.

`source` rewrites a generated file and the embedded headers for a host compiler: each `asm` statement becomes a call
with the text of its PTX instructions, each declaration of shared memory a place in that of a block. `library` compiles
it, linked with `runtime/`, which runs the threads of a block as fibers and executes the instructions. `maps` makes the
tensor maps that the launch would make. `run` launches.

The runtime executes asynchronous instructions as late or as early as the waits allow, in an order that a seed decides:
a copy that nobody waits for leaves NaN, a missing barrier a hang that says who waits for what.
"""
