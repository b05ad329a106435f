"""Measurements of the running stack. Times are noisy: read ratios within one run."""
