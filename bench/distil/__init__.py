"""Online distillation on a shifted domain, in one command."""
