"""Small networks that guess from the target's own hidden states, and the files that hold them.

Training and drafting share these definitions, so that what was trained is what runs.
"""
