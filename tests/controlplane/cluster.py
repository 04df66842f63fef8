"""What a controller-manager, a kubelet and a user would make, made by hand."""

from __future__ import annotations

from .process import wait_for
from .rest import Json, Rest

NOT_READY_TAINT = "node.kubernetes.io/not-ready"
ROOM = {"cpu": "64", "memory": "256Gi", "pods": "110"}


def create_default_account(rest: Rest, namespace: str) -> None:
    """The service account without which the ServiceAccount plugin refuses every pod of the namespace."""
    account = {"metadata": {"name": "default"}}
    rest.post(f"/api/v1/namespaces/{namespace}/serviceaccounts", account).done()


def create_namespace(rest: Rest, name: str, labels: dict[str, str] | None = None) -> Json:
    """A namespace that takes pods; answers the Namespace."""
    made = rest.post("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels or {}}}).done()
    create_default_account(rest, name)
    return made


def create_node(
    rest: Rest,
    name: str,
    *,
    allocatable: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> Json:
    """A node with `allocatable` on top of ROOM, Ready for good since nobody watches its heartbeat; answers it.

    The TaintNodesByCondition plugin gives every new node the not-ready taint, which a controller would take off.
    """
    metadata = {
        "name": name,
        "labels": {"kubernetes.io/hostname": name} | (labels or {}),
        "annotations": annotations or {},
    }
    made = rest.post("/api/v1/nodes", {"metadata": metadata}).done()
    room = ROOM | (allocatable or {})
    set_node_status(rest, name, {"capacity": room, "allocatable": room, "conditions": [ready_condition(ready=True)]})
    taints = [taint for taint in made["spec"].get("taints", []) if taint["key"] != NOT_READY_TAINT]
    return rest.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": taints}}).done()


def ready_condition(*, ready: bool) -> Json:
    return {"type": "Ready", "status": "True" if ready else "False", "reason": "SetByATest", "message": ""}


def set_node_status(rest: Rest, name: str, status: Json) -> Json:
    """The node after this merge patch of its status."""
    return rest.patch(f"/api/v1/nodes/{name}/status", {"status": status}).done()


def create_pod(
    rest: Rest,
    name: str,
    *,
    limits: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    spec: Json | None = None,
    namespace: str = "default",
) -> Json:
    """A pod of one container `main` with these limits, `spec` laid over the rest; answers it as admission left it."""
    container = {"name": "main", "image": "none", "resources": {"limits": limits or {}}}
    metadata = {"name": name, "annotations": annotations or {}}
    pod = {"metadata": metadata, "spec": {"containers": [container]} | (spec or {})}
    return rest.post(f"/api/v1/namespaces/{namespace}/pods", pod).done()


def get_pod(rest: Rest, name: str, namespace: str = "default") -> Json:
    return rest.get(f"/api/v1/namespaces/{namespace}/pods/{name}").done()


def node_of(rest: Rest, name: str, namespace: str = "default") -> str:
    """The node that the pod is bound to; "" while there is none."""
    node: str = get_pod(rest, name, namespace)["spec"].get("nodeName", "")
    return node


def refusal(rest: Rest, name: str, namespace: str = "default") -> str:
    """Why kube-scheduler does not place the pod, in its words; "" while it has not said so."""
    conditions: list[dict[str, str]] = get_pod(rest, name, namespace)["status"].get("conditions", [])
    refused = [each for each in conditions if each["type"] == "PodScheduled" and each["status"] == "False"]
    return refused[0].get("message", "") if refused else ""


def wait_until_bound(rest: Rest, name: str, *, seconds: float = 10.0, namespace: str = "default") -> str:
    """The node that the pod got; raises TimeoutError."""
    return wait_for(f"node for pod {name}", lambda: node_of(rest, name, namespace), seconds=seconds)
