"""What plan files of every world have in common: reading, writing, checking. `file.PlanFile` is their base class."""
