"""The world of one-shot serving (AlpaServe): groups of pipeline stages on a cluster."""
