"""What comes out: columns per request and per iteration, their metrics and the intervals around them."""
