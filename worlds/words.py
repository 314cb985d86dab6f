"""What worlds say in the same way: tables for people, means with intervals, JSON for machines."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NEXT", "interval", "plain_json", "table", "under"]


NEXT = {
    "torchrun": "start each node K with {out}/launch-node-K.sh",
    "k8s": "start it with: kubectl apply -k {out}",
    "ray-serve": "start it with: cd {out} && serve run serve-config.yaml",
    "triton": "start each node K with {out}/node-K/start.sh in the Triton container",
    "torch": "start it as {out}/README.md says: cd {out} && torchrun --nproc-per-node DEVICES train.py",
    "megatron": "start it on every node with NODE_RANK, MASTER_ADDR and MEGATRON set: {out}/train.sh",
    "deepspeed": "give {out}/ds_config.json to deepspeed.initialize; {out}/README.md says what goes into code",
    "vllm": "start each node K with {out}/node-K/serve.sh, or docker compose -f {out}/node-K/docker-compose.yaml up",
}
"""Target -> how what was written is started."""


def table(frame: pd.DataFrame) -> str:
    """A frame as text: four digits, no index, ``-`` where nothing is known."""
    return frame.to_string(index=False, na_rep="-", float_format=lambda x: f"{x:.4g}")


def interval(mean: float, half_width: float) -> str:
    """A mean with half its interval, with as many decimals as two digits of that need: ``99.22 ± 0.48``."""
    if not math.isfinite(mean):
        return "-"
    if not math.isfinite(half_width):
        return f"{mean:.4g}"
    places = 2 if half_width <= 0 else min(max(1 - math.floor(math.log10(half_width)), 0), 4)
    return f"{mean:.{places}f} ± {half_width:.{places}f}"


def under(field: str, message: str) -> Iterator[str]:
    """The lines of an error with the field in front that they are about, said once."""
    for line in message.splitlines():
        for said in (field, field.rpartition(".")[2], field.partition(".")[0], "device"):
            line = line.removeprefix(f"{said}: ")
        yield f"{field}: {line.removeprefix(f'{field} ')}"


def plain_json(value: Any) -> Any:
    """A value as JSON can say it; what it has no word for (NaN, infinity) becomes null."""
    if isinstance(value, dict):
        return {str(key): plain_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
