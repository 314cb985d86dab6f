"""Inside a layer: the products and kernels of its two parts (`parts`), how context and expert parallelism lay out its
tokens (`spread`), and what devices that share a sequence exchange (`context`)."""
