"""Routes of joining, bans, invites and reports."""
