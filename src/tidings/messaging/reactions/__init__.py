"""Reactions and pins: things that members put beside a message."""
