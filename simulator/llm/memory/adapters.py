"""LoRA adapters: which are in a slot on the device and which on the host, and what it costs to bring one there.

Rules of vLLM's `LRUCacheWorkerLoRAManager`: before a step the adapters of its requests are brought into slots. One that
the host does not hold is read from the disk; where host or device are full, the adapter that was not used for longest
gives way, and one that leaves the host leaves its slot, too. All of it happens in the worker, and the step waits.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from ....errors import InputError
from ....profiles.llm.decoder import DecoderSpec
from ....reprs import Shown

__all__ = ["AdapterCost", "AdapterSlots", "adapter_bytes"]


class AdapterSlots:
    """Adapters on the device and on the host, least recently used first.

    Parameters
    ----------
    slots : int
        Adapters that the device holds at once.
    host : int, optional
        Adapters that the host's memory holds, at least as many; by default as many.
    """

    def __init__(self, slots: int, host: int | None = None) -> None:
        self.slots, self.host = slots, slots if host is None else host
        self._active: OrderedDict[Hashable, None] = OrderedDict()
        self._known: OrderedDict[Hashable, None] = OrderedDict()

    def use(self, adapters: Iterable[Hashable]) -> tuple[int, int]:
        """Bring the adapters of a step into slots; there must be a slot for each.

        Returns
        -------
        (int, int)
            Adapters that were read from the disk, and adapters that were copied into a slot.
        """
        # vLLM goes through a set, in no order that could be told. Here those that are in place come first, so that no
        # adapter of the step makes way for another.
        wanted = sorted(dict.fromkeys(adapters), key=lambda a: (a not in self._active) + (a not in self._known))
        loads = copies = 0
        for name in wanted:
            if name not in self._known:
                loads += 1
                if len(self._known) >= self.host:
                    oldest, _ = self._known.popitem(last=False)
                    self._active.pop(oldest, None)
            self._known[name] = None
            self._known.move_to_end(name)
            if name not in self._active:
                copies += 1
                if len(self._active) >= self.slots:
                    self._active.popitem(last=False)
            self._active[name] = None
            self._active.move_to_end(name)
        return loads, copies


@dataclass(frozen=True, slots=True, repr=False)
class AdapterCost(Shown):
    """Seconds that a step waits for its adapters.

    Parameters
    ----------
    load_s : float
        To read one from the disk into the host's memory.
    copy_s : float
        To copy one from the host into a slot.

    Raises
    ------
    InputError
        On a time that is negative or not finite.
    """

    load_s: float
    copy_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("load_s", "copy_s"):
            value = getattr(self, name)
            if isinstance(value, bool) or not (math.isfinite(value) and value >= 0):
                raise InputError(f"adapter cost: {name}: expected finite seconds >= 0 (got {value})")

    @classmethod
    def of(
        cls, model: DecoderSpec, rank: int, *, tp: int = 1, disk: float = 2e9, bandwidth: float = 24e9
    ) -> AdapterCost:
        """The cost for adapters of a model.

        Parameters
        ----------
        model : DecoderSpec
            The model.
        rank : int
            Rank of the adapters.
        tp : int
            Devices that share each layer: each takes its part, all at the same time.
        disk : float
            Bytes per second from the disk. The default, 2 GB/s, is a guess: a local NVMe drive, and reading the format.
        bandwidth : float
            Bytes per second from host to device; as in `SwapCost`.
        """
        for name, value in (("tp", tp), ("disk", disk), ("bandwidth", bandwidth)):
            if not (math.isfinite(value) and value > 0):
                raise InputError(f"adapter cost: {name}: expected a finite value > 0 (got {value})")
        size = adapter_bytes(model, rank)
        return cls(size / disk, size / tp / bandwidth)

    def seconds(self, loads: int, copies: int) -> float:
        """Seconds to read so many adapters and to copy so many."""
        return loads * self.load_s + copies * self.copy_s


def adapter_bytes(model: DecoderSpec, rank: int) -> int:
    """Bytes of an adapter of 16 bits on every linear layer of attention and MLP (vLLM's ``all-linear``).

    A pair of matrices, ``rank`` x inputs and outputs x ``rank``, for each; of a model of experts, attention only.

    Raises
    ------
    InputError
        On a rank below 1, or a model with latent attention, whose adapters are not modelled.
    """
    if model.kv_rank:
        raise InputError(f"lora: adapters of latent attention ({model.name}) are not modelled; give an AdapterCost")
    if isinstance(rank, bool) or not isinstance(rank, int) or rank < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"lora rank: expected an integer >= 1 (got {rank!r})")
    queries, keys = model.heads * model.head_dim, model.kv_heads * model.head_dim
    ends = [(model.hidden, queries), (model.hidden, keys), (model.hidden, keys), (queries, model.hidden)]
    if not model.experts:
        ends += [(model.hidden, model.ffn)] * (2 if model.gated else 1) + [(model.ffn, model.hidden)]
    return 2 * rank * model.layers * sum(inputs + outputs for inputs, outputs in ends)
