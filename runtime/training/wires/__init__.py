"""What crosses between devices.

Begin with `layout`: how a tensor is sharded on a logical mesh. Within a stage, `routes` chooses the collectives that
bring a tensor from one layout to another, and `comm` runs them. Between stages, `edges` lists the tensors that cross,
`messages` says which rank sends which part to which, and `mailbox` sends and receives while the rank computes.
"""
