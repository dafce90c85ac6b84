"""From a schedule to ThunderKittens HIP C++: `lower(plan, target)` gives the source text.

`model` is the C++ as data, `kernel` fills it from a plan, `render` prints it with the Jinja2 templates beside it.
"""

from tkgen.lower.harness import harness_cpp, harness_python
from tkgen.lower.kernel import kernel_model
from tkgen.lower.origins import Origin, Source
from tkgen.lower.render import lower

__all__ = ["Origin", "Source", "harness_cpp", "harness_python", "kernel_model", "lower"]
