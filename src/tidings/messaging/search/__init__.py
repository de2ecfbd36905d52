"""Search: messages by their words. The index follows the log in the background."""
