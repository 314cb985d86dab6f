"""What one simulated iteration took: `iteration.TrainingResult`, its memory over time, its pictures and its words."""
