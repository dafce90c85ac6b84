"""`tkgen verify`: what is stored is what was meant. Machine code run over finite fields, beside its meaning there.

    from tkgen.verify import verify
    verdict = verify(tkgen.load("specs/eight_wave.tk", {"M": 256, "N": 256, "K": 192}).build())
    verdict.ok, verdict.wrong, verdict.cause

`field` are the fields, `ring` numbers of torch that carry payloads, `functions` what torch is made of over them,
`meaning` the equations of a kernel; `payloads` draws and reads them, `run` launches and judges (`compare`), `diagnose`
looks for causes (`terms`, `probe`); `specs` and `foreign` are what is verified.
"""

from tkgen.verify import functions  # noqa: F401  (what torch is made of, without which a `Ring` is no tensor)
from tkgen.verify.ring import UnsupportedError
from tkgen.verify.run import Trial, Verdict
from tkgen.verify.specs import verified_spec, verify

__all__ = ["Trial", "UnsupportedError", "Verdict", "verified_spec", "verify"]
