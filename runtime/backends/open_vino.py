"""OpenVINO: a graph library, fed with torch modules directly."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Sequence
from typing import Any

from ...errors import install_hint
from ...profiles.backends import GRAPH_LIBRARY, Backend, Compiled, TvmRule

__all__ = ["OpenVino", "converted"]

ONE_THREAD = {
    "INFERENCE_NUM_THREADS": 1,
    "NUM_STREAMS": 1,
    "INFERENCE_PRECISION_HINT": "f32",  # bf16 where the processor has it would not agree with eager
}


class OpenVino(Backend):
    """OpenVINO on one thread in float32; inputs and results share their memory with torch's tensors."""

    name = "openvino"
    kind = GRAPH_LIBRARY
    extra = "backends"
    rule = TvmRule()

    def available(self) -> str:
        """Whether the package is missing."""
        return "" if importlib.util.find_spec("openvino") else f"openvino is not installed: {install_hint(self.extra)}"

    def version(self) -> str:
        """Of OpenVINO."""
        from importlib.metadata import version

        return version("openvino")

    def compile(self, subgraph: Any, example: Sequence[Any]) -> Compiled:
        """A compiled model, and a function that hands tensors to it."""
        import openvino  # pyright: ignore[reportMissingImports]
        import torch

        with torch.inference_mode(False), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = tuple(one.clone().contiguous() for one in example)
            model = converted(subgraph, given)
            results = [(tuple(one.shape), one.dtype) for one in subgraph(*given)]
        request = openvino.compile_model(model, "CPU", ONE_THREAD).create_infer_request()
        tensor, empty = openvino.Tensor, torch.empty

        def run(*given: Any) -> tuple[Any, ...]:
            alive = [one if one.is_contiguous() else one.contiguous() for one in given]
            made = tuple([empty(shape, dtype=kind) for shape, kind in results])
            for k, one in enumerate(alive):
                request.set_input_tensor(k, tensor(one.numpy(), shared_memory=True))
            for k, one in enumerate(made):
                request.set_output_tensor(k, tensor(one.numpy(), shared_memory=True))
            request.infer()
            return made

        return run


def converted(module: Any, example: Sequence[Any]) -> Any:
    """An OpenVINO model of a module, at the example's shapes.

    `openvino.convert_model` does the same by the same frontend, and sends what it did over the network, by a process
    that it forks for each call: of a process of some GB that took five seconds a unit.

    Parameters
    ----------
    module : torch.nn.Module
        In evaluation.
    example : sequence of torch.Tensor
        Contiguous inputs.
    """
    from openvino.frontend import FrontEndManager  # pyright: ignore[reportMissingImports]
    from openvino.frontend.pytorch.ts_decoder import (  # pyright: ignore[reportMissingImports]
        TorchScriptPythonDecoder,
    )

    frontend = FrontEndManager().load_by_framework("pytorch")
    decoder = TorchScriptPythonDecoder(module.eval(), example_input=tuple(example))  # alive until all is converted
    model = frontend.convert(frontend.load(decoder))
    model.reshape({k: list(one.shape) for k, one in enumerate(example)})
    return model
