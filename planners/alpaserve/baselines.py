"""What AlpaServe is compared with (§6.2, §6.3, §6.6): planners that leave out model parallelism, search, or both."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...errors import InfeasibleError, InputError
from ...profiles.config import ParallelConfig
from ...profiles.profile import ModelProfile
from ...simulator.cluster import Cluster
from ...simulator.serving.plan.file import Plan
from ...traces.trace import Trace
from .evaluator import Evaluator, State, canonical
from .finish import finish
from .instance import Instance, build_instance
from .options import ReplicationOptions, SelectionOptions
from .selection import Room, fast_selection, fill_spare_memory, greedy_selection

__all__ = [
    "check_room",
    "config_of",
    "dedicated",
    "greedy_no_partition",
    "round_robin",
    "selective_replication",
    "uniform_groups",
]

Progress = Callable[[str], None]


def selective_replication(
    cluster: Cluster,
    models: Iterable[str] | None,
    trace: Trace,
    profiles: Mapping[str, ModelProfile],
    *,
    seed: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> Plan:
    """Selective Replication (SR): AlpaServe's selection without model parallelism, one device to a group (§6.2).

    Models that do not fit one device get no replica, so all their requests are lost.

    Parameters
    ----------
    cluster, models, trace, profiles
        The problem.
    seed, progress
        For the common contract; nothing here is random, and it is quick.
    **options
        Fields of `ReplicationOptions`.

    Raises
    ------
    InfeasibleError
        If no model fits one device.
    """
    begun, asked = time.perf_counter(), ReplicationOptions(**options)
    instance = build_instance(cluster, models, trace, profiles, asked, require="any")
    return _uniform(instance, ParallelConfig(1, 1), "selective-replication", asked, begun, seed)


def greedy_no_partition(
    cluster: Cluster,
    models: Iterable[str] | None,
    trace: Trace,
    profiles: Mapping[str, ModelProfile],
    *,
    config: ParallelConfig | str = "op1pp4",
    seed: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> Plan:
    """AlpaServe's selection with one configuration for all groups, by default 4-stage pipelines (§6.6).

    Devices left over form pipelines of falling powers of two. Other parameters as in `selective_replication`.
    """
    begun, given, asked = time.perf_counter(), config_of(config), ReplicationOptions(**options)
    instance = build_instance(cluster, models, trace, profiles, asked, require="any")
    return _uniform(instance, given, "greedy-no-partition", asked, begun, seed)


def round_robin(
    cluster: Cluster,
    models: Iterable[str] | None,
    trace: Trace,
    profiles: Mapping[str, ModelProfile],
    *,
    config: ParallelConfig | str = "op1pp4",
    seed: int = 0,
    progress: Progress | None = None,
    **serving: Any,
) -> Plan:
    """Models dealt out to equal groups in turn, by default 4-stage pipelines, until memory is full (§6.6).

    Each model in turn goes to the next group that lacks it and has memory, counted on from the group served last.
    It looks at no traffic. Other parameters as in `selective_replication`.
    """
    begun = time.perf_counter()
    given = config_of(config)
    instance = build_instance(cluster, models, trace, profiles, require="any", **serving)
    groups = list(uniform_groups(instance, given))
    check_room(instance, tuple(groups), given, "round-robin")
    held = [0] * len(groups)
    room = Room(instance, (1 << instance.n_models) - 1)
    turn, progressed = 0, True
    while progressed:
        progressed = False
        for m in range(instance.n_models):
            for step in range(len(groups)):
                g = (turn + step) % len(groups)
                if room.free((groups[g], held[g])) >> m & 1:
                    held[g] |= 1 << m
                    turn, progressed = g + 1, True
                    break
    evaluator = Evaluator(instance)
    state = canonical(zip(groups, held, strict=True))
    return finish(instance, state, evaluator, "round-robin", {"config": str(given)}, begun, seed)


def dedicated(
    cluster: Cluster,
    models: Iterable[str] | None,
    trace: Trace,
    profiles: Mapping[str, ModelProfile],
    *,
    config: ParallelConfig | str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    **serving: Any,
) -> Plan:
    """Devices of its own for every model, as many for each (§6.3): ``n_devices // n_models``.

    Parameters
    ----------
    config : ParallelConfig or str, optional
        The configuration of all models; if not given, every (op, pp) that fills the devices is tried, and each model
        gets the one that attains most of its requests.

    Raises
    ------
    InfeasibleError
        If there are fewer devices than models, or a model fits no configuration of its devices.
    """
    begun = time.perf_counter()
    instance = build_instance(cluster, models, trace, profiles, **serving)
    each = instance.n_devices // instance.n_models
    if each == 0:
        raise InfeasibleError(
            f"dedicated: {instance.n_models} models need at least {instance.n_models} devices "
            f"(the cluster has {instance.n_devices})"
        )
    if config is None:
        allowed = [c for c, cfg in enumerate(instance.configs) if cfg.n_devices == each]
    else:
        allowed = [instance.index(config_of(config))]
    evaluator = Evaluator(instance)
    state: list[tuple[int, int]] = []
    for m, name in enumerate(instance.models):
        options = [c for c in allowed if instance.fits[c, m] and instance.configs[c].n_devices <= each]
        if not options:
            room = [cfg for c, cfg in enumerate(instance.configs) if instance.fits[c, m]]
            smallest = min(room, key=lambda cfg: (cfg.n_devices, cfg))
            raise InfeasibleError(
                f"dedicated: model {name!r} fits no allowed configuration of its {each} device(s); it would with "
                f"{smallest.n_devices} devices each ({smallest}): {smallest.n_devices * instance.n_models} in all"
            )
        state.append(min(((c, 1 << m) for c in options), key=lambda g: (evaluator.total((g,)), g)))
    chosen = "best of each" if config is None else str(config_of(config))
    return finish(instance, canonical(state), evaluator, "dedicated", {"config": chosen}, begun, seed)


def uniform_groups(instance: Instance, config: ParallelConfig) -> tuple[int, ...]:
    """As many groups of one configuration as there are devices for; the rest in pipelines of powers of two.

    Raises
    ------
    InputError
        If the configuration is larger than the cluster or not profiled.
    """
    if config.n_devices > instance.n_devices:
        raise InputError(f"config: {config} needs {config.n_devices} devices (the cluster has {instance.n_devices})")
    regular, left = divmod(instance.n_devices, config.n_devices)
    groups = [instance.index(config)] * regular
    for power in reversed(range(left.bit_length())):
        odd = ParallelConfig(1, 1 << power)
        if left >> power & 1 and odd in instance.configs:
            groups.append(instance.index(odd))
    return tuple(groups)


def select(evaluator: Evaluator, groups: tuple[int, ...], options: SelectionOptions) -> State:
    """The models of groups whose configurations are given, chosen as the options say."""
    if options.selection == "fast":
        return fast_selection(evaluator, groups).state
    return greedy_selection(evaluator, groups, beam=options.beam).state


def _uniform(
    instance: Instance, config: ParallelConfig, name: str, options: ReplicationOptions, begun: float, seed: int
) -> Plan:
    """Equal groups of one configuration, filled by AlpaServe's selection."""
    groups = uniform_groups(instance, config)
    check_room(instance, groups, config, name)
    evaluator = Evaluator(instance)
    state = select(evaluator, groups, options)
    if options.fill:
        state = fill_spare_memory(evaluator, state)
    said = {"config": str(config), "selection": options.selection, "beam": options.beam, "fill": options.fill}
    return finish(instance, state, evaluator, name, said, begun, seed)


def check_room(instance: Instance, groups: tuple[int, ...], config: ParallelConfig, name: str) -> None:
    """Refuse groups that no model fits.

    Raises
    ------
    InfeasibleError
        Saying how much memory would do.
    """
    if not instance.fits[sorted(set(groups))].any():
        least = min(float(instance.weight[c].max(axis=1).min()) for c in set(groups))
        raise InfeasibleError(
            f"{name}: no model fits a group of {config}; it would with {least / 2**30:.2f} GiB usable on each device "
            f"({instance.memory_bytes / 2**30:.2f} GiB now)"
        )


def config_of(config: ParallelConfig | str) -> ParallelConfig:
    """A configuration, given as such or as text."""
    if isinstance(config, ParallelConfig):
        return config
    if isinstance(config, str):
        return ParallelConfig.parse(config)
    raise InputError(f"config: expected a ParallelConfig or a form like 'op1pp4' (got {config!r})")
