"""`TrainingPlan`: how one model is trained on a cluster, read, checked, put in words and made a program."""
