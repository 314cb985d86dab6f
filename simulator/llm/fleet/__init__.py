"""Several engines together: pools for prefill and decode, engines that fail, engines that come and go."""
