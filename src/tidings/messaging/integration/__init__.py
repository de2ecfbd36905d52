"""integration: the log as a platform. Webhooks bring every entry to the team's own endpoints."""
