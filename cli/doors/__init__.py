"""The verbs that are doors of worlds, made out of their cases."""
