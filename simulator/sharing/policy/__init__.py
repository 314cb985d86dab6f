"""Who gets the GPUs that are free: policies, and what agents say of their apps."""
