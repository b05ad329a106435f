"""Peers that are libraries, each under the Python of its own environment: nothing of ours is imported."""
