"""A plan as files that start it elsewhere: torchrun, Kubernetes, Ray Serve, Triton, vLLM. One module per target.

Model names are data in every file: quoted for the shell, escaped for the format, and where a system wants names of its
own kind (Kubernetes objects, Triton folders), replaced by clean ones that stay unique.
"""

from .export import TARGETS, export
from .options import ExportOptions

__all__ = ["TARGETS", "ExportOptions", "export"]
