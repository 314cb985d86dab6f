"""Who evaluates points: this process, a pool of them, a dask cluster, Ray; and what a worker does."""
