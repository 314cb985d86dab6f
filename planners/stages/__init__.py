"""What GraphPipe, PipeDream and Piper share: the price of a set of operators as a stage, and plans made of stages."""
