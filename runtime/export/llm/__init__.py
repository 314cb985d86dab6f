"""An LLM plan as what starts it elsewhere: ``vllm serve`` scripts, docker-compose files, Kubernetes manifests."""

from .export import LLM_TARGETS, export_llm

__all__ = ["LLM_TARGETS", "export_llm"]
