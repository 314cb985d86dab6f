"""Pipeline schedules: in which order the meshes of a pipeline run forward and backward passes.

`orders.ORDERS` names them and `make.make_program` builds the program of one. `orders` holds 1F1B and its relatives,
`slices` TeraPipe's, `uneven` GraphPipe's kFkB, `dualpipe` the one that enters from both ends.
"""
