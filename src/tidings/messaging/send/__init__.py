"""The way of a message: one file a stage, over one batch."""
