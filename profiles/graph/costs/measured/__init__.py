"""Measured seconds of operators: begin with `profile` (`TrainingProfile`, a file) and `model` (`MeasuredCosts`)."""
