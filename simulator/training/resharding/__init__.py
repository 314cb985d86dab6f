"""How tensors get from one logical mesh to another (cross-mesh resharding, Alpa §6).

`crossing.reshard_across` plans the messages and gathers, `senders` chooses which replica sends each part, and `reuse`
avoids planning the same resharding twice.
"""
