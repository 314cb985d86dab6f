"""Agents: processes that train an app's jobs on the slots that they are told."""
