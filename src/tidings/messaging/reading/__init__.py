"""Reading: what a member sees. Inbox, history, receipts and the resume after a reconnect."""
