"""The demo's cluster: an API server in memory, kubelets, a kube-scheduler, and the real scheduler service between them."""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cardwise.kube.client import Client
from cardwise.kube.kubeconfig import load as connection_of
from cardwise.scheduler import service
from cardwise.scheduler.config import Config
from cardwise.scheduler.config_file import load as configured
from cardwise.scheduler.issuing import issued, names_of
from cardwise.sim.apiserver import MemoryServer
from cardwise.sim.demo.cluster import DemoNode
from cardwise.sim.demo.workload import NAMESPACES, URGENT, URGENT_VALUE
from cardwise.sim.kubelet.kubelet import Kubelet
from cardwise.sim.kubescheduler import KubeScheduler, Settings

Json = dict[str, Any]

LOOPBACK = "127.0.0.1"
ADMIN = "admin"
SERVICE_USER = "system:serviceaccount:kube-system:cardwise-scheduler"
SETTINGS = Settings(most_backoff_seconds=1.0, http_seconds=30.0)
"""As in deploy/kube-scheduler-config.yaml."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What plays together. `client` is an administrator's, and `kubeconfig` too."""

    server: MemoryServer
    client: Client
    kubelet: Kubelet
    scheduler: KubeScheduler
    kubeconfig: Path


@asynccontextmanager
async def staged(nodes: Sequence[DemoNode], folder: Path) -> AsyncIterator[Stage]:
    """The cluster, ready for pods. Files go into the folder. A part that fails ends the block with an ExceptionGroup."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(MemoryServer())
        _furnish(server)

        async def client(user: str) -> Client:
            connection = connection_of(str(server.write_kubeconfig(folder / user.replace(":", "-"), user=user)))
            return await stack.enter_async_context(Client(connection))

        admin, kubelets, scheduling = [await client(user) for user in (ADMIN, "system:nodes", "system:kube-scheduler")]
        kubelet = await stack.enter_async_context(Kubelet(kubelets, [node.shape for node in nodes]))
        config = _config(server, folder)
        await stack.enter_async_context(_served(config))
        scheduler = await stack.enter_async_context(_kube_scheduler(scheduling, config))
        yield Stage(server=server, client=admin, kubelet=kubelet, scheduler=scheduler, kubeconfig=folder / ADMIN)


def _furnish(server: MemoryServer) -> None:
    for name in NAMESPACES:
        server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": URGENT}}
    server.create(urgent | {"value": URGENT_VALUE})


def _config(server: MemoryServer, folder: Path) -> Config:
    """The service's configuration; the API server is told to ask its webhook."""
    extender, admission = _free_ports(2)
    pair = issued(names_of("cardwise-scheduler", "kube-system"), datetime.now(UTC))
    for name, text in (("tls.crt", pair.certificate), ("tls.key", pair.key)):
        (folder / name).touch(mode=0o600)
        (folder / name).write_bytes(text)
    server.create(_webhook(f"https://{LOOPBACK}:{admission}/webhook", pair.authority))
    flags = {
        "kubeconfig": str(server.write_kubeconfig(folder / "scheduler", user=SERVICE_USER)),
        "extender.address": f"{LOOPBACK}:{extender}",
        "admission.address": f"{LOOPBACK}:{admission}",
        "admission.certificate": str(folder / "tls.crt"),
        "admission.key": str(folder / "tls.key"),
        "metrics.address": f"{LOOPBACK}:0",
        "leaderElection.enabled": "false",
    }
    return configured(None, flags, {})


def _webhook(url: str, authority: bytes) -> Json:
    """As deploy/webhook.yaml, without the expressions, which the server in memory does not evaluate."""
    webhook = {
        "name": "pods.cardwise.io",
        "clientConfig": {"url": url, "caBundle": base64.b64encode(authority).decode()},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "cardwise"},
        "webhooks": [webhook],
    }


@asynccontextmanager
async def _served(config: Config) -> AsyncIterator[None]:
    """The scheduler service, from its readiness on."""
    stop, ready = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(service.run(config, stop, ready=ready))
        await ready.wait()
        try:
            yield
        finally:
            stop.set()


def _kube_scheduler(client: Client, config: Config) -> KubeScheduler:
    uncounted = {name for family in config.families() for name in family.uncounted_resources}
    return KubeScheduler(
        client,
        f"http://{config.extender.address}",
        scheduler_name=config.scheduler_name,
        managed=uncounted.union(*(family.resources for family in config.families())),
        ignored=uncounted,
        settings=SETTINGS,
    )


def _free_ports(count: int) -> list[int]:
    """Ports of loopback that are free now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((LOOPBACK, 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
