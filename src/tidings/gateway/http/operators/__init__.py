"""Routes of operators: lists to look through, and the API keys."""
