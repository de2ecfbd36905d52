"""People: what one may do to another. Blocks, and who may see, write to or add whom."""
