"""A real engine's layers and host times on the present device."""
