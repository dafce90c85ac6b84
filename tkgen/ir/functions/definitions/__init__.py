"""Functions of equations: every module here defines some, in a tuple `FUNCTIONS`.

`POSITION` of a module says where its functions come in `docs/functions.md`, and their helpers in generated C++.
"""
