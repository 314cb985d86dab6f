"""ONNX Runtime: a graph library. What its score is depends on the exporter, so both of torch's are backends."""

from __future__ import annotations

import importlib.util
import io
import logging
import warnings
from collections.abc import Sequence
from typing import Any

from ...errors import install_hint
from ...profiles.backends import GRAPH_LIBRARY, Backend, Compiled, TvmRule

__all__ = ["OnnxRuntime", "OnnxRuntimeDynamo", "exported"]

OPSET = 18
"""Of ONNX: has group and layer normalization; both exporters know it."""


class OnnxRuntime(Backend):
    """ONNX Runtime on one thread, fed by torch's TorchScript exporter.

    Inputs are bound where they lie, results are written into new tensors of torch: nothing is copied, except views,
    which are made contiguous (bound as they lie they give plausible garbage).
    """

    name = "onnxruntime"
    kind = GRAPH_LIBRARY
    extra = "backends"
    rule = TvmRule()
    dynamo = False
    needs: tuple[str, ...] = ("onnxruntime", "onnx")

    def available(self) -> str:
        """Which package is missing."""
        missing = [name for name in self.needs if importlib.util.find_spec(name) is None]
        return f"{missing[0]} is not installed: {install_hint(self.extra)}" if missing else ""

    def version(self) -> str:
        """Of ONNX Runtime and of torch, whose exporter makes the graph."""
        import onnxruntime
        import torch

        return f"{onnxruntime.__version__} torch {torch.__version__}"

    def compile(self, subgraph: Any, example: Sequence[Any]) -> Compiled:
        """A session, and a function that binds tensors to it."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        model = exported(subgraph, example, self.dynamo)
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return _bound(session, subgraph, example)


class OnnxRuntimeDynamo(OnnxRuntime):
    """ONNX Runtime fed by torch's newer exporter (``dynamo=True``)."""

    name = "onnxruntime-dynamo"
    dynamo = True
    needs = ("onnxruntime", "onnx", "onnxscript")


def exported(subgraph: Any, example: Sequence[Any], dynamo: bool) -> bytes:
    """A subgraph as an ONNX model, made anew each time: one kept by a module's id goes stale."""
    import torch

    file: Any = io.BytesIO()
    quiet = logging.getLogger("torch.onnx")
    level = quiet.level
    quiet.setLevel(logging.ERROR)
    try:
        with torch.inference_mode(False), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given = tuple(one.clone().contiguous() for one in example)
            if dynamo:
                program = torch.onnx.export(subgraph, given, dynamo=True, opset_version=OPSET, verbose=False)
                assert program is not None
                return program.model_proto.SerializeToString()
            torch.onnx.export(subgraph.eval(), given, file, dynamo=False, opset_version=OPSET)
    finally:
        quiet.setLevel(level)
    return file.getvalue()


def _bound(session: Any, subgraph: Any, example: Sequence[Any]) -> Compiled:
    import numpy as np
    import torch

    kinds = {torch.bool: np.bool_, torch.float16: np.float16, torch.float32: np.float32, torch.float64: np.float64}
    kinds |= {torch.int8: np.int8, torch.uint8: np.uint8, torch.int32: np.int32, torch.int64: np.int64}
    names = [one.name for one in session.get_inputs()]
    if len(names) != len(example):
        raise ValueError(f"the exporter kept {len(names)} of {len(example)} inputs")
    inputs = [(name, kinds[one.dtype], tuple(one.shape)) for name, one in zip(names, example, strict=True)]
    results = [tuple(one.shape) for one in subgraph(*example)], [one.dtype for one in subgraph(*example)]
    outputs = [
        (one.name, kinds[kind], kind, shape) for one, shape, kind in zip(session.get_outputs(), *results, strict=True)
    ]
    empty = torch.empty

    def run(*given: Any) -> tuple[Any, ...]:
        binding = session.io_binding()
        alive = [one if one.is_contiguous() else one.contiguous() for one in given]
        for (name, kind, shape), one in zip(inputs, alive, strict=True):
            binding.bind_input(name, "cpu", 0, kind, shape, one.data_ptr())
        made = tuple([empty(shape, dtype=torch_kind) for _, _, torch_kind, shape in outputs])
        for (name, kind, _, shape), one in zip(outputs, made, strict=True):
            binding.bind_output(name, "cpu", 0, kind, shape, one.data_ptr())
        session.run_with_iobinding(binding)
        return made

    return run
