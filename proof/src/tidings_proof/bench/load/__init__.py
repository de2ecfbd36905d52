"""Load: devices in processes of their own that send, read and reconnect by a plan."""
