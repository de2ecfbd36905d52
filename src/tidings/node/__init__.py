"""Composition: the object graph in build order, the node that listens, and its heartbeat."""
