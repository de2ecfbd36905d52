"""Routes of files: uploads, links, and the bytes of a folder."""
