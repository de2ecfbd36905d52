"""The gateway: a socket or a request becomes a command of messaging/, and its result becomes bytes again.

No module here decides what a message means; no module outside knows that there are sockets.
"""
