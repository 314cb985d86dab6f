"""Make training graphs from torch modules. Begin with `module` (`from_torch`).

The module is exported twice (`export`), its calls are walked (`walk`) and become operators (`draft`; handlers in
`elementwise`, `layers`, `products`, `views`), which `tidy` simplifies. `check` and `calls` compare the graph with the
module.
"""
