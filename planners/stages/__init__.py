"""What GraphPipe, PipeDream and Piper share: what a set of operators costs as a stage, and plans made of stages.

Begin with `units` (which operators are never separated), then `costs` (`StageCosts`: seconds and bytes of any set of
units as one stage), `plan` (`stage_plan`: chosen stages become a `TrainingPlan`) and `checks` (is such a plan valid?).
The room `sequential` holds the search that PipeDream and Piper have in common.
"""
