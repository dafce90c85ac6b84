"""The files of targets: which there are, and what a file lacks beside the stub of its kind of machine.

`stubs/` has one file for each kind of machine, in which a new target finds everything that it has to say.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

OPTIONAL = "optional"  # in a stub: this table or fact may be left out
SYNCHRONISATION = ("stream", "meeting", "fence")  # all targets of a kind have the tables of its stub
TYPES: Mapping[str, Callable[[Any], bool]] = {
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "true or false": lambda value: isinstance(value, bool),
    "text": lambda value: isinstance(value, str),
    "integers": lambda value: isinstance(value, list) and all(isinstance(each, int) for each in value),
    "texts": lambda value: isinstance(value, list) and all(isinstance(each, str) for each in value),
}


def _names(folder: str = "") -> tuple[str, ...]:
    files = (resources.files("tkgen.targets") / folder).iterdir()
    return tuple(sorted(f.name.removesuffix(".toml") for f in files if f.name.endswith(".toml")))


@cache
def target_files() -> tuple[str, ...]:
    """The names of all files of targets, also of those that lack something."""
    return _names()


@cache
def target_data(name: str) -> Mapping[str, Any]:
    """The content of a target's file, for any kind of machine. Raises TOMLDecodeError."""
    return _read(f"{name}.toml")


def _read(path: str) -> Mapping[str, Any]:
    text = (resources.files("tkgen.targets") / path).read_text(encoding="utf-8")
    return MappingProxyType(tomllib.loads(text))


@cache
def missing(name: str) -> tuple[str, ...]:
    """The facts that the file of a target lacks, or has wrong, a line for each; empty where it is complete."""
    try:
        data = target_data(name)
    except tomllib.TOMLDecodeError as error:
        return (f"it is no TOML: {error}",)
    kinds = _names("stubs")
    if data.get("backend") not in kinds:
        return (f"backend: one of {', '.join(kinds)}",)
    stub = _read(f"stubs/{data['backend']}.toml")
    wrong = () if data.get("name") == name else (f'name: "{name}", as the file',)
    return (*wrong, *_lacks(stub, data, ""), *_taken(name, data))


def _taken(name: str, data: Mapping[str, Any]) -> Iterator[str]:
    """The code objects of two targets have different numbers."""
    for other in target_files()[: target_files().index(name)]:
        if (
            not missing(other)
            and "code_object" in data
            and _plain(data["code_object"]) == _plain(target_data(other).get("code_object"))
        ):
            yield f"code_object.machine: its own, not that of {other}"


def _lacks(stub: Mapping[str, Any], data: Any, path: str) -> Iterator[str]:
    """The facts of a table of the stub that `data` lacks, and those of `data` that the stub has not."""
    if not isinstance(data, Mapping):
        data = {}
    for key, want in stub.items():
        at, have = f"{path}{key}", data.get(key)
        if key in SYNCHRONISATION:
            if _plain(have) != _plain(want):
                yield f"{at}: the tables of the stub"
            elif not all(entry.get("source") for entry in have):
                yield f"{at}: the source of each"
        elif isinstance(want, str) and at not in ("name", "backend"):
            if not isinstance(have, str) or have in ("", want):
                yield f"{at}: {want}"
        elif isinstance(want, list) and isinstance(want[0], str):
            if not TYPES["texts"](have) or have == want:
                yield f"{at}: {want[0]}"
        elif isinstance(want, list):
            for entry in have if isinstance(have, list) and have else [{}]:
                called = (entry.get("name") or entry.get("instruction")) if isinstance(entry, Mapping) else None
                yield from _lacks(want[0], entry, f"{at}.{called or ''}".rstrip(".") + ".")
        elif isinstance(want, dict) and not (have is None and OPTIONAL in want):
            yield from _fact(want, have, at) if "unit" in want else _lacks(want, have, f"{at}.")
    yield from (f"{path}{key}: no such fact is known" for key in data if key not in stub)


def _fact(want: Mapping[str, Any], have: Any, at: str) -> Iterator[str]:
    if not isinstance(have, Mapping) or "value" not in have:
        yield f"{at}: {want['type'] if 'type' in want else want['value']}, {want['unit']}"
    elif "value" in want and have["value"] != want["value"]:
        yield f"{at}: {want['value']}, as the compiler knows no other, not {have['value']}"
    elif "type" in want and not TYPES[want["type"]](have["value"]):
        yield f"{at}: {want['type']}, not {have['value']!r}"
    elif not have.get("source"):
        yield f"{at}: its source"


def _plain(value: Any) -> Any:
    """Tables without their sources and units."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items() if key not in ("source", "unit")}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value
