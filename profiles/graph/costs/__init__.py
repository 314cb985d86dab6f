"""Seconds of an operator on one device."""
