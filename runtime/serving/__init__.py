"""Groups of pipeline stages that serve requests for real, and the simulator held against them."""
