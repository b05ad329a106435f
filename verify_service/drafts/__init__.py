"""The verify side of the draft stream: links to draft replicas, and each sequence's session on one."""
