"""`tidings doctor`: what is wrong with an installation, and the exact fix. One module per family of checks.

The invariant: looking changes nothing and hurts nobody. No key is written, no command keeps a server for more than a
few milliseconds, no check outlives its time. cli_doctor.py prints what examination.py finds.
"""
