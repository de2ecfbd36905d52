"""Push: members who did not acknowledge in time are notified on their devices."""
