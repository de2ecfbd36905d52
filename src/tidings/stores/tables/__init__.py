"""The tables: the ports that an adapter implements, and one folder an adapter."""
