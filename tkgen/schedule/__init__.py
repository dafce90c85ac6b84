"""From the typed program to what each wave executes: `plan(program)` is the way in.

`templates` orders one iteration, `explicit` takes it from a `schedule` block, `barriers` and `waits` complete it by the
barrier calculus, `pipeline` clips it into prologue, loop and epilogue, `trace` unrolls the result into epochs.
"""

from tkgen.schedule.plan import Plan, plan

__all__ = ["Plan", "plan"]
