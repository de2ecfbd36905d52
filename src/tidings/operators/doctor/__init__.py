"""`tidings doctor`: the problems of an installation, each with its exact fix. One module per family of checks.

Checks change nothing and hurt nobody: no key is written, no command occupies a server for more than a few milliseconds,
and no check outlives its time.
"""
