"""The machine code that is shipped, watched by the race referee before a build calls it good.

The calculus proves the plan; the compiler may still depart from it. `watch` runs the code object on the emulator, at
its own loop counts, and finds races, missing waits, unequal barriers and accesses outside of their memory. It runs
few blocks, once, without data. Why that decides for all blocks, all orders of the waves and all data:

**One order stands for all.** The referee (emulate/core/referee.h) does not look for luck that ran out: it gives every
access of a wave the interval of epochs from its issue to the wait for it, epochs being barriers passed, and two
conflicting accesses of two waves race iff their intervals overlap. Which instructions a wave issues between which of
its barriers, with which addresses, and what its waits complete is a function of the wave alone where control flow and
addresses do not depend on what other waves write. So the intervals are the same in every order, and so is the
verdict. Loads count as complete when a wait says so, in-order queues in order: the latest time that the hardware
allows.

**No data stands for all data.** Tensors have addresses and no contents (`emulate.Hollow`). Values loaded from them or
from LDS are unknown, and so is everything computed from these; a branch, EXEC, M0 or an address that depended on
something unknown stops the run (emulate/core/unknown.h), and the code is then not called right but not checked. By
induction over the instructions of a wave, all else is computed as in every run on data. Instructions with unknown
operands need no executing, and an output of gigabytes no memory. A scalar argument is known to the run; generated code
compares one with zero where it is the factor of a tensor, and both cases are watched.

**Few blocks stand for all.** The number of the block is followed like data. Where no branch, EXEC, M0 or LDS address
depended on it (`Verdict.alike`), every block of the launch goes through the same instructions, LDS addresses, waits
and barriers, by the same induction: one block is watched, and the last one run for the bounds of the tensors, which
its coordinates reach. Elsewhere the generated source says how blocks differ: a block's number becomes the coordinates
of its tile, and for a persistent or stream-K grid how many tiles and K-steps follow. So blocks fall into classes, one
of each is watched (`launches`; `tile_sorts` of kernels without K-steps):

- tiles inside, over the end of the rows, of the columns, of both (`tail`), and the first and last part of split K;
- persistent blocks: each sequence of such tiles, three in a row, or two where a tile has more K-steps than the
  pipeline is deep. Every wait of a tile's loop is for accesses of that tile, and a tile as long as the pipeline is
  deep waits for all that came before it: what a tile finds depends on the one before it alone;
- stream-K blocks: each pair of parts of tiles that follow each other in a block, by their K-steps; with dynamic rows,
  columns or indices, in launches that give a block less than a tile, about one, and more.

The matrices of a batch differ in where they begin alone: addresses, which the number of a matrix decides as it does
those of a tile. The sorts of their tiles are those of one matrix, repeated, and a block passes from one matrix to the
next as from tile to tile. Of a dynamic index two places are watched, or as many as give a persistent block a third
tile; a batch of none launches nothing. Where a part of the contraction is each matrix's own, so is its class.

**Few numbers of K-steps stand for all.** Static sizes need no argument: the object's own loop runs to its end. Where
the block stands at a barrier as it stood some barriers before, the passes that follow are executed by their
scalars and addresses alone, and watched again from where one of these differs (emulate/core/repetition.h): so 883,012
K-steps of a block of 65536 x 65536 x 65536 take half a minute. Where that is not enough (`verdict.BUDGET`), the code
is not called right but not checked. Where K is dynamic, or parts of tiles are of any length, every number of steps is
watched up to where the loop repeats. An iteration of the loop is the same code each time; LDS slots come back after
`buffers` steps, registers after `unroll`. An access is waited for within the pipeline's depth, after which
`Plan.passes_to_prove` passes show each pair of accesses that can meet; one period is added, as a compiler that
rotates a loop lets an iteration begin and end within two of the source. With `tail masked` each number is watched with
the last step whole and ragged; rows and columns are cut after one element, in the middle, and one before the end of a
tile.

What is not its business: numbers. A kernel that drops or exchanges data without a race is found by `tkgen run` and
`test`.

`tests/machine_check` compares the verdict with exhaustive runs on data - all blocks, several orders, more K-steps -
for right kernels and broken ones.
"""

from tkgen.machine_check.verdict import NOT_ASKED, RIGHT, UNCHECKED, WRONG, Verdict, warm, watch

__all__ = ["NOT_ASKED", "RIGHT", "UNCHECKED", "WRONG", "Verdict", "warm", "watch"]
