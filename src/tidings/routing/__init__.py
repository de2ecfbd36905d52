"""Where the recipients are: hub knows the sockets of this node."""
