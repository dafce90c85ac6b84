"""tkgen: from a declarative spec of a tiled kernel to proven ThunderKittens HIP C++ for AMD Instinct GPUs."""

__version__ = "0.1.0"
