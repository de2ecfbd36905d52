"""Files: bytes in the blobs, a record for each file, and the message that carries it."""
