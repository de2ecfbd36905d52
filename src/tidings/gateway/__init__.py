"""A socket or a request becomes a command of messaging/, and its result becomes bytes again.

Nothing here decides what a message means; nothing outside knows that there are sockets.
"""
