"""`tkgen sanitize`: any gfx9 kernel - a code object, a C++ source, a spec - run under the race referee, without a GPU.

    subject = from_source(Path("gemm.cpp"), "gfx942")
    arguments = parse(["{gl(bf16[256,192]=randn), gl(bf16[192,256]=randn), gl(f32[256,256]=nan:out)}"])
    verdict = sanitize(subject, Launch((2, 2, 1), (256, 1, 1), arguments, lds_bytes=32768))
    print(render_text(verdict.diagnostics))

`subject` loads and compiles, `arguments` reads what to pass, `referee` runs the schedules, `report` turns findings into
diagnostics, `places` finds the C++ line behind an instruction. `advice` says which waits and barriers could go.
"""

from tkgen.sanitize.advice import Advice, Advised, advise
from tkgen.sanitize.arguments import ArgumentError, Arguments, Output, from_file, parse
from tkgen.sanitize.referee import Verdict, sanitize
from tkgen.sanitize.request import Request, block_ids, prepare
from tkgen.sanitize.subject import Launch, Subject, from_code_object, from_source, from_spec

__all__ = [
    "Advice",
    "Advised",
    "ArgumentError",
    "Arguments",
    "Launch",
    "Output",
    "Request",
    "Subject",
    "Verdict",
    "advise",
    "block_ids",
    "from_code_object",
    "from_file",
    "from_source",
    "from_spec",
    "parse",
    "prepare",
    "sanitize",
]
