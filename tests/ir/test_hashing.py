"""Hashes that are computed once belong to one process."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from tkgen.ir.equations import Value


def test_an_equal_value_has_the_hash_of_its_fields() -> None:
    value = Value(3, (), "x")
    assert hash(value) == hash(value) == hash(Value(3, (), "x"))
    assert hash(replace(value, number=4)) == hash(Value(4, (), "x")) != hash(value)
    assert {value: 1}[pickle.loads(pickle.dumps(value))] == 1


def test_no_hash_goes_to_another_process() -> None:
    """Texts have other hashes there: a value that brought its own would not be found."""
    value = Value(3, (), "x")
    hash(value)
    find = "import pickle, sys; value = pickle.load(sys.stdin.buffer); from tkgen.ir.equations import Value; "
    find += "print({Value(3, (), 'x'): 'found'}.get(value))"
    environment = os.environ | {"PYTHONHASHSEED": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", find], input=pickle.dumps(value), env=environment, capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == "found"
