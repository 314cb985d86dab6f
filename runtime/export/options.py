"""What a user may say about an export, checked once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING

from ... import __version__
from ...errors import InputError
from ...reprs import Shown
from ...simulator.serving.plan.file import Plan

if TYPE_CHECKING:
    from ...profiles.graph.module_loss import ModuleLoss

__all__ = ["ExportOptions"]

HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]")
DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*")


@dataclass(frozen=True, repr=False)
class ExportOptions(Shown):
    """Options of an export; each target uses those that concern it.

    Parameters
    ----------
    image : str
        Container image (k8s, triton, vllm); empty for the target's default.
    namespace : str
        Kubernetes namespace.
    hosts : tuple of str
        Addresses of the plan's nodes (torchrun); ``127.0.0.1``, or ``node-0``, ``node-1``, …, if left out.
    port : int
        Port that clients call; groups listen on the ports after it.
    device : {"auto", "cpu", "cuda"}
        What a device is; ``auto``: by the plan's device type.
    model_source : mapping
        Model -> Hugging Face name or folder of its weights (vllm).
    module : ModuleLoss, optional
        Of a training plan: the module that its graph was traced from. Its names and buffers go with the program.
    """

    image: str = ""
    namespace: str = "meshwright"
    hosts: tuple[str, ...] = ()
    port: int = 8080
    device: str = "auto"
    model_source: Mapping[str, str] = field(default_factory=dict)
    module: ModuleLoss | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "hosts", tuple(self.hosts))
        object.__setattr__(self, "model_source", MappingProxyType(dict(self.model_source)))
        if self.image and not IMAGE.fullmatch(self.image):
            raise InputError(f"export: image: expected a form like registry.example/name:tag (got {self.image!r})")
        if not DNS_LABEL.fullmatch(self.namespace):
            raise InputError(
                f"export: namespace: expected lower-case letters, digits and '-', up to 63 (got {self.namespace!r})"
            )
        bad = [host for host in self.hosts if not HOST.fullmatch(host)]
        if bad:
            raise InputError(f"export: hosts: expected host names or addresses (got {bad[0]!r})")
        if isinstance(self.port, bool) or not isinstance(self.port, int) or not 1024 <= self.port <= 60000:
            raise InputError(f"export: port: expected 1024 … 60000 (got {self.port!r})")
        if self.device not in ("auto", "cpu", "cuda"):
            raise InputError(f"export: device: expected auto, cpu or cuda (got {self.device!r})")

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """All options."""
        return tuple(f.name for f in fields(cls))

    def kind(self, plan: Plan) -> str:
        """``cpu`` or ``cuda``."""
        if self.device != "auto":
            return self.device
        return "cpu" if plan.cluster.device.name.startswith("cpu") else "cuda"

    def meshwright_image(self) -> str:
        """The image that holds Meshwright and torch."""
        return self.image or f"meshwright:{__version__}"
