"""Alpa's inter-operator pass: layers, submeshes, stages (§5)."""
