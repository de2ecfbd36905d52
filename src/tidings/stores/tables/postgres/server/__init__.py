"""The PostgreSQL server itself: connections, the schema with its steps, and what the doctor asks."""
