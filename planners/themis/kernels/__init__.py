"""The auction compiled: bids, bounds, packing, prices and the search over rows."""
