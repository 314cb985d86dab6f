"""Costs of token-by-token LLM serving: shapes of decoder models, their KV memory, and the time of one iteration.

Begin with `decoder` (`DecoderSpec`), `kv_capacity` (how many KV blocks fit) and `iteration_cost` (seconds of one
iteration). The rooms: `checkpoint` reads config.json files, `tables` measured kernels, `cost` turns these into seconds,
and `parallel` counts what several GPUs communicate. `measured` and its neighbours measure a model on the present
device.
"""

from .capacity import CapacityOptions, KVCapacity, kv_capacity
from .cost.fitted import FittedCost, load_fits
from .cost.grid import CostGrid, compiled, iteration_seconds
from .cost.host import HOSTS, HostTimes, host_times
from .cost.iteration import CostOptions, TableCost, iteration_cost
from .cost.kinds.draft import draft_cost
from .cost.overheads import COMPILED_LAUNCH_S, EAGER_LAUNCH_S, NO_OVERHEADS, Overheads
from .cost.parts import Part
from .decoder import DecoderSpec
from .iteration import Iteration, IterationCost
from .linear import ConstantCost, LinearCost
from .measured import LayerMeasurement, measured_cost, read_measurement, write_measurement
from .named import decoder
from .parallel.layer import DecodeLayer, Parallel, decode_layer
from .tables.grid import Grid
from .tables.kernels import KernelTables, Layers, Operators, Peaks
from .times import StepTimes
from .tower import Tower
from .zoo import DECODERS

__all__ = [
    "COMPILED_LAUNCH_S",
    "DECODERS",
    "EAGER_LAUNCH_S",
    "HOSTS",
    "NO_OVERHEADS",
    "CapacityOptions",
    "ConstantCost",
    "CostGrid",
    "CostOptions",
    "DecodeLayer",
    "DecoderSpec",
    "FittedCost",
    "Grid",
    "HostTimes",
    "Iteration",
    "IterationCost",
    "KVCapacity",
    "KernelTables",
    "LayerMeasurement",
    "Layers",
    "LinearCost",
    "Operators",
    "Overheads",
    "Parallel",
    "Part",
    "Peaks",
    "StepTimes",
    "TableCost",
    "Tower",
    "compiled",
    "decode_layer",
    "decoder",
    "draft_cost",
    "host_times",
    "iteration_cost",
    "iteration_seconds",
    "kv_capacity",
    "load_fits",
    "measured_cost",
    "read_measurement",
    "write_measurement",
]
