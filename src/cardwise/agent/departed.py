"""Pods that are gone from the API server while the kubelet may still be about to ask for them.

A pod that is deleted by force leaves the API server at once, the kubelet only when it hears of it: meanwhile it may ask for
its containers, and a new pod of the same name may be bound. A pod that is deleted the usual way is ended before it goes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cardwise.agent.pods import Listed, NodePod, asking


@dataclass(slots=True)
class _Departure:
    pod: NodePod
    kubelet: str
    known: bool
    """Whether the kubelet certainly knew it, so that it has let go of it once it lists it no more."""


class Departed:
    """Which pods those are, from what the API server and the kubelet say. Not more than what was deleted by force."""

    def __init__(self, resource: str) -> None:
        self._resource = resource
        self._departures: dict[str, _Departure] = {}

    @property
    def pods(self) -> tuple[NodePod, ...]:
        """The pods, as they were last seen."""
        return tuple(departure.pod for departure in self._departures.values())

    def pod_gone(self, pod: NodePod, kubelet: str, *, granted: bool) -> None:
        """A pod of the node, as last seen, is gone from the API server; `granted` whether the kubelet ever asked for it.

        `kubelet` names the kubelet process that runs now. A later one lists what is there, and never hears of this pod.
        """
        if not pod.ended:
            known = granted or not asking(pod, self._resource)
            self._departures[pod.uid] = _Departure(pod=pod, kubelet=kubelet, known=known)

    def pod_seen(self, uid: str) -> None:
        """The API server shows a pod after all."""
        self._departures.pop(uid, None)

    def listed(self, entries: Iterable[Listed], kubelet: str) -> None:
        """The kubelet was asked for its list, after all that was told before."""
        there = {entry.full_name for entry in entries}
        for uid, departure in list(self._departures.items()):
            listed = departure.pod.full_name in there
            departure.known |= listed
            if departure.kubelet != kubelet or (departure.known and not listed):
                del self._departures[uid]
