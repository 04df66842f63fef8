"""All that is known of a node's pods when an Allocate comes: by the API server, by the kubelet, and by the agent itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cardwise.agent.grants import Grant, Grants
from cardwise.agent.pods import Listed, NodePod

EARLIER = ""
"""In place of a kubelet process: one that nobody here answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What is known. The kubelet must have been asked for `listed` after the Allocate came.

    `kubelet` names the running kubelet process; another one after each restart. What tells it: the identity of its socket
    (device, inode and time of change), read when the agent registers with it.
    `pods` are those that the API server shows bound to the node, of all namespaces, whether they ask for cards or not, and
    `gone` those that it showed and shows no more, while the kubelet may still ask for them (see `departed`).
    `damaged` are uids of which the agent's memory is incomplete. `read` are the full names of the pods that were read by
    quorum after the Allocate came, `ahead` the uids that only these reads showed: the watch, which also tells what was
    there before, has not come to them yet.
    """

    node: str
    resource: str
    kubelet: str
    pods: tuple[NodePod, ...] = ()
    gone: tuple[NodePod, ...] = ()
    listed: tuple[Listed, ...] = ()
    grants: Grants = field(default_factory=dict)
    damaged: frozenset[str] = frozenset()
    read: frozenset[str] = frozenset()
    ahead: frozenset[str] = frozenset()

    def granted(self, uid: str) -> Mapping[str, Grant]:
        """The grants of a pod, by container."""
        return self.grants.get(uid, {})

    def known(self, full_name: str) -> list[NodePod]:
        """The pods of this name of which the kubelet may know, whatever their uid."""
        return [pod for pod in (*self.pods, *self.gone) if pod.full_name == full_name]

    def entries(self, full_name: str) -> list[Listed]:
        """The kubelet's entries of this name: more than one where a pod follows another one of its name."""
        return [one for one in self.listed if one.full_name == full_name]

    def is_gone(self, pod: NodePod) -> bool:
        """Whether the API server shows this pod no more."""
        return all(one.uid != pod.uid for one in self.pods)

    def with_read(self, full_name: str, pod: NodePod | None) -> View:
        """The view after a quorum read of this name: what it found, None for nothing, is what the API server shows."""
        there = pod if pod is not None and pod.spec.node_name == self.node else None
        uid = "" if there is None else there.uid
        left = tuple(one for one in self.pods if one.full_name == full_name and one.uid != uid and not one.ended)
        return replace(
            self,
            pods=tuple(one for one in self.pods if one.full_name != full_name) + ((there,) if there else ()),
            gone=tuple(one for one in self.gone if one.uid != uid) + left,
            read=self.read | {full_name},
            ahead=self.ahead if uid in {one.uid for one in self.pods} else self.ahead | {uid},
        )

    def lives(self, uid: str, full_name: str) -> bool:
        """Whether a pod that the API server shows no more may still have containers.

        It may if an entry of the kubelet's is left for it, when those that are shown have theirs.
        """
        if any(pod.uid == uid for pod in self.gone):
            return True
        shown = sum(pod.full_name == full_name for pod in self.pods)
        return len(self.entries(full_name)) > shown

    def leftovers(self) -> frozenset[str]:
        """The uids of pods that have grants and are gone from the API server and from the kubelet.

        Only true where `pods` is complete. A pod that was bound a moment ago may be missing there: read it by quorum
        before what was given to it is forgotten.
        """
        shown = {pod.uid for pod in self.pods}
        return frozenset(
            uid
            for uid, granted in self.grants.items()
            if uid not in shown and not any(self.lives(uid, grant.full_name) for grant in granted.values())
        )

    def survivors(self) -> frozenset[str]:
        """The kubelet processes of whose knowledge of devices the running one certainly has all that they wrote down.

        A kubelet reads it from one file when it starts, whole or not at all. A container that has devices, and for which it
        never asked, proves that the file was handed on since the process that asked. `EARLIER` stands for that one where
        it asked before the agent's time: then no file was lost in the agent's time.
        """
        return frozenset(
            kubelet for entry in self.listed for name in entry.held for kubelet in self._asked_by(entry, name)
        )

    def _asked_by(self, entry: Listed, container: str) -> frozenset[str]:
        """The process that asked for a container last, where that is certain and not the running one."""
        uids = {pod.uid for pod in self.known(entry.full_name)}
        uids |= {uid for uid, granted in self.grants.items() if _full_name(granted) == entry.full_name}
        asked = {self.granted(uid)[container].kubelet for uid in uids if container in self.granted(uid)}
        if not asked:
            return frozenset() if uids & self.damaged else frozenset((EARLIER,))
        return frozenset() if len(asked) > 1 or self.kubelet in asked else frozenset(asked)


def _full_name(granted: Mapping[str, Grant]) -> str:
    return next((grant.full_name for grant in granted.values()), "")
