"""`export_placement`: each unit as a file of its backend, how they follow each other, and a program that runs them."""

from __future__ import annotations

import io
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from .... import __version__
from ....errors import InputError
from ...backends.capture import recorded
from ...backends.subgraph import subgraph
from ...collage.placed import Placed
from ..tree import File, json_text, write_tree

__all__ = ["export_placement"]

Files = dict[str, bytes]
"""Ending -> content."""


def export_placement(placed: Placed, model: str, out: str | Path, *, force: bool = False) -> list[Path]:
    """Write the folder: ``run.py``, ``placement.json``, files of each unit, and an input with what eager gives for it.

    Parameters
    ----------
    placed : Placed
        What is exported.
    model : str
        Its name, for the manifest.
    out : path
        The folder.
    force : bool
        Write although it holds other files.

    Raises
    ------
    InputError
        If a unit's backend has no form outside of Meshwright, or the folder holds other files; nothing is written then.
    """
    import torch

    captured, graph = placed.captured, placed.captured.graph
    strange = next((unit.backend for unit in placed.units if _writer(unit.backend) is None), None)
    if strange is not None:
        raise InputError(
            f"export: units of {strange!r} have no form that runs without Meshwright; plan with torch's backends, "
            "onnxruntime or openvino"
        )
    values = recorded(captured.module, captured.example)
    slot = {value.name: k for k, value in enumerate(graph.inputs)}
    files, steps = dict[str, File](), list[dict[str, Any]]()
    for k, unit in enumerate(placed.units):
        members = graph.bits(unit.nodes)
        reads, results = graph.reads(members), graph.results(members)
        writer = _writer(unit.backend)
        assert writer is not None
        made = writer(subgraph(captured, unit.nodes), [values[name] for name in reads])
        for ending, content in made.items():
            files[f"units/{k:03}.{ending}"] = File(content)
        slot |= {name: len(slot) + j for j, name in enumerate(results)}
        steps.append(
            {
                "backend": unit.backend, "file": f"units/{k:03}.{next(iter(made))}",
                "reads": [slot[name] for name in reads], "writes": [slot[name] for name in results],
                "shapes": [list(values[name].shape) for name in results],
                "dtypes": [str(values[name].dtype).removeprefix("torch.") for name in results],
                "operators": list(unit.nodes),
            }
        )  # fmt: skip
    with torch.no_grad():
        expected = captured.module(*captured.example)
    expected = expected[0] if isinstance(expected, tuple | list) else expected
    files["example.pt"] = File(_saved([*captured.example, expected]))
    document = {"model": model, "inputs": len(graph.inputs), "slots": len(slot), "result": slot[graph.output],
                "torch": torch.__version__, "steps": steps}  # fmt: skip
    files["placement.json"] = File(json_text(document))
    files["run.py"] = File(resources.files(__package__ or "").joinpath("run.py.txt").read_text(encoding="utf-8"), True)
    about = {"format": "meshwright/inference-export", "model": model, "meshwright": __version__}
    return write_tree(files, out, about, force)


def _writer(backend: str) -> Callable[[Any, Sequence[Any]], Files] | None:
    """What makes files of a backend's unit; none where it has no form of its own."""
    known: Mapping[str, Callable[[Any, Sequence[Any]], Files]] = {
        "torch-onednn": _script, "torch-native": _script, "torch-nhwc": _script, "torch-jit": _script,
        "torch-jit-optimized": _script, "onnxruntime": lambda part, given: _onnx(part, given, False),
        "onnxruntime-dynamo": lambda part, given: _onnx(part, given, True), "openvino": _openvino,
    }  # fmt: skip
    return known.get(backend)


def _script(part: Any, given: Sequence[Any]) -> Files:
    """TorchScript, not frozen: ``run.py`` does with it what its backend does."""
    import torch

    out = io.BytesIO()
    with torch.inference_mode(False), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated, and works
        example = tuple(one.clone().contiguous() for one in given)
        torch.jit.save(torch.jit.trace(part.eval(), example, check_trace=False), out)
    return {"pt": out.getvalue()}


def _onnx(part: Any, given: Sequence[Any], dynamo: bool) -> Files:
    from ...backends.onnx_runtime import exported

    return {"onnx": exported(part, given, dynamo)}


def _openvino(part: Any, given: Sequence[Any]) -> Files:
    import openvino  # pyright: ignore[reportMissingImports]
    import torch

    from ...backends.open_vino import converted

    with torch.inference_mode(False), torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        example = tuple(one.clone().contiguous() for one in given)
        model = converted(part, example)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "unit.xml"
        openvino.save_model(model, path, compress_to_fp16=False)
        return {"xml": path.read_bytes(), "bin": path.with_suffix(".bin").read_bytes()}


def _saved(tensors: list[Any]) -> bytes:
    import torch

    out = io.BytesIO()
    torch.save([one.clone() for one in tensors], out)
    return out.getvalue()
