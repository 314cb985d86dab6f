"""The SimPy model of a shared cluster: readable, every event visible."""
