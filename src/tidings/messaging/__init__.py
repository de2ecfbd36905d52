"""What a command means. Reading order: send (the way of a message), then numbering, storing, indexing, deliver, which
are its stages; access (who may do what); conversations; unread, inbox, history (what a member sees); rebuild and repair
(how the index comes back after it was lost).
"""
