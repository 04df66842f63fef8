"""`cardwise scheduler` as a process beside a real kube-scheduler, both configured by the files in deploy/."""

from __future__ import annotations

import http.client
import json
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cardwise.wire import yaml_text

from .extender import Extender
from .process import Process, StartFailedError, free_ports, wait_for
from .rest import Json

if TYPE_CHECKING:
    from .plane import ControlPlane

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
USER, GROUPS = "system:serviceaccount:kube-system:cardwise-scheduler", ("system:masters",)
VERBS = ("filter", "prioritize", "preempt", "bind")
START_TRIES = 3
COMPONENT = "cardwise"
LEASE_NAMESPACE = "kube-system"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


class Product:
    """The service, and what a test asks of it.

    `flags` override; they may be changed before it is started again, after `stop()` or `kill()`.
    """

    def __init__(self, plane: ControlPlane, folder: Path, flags: dict[str, str] | None = None) -> None:
        self.plane = plane
        self.folder = folder
        self.flags = {
            "--kubeconfig": str(plane.kubeconfig(USER, GROUPS)),
            "--admission-self-signed": "true",
            "--leader-election-enabled": "false",
        } | (flags or {})
        self._child: Process | None = None
        self._starts = 0

    def start_on_free_ports(self) -> None:
        """The webhook is registered and the service ready; on other ports where another process took one first."""
        for tries_left in reversed(range(START_TRIES)):
            self.extender_port, self.webhook_port, self.page_port = free_ports(3)
            self.register_webhook()
            try:
                self.start()
            except StartFailedError as error:
                if "address already in use" not in str(error) or not tries_left:
                    raise
                self.plane.rest.delete(f"{WEBHOOKS}/cardwise").done()
            else:
                return

    def start(self) -> None:
        """Returns when it is ready, and listens on all its ports."""
        self._starts += 1
        ports = {"extender": self.extender_port, "metrics": self.page_port, "admission": self.webhook_port}
        flags = self.flags | {f"--{part}-address": f"127.0.0.1:{port}" for part, port in ports.items()}
        argv = [sys.executable, "-m", "cardwise", "scheduler", *(f"{flag}={value}" for flag, value in flags.items())]
        self._child = Process("cardwise", argv, self.folder / f"cardwise-{self._starts}.log")
        self._child.wait_until(lambda: self.ready() and self.certificate() != "", seconds=20)

    def stop(self) -> None:
        """Asked to end."""
        if self._child is not None:
            self._child.stop()
            self._child = None

    def end(self, *, seconds: float) -> int:
        """Asked to end, within so long; its exit status."""
        assert self._child is not None
        return self._child.end(seconds=seconds)

    def kill(self) -> None:
        """Ended at once, without a word."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def ready(self) -> bool:
        """Whether it says that it is."""
        try:
            return self.page("/readyz")[0] == 200
        except OSError:
            return False

    def certificate(self) -> str:
        """The webhook's certificate as a new connection is shown it, PEM; "" where there is none."""
        try:
            return ssl.get_server_certificate(("127.0.0.1", self.webhook_port), timeout=10)
        except OSError:
            return ""

    def page(self, path: str) -> tuple[int, str]:
        """A page of it: status and text."""
        connection = http.client.HTTPConnection("127.0.0.1", self.page_port, timeout=10)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def call(self, verb: str, body: bytes) -> tuple[int, bytes]:
        """A call as kube-scheduler makes it."""
        connection = http.client.HTTPConnection("127.0.0.1", self.extender_port, timeout=30)
        try:
            connection.request("POST", f"/{verb}", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def metric(self, name: str, **labels: str) -> float:
        """The value of one series; 0 where it is not there."""
        wanted = "".join(f'{key}="{value}",' for key, value in labels.items()).rstrip(",")
        line = f"{name}{{{wanted}}} " if wanted else f"{name} "
        found = [row for row in self.page("/metrics")[1].splitlines() if row.startswith(line)]
        return float(found[0].rsplit(" ", 1)[1]) if found else 0.0

    def log(self) -> str:
        """All that it has logged."""
        return "".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("cardwise-*.log")))

    def writes(self) -> list[Json]:
        """Its own writes in the audit log."""
        return [event for event in self.plane.audit() if event["user"]["username"] == USER]

    def events(self, pod: str) -> list[Json]:
        """Its events about a pod of the default namespace."""
        found = self.plane.rest.get(f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.name={pod}").done()
        return [event for event in found["items"] if event["source"].get("component") == COMPONENT]

    def scheduler_config(self, url: str = "") -> Json:
        """The shipped configuration of kube-scheduler, told where we listen here, or to call another `url` instead."""
        (config,) = yaml_text.parse((DEPLOY / "kube-scheduler-config.yaml").read_text())
        config["extenders"][0]["urlPrefix"] = url or f"http://127.0.0.1:{self.extender_port}"
        config["leaderElection"] = {"leaderElect": False}
        config.pop("clientConnection")
        shipped: Json = config
        return shipped

    def shipped_election(self) -> Json:
        """The leader election of that configuration, which `scheduler_config` turns off."""
        (config,) = yaml_text.parse((DEPLOY / "kube-scheduler-config.yaml").read_text())
        election: Json = config["leaderElection"]
        return election

    def register_webhook(self) -> None:
        """The shipped webhook configuration, told where we listen here. Its authority is written by the service."""
        (config,) = yaml_text.parse((DEPLOY / "webhook.yaml").read_text())
        for webhook in config["webhooks"]:
            webhook["clientConfig"] = {"url": f"https://127.0.0.1:{self.webhook_port}/webhook"}
        self.plane.rest.post(WEBHOOKS, config).done()

    def wait_until_asked(self) -> None:
        """Returns when the API server asks this webhook: it learns of a configuration within a second or two."""
        container = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
        probe = {"metadata": {"name": "probe"}, "spec": {"containers": [container]}}

        def asked() -> bool:
            made = self.plane.rest.post("/api/v1/namespaces/default/pods?dryRun=All", probe)
            return made.status < 300 and made.body["spec"]["schedulerName"] == "cardwise-scheduler"

        wait_for("the webhook to be asked", asked, seconds=20)


@contextmanager
def serving(plane: ControlPlane, folder: Path, flags: dict[str, str] | None = None) -> Iterator[Product]:
    """Webhook configuration and service. Both end with the block."""
    plane.rest.post("/api/v1/namespaces", {"metadata": {"name": LEASE_NAMESPACE}})  # (there already, most times)
    product = Product(plane, folder, flags)
    try:
        product.start_on_free_ports()
        product.wait_until_asked()
        yield product
    finally:
        product.stop()
        plane.rest.delete(f"{WEBHOOKS}/cardwise")


@contextmanager
def running(plane: ControlPlane, folder: Path, flags: dict[str, str] | None = None) -> Iterator[Product]:
    """The whole: webhook configuration, service, kube-scheduler. All of it ends with the block."""
    with serving(plane, folder, flags) as product:
        scheduler = plane.start_scheduler(product.scheduler_config())
        try:
            yield product
        finally:
            scheduler.stop()


@contextmanager
def overheard(product: Product) -> Iterator[Extender]:
    """A kube-scheduler whose calls of the service can be counted by pod, since they pass through here."""

    def passed_on(verb: str) -> Callable[[Json], Any]:
        def answer(request: Json) -> Any:
            try:
                return json.loads(product.call(verb, json.dumps(request).encode())[1])
            except (OSError, http.client.HTTPException) as error:  # (killed by the test)
                return {"Error": repr(error)}

        return answer

    with Extender({verb: passed_on(verb) for verb in VERBS}) as extender:
        scheduler = product.plane.start_scheduler(product.scheduler_config(extender.url))
        try:
            yield extender
        finally:
            scheduler.stop()
