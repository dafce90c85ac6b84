"""From a schedule to ThunderKittens HIP C++: `lower(plan, target)` gives the source text.

`model` is the C++ as data, `kernel` fills it from a plan, `render` prints it with the Jinja2 templates beside it.
"""

from tkgen.backends.cdna.lower.harness import harness_cpp, harness_python
from tkgen.backends.cdna.lower.kernel import kernel_model
from tkgen.backends.cdna.lower.origins import Origin, Performed, Source
from tkgen.backends.cdna.lower.render import lower

__all__ = ["Origin", "Performed", "Source", "harness_cpp", "harness_python", "kernel_model", "lower"]
