"""A whole forward pass of the Llama family in one native call."""
