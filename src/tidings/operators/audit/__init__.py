"""The audit stream: rejected requests, their sums and their readers."""
