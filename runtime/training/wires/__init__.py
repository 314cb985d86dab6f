"""What crosses between devices: collectives, messages between stages, and how tensors lie on a mesh."""
