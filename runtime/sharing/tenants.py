"""Who may bring an app to the extender, and who may speak for it: by its namespace and its key."""

from __future__ import annotations

import hmac
import re
import secrets
from dataclasses import dataclass

from ...errors import InputError
from ...simulator.sharing.cluster import SharedCluster
from ...simulator.sharing.workload.app import App
from ...simulator.sharing.world import SharingWorld
from ...wording import short

__all__ = ["Forbidden", "Tenants", "Unknown", "check_arrival"]

LABEL = re.compile(r"[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?")
"""What Kubernetes takes as the value of a label."""
NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
KEY = re.compile(r"[!-~]{16,200}")

MOST_WORKS = 10_000
"""Most jobs of all phases of an app, so that a decision ends before kube-scheduler gives up. A guess."""


class Unknown(InputError):
    """There is no such app or pod."""


class Forbidden(InputError):
    """It is there, and another's."""


@dataclass(frozen=True, slots=True)
class _Owner:
    namespace: str
    key: str


class Tenants:
    """Owners of apps. Pods of an app's namespace may use its GPUs; whoever has its key may report for it and end it.

    Parameters
    ----------
    admin_key : str, optional
        Key of the cluster's administrator, valid for every app.
    """

    def __init__(self, admin_key: str | None = None) -> None:
        self._admin_key = admin_key
        self._owners: dict[str, _Owner] = {}

    def add(self, app: str, namespace: str, key: str | None) -> None:
        """Register the owner of an app, by the app's name; a key is drawn if none is given.

        Raises
        ------
        InputError
            If the namespace or the key is invalid.
        """
        if not NAMESPACE.fullmatch(namespace):
            raise InputError(
                f"namespace: expected lower-case letters, digits and '-', up to 63 (got {short(namespace)})"
            )
        if key is not None and not KEY.fullmatch(key):
            raise InputError("app: key: expected 16 to 200 printable characters without blanks")
        self._owners[app] = _Owner(namespace, key or secrets.token_urlsafe(24))

    def remove(self, app: str) -> None:
        """Forget an app that has left."""
        del self._owners[app]

    def namespace(self, app: str) -> str:
        """Namespace of the app's pods."""
        return self._owners[app].namespace

    def key(self, app: str) -> str:
        """Key of the app."""
        return self._owners[app].key

    def check(self, app: str, key: str | None) -> None:
        """See that who shows a key may speak for an app.

        Raises
        ------
        Forbidden
            If the key is another's, or none.
        """
        shown = (key or "").encode()
        mine = hmac.compare_digest(shown, self._owners[app].key.encode())
        if not mine and not (self._admin_key and hmac.compare_digest(shown, self._admin_key.encode())):
            raise Forbidden(f"app {app!r}: another's: expected the key that it was registered with")


def check_arrival(app: App, cluster: SharedCluster) -> None:
    """See that an app can live in a cluster of pods.

    Raises
    ------
    InputError
        If its name is no label, a gang or a job is larger than the cluster, or it has too many jobs.
    """
    if not LABEL.fullmatch(app.name):
        raise InputError(
            f"app: name: pods carry it as a label: up to 63 letters, digits, '-', '_' and '.', with a letter or "
            f"digit at both ends (got {short(app.name)})"
        )
    if sum(len(phase.jobs) for phase in app.phases) > MOST_WORKS:
        raise InputError(f"app {app.name!r}: expected at most {MOST_WORKS} jobs, counted in each phase")
    SharingWorld(cluster, (app,))  # it checks gangs
    widest = max(app.cap(k, j) for k, phase in enumerate(app.phases) for j in phase.jobs)
    if widest > cluster.n_gpus:
        raise InputError(
            f"app {app.name!r}: a job that uses {widest} GPUs is larger than the cluster of {cluster.n_gpus}; lower "
            "its gpus"
        )
