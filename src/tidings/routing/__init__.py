"""Where the recipients are: hub (the sockets of this node), registry (leases: who is live where), bus (node to node),
router (an event to all devices of a user).
"""
