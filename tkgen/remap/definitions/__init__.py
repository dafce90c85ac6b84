"""Remaps: every module here defines one, as `SPEC`."""
