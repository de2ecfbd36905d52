"""streaming: messages that are written while others read them. Begin and end are numbered, the pieces are not."""
