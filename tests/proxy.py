"""The network that fails on demand, as `tidings torture` has it."""

from tidings.torture.proxy import Proxy, open_proxy

__all__ = ["Proxy", "open_proxy"]
