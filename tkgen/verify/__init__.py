"""What is stored is what was meant: the machine code of a kernel run over finite fields, beside its meaning.

`field` are the fields, `ring` numbers of torch that carry payloads, `functions` what torch is made of over them,
`meaning` the equations of a kernel.
"""

from tkgen.verify import functions  # noqa: F401  (what torch is made of, without which a `Ring` is no tensor)
