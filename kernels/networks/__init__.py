"""Networks ready to run, in plain torch, with random weights from a seed: what inference is planned and measured on.

`catalogue` knows them by name (`network`, `NETWORKS`) and loads torch only when one is built. `resnet`, `mobilenet`,
`nasnet`, `dcgan` and `bert` are the modules, `weights` fills them.
"""

from __future__ import annotations

from .catalogue import NETWORKS, Network, NetworkSpec, network, network_spec, skeleton

__all__ = ["NETWORKS", "Network", "NetworkSpec", "network", "network_spec", "skeleton"]
