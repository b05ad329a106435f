"""Lossy acceptance: what it brings, and how far it strays."""
