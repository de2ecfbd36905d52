"""Routes for the team's own programs: webhooks."""
