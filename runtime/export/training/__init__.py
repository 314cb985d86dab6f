"""A training plan as what starts it elsewhere: DTensor programs for torchrun, Megatron-LM, DeepSpeed."""

from .export import TRAINING_TARGETS, export_training

__all__ = ["TRAINING_TARGETS", "export_training"]
