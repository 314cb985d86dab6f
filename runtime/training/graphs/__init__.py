"""Plans whose stages have microbatches of different sizes (GraphPipe).

Begin with `microbatch_parts`: which samples of one stage's message belong to which microbatch of another. `job` sets a
rank up, `executor` runs its actions, and `parcel` sends messages part by part.
"""
