"""The tables in PostgreSQL: the adapter for several hosts without a cloud."""
