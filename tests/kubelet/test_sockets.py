"""Kubelet and device plugin over unix sockets: the sequence that a kubelet 1.36.2 was recorded with, and its failures."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import grpc.aio
import pytest

from cardwise.kube.kubelet import podresources_pb2 as pr
from cardwise.kube.kubelet import rpc
from kubelet.bench import GPU
from kubelet.stage import PATIENT, RefusedError, Stage, StubPlugin, gpu_ids, plugged, run, stage, until

TWO = ["GPU-0000-0", "GPU-0000-1"]
OPTIONS = {"pre_start_required": True, "get_preferred_allocation_available": True}
FIRST_TWO = [{"ID": f"GPU-0000-{n}", "health": "Healthy", "topology": {"nodes": [{}]}} for n in range(2)]
GIVEN = {
    "envs": {"NVIDIA_VISIBLE_DEVICES": ",".join(TWO)},
    "mounts": [{"container_path": "/stub", "host_path": "/opt/stub", "read_only": True}],
    "devices": [{"container_path": "/dev/nvidia0", "host_path": "/dev/null", "permissions": "rw"}],
    "annotations": {"stub/ids": ",".join(TWO)},
}
TO_PLUGIN, TO_KUBELET = "kubelet->plugin", "plugin->kubelet"
RECORDED: list[tuple[str, str, dict[str, Any]]] = [
    (
        TO_KUBELET,
        "Register",
        {"version": "v1beta1", "endpoint": "stub.sock", "resource_name": GPU, "options": OPTIONS},
    ),
    (TO_PLUGIN, "GetDevicePluginOptions", {}),
    (TO_KUBELET, "GetDevicePluginOptions", OPTIONS),
    (TO_PLUGIN, "Register", {}),
    (TO_PLUGIN, "ListAndWatch", {}),
    (TO_KUBELET, "ListAndWatch(stream)", {"count": 80, "unhealthy": [], "first2": FIRST_TWO}),
    (
        TO_PLUGIN,
        "GetPreferredAllocation",
        {"container_requests": [{"available": 80, "must_include_deviceIDs": [], "allocation_size": 2}]},
    ),
    (TO_KUBELET, "GetPreferredAllocation", {"container_responses": [{"deviceIDs": TWO}]}),
    (TO_PLUGIN, "Allocate", {"container_requests": [{"devices_ids": TWO}]}),
    (TO_KUBELET, "Allocate", {"container_responses": [GIVEN]}),
    (TO_PLUGIN, "PreStartContainer", {"devices_ids": TWO}),
    (TO_KUBELET, "PreStartContainer", {}),
]


def comparable(value: Any) -> Any:
    """A message without what a kubelet leaves to chance: the order of devices, and which of them are shown first."""
    if isinstance(value, dict):
        return {key: comparable(one) for key, one in value.items() if key != "available_first3"}
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return sorted(value)
    return [comparable(one) for one in value] if isinstance(value, list) else value


def test_a_plugin_hears_what_a_real_kubelet_was_recorded_to_say() -> None:
    async def main() -> None:
        async with stage() as on, plugged(on, gpu_ids(8), pre_start=True):
            on.bound("p", 2)
            await on.becomes("p", "Running")
            heard = [(one.direction, one.rpc, comparable(one.message)) for one in on.kubelet.calls]
            assert heard == RECORDED
            (given,) = on.kubelet.allocations
            assert (given.node, given.pod, given.container, given.resource) == ("n1", "default/p", "c0", GPU)
            assert (sorted(given.ids), given.envs) == (TWO, GIVEN["envs"])
            assert given.annotations == GIVEN["annotations"]
            assert given.mounts == (("/stub", "/opt/stub", True),)
            assert given.devices == (("/dev/nvidia0", "/dev/null", "rw"),)

    run(main())


def test_inside_an_allocate_the_list_names_the_pod_that_is_admitted() -> None:
    seen: list[dict[str, dict[str, list[str]]]] = []

    async def main() -> None:
        async with stage() as on:

            async def look(_ids: list[str]) -> None:
                seen.append(await on.listed())
                await asyncio.sleep(0.02)

            async with plugged(on, on_allocate=look):
                for name in ("g4", "g2", "g6"):
                    on.bound(name, 1)
                on.bound("plain", 0)
                await on.becomes("plain", "Running")

    run(main())
    first, second, third = ("GPU-0000-0",), ("GPU-0000-1",), ()
    assert [{name: tuple(one["c0"]) for name, one in each.items()} for each in seen] == [
        {"g4": ()},
        {"g4": first, "g2": ()},
        {"g4": first, "g2": second, "g6": third},
    ]


def test_allocates_of_a_node_are_strictly_one_after_another_and_nodes_do_not_wait_for_each_other() -> None:
    running = {"n1": 0, "n2": 0}
    most = {"n1": 0, "n2": 0, "all": 0}

    def counting(node: str) -> Any:
        async def count(_ids: list[str]) -> None:
            running[node] += 1
            most[node] = max(most[node], running[node])
            most["all"] = max(most["all"], sum(running.values()))
            await asyncio.sleep(0.03)
            running[node] -= 1

        return count

    async def main() -> None:
        async with (
            stage("n1", "n2") as on,
            plugged(on, on_allocate=counting("n1")),
            plugged(on, node="n2", on_allocate=counting("n2")),
        ):
            for n in range(8):
                on.bound(f"p{n}", 1, node=f"n{n % 2 + 1}")
            for n in range(8):
                await on.becomes(f"p{n}", "Running")

    run(main())
    assert most == {"n1": 1, "n2": 1, "all": 2}


def test_a_refusal_reaches_the_pod_and_an_event_word_for_word() -> None:
    async def refuse(_ids: list[str]) -> None:
        raise RefusedError("pod default/er is not reserved on this node")

    async def main() -> None:
        async with stage() as on, plugged(on, on_allocate=refuse):
            on.bound("er", 1)
            status = (await on.becomes("er", "Failed"))["status"]
            text = (
                "Allocate failed due to rpc error: code = FailedPrecondition desc = "
                "pod default/er is not reserved on this node, which is unexpected"
            )
            assert (status["reason"], status["message"]) == ("UnexpectedAdmissionError", f"Pod was rejected: {text}")
            (event,) = on.server.list("events")
            assert (event["type"], event["reason"], event["message"]) == ("Warning", "UnexpectedAdmissionError", text)
            assert event["source"] == {"component": "kubelet", "host": "n1"}
            assert await on.listed() == {}

    run(main())


def test_a_plugin_that_dies_within_an_allocate_fails_the_pod_and_holds_up_nobody() -> None:
    inside = asyncio.Event()

    async def hang(_ids: list[str]) -> None:
        inside.set()
        await asyncio.sleep(60)

    async def main() -> None:
        async with stage() as on, plugged(on, on_allocate=hang) as plugin:
            on.bound("p", 1)
            await inside.wait()
            await plugin.stop()
            status = (await on.becomes("p", "Failed"))["status"]
            assert status["message"].startswith("Pod was rejected: Allocate failed due to rpc error: code = ")
            on.bound("plain", 0)
            await on.becomes("plain", "Running")

    run(main())


def test_health_and_absence_of_a_plugin_show_on_the_node() -> None:
    async def main() -> None:
        async with stage() as on, plugged(on) as plugin:
            plugin.change({"GPU-0000-1"})
            await until(lambda: on.amounts() == ("4", "3"))
            await plugin.stop()
            await until(lambda: on.amounts() == ("4", "0"))
            async with plugged(on):
                assert on.amounts() == ("4", "4")

    run(main())


def test_over_a_restart_sockets_go_pods_stay_and_what_was_bound_meanwhile_is_admitted_by_age() -> None:
    async def main() -> None:
        async with stage(pace=PATIENT) as on, plugged(on) as plugin:
            on.bound("a", 1)
            await on.becomes("a", "Running")
            await on.kubelet.stop("n1")
            for name in ("h1", "h2", "h3"):
                on.create(name, 1)
                on.skip(1)
            for name in ("h3", "h1", "h2"):
                on.server.bind(name, "n1")
            await asyncio.sleep(0.05)
            assert plugin.allocated == [["GPU-0000-0"]]
            assert on.amounts() == ("4", "4"), "a kubelet that is down says nothing"
            await on.kubelet.start("n1")
            assert sorted(one.name for one in plugin.directory.iterdir()) == ["kubelet.sock"]
            async with plugged(on, endpoint="again.sock") as again:
                await on.becomes("h3", "Running")
                assert [one.pod for one in on.kubelet.allocations] == [f"default/{n}" for n in ("a", "h1", "h2", "h3")]
                assert again.allocated == [[f"GPU-0000-{n}"] for n in (1, 2, 3)]
                assert (await on.listed())["a"] == {"c0": ["GPU-0000-0"]}

    run(main())


def test_after_a_lost_checkpoint_a_container_that_starts_again_is_allocated_again() -> None:
    async def main() -> None:
        async with stage() as on, plugged(on):
            on.bound("a", 1)
            await on.becomes("a", "Running")
            await on.kubelet.restart("n1", lose_checkpoint=True)
            async with plugged(on, endpoint="again.sock") as again:
                await on.crash("a")
                await until(lambda: again.allocated)
                await until(lambda: restarts(on, "a") == 1)

    run(main())


def restarts(on: Stage, name: str) -> int:
    (one,) = (on.server.get("pods", name) or {})["status"]["containerStatuses"]
    return int(one["restartCount"])


REFUSED = {
    "version": (
        {},
        {"version": "v1alpha"},
        'requested API version "v1alpha" is not supported by kubelet. Supported version is ["v1beta1"]',
    ),
    "name": ({"resource": "gpu"}, {}, 'the ResourceName "gpu" is invalid'),
    "native name": ({"resource": "kubernetes.io/gpu"}, {}, 'the ResourceName "kubernetes.io/gpu" is invalid'),
    "options": (
        {"fail_options": True},
        {},
        "failed to get device plugin options: rpc error: code = Unimplemented desc = no options here",
    ),
}


@pytest.mark.parametrize(("options", "call", "why"), REFUSED.values(), ids=REFUSED)
def test_a_registration_is_refused_in_the_kubelets_words(
    options: dict[str, Any], call: dict[str, str], why: str
) -> None:
    async def main() -> None:
        async with stage() as on:
            plugin = StubPlugin(directory=on.plugin_dir(), ids=gpu_ids(1), **options)
            await plugin.serve()
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await plugin.register(**call)
            assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.UNKNOWN, why)
            assert on.amounts() == (None, None)
            await plugin.stop()

    run(main())


def test_when_an_older_plugin_of_a_resource_ends_the_newer_one_is_let_go_too() -> None:
    async def main() -> None:
        async with stage() as on, plugged(on) as older, plugged(on, gpu_ids(1, 6), endpoint="newer.sock"):
            older.end_list()
            await until(lambda: on.amounts() == ("6", "0"))

    run(main())


async def ask_often(channel: grpc.aio.Channel) -> None:
    for _ in range(100):
        await rpc.LIST.over(channel)(pr.ListPodResourcesRequest())


def test_pod_resources_answers_for_one_pod_and_for_the_node_and_not_too_often() -> None:
    async def main() -> None:
        async with stage() as on, plugged(on):
            on.bound("p", 1)
            await on.becomes("p", "Running")
            async with rpc.channel_to(on.kubelet.pod_resources_socket("n1")) as channel:
                found = await rpc.GET.over(channel)(pr.GetPodResourcesRequest(pod_name="p", pod_namespace="default"))
                (one,) = found.pod_resources.containers[0].devices
                assert (one.resource_name, list(one.device_ids)) == (GPU, ["GPU-0000-0"])
                assert [each.ID for each in one.topology.nodes] == [0]
                all_of = await rpc.ALLOCATABLE.over(channel)(pr.AllocatableResourcesRequest())
                assert [list(each.device_ids) for each in all_of.devices] == [[f"GPU-0000-{n}"] for n in range(4)]
                with pytest.raises(grpc.aio.AioRpcError, match="pod q in namespace default not found"):
                    await rpc.GET.over(channel)(pr.GetPodResourcesRequest(pod_name="q", pod_namespace="default"))
                with pytest.raises(grpc.aio.AioRpcError, match="rejected by rate limit"):
                    await ask_often(channel)

    run(main())
