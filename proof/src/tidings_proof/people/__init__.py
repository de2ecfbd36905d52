"""People: devices that record what they see, and the work they do."""
