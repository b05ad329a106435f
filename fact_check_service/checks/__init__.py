"""Checks of claims, each a plug-in; see ``base``."""
