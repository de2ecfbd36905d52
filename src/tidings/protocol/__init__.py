"""The wire without I/O: client frames, server frames and REST bodies as structs."""
