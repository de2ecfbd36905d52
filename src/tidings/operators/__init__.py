"""For the people who run it: status, inspection, audit, doctor and top."""
