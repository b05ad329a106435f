"""Answers that are sampled for whoever trains drafts."""
