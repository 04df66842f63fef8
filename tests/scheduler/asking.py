"""Books of a small cluster, and calls made to them without HTTP."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from cardwise.scheduler.answers import BindStep, Filtered
from cardwise.scheduler.binding import bind_step
from cardwise.scheduler.books import Books, Settings
from cardwise.scheduler.filtering import filter_pod
from cardwise.scheduler.offered import Offered
from cardwise.wire import names, objects
from manifests import Object, card_records, container_object, node_object, pod_object

NOW = datetime(2026, 1, 1, tzinfo=UTC)
REFUSED = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}]}


def node_of(name: str, cards: int = 1, **of_card: Any) -> objects.Node:
    node = node_object(name, card_records(cards, f"GPU-{name}", **of_card))
    node["metadata"]["annotations"][names.NODE_AGENT] = "test"
    return msgspec.convert(node, objects.Node)


def books_of(*nodes: str) -> Books:
    books = Books(Settings())
    for name in nodes:
        books.node_seen(node_of(name), now=NOW)
    books.set_complete(True)
    return books


def pod_of(name: str, *, version: int = 1, status: Object | None = None, **asked: Any) -> objects.Pod:
    pod = pod_object(name, containers=[container_object(**asked)])
    pod["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": str(version)}
    pod["spec"]["schedulerName"] = "cardwise-scheduler"
    return msgspec.convert(pod | {"status": status or {}}, objects.Pod)


def asked(books: Books, pod: objects.Pod, *nodes: str) -> Filtered:
    return filter_pod(books, pod, Offered.of(nodes, books.holdings.cluster.cards), now=NOW)


def bound(books: Books, pod: objects.Pod, node: str = "n1", name: str = "") -> BindStep:
    return bind_step(
        books, uid=pod.metadata.uid, namespace=pod.namespace, name=name or pod.metadata.name, node=node, now=NOW
    )
