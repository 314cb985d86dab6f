"""Sharding specs of tensors, and the cheapest way from one to another."""
