"""Who is compared: networks, frameworks and backends by their names, as figures call and colour them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILLION

__all__ = [
    "ALL_NETWORKS", "BACKENDS", "BATCHES", "COLLAGE", "COLOURS", "FRAMEWORKS", "GRAPH_LIBRARIES", "NETWORKS",
    "OP_LEVEL", "STEPS", "TITLES",
]  # fmt: skip

NETWORKS = ("bert-base", "dcgan", "nasnet-a", "resnet3d-50", "resnext-50")
"""The thesis' five, in its order (§2.5.1)."""
ALL_NETWORKS = (*NETWORKS, "resnet-18", "resnet-50", "mobilenet-v2")
"""With three more of ours."""
TITLES: Mapping[str, str] = MappingProxyType(
    {
        "bert-base": "BERT", "dcgan": "DCGAN", "nasnet-a": "NasNet-A", "resnet3d-50": "3D-ResNet50",
        "resnext-50": "ResNeXt50", "resnet-18": "ResNet18", "resnet-50": "ResNet50", "mobilenet-v2": "MobileNetV2",
    }
)  # fmt: skip
"""What the thesis calls them."""
BATCHES = (1, 2, 4, 8, 16)
"""Of Fig. 2.8. The text names no batch sizes, and the picture's are not in it: ours."""

FRAMEWORKS: Mapping[str, str] = MappingProxyType(
    {
        "torch-onednn": "PyTorch", "torch-jit": "TorchScript + oneDNN Graph", "torch-jit-optimized": "TorchScript",
        "inductor": "inductor", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO",
    }
)  # fmt: skip
"""Backend that runs a whole network as a framework -> what it is called. The thesis has TF, TF-XLA, PyTorch and TVM."""

BACKENDS = (
    "torch-onednn", "torch-native", "torch-nhwc", "torch-jit", "torch-jit-optimized", "onnxruntime", "openvino",
)  # fmt: skip
"""What Collage places on. `inductor` takes seconds to compile each group, so it is a framework alone."""
GRAPH_LIBRARIES = ("torch-jit", "torch-jit-optimized", "inductor", "onnxruntime", "openvino")

STEPS = ("torch-onednn", "torch-native", "torch-jit", "onnxruntime", "openvino")
"""Order in which Fig. 2.11 adds backends here, kernel libraries first; on a V100 it is TVM, cuBLAS, cuDNN, TensorRT."""

COLLAGE, OP_LEVEL = "Collage", "Collage, op level"

COLOURS: Mapping[str, str] = MappingProxyType(
    {
        "torch-onednn": GREY, "torch-native": BLACK, "torch-nhwc": "#A6761D", "torch-jit": VERMILLION,
        "torch-jit-optimized": ORANGE, "inductor": PURPLE, "onnxruntime": GREEN, "openvino": "#7570B3",
        COLLAGE: BLUE, OP_LEVEL: "#56B4E9",
    }
)  # fmt: skip
"""A backend, and Collage, have one colour in every figure."""
