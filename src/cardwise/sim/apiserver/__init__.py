"""A Kubernetes API server in memory, over real HTTP on loopback: for the demo, and for fast tests of failures.

docs/decisions/0007-in-memory-api-server.md says why it is ours, and what of a real server it does not do.
"""

from cardwise.sim.apiserver.faults import Faults, LineFault
from cardwise.sim.apiserver.log import Log, Write
from cardwise.sim.apiserver.memory import MemoryServer, running_server

__all__ = ["Faults", "LineFault", "Log", "MemoryServer", "Write", "running_server"]
