"""AWS for tables and blobs: keys and their sources, signatures, and the HTTP of signed requests."""
