"""Writing: create, update, patch, delete, bind. Every check and the write that follows it are one step."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cardwise.sim.apiserver import errors, patch, pods, strategic, views
from cardwise.sim.apiserver.calls import Call, version_number
from cardwise.sim.apiserver.checks import check_shape, metadata_causes
from cardwise.sim.apiserver.errors import RefusedError
from cardwise.sim.apiserver.kinds import Kind, all_but_status, kind_of, only_status
from cardwise.sim.apiserver.objects import (
    Json,
    key_of,
    metadata_of,
    name_of,
    namespace_of,
    timestamp,
    with_metadata,
    without,
    without_nulls,
)
from cardwise.sim.apiserver.resources import NAMESPACES, PODS, PRIORITY_CLASSES, Resource
from cardwise.sim.apiserver.store import Store

NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # no vowels: no words
GENERATED_NAME_LENGTH = 63
SUCCESS: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
PATCHES: dict[str, Callable[[Any, Any], Any]] = {
    patch.JSON: patch.apply,
    patch.MERGE: patch.merge,
    patch.STRATEGIC: strategic.merge,
}
_KEPT = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What a deletion may ask: a grace, and that the object is still this one. None and "" demand nothing."""

    grace_seconds: int | None = None
    uid: str = ""
    resource_version: str = ""


class Writes:
    """All that changes the store. Objects come and go in stored form; raises RefusedError."""

    def __init__(self, store: Store, *, clock: Callable[[], float], merge_binding_labels: bool) -> None:
        self._store = store
        self._clock = clock
        self._merge_binding_labels = merge_binding_labels

    def draft(self, call: Call, body: Any) -> Json:
        """The new object as webhooks see it: read, with defaults, and nothing yet of what only the store can say."""
        value = read_object(body, call.resource)
        value = _placed(value, call)
        if metadata_of(value).get("resourceVersion"):
            raise RefusedError(500, "resourceVersion should not be set on objects to be created")
        views.check_new(value, call.resource)
        value = views.stored(value, call.resource)
        value = with_metadata(value, **dict.fromkeys((*_KEPT, "resourceVersion")))
        self._check_namespace(call)
        value = kind_of(call.resource.stored_as).default(value)
        return self._with_priority(value) if call.resource is PODS else value

    def create(self, call: Call, draft: Json) -> Json:
        """Store the draft, which a webhook may have changed since; answers the object."""
        resource, kind = call.resource, kind_of(call.resource.stored_as)
        kind.shape(draft)
        value = kind.created(kind.default(draft), self._clock())
        value = _named(value)
        _refuse(resource, name_of(value), [*metadata_causes(value), *kind.causes(value)])
        value = with_metadata(
            value,
            uid=str(uuid.uuid4()),
            creationTimestamp=timestamp(self._clock()),
            generation=1 if resource.counts_generations else None,
        )
        key = key_of(namespace_of(value), name_of(value))
        with self._store.locked():
            self._check_namespace(call)
            if self._store.get(resource.stored_as, key) is not None:
                raise errors.already_exists(resource, name_of(value))
            return value if call.dry_run else self._store.put(resource.stored_as, key, value)

    def update(self, call: Call, body: Any) -> tuple[Json, bool]:
        """Put the object in the place of the stored one, or of none where the kind allows; True where it is new."""
        value = _placed(read_object(body, call.resource), call)
        _check_name(call, name_of(value))
        value = kind_of(call.resource.stored_as).default(views.stored(value, call.resource))
        with self._store.locked():
            old = self._store.get(call.resource.stored_as, call.key)
            if old is None:
                if not call.resource.creates_on_update or call.subresource:
                    raise errors.not_found(call.resource, call.name)
                return self.create(call, self.draft(call, body)), True
            uid = metadata_of(value).get("uid", "")
            if uid and uid != metadata_of(old)["uid"]:
                raise errors.uid_conflict(call.resource, call.key, call.name, uid, metadata_of(old)["uid"])
            return self._replace(call, old, value), False

    def patch(self, call: Call, operations: Any, content_type: str) -> Json:
        """The object after the patch (merge, JSON or strategic merge)."""
        if content_type not in PATCHES:
            raise errors.unsupported_patch()
        with self._store.locked():
            old = self._store.get(call.resource.stored_as, call.key)
            if old is None:
                raise errors.not_found(call.resource, call.name)
            value = _placed(_read_patched(_patched(call, old, operations, content_type), call.resource), call)
            _check_name(call, name_of(value))
            uid = metadata_of(value).get("uid", "")
            if uid != metadata_of(old)["uid"]:
                cause = errors.bad_value("metadata.uid", uid, "field is immutable")
                raise errors.invalid(call.resource, call.name, [cause])
            return self._replace(
                call, old, kind_of(call.resource.stored_as).default(views.stored(value, call.resource))
            )

    def bind(self, call: Call, body: Any) -> None:
        """Give the pod its node, and the annotations and labels of the Binding, in one write."""
        binding: Json = body if isinstance(body, dict) else {}
        name = call.name or name_of(binding)
        pods.check_binding(name, binding)
        key = key_of(call.namespace, name)
        with self._store.locked():
            pod = self._store.get(PODS.stored_as, key)
            if pod is None:
                raise errors.not_found(PODS, name)
            demanded, metadata = metadata_of(binding), metadata_of(pod)
            if demanded.get("uid") and demanded["uid"] != metadata["uid"]:
                raise errors.uid_conflict(PODS, key, name, demanded["uid"], metadata["uid"])
            if demanded.get("resourceVersion") and demanded["resourceVersion"] != metadata["resourceVersion"]:
                raise errors.conflict(PODS, name, errors.MODIFIED)
            bound = pods.bound(pod, binding, self._clock(), merge_labels=self._merge_binding_labels)
            if not call.dry_run:
                self._store.put(PODS.stored_as, key, bound)

    def delete(self, call: Call, demands: Demands) -> Json:
        """Delete the object, or mark it for its end; answers what a server answers, an object or a Status."""
        resource = call.resource
        with self._store.locked():
            old = self._store.get(resource.stored_as, call.key)
            if old is None:
                raise errors.not_found(resource, call.name)
            _check_demands(resource, old, demands)
            value = self._marked(resource, old, demands)
            if call.dry_run:
                return value
            return self._deleted(call, old, value)

    def delete_all(self, call: Call, selected: list[Json], demands: Demands) -> None:
        """Delete these objects as each would be deleted alone."""
        for each in selected:
            one = Call(
                verb="delete",
                resource=call.resource,
                namespace=namespace_of(each),
                name=name_of(each),
                query=call.query,
            )
            self.delete(one, demands)

    def _replace(self, call: Call, old: Json, value: Json) -> Json:
        """The update itself: what the client may not say is the stored object's, and no change is no write."""
        resource, kind = call.resource, kind_of(call.resource.stored_as)
        self._check_version(resource, old, metadata_of(value).get("resourceVersion", ""))
        kind.shape(value)
        if call.subresource:
            value = only_status(old, value)
        elif "status" in resource.subresources:
            value = all_but_status(old, kind.inherit(old, value))
        value = with_metadata(value, **{name: metadata_of(old).get(name) for name in (*_KEPT, "resourceVersion")})
        causes = [] if call.subresource else kind.change_causes(old, value)
        _refuse(resource, call.name, causes or [*metadata_causes(value), *_lasting_causes(kind, value)])
        if value == old:
            return old
        if resource.counts_generations and _body(value) != _body(old):
            value = with_metadata(value, generation=metadata_of(old).get("generation", 0) + 1)
        return value if call.dry_run else self._stored_or_gone(call, value)

    def _stored_or_gone(self, call: Call, value: Json) -> Json:
        """An object that only waited for its last finalizer goes with it."""
        stored_as, metadata = call.resource.stored_as, metadata_of(value)
        ends = metadata.get("deletionTimestamp") and not metadata.get("finalizers")
        if ends and not metadata.get("deletionGracePeriodSeconds"):
            self._store.remove(stored_as, call.key)
            return value
        return self._store.put(stored_as, call.key, value)

    def _check_version(self, resource: Resource, old: Json, version: str) -> None:
        if version in ("", "0"):
            if not resource.updates_unread:
                raise errors.must_have_version(resource, name_of(old))
        elif version_number(version) != int(metadata_of(old)["resourceVersion"]):
            raise errors.conflict(resource, name_of(old), errors.MODIFIED)

    def _marked(self, resource: Resource, old: Json, demands: Demands) -> Json:
        now_seconds = self._clock()
        if resource is PODS:
            return pods.terminating(old, pods.grace_of(old, demands.grace_seconds), now_seconds)
        if metadata_of(old).get("deletionTimestamp"):
            return old
        return with_metadata(old, deletionTimestamp=timestamp(now_seconds), deletionGracePeriodSeconds=0)

    def _deleted(self, call: Call, old: Json, value: Json) -> Json:
        resource, metadata = call.resource, metadata_of(value)
        waits = bool(metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds"))
        if value != old and (waits or resource is PODS):  # a pod shows its end even where it goes at once
            value = self._store.put(resource.stored_as, call.key, value)
        if waits:
            return value
        if resource is NAMESPACES:
            self._empty_namespace(call.name)
        value = self._store.remove(resource.stored_as, call.key)
        return value if resource.returns_deleted or resource is NAMESPACES else _gone(resource, value)

    def _empty_namespace(self, namespace: str) -> None:
        """What the namespace controller of a cluster does bit by bit."""
        for stored_as, key in self._store.keys_in(namespace):
            self._store.remove(stored_as, key)

    def _check_namespace(self, call: Call) -> None:
        if call.namespace and self._store.get(NAMESPACES.stored_as, call.namespace) is None:
            raise errors.not_found(NAMESPACES, call.namespace)

    def _with_priority(self, pod: Json) -> Json:
        spec = pod["spec"]
        named = spec.get("priorityClassName", "")
        if not named:
            return pod | {"spec": {"priority": 0} | spec}
        found = self._store.get(PRIORITY_CLASSES.stored_as, named)
        if found is None:
            raise errors.forbidden(PODS, name_of(pod), f"no PriorityClass with name {named} was found")
        taken = {"priority": found["value"], "preemptionPolicy": found["preemptionPolicy"]}
        return pod | {"spec": spec | taken}


def read_object(body: Any, resource: Resource) -> Json:
    """The body as an object of this resource, without nulls; raises RefusedError (400)."""
    if not isinstance(body, dict):
        raise errors.bad_request(f"the object provided is unrecognized (must be of type {resource.kind})")
    value: Json = without_nulls(body)
    kind = value.get("kind", resource.kind)
    version = value.get("apiVersion", resource.api_version)
    if (kind, version) != (resource.kind, resource.api_version):
        why = f"converting ({version}.{kind}) to ({resource.kind}): unknown conversion"
        raise errors.bad_request(f'{kind} in version "{version}" cannot be handled as a {resource.kind}: {why}')
    check_shape(value, resource)
    kind_of(resource.stored_as).shape(value)
    rest = without(value, "kind", "apiVersion", "metadata", "spec", "status")
    parts = {name: value[name] for name in ("spec", "status") if name in value}
    named: Json = {"kind": resource.kind, "apiVersion": resource.api_version}
    return with_metadata(named | {"metadata": metadata_of(value)} | parts | rest)


def _read_patched(body: Any, resource: Resource) -> Json:
    try:
        return read_object(body, resource)
    except RefusedError as error:
        raise errors.patched_badly(str(error)) from error


def _placed(value: Json, call: Call) -> Json:
    """The object in the namespace of the path; raises RefusedError (400) where it names another one."""
    own = namespace_of(value)
    if call.namespace and own not in ("", call.namespace):
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    return with_metadata(value, namespace=call.namespace)


def _check_name(call: Call, name: str) -> None:
    if name != call.name:
        raise errors.bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")


def _named(value: Json) -> Json:
    """With a name made up where only its beginning is given."""
    base = metadata_of(value).get("generateName", "")
    if name_of(value) or not base:
        return value
    ending = "".join(secrets.choice(NAME_LETTERS) for _ in range(5))
    return with_metadata(value, name=base[: GENERATED_NAME_LENGTH - len(ending)] + ending)


def _refuse(resource: Resource, name: str, causes: list[errors.Cause]) -> None:
    if causes:
        raise errors.invalid(resource, name, causes)


def _lasting_causes(kind: Kind, value: Json) -> list[errors.Cause]:
    """What must hold of the whole object; a pod's spec was checked when it came, and what changed of it just now."""
    return [] if value["kind"] == PODS.kind else list(kind.causes(value))


def _body(value: Json) -> Json:
    return without(value, "metadata", "status")


def _patched(call: Call, old: Json, operations: Any, content_type: str) -> Any:
    shown = views.shown(old, call.resource)
    if content_type == patch.JSON:
        _expect(operations, list, "[]handlers.jsonPatchOp")
    else:
        _expect(operations, dict, "map[string]interface {}")
    try:
        return PATCHES[content_type](shown, operations)
    except patch.PatchError:
        raise errors.patch_fails() from None
    except ValueError as error:
        raise errors.bad_request(str(error)) from None


def _expect(operations: Any, wanted: type, go_type: str) -> None:
    if isinstance(operations, wanted):
        return
    found = "array" if isinstance(operations, list) else "object"
    raise errors.bad_request(f"error decoding patch: json: cannot unmarshal {found} into Go value of type {go_type}")


def _check_demands(resource: Resource, old: Json, demands: Demands) -> None:
    metadata = metadata_of(old)
    if demands.uid and demands.uid != metadata["uid"]:
        why = (
            f"the UID in the precondition ({demands.uid}) does not match the UID in record ({metadata['uid']})."
            " The object might have been deleted and then recreated"
        )
        raise errors.precondition_conflict(resource, name_of(old), why)
    if demands.resource_version and demands.resource_version != metadata["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({demands.resource_version}) does not match the ResourceVersion"
            f" in record ({metadata['resourceVersion']}). The object might have been modified"
        )
        raise errors.precondition_conflict(resource, name_of(old), why)


def _gone(resource: Resource, value: Json) -> Json:
    named = {"name": name_of(value), "group": resource.group, "kind": resource.plural, "uid": metadata_of(value)["uid"]}
    return SUCCESS | {"details": {name: text for name, text in named.items() if text}}
