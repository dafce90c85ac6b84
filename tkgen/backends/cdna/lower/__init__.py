"""From a schedule to ThunderKittens HIP C++.

`model` is the C++ as data, `kernel` fills it from a plan, `render` prints it with the Jinja2 templates beside it.
"""
