"""Pipeline schedules: in which order the meshes of a pipeline compute."""
