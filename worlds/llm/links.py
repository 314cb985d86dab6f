"""Links between the devices of a node, as a case says them, and what plans assume of them where it does not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from ...errors import InputError
from ...profiles.devices import DEVICES
from ...profiles.hardware import DeviceSpec, LinkSpec
from ...wording import nearest

if TYPE_CHECKING:
    from ...simulator.llm.plan.costs import Tables
    from ...simulator.llm.plan.file import LLMPlan
    from .case import LLMCase
    from .data import LLMData

__all__ = ["check_links", "link_given", "link_lines", "linked", "links_of", "with_link"]


def link_given(text: str) -> LinkSpec:
    """A link between devices: a shipped device's, by its name, or GB/s and microseconds.

    Raises
    ------
    InputError
        If it is neither.
    """
    if text in DEVICES:
        return DEVICES[text].intra_node
    try:
        rate, latency = (float(word) for word in text.split(","))
        if not (math.isfinite(rate) and math.isfinite(latency)):
            raise ValueError(text)
        return LinkSpec(1e9 * rate, 1e-6 * latency)
    except ValueError:
        said = "expected GB/s above 0 and microseconds from 0 on, like 36.5,14, or a device"
        if "," not in text:
            near = nearest(text, DEVICES)
            said += f" ({', '.join(DEVICES)})" if near is None else f"; did you mean {near}?"
        raise InputError(f"{said} (got {text!r})") from None


def links_of(case: LLMCase, data: LLMData) -> dict[str, LinkSpec]:
    """Name of a device type -> the link that a case says of it."""
    said = case.cluster.link
    if said is None:
        return {}
    named = said if isinstance(said, Mapping) else {case.cluster.device: said}
    return {data.devices[name].name if name in data.devices else name: link_given(text) for name, text in named.items()}


def with_link(spec: DeviceSpec, links: Mapping[str, LinkSpec]) -> DeviceSpec:
    """A device type with the link that was said of it."""
    return replace(spec, intra_node=links[spec.name]) if spec.name in links else spec


def check_links(case: LLMCase, data: LLMData) -> None:
    """See that links are said of types whose kernels bring none.

    Raises
    ------
    InputError
        Naming the type.
    """
    links = links_of(case, data)
    for name, folder in case.tables.items():
        spec, tables = data.devices.get(name), data.tables.get(folder)
        if spec is not None and tables is not None and spec.name in links and tables.layers is None:
            raise InputError(
                f"the kernels of {spec.name} are tables of operators, which bring their system's links; leave it out"
            )


def linked(plan: LLMPlan, links: Mapping[str, LinkSpec]) -> LLMPlan:
    """A plan on devices with other links.

    Raises
    ------
    InputError
        On a link of a type that the plan has not.
    """
    if not links:
        return plan
    entries = (plan.cluster, *plan.pools)
    there = [entry.device.name for entry in entries]
    other = next((name for name in links if name not in there), None)
    if other is not None:
        raise InputError(f"cluster.link: no device is a {other}; there are {', '.join(there)}")

    def changed(entry: Any) -> Any:
        link = links.get(entry.device.name)
        if link is None:
            return entry
        pair = link.bandwidth_bytes_per_s, link.latency_s
        return entry.model_copy(update={"device": entry.device.model_copy(update={"intra_node": pair})})

    first, *others = map(changed, entries)
    return plan.model_copy(update={"cluster": first, "pools": tuple(others)})


def link_lines(plan: LLMPlan, case: LLMCase, data: LLMData, tables: Tables | None) -> list[str]:
    """Over which links engines are taken to send, where nobody measured that: one line for each device type that does.

    Of links that nobody stated, the line begins with ``ASSUMED``.
    """
    from ...simulator.llm.plan.costs import tables_for, told

    said = {*links_of(case, data), *_carried(plan)}
    found: dict[str, str] = {}
    for d in plan.deployments:
        spec, mine = plan.device_of(d), tables_for(plan, d, tables)
        if d.devices_per_engine == 1 and d.role == "both":
            continue
        if mine is not None and (mine.layers is None or (mine.layers.link is not None and not told(spec))):
            continue  # measured
        found[spec.name] = _line(spec, spec.name in said)
    return list(found.values())


def _carried(plan: LLMPlan) -> set[str]:
    """Types whose link the plan's own case says."""
    made = plan.case.get("cluster")
    said = cast("Mapping[str, Any]", made).get("link") if isinstance(made, Mapping) else None
    if said is None:
        return set()
    return {str(name) for name in cast("Mapping[str, Any]", said)} if isinstance(said, Mapping) else {
        plan.cluster.device.name
    }  # fmt: skip


def _line(spec: DeviceSpec, said: bool) -> str:
    link = spec.intra_node
    figures = (
        f"between {spec.name} devices of a node: {link.bandwidth_bytes_per_s / 1e9:.4g} GB/s and "
        f"{1e6 * link.latency_s:.4g} us"
    )
    if said:
        return f"link {figures}, as cluster.link says"
    shipped = DEVICES.get(spec.name)
    if shipped is not None and shipped.intra_node == link:
        return f"ASSUMED: link {figures}, by the data sheet of that type and a guess of the latency; give --link"
    if any(each.intra_node == link for each in DEVICES.values()):
        return f"ASSUMED: link {figures}, as {spec.source} has it from a shipped type; give --link"
    return f"link {figures}, as {spec.source if shipped is None else 'the plan'} says"
