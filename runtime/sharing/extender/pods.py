"""What kube-scheduler asks an extender: the part of its ExtenderArgs that matters here, checked."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from ....errors import InputError
from ....wording import amiss, dotted, short

__all__ = ["APP", "GPU", "ExtenderArgs", "Pod", "read_question"]

APP, GPU = "meshwright/app", "nvidia.com/gpu"

MOST = 10**6
"""No pod has more GPUs."""

_Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$")]
"""What Kubernetes takes as the name of a pod: no "/" in it, so that namespace/name means one pod."""
_Namespace = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")]
_Node = Annotated[str, StringConstraints(min_length=1, max_length=253)]


class _Part(BaseModel):
    """Of a Kubernetes object; it has many fields besides."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _Meta(_Part):
    name: _Name
    namespace: _Namespace = "default"
    uid: str = Field(default="", max_length=128)
    labels: dict[str, str] | None = None


class _Resources(_Part):
    limits: dict[str, Any] | None = None
    requests: dict[str, Any] | None = None


class _Container(_Part):
    resources: _Resources | None = None
    restart: str = Field(default="", alias="restartPolicy")

    @property
    def gpus(self) -> int:
        """What it may use at most. Requests of GPUs are their limits."""
        if self.resources is None:
            return 0
        limits, requests = self.resources.limits or {}, self.resources.requests or {}
        if GPU in requests and GPU in limits and _count(requests[GPU]) != _count(limits[GPU]):
            raise ValueError(f"requests are limits (got {short(requests[GPU])} and {short(limits[GPU])})")
        return _count(limits.get(GPU, requests.get(GPU, 0)))


class _Spec(_Part):
    containers: tuple[_Container, ...]
    first: tuple[_Container, ...] = Field(default=(), alias="initContainers")


class Pod(_Part):
    """A pod: its name, whose it is, and what its containers may use at most."""

    metadata: _Meta
    spec: _Spec

    @property
    def name(self) -> str:
        """namespace/name."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def app(self) -> str | None:
        """Its app, by its label; None without one."""
        return (self.metadata.labels or {}).get(APP)

    @property
    def gpus(self) -> int:
        """GPUs that it needs at one time, as Kubernetes counts: containers run together, those that come first run one
        after the other, and of these sidecars stay.

        Raises
        ------
        ValueError
            If one asks for what is no whole number from 0 to a million.
        """
        beside, most = 0, 0
        for one in self.spec.first:
            most = max(most, beside + one.gpus)
            if one.restart == "Always":
                beside += one.gpus
        return max(most, beside + sum(one.gpus for one in self.spec.containers))


def _count(said: Any) -> int:
    """A number of GPUs: digits, as text or as a number."""
    text = str(said) if isinstance(said, int | str) and not isinstance(said, bool) else ""
    if not (text.isascii() and text.isdigit() and len(text) <= 7 and int(text) <= MOST):
        raise ValueError(f"expected a whole number from 0 to {MOST} (got {short(said)})")
    return int(text)


class ExtenderArgs(_Part):
    """kube-scheduler's question: a pod, and names of nodes that would do (``nodeCacheCapable: true``)."""

    pod: Pod
    nodenames: tuple[_Node, ...]


def read_question(arguments: Any) -> tuple[Pod, int, tuple[str, ...]]:
    """The pod that kube-scheduler asks about, its GPUs, and the nodes.

    Raises
    ------
    InputError
        If it is no such question.
    """
    try:
        asked = ExtenderArgs.model_validate(arguments)
        return asked.pod, asked.pod.gpus, tuple(dict.fromkeys(asked.nodenames))
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"expected ExtenderArgs: {dotted(first['loc'])}: {amiss(first)}") from None
    except ValueError as error:
        raise InputError(f"expected ExtenderArgs: limits of {GPU}: {error}") from None
