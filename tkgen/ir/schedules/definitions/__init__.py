"""Schedules with names: every module here defines one, as `SPEC`."""
