"""What the user brings to a training run: data, weights, an optimiser of torch, the module.

`batches` makes global batches of the user's samples, `feed` hands them to ranks in files, `inputs` reads them there.
`names` translates between the graph's parameters and the user's state dict, `weights` reads and writes its files.
`optimizer` steps shards by a class of torch.optim, `clipping` bounds the norm of all gradients together.
"""
