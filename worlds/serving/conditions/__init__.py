"""What happens while a serving case is scored that its profile does not say: times that vary, machines that fail."""
