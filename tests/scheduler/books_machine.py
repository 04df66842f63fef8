"""What may happen to the books, and to everything around them, as steps that numbers choose.

Events come late, more than once, in another order, or not at all; Bindings are carried out and answered, or one of both,
or long after nobody waits for them; pods and nodes come and go and change at any moment; the service is killed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from hypothesis import note

from cardwise.scheduler.answers import Answer
from cardwise.wire import names
from cardwise.wire.families import NVIDIA

from .books_stage import Flight, Stage
from .memory_api import Json, as_pod, has_ended, is_bound, is_ending, register_of
from .shapes import CHANGES, SHAPES, change_first_card, node_with, one

Step = Callable[[int, int, int], None]

MOST_PODS = 6
NODE_CARDS = {"a": 2, "hami": 1}
OUTCOMES = ("placed", "placed", "placed", "late", "late", "late", "refused", "lost", "lost", "unknown")
ENDING = "2026-01-01T00:00:01Z"


def node_of(name: str) -> Json:
    """A node of the stage: `hami` is served by HAMi's plugin, the other by our agent."""
    return node_with(name, NODE_CARDS[name], hami=name == "hami")


class BooksMachine:
    """What may happen are the steps, each with numbers that choose among what there is; one with no choice does nothing."""

    def __init__(self) -> None:
        self.stage = Stage()
        self.api = self.stage.api
        self.made = 0
        for name in NODE_CARDS:
            self.api.put_node(node_of(name))
        self.stage.start()
        self.stage.deliver_all()

    def do(self, numbers: tuple[int, ...]) -> None:
        """One of the steps that can be made now."""
        which, *picks = numbers
        able = [step for weight, step in self.steps() for _ in range(weight)]
        step = able[which % len(able)]
        note(f"{step.__name__} {picks}")
        step(*picks)

    def steps(self) -> Iterator[tuple[int, Step]]:
        """What can happen now, and how often it is to."""
        stage, pods, nodes = self.stage, self.api.watches["pods"], self.api.watches["nodes"]
        tried = self.tried()
        can: tuple[tuple[object, int, Step], ...] = (
            (len(self.api.pods) < MOST_PODS, 8, self.create_pod),
            (self.api.pods, 3, self.delete_pod),
            (any(map(is_bound, self.api.pods.values())), 3, self.run_pod),
            (True, 1, self.remove_or_add_node),
            (self.api.nodes, 1, self.change_cards),
            (pods.coming, 7, self.hear_of_a_pod),
            (nodes.coming, 3, self.hear_of_a_node),
            (pods.coming or nodes.coming, 3, self.hear_all),
            (any(told.kind != "listed" for told in pods.past), 3, self.repeat),
            (True, 1, self.lose_and_relist),
            (True, 2, self.kill_and_start),
            (True, 4 if stage.fenced else 1, self.lose_or_get_the_lease),
            (tried, 9, self.filter),
            (self.api.versions_of, 1, self.filter_one_that_is_not_tried),
            (tried and stage.flights, 4, self.filter_while_it_is_bound),
            (stage.chosen, 12, self.bind),
            (tried and self.api.nodes, 3 if stage.flights else 1, self.bind_unasked),
            (stage.flights, 8, self.go_on),
            (stage.chosen, 2, self.attempt_fails),
            (self.api.nodes and any(pod["spec"]["priority"] for pod in tried), 4, self.preempt),
            (True, 4 if stage.books.doubts or stage.flights else 2, self.pass_time),
            (stage.books.holdings.freed, 3, self.wake),
            (stage.in_doubt(), 6, self.ask_in_doubt),
            (stage.reads, 4, self.hear_in_doubt),
        )
        return ((weight, step) for able, weight, step in can if able)

    # -- pods ------------------------------------------------------------------------------------------------------

    def create_pod(self, name: int, shape: int, other: int) -> None:
        """A pod, under a name that may have been another's: of high priority, in a namespace with a quota.

        Some (`elsewhere`) are refused by kube-scheduler itself on every node.
        """
        namespace = "few" if other % 3 == 1 else "ml"
        key = namespace, f"p{name % MOST_PODS}"
        if key in self.api.pods:
            return
        self.made += 1
        pod = SHAPES[shape % len(SHAPES)](key[1])
        pod["metadata"] |= {"namespace": namespace, "uid": f"{key[1]}-{self.made}"}
        pod["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
        pod["spec"] |= {"schedulerName": "cardwise-scheduler", "priority": 10 * (other % 2)}
        elsewhere = other % 5 == 4
        if elsewhere:
            pod["metadata"]["labels"] = {"for": "elsewhere"}
        uid = self.api.put_pod(pod).metadata.uid
        if elsewhere:
            self.stage.say_refused(uid, "0/3 nodes are available: 3 Insufficient cpu.")
        else:
            self.stage.active[uid] = None

    def delete_pod(self, pick: int, *_: int) -> None:
        """One that runs is ending first; a second delete, or none, ends it."""
        pod = one(list(self.api.pods.values()), pick)
        if is_bound(pod) and not is_ending(pod):
            self.api.change_pod(pod["metadata"]["uid"], metadata_deletionTimestamp=ENDING)
        else:
            self.api.remove_pod(pod["metadata"]["uid"])

    def run_pod(self, pick: int, phase: int, _: int) -> None:
        """A bound pod runs, or has run to its end."""
        bound = [pod for pod in self.api.pods.values() if is_bound(pod)]
        self.set_phase(one(bound, pick), one(("Running", "Running", "Succeeded", "Failed"), phase))

    def set_phase(self, pod: Json, phase: str) -> None:
        if not has_ended(pod):
            annotations = pod["metadata"]["annotations"] | {names.BIND_PHASE: "success"}
            self.api.change_pod(pod["metadata"]["uid"], status_phase=phase, metadata_annotations=annotations)

    # -- nodes -----------------------------------------------------------------------------------------------------

    def remove_or_add_node(self, pick: int, *_: int) -> None:
        name = one(list(NODE_CARDS), pick)
        if name in self.api.nodes:
            self.api.remove_node(name)
        else:
            self._put_node(node_of(name))

    def change_cards(self, pick: int, change: int, _: int) -> None:
        """The first card of a node is lost, or has less memory or slots, or is ill; or all is as at first."""
        node = node_of(one(sorted(self.api.nodes), pick))
        cards = register_of(node)
        change_first_card(node, cards, one(CHANGES, change))
        node["metadata"]["annotations"][NVIDIA.register_key] = json.dumps(cards)
        self._put_node(node)

    def _put_node(self, node: Json) -> None:
        """kube-scheduler tries refused pods again when a node is new or other than before."""
        self.api.put_node(node)
        self.stage.active |= dict.fromkeys(pod["metadata"]["uid"] for pod in self.tried())

    # -- what the service learns -----------------------------------------------------------------------------------

    def hear_of_a_pod(self, pick: int, *_: int) -> None:
        self.stage.deliver("pods", pick)

    def hear_of_a_node(self, pick: int, *_: int) -> None:
        self.stage.deliver("nodes", pick)

    def hear_all(self, *_: int) -> None:
        self.stage.deliver_all()

    def repeat(self, pick: int, *_: int) -> None:
        """An old event of a pod comes once more."""
        past = [told for told in self.api.watches["pods"].past if told.kind != "listed"]
        self.stage.take("pods", past[-1 - pick % min(len(past), 12)])

    def lose_and_relist(self, pick: int, *_: int) -> None:
        self.api.relist(one(("pods", "pods", "nodes"), pick))

    def kill_and_start(self, *_: int) -> None:
        self.stage.start()

    def lose_or_get_the_lease(self, *_: int) -> None:
        """Nothing is decided while another replica may decide."""
        self.stage.fenced = not self.stage.fenced
        self.stage.fence()

    # -- kube-scheduler --------------------------------------------------------------------------------------------

    def filter(self, pick: int, some: int, stale: int) -> None:
        """kube-scheduler tries a pod, as it knows it; its own checks may have refused some nodes."""
        self._filter(one(self.tried(), pick)["metadata"]["uid"], some, stale)

    def filter_while_it_is_bound(self, pick: int, elsewhere: int, stale: int) -> None:
        """It has waited too long for a bind, and tries the pod again, where its node may be no candidate any more."""
        bind = one(self.stage.flights, pick).bind
        if bind.uid in {pod["metadata"]["uid"] for pod in self.tried()}:
            nodes = [name for name in sorted(self.api.nodes) if name != bind.node or elsewhere % 3 == 0]
            if nodes:
                self.stage.filter(self.api.versions_of[bind.uid][-1 if stale % 4 else 0], nodes)

    def filter_one_that_is_not_tried(self, pick: int, some: int, stale: int) -> None:
        """It tries a pod that was deleted, or bound, of which it has not heard yet."""
        tried = {pod["metadata"]["uid"] for pod in self.api.waiting()}
        uids = [uid for uid in sorted(self.api.versions_of) if uid not in tried]
        if uids:
            self._filter(one(uids, pick), some, stale)

    def _filter(self, uid: str, some: int, stale: int) -> None:
        versions = [pod for pod in self.api.versions_of[uid] if not pod.spec.node_name]
        nodes = sorted(self.api.nodes)
        offered = one((nodes, nodes, nodes, nodes, nodes[:1], nodes[1:], nodes[-1:], [*nodes, "new"]), some)
        if offered:
            self.stage.filter(versions[0] if stale % 4 == 3 else versions[-1], offered)

    def bind(self, pick: int, becomes: int, reads: int) -> None:
        """What it chose is bound: and the write is carried out and answered, or one of both, or neither."""
        uid = one(list(self.stage.chosen), pick)
        flight = self.try_bind(uid, self.stage.chosen[uid])
        outcome = one(OUTCOMES, becomes)
        if flight is None or outcome == "late":
            return
        if outcome in ("placed", "unknown"):
            self.stage.carry_out(flight)
        if outcome in ("placed", "refused"):
            self.stage.answer(flight)
        else:
            self.stage.give_up(flight, reads=bool(reads % 2))

    def bind_unasked(self, pick: int, at: int, _: int) -> None:
        """A bind without a filter before it that is known here, as after a restart."""
        flight = self.try_bind(one(self.tried(), pick)["metadata"]["uid"], one(sorted(self.api.nodes), at))
        if flight is not None:
            self.stage.carry_out(flight)
            self.stage.answer(flight)

    def try_bind(self, uid: str, node: str) -> Flight | None:
        about = self.api.versions_of[uid][-1]
        found = self.stage.bind(uid, about.namespace, about.metadata.name, node)
        if isinstance(found, Flight):
            return found
        if isinstance(found, Answer) and found.error == "":
            self.stage.chosen.pop(uid, None)
        elif found is not None:
            self.stage.fail(uid)
        return None

    def go_on(self, pick: int, what: int, reads: int) -> None:
        """Something becomes of a Binding that is under way, or that nobody waits for any more."""
        flight = one(self.stage.flights, pick)
        match one(("carry out", "carry out", "answer", "give up"), what):
            case "carry out" if not flight.became:
                self.stage.carry_out(flight)
            case "answer" if not flight.abandoned:
                self.stage.answer(flight, reads=bool(reads % 2))
            case "give up" if not flight.abandoned:
                self.stage.give_up(flight, reads=bool(reads % 2))

    def attempt_fails(self, pick: int, for_good: int, _: int) -> None:
        """Somebody else refuses the pod between filter and bind, and may do so from now on."""
        uid = one(list(self.stage.chosen), pick)
        self.stage.fail(uid)
        if for_good % 2:
            self.api.change_pod(uid, metadata_labels={"for": "elsewhere"})
            del self.stage.active[uid]

    def preempt(self, pick: int, at: int, evicts: int) -> None:
        """kube-scheduler asks about victims on a node, and mostly does as it is told."""
        pod = one([pod for pod in self.tried() if pod["spec"]["priority"]], pick)
        node = one(sorted(self.api.nodes), at)
        on_node = [each for each in self.api.holders() if each["spec"]["nodeName"] == node]
        lower = [each["metadata"]["uid"] for each in on_node if not each["spec"]["priority"]]
        victims = self.stage.preempt(as_pod(pod), node, lower[:1])
        if victims is None or evicts % 4 == 3:
            return
        self.api.change_pod(pod["metadata"]["uid"], status_nominatedNodeName=node)
        for victim in victims:
            assert not self.api.versions_of[victim][-1].spec.priority, "a pod that is no lower one is to go"
            self.api.change_pod(victim, metadata_deletionTimestamp=ENDING)

    # -- time ------------------------------------------------------------------------------------------------------

    def pass_time(self, pick: int, *_: int) -> None:
        self.stage.pass_time(one((0.5, 2.0, 6.0, 12.0, 40.0, 66.0), pick))

    def wake(self, arrives: int, *_: int) -> None:
        """Pods are touched; a touch may be lost."""
        for wake in self.stage.wake():
            if self.api.pod(wake.uid) is None:
                self.stage.books.pod_gone(wake.uid)
            elif arrives % 4 != 3:
                self.stage.touch(wake)
            else:
                self.stage.books.waiting.wake_failed(wake.uid)

    def ask_in_doubt(self, *_: int) -> None:
        self.stage.ask_in_doubt()

    def hear_in_doubt(self, *_: int) -> None:
        self.stage.hear_in_doubt()

    def tried(self) -> list[Json]:
        """Waiting pods that kube-scheduler tries, and not only its own checks."""
        return [pod for pod in self.api.waiting() if not pod["metadata"].get("labels")]
