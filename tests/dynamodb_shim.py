"""The proxy in front of DynamoDB Local, as `tidings torture` has it."""

from tidings.torture.dynamodb_shim import FAULTS, Choose, Faults, Shim

__all__ = ["FAULTS", "Choose", "Faults", "Shim"]
