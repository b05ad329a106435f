"""Reads drafted blocks from a stream, checks the claims in them, and writes one verdict per block."""
