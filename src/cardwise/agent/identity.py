"""For which container an Allocate is: a device plugin is told numbers of devices, and neither a pod nor a container. Pure.

Three facts narrow it down. The kubelet makes a pod known before it asks for it, so the pod is in the list of pod-resources.
It admits one pod at a time, so of all pods there only one can still wait for its first devices. And of one pod it asks for
one container after another (`calls`). The list has names only. Where a name can come again, the pod on the API server that
bears it may be a later one than the kubelet's, or an earlier one: so it is read by quorum, and must have come by on the
watch, which tells of those before it.

What is left must be one container of one pod. If there are several, or what is known does not fit together, the call is
refused: an answer for the wrong container would give away what others hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

from cardwise.agent.calls import Calls, Story, any_call, open_calls
from cardwise.agent.pods import Asking, Listed, NodePod, asking, recurs
from cardwise.agent.verdicts import LookAgain, Refused, Why
from cardwise.agent.view import EARLIER, View
from cardwise.wire import names
from cardwise.wire.record import ALLOCATING


@dataclass(frozen=True, slots=True, kw_only=True)
class Meant:
    """The one container that an Allocate is for."""

    pod: NodePod
    container: Asking


@dataclass(frozen=True, slots=True, kw_only=True)
class _Option:
    """A container that a call may be for; `again` only if nothing else can be meant."""

    pod: NodePod
    container: Asking
    again: bool
    admission: bool

    def __str__(self) -> str:
        return f"pod {self.pod.full_name}, container {self.container.name}"


def meant(view: View, count: int) -> Meant | Refused | LookAgain:
    """For whom so many devices are asked."""
    if strangers := _strangers(view):
        return LookAgain(read=strangers, otherwise=_stranger(strangers[0]))
    options = list(_options(view))
    fitting = [option for option in options if option.container.count == count]
    likely = [option for option in fitting if not option.again] or fitting
    if len(likely) == 1:
        return _confirmed(view, likely[0])
    unread = _unread(view, [*_recurring(view), *(option.pod.full_name for option in likely)])
    otherwise = _in_doubt(view, likely, count) if likely else _nobody(view, options, count)
    return LookAgain(read=unread, otherwise=otherwise) if unread or likely else otherwise


def _strangers(view: View) -> tuple[str, ...]:
    """The pods that only the kubelet knows, and that may be the ones it asks for."""
    lacking = [entry.full_name for entry in view.listed if len(entry.held) < len(entry.devices)]
    return tuple(name for name in dict.fromkeys(lacking) if len(view.known(name)) < len(view.entries(name)))


def _options(view: View) -> Iterator[_Option]:
    survivors = view.survivors()
    for name in dict.fromkeys(entry.full_name for entry in view.listed):
        seen: set[tuple[str, str]] = set()
        for option in _of_name(view, view.entries(name), view.known(name), survivors):
            key = (option.pod.uid, option.container.name)
            # Pods that ended are asked for no more, though some kubelets go on listing them.
            if key not in seen and not option.pod.ended:
                seen.add(key)
                yield option


def _of_name(
    view: View, entries: Sequence[Listed], pods: Sequence[NodePod], survivors: frozenset[str]
) -> Iterator[_Option]:
    """The options of all pods of one name. Which of them an entry is about, only what it shows can tell."""
    fits = False
    for assumed in permutations(pods, len(entries)):
        stories = [_story(view, pod, entry, survivors) for pod, entry in zip(assumed, entries, strict=True)]
        calls = [open_calls(story) for story in stories]
        if None in calls:
            continue
        fits = True
        for pod, open_ in zip(assumed, calls, strict=True):
            if open_ is not None:
                yield from _each(pod, open_)
    if not fits:  # Whatever happened to these pods, none of their containers may be overlooked.
        for pod in pods:
            for entry in entries:
                yield from _each(pod, any_call(_story(view, pod, entry, survivors)))


def _each(pod: NodePod, calls: Calls) -> Iterator[_Option]:
    for again, containers in ((False, calls.next), (True, calls.again)):
        for container in containers:
            yield _Option(pod=pod, container=container, again=again, admission=calls.admission)


def _story(view: View, pod: NodePod, entry: Listed, survivors: frozenset[str]) -> Story:
    ran = pod.status is not None and pod.status.phase not in ("", "Pending")
    told = pod.annotations.get(names.BIND_PHASE, ALLOCATING) != ALLOCATING
    asked_by = {grant.kubelet for grant in view.granted(pod.uid).values()}
    return Story(
        asking=asking(pod, view.resource),
        held=entry.held,
        grants=view.granted(pod.uid),
        kubelet=view.kubelet,
        ran=ran,
        served=ran or told or pod.uid in view.damaged or _held_unasked(view, pod, entry),
        kept_devices=EARLIER in survivors or (bool(asked_by) and asked_by <= survivors | {view.kubelet}),
    )


def _held_unasked(view: View, pod: NodePod, entry: Listed) -> bool:
    """Whether a container has devices that the agent gave to nobody."""
    return not view.granted(pod.uid) and bool(entry.held)


def _confirmed(view: View, option: _Option) -> Meant | Refused | LookAgain:
    """The option, once it is sure that the pod is the one that the kubelet means by that name, and is there.

    While a pod is being admitted no other one is, so only its own name can mislead. Otherwise it may be any pod that is not
    what it was when the API server was last heard of.
    """
    pod = option.pod
    own = [pod.full_name] if recurs(pod) else []
    others = [] if option.admission and not option.again else _recurring(view)
    if unread := _unread(view, [*own, *others]):
        return LookAgain(read=unread, otherwise=_unsure(option))
    if own and pod.uid in view.ahead:
        return LookAgain(otherwise=_behind(option))
    if view.is_gone(pod):
        text = f"pod {pod.full_name}: the kubelet asks for it, but it was deleted"
        return or_read(view, Refused(why=Why.POD_GONE, text=text, pod=pod))
    return Meant(pod=pod, container=option.container)


def or_read(view: View, refused: Refused) -> Refused | LookAgain:
    """A refusal of a pod is final, so the pod is read before it, unless it was."""
    name = "" if refused.pod is None else refused.pod.full_name
    return refused if not name or name in view.read else LookAgain(read=(name,), otherwise=refused)


def _recurring(view: View) -> list[str]:
    """The pods that lack devices by the kubelet, and that others of their name may have replaced."""
    lacking = [entry.full_name for entry in view.listed if len(entry.held) < len(entry.devices)]
    return [name for name in lacking if any(recurs(pod) for pod in view.known(name))]


def _unread(view: View, full_names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys(full_names) if name not in view.read)


def _stranger(full_name: str) -> Refused:
    text = (
        f"the kubelet knows pod {full_name}, which the API server does not show on this node: it may ask for that one"
    )
    return Refused(why=Why.POD_UNKNOWN, text=text)


def _unsure(option: _Option) -> Refused:
    text = f"{option}: the API server could not be asked whether this is the pod that the kubelet asks for"
    return Refused(why=Why.POD_IN_DOUBT, text=text)


def _behind(option: _Option) -> Refused:
    text = f"{option}: the watch has not come to this pod yet, and the kubelet may ask for an earlier one of its name"
    return Refused(why=Why.POD_IN_DOUBT, text=text)


def _in_doubt(view: View, options: Sequence[_Option], count: int) -> Refused:
    which = " or ".join(map(str, options[:3])) + (f", or {len(options) - 3} more" if len(options) > 3 else "")
    text = f"the kubelet asks for {count} {view.resource}, and it cannot be told for which: {which}"
    one = {option.pod.uid for option in options}
    pod = options[0].pod if len(one) == 1 else None
    return Refused(why=Why.POD_IN_DOUBT, text=text, pod=pod)


def _nobody(view: View, options: Sequence[_Option], count: int) -> Refused:
    """Nobody waits for so many devices."""
    if not options:
        text = f"the kubelet asks for {count} {view.resource}, but no pod on node {view.node} waits for any"
        return Refused(why=Why.NO_POD, text=text)
    first = options[0]
    text = f"{first}: the kubelet asks for {count} {view.resource}, must be {first.container.count}"
    return Refused(why=Why.COUNT_WRONG, text=text)
