"""Themis' tables."""
