"""Loading a causal language model and running it over packed sequences with a paged KV cache.

Loaded by the draft and verify services only: everything here imports torch.
"""
