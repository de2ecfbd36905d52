"""Supervisor: several nodes on one port and one machine, as the workers of one `tidings serve --workers N`."""
