"""What a layer keeps for its backward pass, tensor by tensor: bytes (`tensors`), what bringing them back takes
(`seconds`), every way to keep, recompute or offload them (`choices`), the cheapest that fits (`fit`), and its words
(`said`)."""
