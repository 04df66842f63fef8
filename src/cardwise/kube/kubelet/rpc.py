"""The kubelet's gRPC methods as values: each can be called over a channel, and served.

https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from cardwise.kube.kubelet import deviceplugin_pb2 as dp
from cardwise.kube.kubelet import podresources_pb2 as pr

Q = TypeVar("Q", bound=Message)
A = TypeVar("A", bound=Message)
Served: TypeAlias = "tuple[str, grpc.RpcMethodHandler[Any, Any]]"
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
"""What a served method gets besides the request."""

VERSION = "v1beta1"
"""The one version of the device-plugin API."""
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"
PLUGIN_DIR = Path("/var/lib/kubelet/device-plugins")
"""Where plugins put their sockets. The kubelet removes all sockets here when it starts."""
KUBELET_SOCKET = "kubelet.sock"
"""Its own socket, in the plugins' directory, and in that of pod-resources."""
POD_RESOURCES_DIR = Path("/var/lib/kubelet/pod-resources")

_CHANNEL_OPTIONS = (("grpc.default_authority", "localhost"),)
"""gRPC would send the socket's path as the authority, which servers in other languages refuse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unary(Generic[Q, A]):
    """A method with one answer."""

    service: str
    name: str
    request: type[Q]
    answer: type[A]

    def over(self, channel: grpc.aio.Channel) -> grpc.aio.UnaryUnaryMultiCallable[Q, A]:
        """What calls it over a channel; raises `grpc.aio.AioRpcError`."""
        return channel.unary_unary(
            f"/{self.service}/{self.name}",
            request_serializer=self.request.SerializeToString,
            response_deserializer=self.answer.FromString,
        )

    def served(self, serve: Callable[[Q, Context], Awaitable[A]]) -> Served:
        """What a server needs to answer it with a coroutine function of request and context."""
        handler = grpc.unary_unary_rpc_method_handler(
            serve, request_deserializer=self.request.FromString, response_serializer=self.answer.SerializeToString
        )
        return self.name, handler


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream(Generic[Q, A]):
    """A method with any number of answers."""

    service: str
    name: str
    request: type[Q]
    answer: type[A]

    def over(self, channel: grpc.aio.Channel) -> grpc.aio.UnaryStreamMultiCallable[Q, A]:
        """What calls it over a channel; raises `grpc.aio.AioRpcError`, also later, between two answers."""
        return channel.unary_stream(
            f"/{self.service}/{self.name}",
            request_serializer=self.request.SerializeToString,
            response_deserializer=self.answer.FromString,
        )

    def served(self, serve: Callable[[Q, Context], AsyncIterator[A]]) -> Served:
        """What a server needs to answer it with an asynchronous generator of request and context."""
        handler = grpc.unary_stream_rpc_method_handler(
            serve, request_deserializer=self.request.FromString, response_serializer=self.answer.SerializeToString
        )
        return self.name, handler


REGISTRATION = "v1beta1.Registration"
REGISTER = Unary(service=REGISTRATION, name="Register", request=dp.RegisterRequest, answer=dp.Empty)

DEVICE_PLUGIN = "v1beta1.DevicePlugin"
OPTIONS = Unary(service=DEVICE_PLUGIN, name="GetDevicePluginOptions", request=dp.Empty, answer=dp.DevicePluginOptions)
LIST_AND_WATCH = Stream(service=DEVICE_PLUGIN, name="ListAndWatch", request=dp.Empty, answer=dp.ListAndWatchResponse)
PREFERRED = Unary(
    service=DEVICE_PLUGIN,
    name="GetPreferredAllocation",
    request=dp.PreferredAllocationRequest,
    answer=dp.PreferredAllocationResponse,
)
ALLOCATE = Unary(service=DEVICE_PLUGIN, name="Allocate", request=dp.AllocateRequest, answer=dp.AllocateResponse)
PRE_START = Unary(
    service=DEVICE_PLUGIN,
    name="PreStartContainer",
    request=dp.PreStartContainerRequest,
    answer=dp.PreStartContainerResponse,
)

POD_RESOURCES = "v1.PodResourcesLister"
LIST = Unary(service=POD_RESOURCES, name="List", request=pr.ListPodResourcesRequest, answer=pr.ListPodResourcesResponse)
GET = Unary(service=POD_RESOURCES, name="Get", request=pr.GetPodResourcesRequest, answer=pr.GetPodResourcesResponse)
ALLOCATABLE = Unary(
    service=POD_RESOURCES,
    name="GetAllocatableResources",
    request=pr.AllocatableResourcesRequest,
    answer=pr.AllocatableResourcesResponse,
)


def channel_to(socket: Path) -> grpc.aio.Channel:
    """A channel over a unix socket; it connects with the first call."""
    return grpc.aio.insecure_channel(f"unix:{socket}", options=_CHANNEL_OPTIONS)


def server_at(socket: Path, service: str, *methods: Served) -> grpc.aio.Server:
    """A server of one service on a unix socket, to be started. Raises RuntimeError where the socket cannot be made."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, dict(methods)),))
    server.add_insecure_port(f"unix:{socket}")
    return server
