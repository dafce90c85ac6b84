"""Checks of a scheduled program: one module a family, a pure function from plan and target to diagnostics.

`families.check` runs all of them. This package imports none, so that a back end imports those it uses.
"""
