"""Manifests read by Kubernetes' own client: every field known, of its type, none missing."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

client = pytest.importorskip("kubernetes.client", reason="the kubernetes client is not installed")

KINDS = {
    ("v1", "Namespace"): "V1Namespace",
    ("v1", "ConfigMap"): "V1ConfigMap",
    ("v1", "Service"): "V1Service",
    ("apps/v1", "StatefulSet"): "V1StatefulSet",
    ("apps/v1", "Deployment"): "V1Deployment",
}
PLAIN = {"str": str, "int": int, "bool": bool, "float": float, "datetime": datetime}


def read(data: Any, kind: str, where: str) -> Any:
    """Build the client's object from plain data; unlike the client's own reader, refuse what it does not know.

    The client's constructors raise on a required field that is missing.
    """
    if kind == "object":  # int or string
        assert isinstance(data, int | str), f"{where}: {data!r}"
        return data
    if kind in PLAIN:
        assert type(data) is PLAIN[kind], f"{where}: expected {kind} (got {data!r})"
        return data
    if kind.lower().startswith("list["):
        return [read(item, kind[5:-1], f"{where}[{i}]") for i, item in enumerate(data)]
    if kind.lower().startswith("dict"):  # "dict(str, str)" in older clients, "Dict[str, str]" in newer ones
        inner = kind[5:-1].split(", ", 1)[1]
        return {read(k, "str", where): read(v, inner, f"{where}.{k}") for k, v in data.items()}
    model = getattr(client, kind)
    names = {json_name: name for name, json_name in model.attribute_map.items()}
    assert isinstance(data, dict), f"{where}: expected {kind} (got {data!r})"
    unknown = set(data) - set(names)
    assert not unknown, f"{where}: unknown fields {unknown} of {kind}"
    return model(**{names[k]: read(v, model.openapi_types[names[k]], f"{where}.{k}") for k, v in data.items()})
