"""The kubelet's messages on the wire: numbers and names are those that kubelets and plugins of any version use."""

from __future__ import annotations

import pytest
from google.protobuf.descriptor import FileDescriptor

from cardwise.kube.kubelet import deviceplugin_pb2 as dp
from cardwise.kube.kubelet import podresources_pb2 as pr
from cardwise.kube.kubelet import rpc

FIELDS = {
    "v1beta1.RegisterRequest": "version=1 endpoint=2 resource_name=3 options=4",
    "v1beta1.DevicePluginOptions": "pre_start_required=1 get_preferred_allocation_available=2",
    "v1beta1.ListAndWatchResponse": "devices=1",
    "v1beta1.Device": "ID=1 health=2 topology=3",
    "v1beta1.ContainerPreferredAllocationRequest": ("available_deviceIDs=1 must_include_deviceIDs=2 allocation_size=3"),
    "v1beta1.ContainerPreferredAllocationResponse": "deviceIDs=1",
    "v1beta1.ContainerAllocateRequest": "devices_ids=1",
    "v1beta1.ContainerAllocateResponse": "envs=1 mounts=2 devices=3 annotations=4 cdi_devices=5",
    "v1beta1.Mount": "container_path=1 host_path=2 read_only=3",
    "v1beta1.DeviceSpec": "container_path=1 host_path=2 permissions=3",
    "v1beta1.PreStartContainerRequest": "devices_ids=1",
    "v1.ListPodResourcesResponse": "pod_resources=1",
    "v1.AllocatableResourcesResponse": "devices=1 cpu_ids=2",
    "v1.GetPodResourcesRequest": "pod_name=1 pod_namespace=2",
    "v1.PodResources": "name=1 namespace=2 containers=3",
    "v1.ContainerResources": "name=1 devices=2 cpu_ids=3",
    "v1.ContainerDevices": "resource_name=1 device_ids=2 topology=3",
}


def messages(file: FileDescriptor) -> dict[str, str]:
    return {
        one.full_name: " ".join(f"{each.name}={each.number}" for each in one.fields)
        for one in file.message_types_by_name.values()
    }


@pytest.mark.parametrize(("name", "fields"), FIELDS.items(), ids=FIELDS)
def test_fields_have_their_numbers(name: str, fields: str) -> None:
    assert (messages(dp.DESCRIPTOR) | messages(pr.DESCRIPTOR))[name] == fields


def test_a_registration_is_these_very_bytes() -> None:
    asked = dp.RegisterRequest(version="v1beta1", endpoint="a.sock", resource_name="x/y")
    assert asked.SerializeToString() == b"\x0a\x07v1beta1\x12\x06a.sock\x1a\x03x/y"


@pytest.mark.parametrize("file", [dp.DESCRIPTOR, pr.DESCRIPTOR], ids=["deviceplugin", "podresources"])
def test_every_method_that_is_called_stands_in_the_proto_with_its_types(file: FileDescriptor) -> None:
    table = [one for one in vars(rpc).values() if isinstance(one, rpc.Unary | rpc.Stream)]
    for service in file.services_by_name.values():
        ours = {
            (one.name, one.request.DESCRIPTOR, one.answer.DESCRIPTOR)
            for one in table
            if one.service == service.full_name
        }
        assert ours == {(one.name, one.input_type, one.output_type) for one in service.methods}
