"""A backend of your own: NumPy (its BLAS) for linear layers, activations and sums. See docs/backends.md.

A package brings it by an entry point; in its pyproject.toml:

    [project.entry-points."meshwright.backends"]
    numpy = "own_backend:NumPy"
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from meshwright.profiles.backends import Backend, Compiled, is_op, wildcard

STEPS: dict[str, Callable[..., np.ndarray]] = {
    "aten.linear.default": lambda x, w, b=0.0: x @ w.T + b,
    "aten.relu.default": lambda x: np.maximum(x, 0, dtype=x.dtype),
    "aten.tanh.default": np.tanh,
    "aten.add.Tensor": np.add,
}
"""What each operator of torch is in NumPy."""


class NumPy(Backend):
    """NumPy, one array after the other."""

    name = "numpy"
    linear = is_op("linear")(wildcard()).has_attr({"dtype": "float32"})  # the weight and bias are parameters
    added = is_op("add")(wildcard(), wildcard()).has_attr({"alpha": 1})
    patterns = (linear, is_op("relu")(linear | added), is_op("tanh")(linear))

    def version(self) -> str:
        """Of NumPy: with another version, costs are measured anew."""
        return np.__version__

    def compile(self, subgraph: Any, example: Sequence[Any]) -> Compiled:
        """A function of torch's tensors; their memory is NumPy's, too, and nothing is copied."""
        import torch

        nodes = list(subgraph.graph.nodes)
        held = {node: getattr(subgraph, node.target).numpy() for node in nodes if node.op == "get_attr"}
        inputs = [node for node in nodes if node.op == "placeholder"]
        steps = [(node, STEPS[str(node.target)], node.args) for node in nodes if node.op == "call_function"]
        results = nodes[-1].args[0]

        def run(*tensors: Any) -> tuple[Any, ...]:
            values = held | {node: tensor.numpy() for node, tensor in zip(inputs, tensors, strict=True)}
            for node, step, read in steps:
                values[node] = step(*(values[one] for one in read))
            return tuple(torch.from_numpy(values[node]) for node in results)

        return run
