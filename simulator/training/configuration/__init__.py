"""What a configuration given by hand costs: iteration time, memory and MFU in closed form."""
