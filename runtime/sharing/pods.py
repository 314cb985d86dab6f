"""What kube-scheduler asks an extender: the part of its ExtenderArgs that matters here, checked."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["APP", "GPU", "ExtenderArgs", "Pod"]

APP, GPU = "meshwright/app", "nvidia.com/gpu"


class _Part(BaseModel):
    """Of a Kubernetes object; it has many fields besides."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _Meta(_Part):
    name: str = Field(min_length=1)
    namespace: str = "default"
    labels: dict[str, str] | None = None


class _Resources(_Part):
    limits: dict[str, str | int] | None = None


class _Container(_Part):
    resources: _Resources | None = None


class _Spec(_Part):
    containers: tuple[_Container, ...]


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
        """GPUs of all of its containers.

        Raises
        ------
        ValueError
            If one asks for what is no whole number.
        """
        limits = [(c.resources.limits or {}) if c.resources else {} for c in self.spec.containers]
        return sum(int(one.get(GPU, 0)) for one in limits)


class ExtenderArgs(_Part):
    """kube-scheduler's question: a pod, and names of nodes that would do (``nodeCacheCapable: true``)."""

    pod: Pod
    nodenames: tuple[str, ...]
