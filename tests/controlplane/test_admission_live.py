"""Admission by the service itself, asked by a real API server."""

from __future__ import annotations

import base64
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cardwise.wire.families import NVIDIA

from .cluster import get_pod
from .gpus import PODS, WHOLE, create_gpu_node, create_pinned, end_all, share
from .load import LOAD_SECONDS, REVIEWS_A_SECOND, Load
from .process import wait_for
from .product import WEBHOOKS, Product, serving
from .rest import Answer, Json, KeyPair, Rest

if TYPE_CHECKING:
    from .certs import Authority
    from .plane import ControlPlane

pytestmark = pytest.mark.controlplane

SCHEDULER = "cardwise-scheduler"
RECORD = {NVIDIA.allocated_key: "one-0,NVIDIA,1024,0:;", "hami.io/vgpu-node": "one"}
BY_US_ONLY = "are written by the scheduler and its agents only"


@pytest.fixture(scope="module")
def plane(binaries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane that lets privileged pods in, as clusters do."""
    from .plane import ControlPlane  # not above: it needs a package that may be lacking

    with ControlPlane(binaries, tmp_path_factory.mktemp("plane"), {"allow-privileged": "true"}) as started:
        yield started


@pytest.fixture(scope="module")
def product(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    create_gpu_node(plane.rest, "one")
    with serving(plane, tmp_path_factory.mktemp("product")) as product:
        yield product


@pytest.fixture
def rest(product: Product) -> Rest:
    return product.plane.rest


@pytest.fixture
def alice(product: Product) -> Rest:
    """A user whom RBAC does not hold back."""
    return product.plane.rest_as("alice", ("system:masters",))


def pod(name: str = "", limits: dict[str, str] | None = None, **spec: object) -> Json:
    container = {"name": "main", "image": "none", "resources": {"limits": WHOLE if limits is None else limits}}
    return {"metadata": {"name": name}, "spec": {"containers": [container]} | spec}


def privileged(name: str) -> Json:
    made = pod(name)
    made["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    return made


def reviews(product: Product) -> float:
    """How many the service has answered, whatever the outcome."""
    rows = product.page("/metrics")[1].splitlines()
    return sum(float(row.rsplit(" ", 1)[1]) for row in rows if row.startswith("cardwise_admission_reviews_total"))


# -- what becomes of a pod -------------------------------------------------------------------------------------------


def test_a_privileged_pod_that_asks_for_cards_is_refused(rest: Rest) -> None:
    answer = rest.post(PODS, privileged("privileged"))
    assert answer.status == 400
    assert "pod default/privileged, container main: is privileged and asks for cards" in answer.body["message"]


def test_it_is_passed_by_with_a_warning_where_that_is_configured(product: Product, rest: Rest) -> None:
    product.stop()
    product.flags["--admission-privileged"] = "skip"
    product.start()
    try:
        answer = rest.post(PODS, privileged("passed-by"))
    finally:
        product.stop()
        del product.flags["--admission-privileged"]
        product.start()
    assert answer.done()["spec"]["schedulerName"] == "default-scheduler"
    text = "pod default/passed-by, container main: is privileged and asks for cards; passed by"
    assert answer.warnings == (text,)


def test_a_preset_node_is_refused(rest: Rest) -> None:
    answer = rest.post(PODS, pod("preset", nodeName="one"))
    assert answer.status == 400
    assert "pod default/preset: spec.nodeName is one, must be left out" in answer.body["message"]


def test_a_pod_without_cards_never_reaches_us(product: Product, rest: Rest) -> None:
    before = reviews(product)
    for number, limits in enumerate(({}, {"cpu": "1"}, {"amd.com/gpu": "1"})):
        made = rest.post(PODS, pod(f"plain-{number}", limits)).done()
        assert made["spec"]["schedulerName"] == "default-scheduler"
        rest.patch(f"{PODS}/plain-{number}", {"metadata": {"annotations": {"mine": "1"}}}).done()
    assert reviews(product) == before
    rest.post(PODS, pod("counted")).done()
    assert reviews(product) == before + 1


def test_memory_without_a_count_gets_one_in_limits_and_requests(rest: Rest) -> None:
    made = rest.post(PODS, pod("memory-only", {NVIDIA.memory_resource: "2048"})).done()
    (container,) = made["spec"]["containers"]
    amounts = {NVIDIA.memory_resource: "2048", NVIDIA.count_resource: "1"}
    assert container["resources"] == {"limits": amounts, "requests": amounts}
    assert made["spec"]["schedulerName"] == SCHEDULER


def test_a_dry_run_is_answered_alike_and_leaves_nothing(product: Product, rest: Rest) -> None:
    written = len(product.writes())
    made = rest.post(f"{PODS}?dryRun=All", pod("dry", {NVIDIA.memory_resource: "2048"})).done()
    assert made["spec"]["containers"][0]["resources"]["limits"][NVIDIA.count_resource] == "1"
    assert rest.get(f"{PODS}/dry").status == 404
    time.sleep(0.3)  # (an audit event comes just after its answer)
    assert len(product.writes()) == written


def test_a_pod_whose_name_is_made_is_called_by_what_is_known_of_it(rest: Rest) -> None:
    generated = pod(limits={NVIDIA.memory_resource: "2048"}) | {"metadata": {"generateName": "made-"}}
    made = rest.post(PODS, generated).done()
    assert made["metadata"]["name"].startswith("made-")
    assert made["spec"]["schedulerName"] == SCHEDULER
    wrong = pod(limits={NVIDIA.cores_resource: "120"}) | {"metadata": {"generateName": "made-"}}
    answer = rest.post(PODS, wrong)
    assert answer.status == 400
    assert "pod default/made-*, container main: nvidia.com/gpucores is 120, must be" in answer.body["message"]


# -- annotations of ours ---------------------------------------------------------------------------------------------


def test_a_forged_record_is_dropped_from_a_new_pod_with_a_warning(alice: Rest) -> None:
    forged = pod("exported")
    forged["metadata"]["annotations"] = RECORD | {"mine": "1"}
    answer = alice.post(PODS, forged)
    assert answer.done()["metadata"]["annotations"] == {"mine": "1"}
    assert answer.warnings == tuple(
        f"pod default/exported: annotation {key} is written by the scheduler only, and is dropped"
        for key in sorted(RECORD)
    )


def test_a_user_cannot_write_a_record_by_any_way(rest: Rest, alice: Rest) -> None:
    rest.post(PODS, pod("guarded")).done()
    change = {"metadata": {"annotations": RECORD}}
    binding = {
        "metadata": {"name": "guarded", "annotations": RECORD},
        "target": {"kind": "Node", "name": "one"},
    }
    ways: list[Answer] = [
        alice.patch(f"{PODS}/guarded", change),
        alice.patch(f"{PODS}/guarded/status", change),
        alice.post(f"{PODS}/guarded/binding", binding),
        alice.post("/api/v1/namespaces/default/bindings", binding),
    ]
    assert [each.status for each in ways] == [403] * len(ways)
    assert [BY_US_ONLY in each.body["message"] and "alice" in each.body["message"] for each in ways] == [True] * len(
        ways
    )
    left = get_pod(rest, "guarded")
    assert "annotations" not in left["metadata"]
    assert "nodeName" not in left["spec"]


def test_a_record_cannot_be_changed_or_removed_and_all_else_can(product: Product, rest: Rest, alice: Rest) -> None:
    end_all(rest)
    create_pinned(rest, "recorded", "one", share(1024))
    scheduler = product.plane.start_scheduler(product.scheduler_config())
    wait_for("record", lambda: get_pod(rest, "recorded")["metadata"].get("annotations"))
    scheduler.stop()
    for value in (None, "one-0,NVIDIA,1,0:;"):
        answer = alice.patch(f"{PODS}/recorded", {"metadata": {"annotations": {NVIDIA.allocated_key: value}}})
        assert (answer.status, BY_US_ONLY in answer.body["message"]) == (403, True)
    assert alice.patch(f"{PODS}/recorded", {"metadata": {"annotations": {"mine": "1"}}}).status == 200


# -- away, or another certificate ------------------------------------------------------------------------------------


def test_while_we_are_away_only_pods_with_cards_cannot_be_made(product: Product, rest: Rest) -> None:
    product.kill()
    try:
        answer = rest.post(PODS, pod("too-early"))
        others = [
            rest.post(PODS, pod(f"other-{number}", limits)).status for number, limits in enumerate(({}, {"cpu": "1"}))
        ]
        rest.patch(f"{PODS}/other-0/status", {"status": {"phase": "Running"}}).done()
    finally:
        product.start()
    assert answer.status == 500
    assert 'failed calling webhook "pods.cardwise.io"' in answer.body["message"]
    assert others == [201, 201]
    product.wait_until_asked()
    assert rest.post(PODS, pod("too-early")).status == 201


def show(pair: KeyPair, certificate: Path, key: Path) -> None:
    """Puts a pair where the service reads it, one file after the other, as a mounted secret is not but a person may."""
    for source, target in ((pair.certificate, certificate), (pair.key, key)):
        beside = target.with_suffix(".new")
        beside.write_bytes(source.read_bytes())
        beside.replace(target)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    from .certs import Authority  # not above: it needs a package that may be lacking

    return Authority(tmp_path)


def trust(product: Product, authority: Authority) -> None:
    """The API server takes certificates of this authority from the webhook."""
    configuration = product.plane.rest.get(f"{WEBHOOKS}/cardwise").done()
    for webhook in configuration["webhooks"]:
        webhook["clientConfig"]["caBundle"] = base64.b64encode(authority.certificate.read_bytes()).decode()
    product.plane.rest.request("PUT", f"{WEBHOOKS}/cardwise", configuration).done()


@pytest.fixture
def with_files(product: Product, authority: Authority, tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """The service shows the certificate that these files hold; after the test it makes its own again."""
    files = tmp_path / "shown.crt", tmp_path / "shown.key"
    show(authority.server("first", dns=("localhost",), addresses=("127.0.0.1",)), *files)
    flags = dict(product.flags)
    product.stop()
    product.flags |= {"--admission-self-signed": "false"}
    product.flags |= dict(zip(("--admission-certificate", "--admission-key"), map(str, files), strict=True))
    trust(product, authority)
    product.start()
    product.wait_until_asked()
    yield files
    product.stop()
    product.flags = flags
    product.start()
    product.wait_until_asked()


def test_two_hundred_reviews_a_second_while_the_certificate_is_replaced(
    product: Product, rest: Rest, authority: Authority, with_files: tuple[Path, Path]
) -> None:
    """None is dropped, none answered wrongly; the API server goes on meanwhile, and new connections see the new one."""
    load = Load(
        product.webhook_port, ssl.create_default_context(cafile=str(authority.certificate)), lambda uid: pod(f"r-{uid}")
    )
    first, before, began = product.certificate(), reviews(product), time.monotonic()
    running = threading.Thread(target=load.run)
    running.start()
    second = authority.server("second", dns=("localhost",), addresses=("127.0.0.1",))
    show(second, *with_files)
    made = [rest.post(f"{PODS}?dryRun=All", pod(f"meanwhile-{number}")).status for number in range(50)]
    running.join()
    took = time.monotonic() - began
    assert wait_for("the new certificate", lambda: product.certificate() != first)
    assert product.certificate().split() == second.certificate.read_text().split()
    assert load.wrong == []
    assert load.answered == REVIEWS_A_SECOND * LOAD_SECONDS
    assert took < LOAD_SECONDS * 1.5
    assert made == [201] * len(made)
    assert reviews(product) == before + load.answered + len(made)
