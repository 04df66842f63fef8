"""A stand-in for kube-scheduler with an extender: for the demo, and for fast tests of the service that it calls."""

from cardwise.sim.kubescheduler.extender import Call
from cardwise.sim.kubescheduler.scheduler import KubeScheduler
from cardwise.sim.kubescheduler.settings import Settings

__all__ = ["Call", "KubeScheduler", "Settings"]
