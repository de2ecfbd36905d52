"""Blobs: the port of the cold tier, and its adapter for folders and object stores."""
