"""People: blocks between users, the directory, and the rules about who may see, write to or add another user."""
