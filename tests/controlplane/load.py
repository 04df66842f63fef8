"""Admission reviews sent straight to a webhook, at a steady pace."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from .rest import Json

REVIEWS_A_SECOND, LOAD_SECONDS, THREADS = 200, 3.0, 8


@dataclass(slots=True)
class Load:
    """Reviews sent straight to the webhook, so many a second; half of the senders connect anew for each."""

    port: int
    tls: ssl.SSLContext
    pod_of: Callable[[str], Json]
    answered: int = 0
    wrong: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(self._send, range(THREADS)))

    def _send(self, sender: int) -> None:
        connection = self._connection()
        count = int(REVIEWS_A_SECOND * LOAD_SECONDS / THREADS)
        begun = time.monotonic()
        for number in range(count):
            time.sleep(max(0.0, begun + number * LOAD_SECONDS / count - time.monotonic()))
            if sender % 2:
                connection.close()
                connection = self._connection()
            self._note(self._answer(connection, f"{sender}-{number}"))
        connection.close()

    def _connection(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=self.tls, timeout=10)

    def _answer(self, connection: http.client.HTTPSConnection, uid: str) -> str:
        """What is wrong with the answer to a review; "" if nothing is."""
        try:
            connection.request("POST", "/webhook", review(uid, self.pod_of(uid)), {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read()
            found = json.loads(text)["response"]
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            return f"{uid}: {error!r}"
        return (
            "" if response.status == 200 and found["uid"] == uid and found["allowed"] and found["patch"] else str(text)
        )

    def _note(self, wrong: str) -> None:
        with self._lock:
            self.answered += 1
            self.wrong += [wrong] if wrong else []


def review(uid: str, pod: Json) -> str:
    """An AdmissionReview of a new pod."""
    kind = {"group": "", "version": "v1", "resource": "pods"}
    request = {"uid": uid, "operation": "CREATE", "resource": kind, "namespace": "default", "object": pod}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
