"""Routing: where the recipients are. hub: the connections of this node. registry: leases, which say who is connected
where. bus: what a node publishes to another. router: an event to all devices of a user.
"""
