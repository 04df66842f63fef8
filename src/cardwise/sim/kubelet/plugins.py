"""One node's side of the device-plugin API: plugins register on its socket, and it calls them on theirs."""

from __future__ import annotations

import asyncio
import re
import stat
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import Message

from cardwise.kube.kubelet import deviceplugin_pb2 as dp
from cardwise.kube.kubelet import rpc
from cardwise.sim.kubelet import facts, records
from cardwise.sim.kubelet.allocation import Allocate, Broken, Done, Outcome, Preferred, PreStart
from cardwise.sim.kubelet.devices import Device, PluginOptions
from cardwise.sim.kubelet.objects import Json, Pod

CONNECT_SECONDS = 10.0
PRE_START_SECONDS = 30.0
CLOSING = "rpc error: code = Canceled desc = grpc: the client connection is closing"
_EXTENDED = re.compile(r"(?P<domain>[a-z0-9]([-a-z0-9.]*[a-z0-9])?)/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")

Note = Callable[[str, str, "Message | Json"], None]
"""Records a message: direction, method, and the message or what stands for it."""
Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


@dataclass(slots=True, eq=False)
class _Plugin:
    """A plugin that registered."""

    channel: grpc.aio.Channel
    watching: asyncio.Task[None] | None = None


class Plugins:
    """The plugins of one node. `tell` hears what they say, `note` keeps it, `granted` hears what they gave."""

    def __init__(
        self,
        directory: Path,
        *,
        tell: Callable[[facts.Fact], None],
        note: Note,
        granted: Callable[[Pod, Allocate, dp.ContainerAllocateResponse], None],
        spawn: Spawn,
    ) -> None:
        self.directory = directory
        self._tell = tell
        self._note = note
        self._granted = granted
        self._spawn = spawn
        self._plugins: dict[str, _Plugin] = {}
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        """Removes every socket that is there, and listens for plugins on its own."""
        self.directory.mkdir(parents=True, exist_ok=True)
        remove_sockets(self.directory)
        self._server = rpc.server_at(
            self.directory / rpc.KUBELET_SOCKET, rpc.REGISTRATION, rpc.REGISTER.served(self._register)
        )
        await self._server.start()

    async def stop(self) -> None:
        """As when a kubelet's process ends: nothing is said to anybody."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop(None)
        plugins, self._plugins = self._plugins, {}
        for plugin in plugins.values():
            await plugin.channel.close()

    async def call(self, call: facts.Call) -> Outcome:
        """Asks the plugin of a resource. There is no time-out but for PreStartContainer, as in a real kubelet."""
        plugin = self._plugins.get(call.rpc.resource)
        if plugin is None:
            return Broken(text=f"endpoint {call.rpc.resource} has been stopped")
        try:
            return await self._ask(plugin.channel, call)
        except grpc.aio.AioRpcError as error:
            return Broken(text=go_text(error))
        except ConnectionAbortedError as error:
            return Broken(text=str(error))

    async def _ask(self, channel: grpc.aio.Channel, call: facts.Call) -> Outcome:
        what = call.rpc
        if isinstance(what, Allocate):
            asked = dp.AllocateRequest(container_requests=[dp.ContainerAllocateRequest(devices_ids=what.ids)])
            given = await self._say(rpc.ALLOCATE, channel, asked)
            if not given.container_responses:
                return Broken(text=f"no containers return in allocation response {given}".rstrip())
            self._granted(call.pod, what, given.container_responses[0])
            return Done()
        if isinstance(what, PreStart):
            starting = dp.PreStartContainerRequest(devices_ids=what.ids)
            await self._say(rpc.PRE_START, channel, starting, PRE_START_SECONDS)
            return Done()
        one = dp.ContainerPreferredAllocationRequest(
            available_deviceIDs=what.available, must_include_deviceIDs=what.must_include, allocation_size=what.size
        )
        preferred = await self._say(rpc.PREFERRED, channel, dp.PreferredAllocationRequest(container_requests=[one]))
        if not preferred.container_responses:
            return Preferred()
        return Preferred(ids=frozenset(preferred.container_responses[0].deviceIDs))

    async def _say(
        self, method: rpc.Unary[rpc.Q, rpc.A], channel: grpc.aio.Channel, asked: rpc.Q, seconds: float | None = None
    ) -> rpc.A:
        self._note(records.TO_PLUGIN, method.name, asked)
        try:
            answer = await method.over(channel)(asked, timeout=seconds)
        except grpc.aio.AioRpcError as error:
            self._note(records.TO_KUBELET, method.name, {"error": go_text(error)})
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # The channel was closed under the call, since the plugin's list ended.
            self._note(records.TO_KUBELET, method.name, {"error": CLOSING})
            raise ConnectionAbortedError(CLOSING) from None
        self._note(records.TO_KUBELET, method.name, answer)
        return answer

    async def _register(self, asked: dp.RegisterRequest, context: rpc.Context) -> dp.Empty:
        self._note(records.TO_KUBELET, rpc.REGISTER.name, asked)
        error = _objection(asked) or await self._connect(asked)
        if error:
            await context.abort(grpc.StatusCode.UNKNOWN, error)
        self._note(records.TO_PLUGIN, rpc.REGISTER.name, dp.Empty())
        return dp.Empty()

    async def _connect(self, asked: dp.RegisterRequest) -> str:
        socket = self.directory / asked.endpoint
        plugin = _Plugin(rpc.channel_to(socket))
        self._plugins[asked.resource_name] = plugin
        try:
            await asyncio.wait_for(plugin.channel.channel_ready(), CONNECT_SECONDS)
            options = await self._say(rpc.OPTIONS, plugin.channel, dp.Empty(), CONNECT_SECONDS)
        except TimeoutError:
            error = f"failed to dial device plugin: {socket}: context deadline exceeded"
        except grpc.aio.AioRpcError as failed:
            error = f"failed to get device plugin options: {go_text(failed)}"
        except ConnectionAbortedError as failed:
            error = f"failed to get device plugin options: {failed}"
        else:
            self._tell(facts.PluginConnected(resource=asked.resource_name, options=_options(options)))
            plugin.watching = self._spawn(self._watch(asked.resource_name, plugin))
            return ""
        if self._plugins.get(asked.resource_name) is plugin:
            del self._plugins[asked.resource_name]
        await plugin.channel.close()
        return error

    async def _watch(self, resource: str, plugin: _Plugin) -> None:
        self._note(records.TO_PLUGIN, rpc.LIST_AND_WATCH.name, dp.Empty())
        try:
            async for listed in rpc.LIST_AND_WATCH.over(plugin.channel)(dp.Empty()):
                self._note(records.TO_KUBELET, f"{rpc.LIST_AND_WATCH.name}(stream)", listed)
                self._tell(facts.DevicesListed(resource=resource, devices=tuple(map(_device, listed.devices))))
        except grpc.aio.AioRpcError as error:
            self._note(records.TO_KUBELET, f"{rpc.LIST_AND_WATCH.name}(stream)", {"error": go_text(error)})
        # The newest plugin of the resource is let go, also where an older one's list ended: a real kubelet does so.
        newest = self._plugins.pop(resource, None)
        if newest is not None:
            self._tell(facts.PluginLost(resource=resource))
            await newest.channel.close()
        if newest is not plugin:
            await plugin.channel.close()


def remove_sockets(directory: Path) -> None:
    """What a kubelet does in its plugins' directory when it starts."""
    for path in directory.iterdir():
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink(missing_ok=True)


def go_text(error: grpc.aio.AioRpcError) -> str:
    """An error as Go's gRPC prints it."""
    code = error.code()
    name = "Canceled" if code is grpc.StatusCode.CANCELLED else code.name.title().replace("_", "")
    return f"rpc error: code = {name} desc = {error.details() or ''}"


def _objection(asked: dp.RegisterRequest) -> str:
    if asked.version != rpc.VERSION:
        supported = f'Supported version is ["{rpc.VERSION}"]'
        return f'requested API version "{asked.version}" is not supported by kubelet. {supported}'
    match = _EXTENDED.fullmatch(asked.resource_name)
    if match is None or match["domain"].endswith("kubernetes.io") or match["domain"].startswith("requests."):
        return f'the ResourceName "{asked.resource_name}" is invalid'
    return ""


def _options(message: dp.DevicePluginOptions) -> PluginOptions:
    return PluginOptions(pre_start=message.pre_start_required, preferred=message.get_preferred_allocation_available)


def _device(message: dp.Device) -> Device:
    numa = tuple(one.ID for one in message.topology.nodes)
    return Device(id=message.ID, healthy=message.health == rpc.HEALTHY, numa=numa)
