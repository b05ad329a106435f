"""What a slow wire between verify and draft costs, and how much of it drafting ahead hides."""
