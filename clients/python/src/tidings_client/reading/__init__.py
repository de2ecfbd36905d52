"""Reading: entries in order, receipts, and streams of events to the program."""
