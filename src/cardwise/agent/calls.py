"""For which of its containers the kubelet may ask next, given what it shows of a pod and what it was answered. Pure.

The kubelet asks for a pod's containers when it admits the pod: one after another, init containers first, one call each. A
call that fails ends the pod. So what it has of a pod is what the first few calls gave, and the next call is for the
container after them. It asks again in two cases:

- It started again. What it had is in a file of its own; only a call that was under way may be lost. A pod that was not
  admitted to the end is admitted again, and asked for from where the file ends.
- That file was lost. Then it has nothing of any pod, and asks for a container when it starts it again, in any order, for
  several pods at once.

pod-resources shows which containers have devices, but plain init containers not at all. Where that leaves several
containers, all are named: whoever asks must be able to tell them apart, or refuse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cardwise.agent.grants import Grant
from cardwise.agent.pods import Asking


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What is known of one pod.

    `held` are the containers that the kubelet shows with devices. `ran`: it was started once. `served`: there is other
    evidence than our grants that it was answered for (it ran, its record says so, our memory of it is damaged).
    `kept_devices`: the kubelet certainly has what those before it wrote down of this pod.
    """

    asking: tuple[Asking, ...]
    held: frozenset[str]
    grants: Mapping[str, Grant]
    kubelet: str
    ran: bool = False
    served: bool = False
    kept_devices: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """The containers that the next call may be for; none where the kubelet has all.

    `again` are containers that were answered last and are not yet shown with devices: the answer is on its way, or they are
    asked for again. `admission`: a call for `next` is part of the pod's admission, of which there is one at a time.
    """

    next: tuple[Asking, ...] = ()
    again: tuple[Asking, ...] = ()
    admission: bool = False


def open_calls(story: Story) -> Calls | None:
    """The calls that may come; None where what the kubelet shows cannot be of this pod."""
    granted = [one.name in story.grants for one in story.asking]
    in_order = granted == sorted(granted, reverse=True)
    if not in_order or (story.served and not all(granted)):
        return any_call(story)
    if all(grant.first_kubelet == story.kubelet for grant in story.grants.values()):
        return _after(story, sum(granted))
    return _admitted_before(story) if all(granted) else _admitted_again(story)


def any_call(story: Story) -> Calls:
    """The calls that may come for a pod that may run: for each container that the kubelet may have no devices for.

    A plain init container cannot be seen. The kubelet has its devices if it has all that it once had.
    """
    kept = story.kept_devices
    return Calls(next=tuple(one for one in story.asking if (one.name not in story.held if one.shown else not kept)))


def _after(story: Story, answered: int) -> Calls | None:
    """The call after so many that were answered to the running kubelet."""
    if _shows(story, answered):
        return Calls(next=story.asking[answered : answered + 1], admission=True)
    if answered and not story.ran and _shows(story, answered - 1):
        return Calls(again=story.asking[answered - 1 : answered])
    return None


def _admitted_before(story: Story) -> Calls | None:
    """The call for a pod of which an earlier kubelet was answered for all containers: the last may not be written down."""
    if not story.kept_devices:
        return any_call(story)
    if _shows(story, len(story.asking)):
        return Calls()
    last = len(story.asking) - 1
    return Calls(next=story.asking[last:], admission=True) if not story.ran and _shows(story, last) else None


def _admitted_again(story: Story) -> Calls | None:
    """The call for a pod whose admission an earlier kubelet began.

    The running one has what that was answered, perhaps without the last; or less, if a file was lost.
    """
    grants = [story.grants.get(one.name) for one in story.asking]
    here = [place for place, grant in enumerate(grants) if grant and grant.kubelet == story.kubelet]
    if here:
        return _after(story, here[-1] + 1)
    answered = len(story.grants)
    places = [n for n in range(answered - 1 if story.kept_devices else 0, answered + 1) if _shows(story, n)]
    if not places:
        return None
    return Calls(next=tuple(one for place in places for one in story.asking[place : place + 1]), admission=True)


def _shows(story: Story, recorded: int) -> bool:
    """Whether the kubelet shows just what it would after so many calls."""
    return all((one.name in story.held) == (place < recorded) for place, one in enumerate(story.asking) if one.shown)
