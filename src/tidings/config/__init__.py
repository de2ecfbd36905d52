"""Settings: every key with its default and its reason, and where their values come from."""
