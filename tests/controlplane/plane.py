"""One control plane on loopback: etcd, kube-apiserver with RBAC and an audit log, and kube-scheduler on request.

There is no controller-manager and no kubelet: nothing makes service accounts, taints nodes or ends pods behind a test's
back. `cluster.py` makes by hand what they would have made.
"""

from __future__ import annotations

import base64
import http.client
import itertools
import json
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from .certs import Authority, write_key
from .cluster import create_default_account
from .process import Process, StartFailedError, accepts, free_ports, wait_for
from .rest import Json, KeyPair, Rest

ADMIN, ADMIN_GROUP = "test-admin", "system:masters"
START_TRIES = 3
READY_SECONDS = 60.0
STOP_SECONDS = 2.0

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "None",
            "users": ["system:apiserver"],
        },  # what the server writes to itself: a few hundred at the start
        {"level": "RequestResponse", "verbs": ["create", "update", "patch", "delete", "deletecollection"]},
        {"level": "None"},
    ],
}

# kube-scheduler's client is throttled to 50 requests a second unless told otherwise.
SCHEDULER_DEFAULTS: Json = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "clientConnection": {"qps": 5000, "burst": 10000},
    "leaderElection": {"leaderElect": False},
}


class ControlPlane:
    """A control plane out of the binaries in `binaries`, whose every file lies in the empty folder `folder`.

    `flags` are more flags of kube-apiserver.

    `rest` speaks as an administrator whom RBAC does not hold back. As a context manager it starts and stops itself.
    """

    rest: Rest
    url: str

    def __init__(self, binaries: Path, folder: Path, flags: dict[str, str] | None = None) -> None:
        self._flags = flags or {}
        self._binaries = binaries
        self._folder = folder
        self._authority = Authority(folder)
        self._servers_pair = self._authority.server(
            "server", dns=("localhost", "kubernetes", "kubernetes.default.svc"), addresses=("127.0.0.1", "10.0.0.1")
        )
        self._admin_pair = self._authority.client(ADMIN, (ADMIN_GROUP,), stem="admin")
        write_key(folder / "service-account.key")
        _write_json(folder / "audit-policy.json", AUDIT_POLICY)
        self._audit_log = folder / "audit.log"
        self._children: list[Process] = []
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Return when the server is ready and the default namespace takes pods; raises StartFailedError, all stopped."""
        try:
            self._start_on_free_ports()
            wait_for("default namespace", lambda: self.rest.get("/api/v1/namespaces/default").status == 200)
            create_default_account(self.rest, "default")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Return when all children are gone, asked in turn, and killed where two seconds in all are not enough.

        etcd comes last: a kube-apiserver that cannot reach it hangs in its own ending.
        """
        deadline = time.monotonic() + STOP_SECONDS
        for child in reversed(self._children):
            child.stop(grace_seconds=deadline - time.monotonic())
        self._children.clear()

    def kubeconfig(self, user: str, groups: tuple[str, ...] = ()) -> Path:
        """A new kubeconfig file with a client certificate for `user` in `groups`. It gives no rights: RBAC does."""
        stem = f"user-{next(self._numbers)}-{re.sub('[^A-Za-z0-9.-]+', '-', user)}"
        return self._write_kubeconfig(user, self._authority.client(user, groups, stem=stem), stem)

    def rest_as(self, user: str, groups: tuple[str, ...] = ()) -> Rest:
        """Requests as another user than the administrator."""
        stem = f"user-{next(self._numbers)}"
        return Rest(self._port, self._authority.certificate, self._authority.client(user, groups, stem=stem))

    def start_scheduler(self, config: Json | None = None, *, host: str = "") -> Process:
        """A kube-scheduler that answers its health check; stopped with the plane, or before by its own `stop()`.

        `config` is a KubeSchedulerConfiguration, laid over SCHEDULER_DEFAULTS key by key; raises StartFailedError with
        the end of its log where kube-scheduler refuses it. `host`: the name by which it knows its host.
        """
        name = f"kube-scheduler-{next(self._numbers)}"
        written = _write_json(self._folder / f"{name}.json", self._scheduler_config(config or {}))
        [port] = free_ports(1)
        scheduler = self._launch(
            "kube-scheduler",
            {
                "config": str(written),
                "bind-address": "127.0.0.1",
                "secure-port": str(port),
                "tls-cert-file": str(self._servers_pair.certificate),
                "tls-private-key-file": str(self._servers_pair.key),
            },
            name,
            on_host(host) if host else [],
        )
        health = Rest(port, self._authority.certificate, self._admin_pair)
        scheduler.wait_until(lambda: health.status_of("/healthz") == 200, seconds=READY_SECONDS)
        return scheduler

    def audit(self) -> list[Json]:
        """Every write so far but kube-apiserver's own, in the order in which they ended, as audit.k8s.io/v1 Events.

        An event is written just after its answer was sent: wait for one that must come.
        """
        if not self._audit_log.exists():
            return []
        whole_lines = self._audit_log.read_text().rpartition("\n")[0]
        return [json.loads(line) for line in whole_lines.splitlines()]

    def audit_of(self, resource: str, name: str, *, subresource: str = "") -> list[Json]:
        """The writes to one object, or to one of its subresources."""
        wanted = {"resource": resource, "name": name, "subresource": subresource}
        return [
            event
            for event in self.audit()
            if all(event.get("objectRef", {}).get(key, "") == value for key, value in wanted.items())
        ]

    def compact(self, revision: int) -> None:
        """Make etcd forget all versions before this one; a server without a watch cache then answers 410 for them."""
        connection = http.client.HTTPConnection("127.0.0.1", self._etcd_port, timeout=10)
        body = json.dumps({"revision": revision, "physical": True})
        connection.request("POST", "/v3/kv/compaction", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        said = answer.read()
        connection.close()
        if answer.status != 200:
            raise RuntimeError(f"etcd does not compact: {said.decode()}")

    def _start_on_free_ports(self) -> None:
        """Tried again where a port, free when it was chosen, was taken by another process before it was used."""
        for tries_left in reversed(range(START_TRIES)):
            try:
                self._start_servers(*free_ports(3))
            except StartFailedError as error:
                if "address already in use" not in str(error) or not tries_left:
                    raise
                self.stop()
            else:
                return

    def _start_servers(self, etcd_port: int, peer_port: int, port: int) -> None:
        self._port, self.url = port, f"https://127.0.0.1:{port}"
        self._etcd_port = etcd_port
        self.rest = Rest(port, self._authority.certificate, self._admin_pair)
        etcd = self._launch("etcd", _etcd_flags(self._folder, etcd_port, peer_port))
        etcd.wait_until(lambda: accepts(etcd_port), seconds=READY_SECONDS)
        server = self._launch("kube-apiserver", self._apiserver_flags(etcd_port))
        server.wait_until(lambda: self.rest.status_of("/readyz") == 200, seconds=READY_SECONDS)

    def _launch(self, binary: str, flags: dict[str, str], name: str = "", prefix: Iterable[str] = ()) -> Process:
        argv = [*prefix, str(self._binaries / binary), *(f"--{flag}={value}" for flag, value in flags.items())]
        child = Process(name or binary, argv, self._folder / f"{name or binary}.log")
        self._children.append(child)
        return child

    def _apiserver_flags(self, etcd_port: int) -> dict[str, str]:
        account_key = str(self._folder / "service-account.key")
        return {
            "etcd-servers": f"http://127.0.0.1:{etcd_port}",
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "secure-port": str(self._port),
            "endpoint-reconciler-type": "none",  # it would refuse a loopback address
            "service-cluster-ip-range": "10.0.0.0/24",
            "authorization-mode": "Node,RBAC",
            "client-ca-file": str(self._authority.certificate),
            "tls-cert-file": str(self._servers_pair.certificate),
            "tls-private-key-file": str(self._servers_pair.key),
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": account_key,
            "service-account-signing-key-file": account_key,
            "audit-policy-file": str(self._folder / "audit-policy.json"),
            "audit-log-path": str(self._audit_log),
            "audit-log-maxsize": "8192",  # MB; a log that is rolled would lose its first writes to audit()
            **self._flags,
        }

    def _scheduler_config(self, config: Json) -> Json:
        merged = SCHEDULER_DEFAULTS | config
        for section in ("clientConnection", "leaderElection"):
            merged[section] = SCHEDULER_DEFAULTS[section] | config.get(section, {})
        admin = self._write_kubeconfig(ADMIN, self._admin_pair, "admin")
        merged["clientConnection"].setdefault("kubeconfig", str(admin))
        return merged

    def _write_kubeconfig(self, user: str, pair: KeyPair, stem: str) -> Path:
        cluster = {"server": self.url, "certificate-authority-data": _base64(self._authority.certificate)}
        keys = {"client-certificate-data": _base64(pair.certificate), "client-key-data": _base64(pair.key)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": keys}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user, "namespace": "default"}}],
            "current-context": "test",
        }
        return _write_json(self._folder / f"{stem}.kubeconfig", content)


def on_host(name: str) -> list[str]:
    """What to begin a command with, so that it runs on this machine under another host name."""
    without_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", "--uts", *without_root, "sh", "-c", 'hostname "$0" && exec "$@"', name]


def _etcd_flags(folder: Path, port: int, peer_port: int) -> dict[str, str]:
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
    return {
        "data-dir": str(folder / f"etcd-{port}"),
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"default={peer}",
        "unsafe-no-fsync": "true",  # nothing here outlives the test
        "log-level": "warn",
    }


def _write_json(path: Path, content: dict[str, Any]) -> Path:
    path.touch(mode=0o600)
    path.write_text(json.dumps(content, indent=1))
    return path


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
