"""Tandem beside other engines, in one run on the same weights and prompts."""
