"""Diagnostics for tools: JSON, SARIF 2.1.0 and GitHub workflow commands."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from tkgen import __version__
from tkgen.diagnostics.explain import UnknownCode, page
from tkgen.diagnostics.model import Diagnostic, Edit, Fix, InterleavedStep, Label
from tkgen.diagnostics.text import escape
from tkgen.source import Span

Json = dict[str, Any]


def render_json(diagnostics: Iterable[Diagnostic]) -> str:
    """A JSON array; lines and columns count from 1 in characters, `end` is exclusive, `offset`s count from 0."""
    return json.dumps([to_json(d) for d in diagnostics], indent=2) + "\n"


def to_json(diagnostic: Diagnostic) -> Json:
    """One diagnostic as plain data."""
    fix = diagnostic.fix
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity.value,
        "message": diagnostic.message,
        "primary": _label(diagnostic.primary) if diagnostic.primary else None,
        "secondary": [_label(label) for label in diagnostic.secondary],
        "notes": list(diagnostic.notes),
        "fix": _fix(fix) if fix else None,
        "interleaving": [_step(step) for step in diagnostic.interleaving],
    }


def _step(step: InterleavedStep) -> Json:
    place = _place(step.span) if step.span else None
    return {"agent": step.agent, "action": step.action, "barriers": step.barriers, "at": place}


def _label(label: Label) -> Json:
    return {**_place(label.span), "text": label.text}


def _fix(fix: Fix) -> Json:
    return {"text": fix.text, "edits": [_edit(edit) for edit in fix.edits], "certain": fix.certain}


def _edit(edit: Edit) -> Json:
    return {**_place(edit.span), "replacement": edit.text}


def _place(span: Span) -> Json:
    end_line, end_column = span.file.position(span.end)
    return {
        "file": span.file.name,
        "line": span.line,
        "column": span.column,
        "end_line": end_line,
        "end_column": end_column,
        "offset": span.start,
        "end_offset": span.end,
    }


# ---------------------------------------------------------------- SARIF


def render_sarif(diagnostics: Iterable[Diagnostic]) -> str:
    """A SARIF 2.1.0 log with one run (OASIS standard, https://docs.oasis-open.org/sarif/sarif/v2.1.0/)."""
    found = list(diagnostics)
    codes = sorted({d.code for d in found})
    driver = {"name": "tkgen", "version": __version__, "rules": [_rule(code) for code in codes]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(d, codes.index(d.code)) for d in found],
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2) + "\n"


def _rule(code: str) -> Json:
    try:
        about = page(code)
    except UnknownCode:
        return {"id": code}
    return {
        "id": code,
        "shortDescription": {"text": about.title},
        "fullDescription": {"text": about.prose or about.title},
        "help": {"text": about.markdown, "markdown": about.markdown},
    }


def _result(diagnostic: Diagnostic, rule: int) -> Json:
    parts = [diagnostic.message, *diagnostic.notes, *([diagnostic.fix.text] if diagnostic.fix else [])]
    result: Json = {
        "ruleId": diagnostic.code,
        "ruleIndex": rule,
        "level": diagnostic.severity.value,
        "message": {"text": "\n".join(parts)},
    }
    if diagnostic.primary:
        result["locations"] = [_location(diagnostic.primary)]
    if diagnostic.secondary:
        result["relatedLocations"] = [{"id": i, **_location(s)} for i, s in enumerate(diagnostic.secondary)]
    if diagnostic.fix and diagnostic.fix.edits:
        changes: dict[str, list[Json]] = {}
        for edit in diagnostic.fix.edits:
            replacement = {"deletedRegion": _region(edit.span), "insertedContent": {"text": edit.text}}
            changes.setdefault(edit.span.file.name, []).append(replacement)
        result["fixes"] = [
            {
                "description": {"text": diagnostic.fix.text},
                "artifactChanges": [
                    {"artifactLocation": {"uri": _uri(name)}, "replacements": edits} for name, edits in changes.items()
                ],
            }
        ]
    return result


def _location(label: Label) -> Json:
    place = {"artifactLocation": {"uri": _uri(label.span.file.name)}, "region": _region(label.span)}
    return {"physicalLocation": place, **({"message": {"text": label.text}} if label.text else {})}


def _region(span: Span) -> Json:
    end_line, end_column = span.file.position(span.end)
    return {"startLine": span.line, "startColumn": span.column, "endLine": end_line, "endColumn": end_column}


def _uri(name: str) -> str:
    """A path as a URI reference; surrogates (undecodable bytes of the path) as those bytes."""
    return ("file://" if name.startswith("/") else "") + quote(name.encode("utf-8", "surrogateescape"))


# ---------------------------------------------------------------- GitHub


def render_github(diagnostics: Iterable[Diagnostic]) -> str:
    """One workflow command per diagnostic: GitHub Actions shows them beside the changed lines."""
    return "".join(_command(d) for d in diagnostics)


def _command(diagnostic: Diagnostic) -> str:
    properties: dict[str, str | int] = {}
    if diagnostic.primary:
        place = _place(diagnostic.primary.span)
        properties = {"file": place["file"], "line": place["line"], "endLine": place["end_line"]}
        if place["line"] == place["end_line"]:
            properties |= {"col": place["column"], "endColumn": place["end_column"]}
    properties["title"] = diagnostic.code
    lines = [diagnostic.message, *diagnostic.notes, *([f"help: {diagnostic.fix.text}"] if diagnostic.fix else [])]
    text = "\n".join(escape(line) for part in lines for line in part.split("\n"))
    listed = ",".join(f"{key}={_property(escape(str(value)))}" for key, value in properties.items())
    level = diagnostic.severity.value
    return f"::{level} {listed}::{_data(text)}\n"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
