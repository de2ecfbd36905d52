"""Requests of one user that are not about sending and reading: schedules, rules, joining."""
