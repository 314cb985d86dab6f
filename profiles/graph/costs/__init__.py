"""Seconds of an operator on one device. Begin with `model` (`CostModel`, `roofline`); `rates` cites its constants."""
