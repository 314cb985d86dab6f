"""How to serve LLMs on so many devices: parallelism, scheduler, memory and routing for the best goodput."""
