"""The SimPy model of a shared cluster, which defines the answer. `engine` is the model, `state` what it keeps."""
