"""The webhook's certificate while the service runs: out of files that others renew, or of our own making."""

from __future__ import annotations

import asyncio
import logging
import ssl

from cardwise.kube.errors import KubeError
from cardwise.scheduler.certificates import CertificateError, ServedPair, ServerCertificate, ServerContext
from cardwise.scheduler.issuing import Pair, issued, names_of
from cardwise.scheduler.selfsigned import SelfSignedError, Settings, ensure
from cardwise.scheduler.world import World

LOOK_SECONDS = 2.0
RENEW_SECONDS = 6 * 3600.0
AGAIN_SECONDS = 5.0

_log = logging.getLogger("cardwise.scheduler")


async def served_certificate(world: World, tasks: asyncio.TaskGroup) -> ssl.SSLContext:
    """The context to serve with, kept fresh by a task. Raises CertificateError and SelfSignedError."""
    admission = world.config.admission
    if admission.certificate is not None and admission.key is not None:
        files = ServerCertificate(admission.certificate, admission.key, where="admission")
        tasks.create_task(_watch(world, files))
        return files.context
    settings = Settings(
        namespace=world.config.namespace,
        service=admission.service,
        secret=admission.secret,
        configuration=admission.webhook_configuration,
    )
    # Until the API server can be reached, a certificate that it does not trust yet is better than no answer.
    first = await _ensured(world, settings)
    names = names_of(settings.service, settings.namespace)
    served = ServerContext(_served(first or issued(names, world.now)))
    tasks.create_task(_renew(world, settings, served, known=first is not None))
    return served.context


async def _watch(world: World, files: ServerCertificate) -> None:
    while True:
        await world.clock.sleep(LOOK_SECONDS)
        if files.refresh():
            _log.info("the webhook shows the certificate that the files hold now")


async def _renew(world: World, settings: Settings, served: ServerContext, *, known: bool) -> None:
    while True:
        await world.clock.sleep(RENEW_SECONDS if known else AGAIN_SECONDS)
        try:
            pair = await _ensured(world, settings)
            if pair is not None and _served(pair) != served.pair:
                served.show(_served(pair))
            known = pair is not None
        except (SelfSignedError, CertificateError) as error:
            _log.error("%s", error)
            known = False


async def _ensured(world: World, settings: Settings) -> Pair | None:
    """The pair, or None where the API server cannot be asked at present."""
    try:
        return await ensure(world.client, settings, world.now)
    except KubeError as error:
        _log.warning("the webhook's certificate could not be seen to: %s", error)
        return None


def _served(pair: Pair) -> ServedPair:
    return ServedPair(certificate=pair.certificate, key=pair.key)
