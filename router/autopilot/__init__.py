"""Watches what drafts do for each class of prompts, and acts where they do not pay."""
