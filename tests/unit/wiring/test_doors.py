"""The listener's token and certificate: what is served with them, and what is said of files that do not fit."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import aiohttp
import msgspec
import pytest

from collector.config.settings import Settings
from collector.model.errors import ProblemsError
from collector.wiring import doors
from tests.unit.parts import running

PEM = Path(__file__).parents[2] / "fakes" / "listener.pem"
SETTINGS = Settings(state="none", tls_cert_file=str(PEM))


async def test_the_listener_speaks_tls(caplog: pytest.LogCaptureFixture) -> None:
    """With a certificate it is asked over https, by who trusts that, and over nothing older or plainer."""
    caplog.set_level("INFO", logger="tasktrail")
    trusting = ssl.create_default_context(cafile=str(PEM))
    old = ssl.create_default_context(cafile=str(PEM))
    async with running(SETTINGS) as made, aiohttp.ClientSession() as http:
        url = made.url.replace("http://", "https://")
        async with http.get(f"{url}/-/healthy", ssl=trusting) as answer:
            assert (answer.status, answer.headers["X-Content-Type-Options"]) == (200, "nosniff")
        with pytest.warns(DeprecationWarning, match="TLSv1"):
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(aiohttp.ClientConnectorError):
            await http.get(f"{url}/-/healthy", ssl=old)
        with pytest.raises(aiohttp.ClientError):
            await http.get(f"{made.url}/-/healthy")
    assert f"listens on {url.rpartition(':')[0]}:" in caplog.text


@pytest.mark.parametrize(
    ("certificate", "key", "why"),
    [
        ("nothing.pem", None, "cannot be used"),
        ("junk.pem", None, "cannot be used"),
        ("pipe.pem", None, "no regular file"),
        (str(PEM), "junk.pem", "cannot be used"),
        (str(PEM), "locked.pem", "has a password"),
        (None, str(PEM), "without `tls_cert_file`"),
    ],
)
def test_what_is_no_certificate_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, certificate: str | None, key: str | None, why: str
) -> None:
    """Each is one problem at its file, and none waits for a pipe or asks on the terminal."""
    monkeypatch.chdir(tmp_path)
    Path("junk.pem").write_text("junk")
    Path("locked.pem").write_text(LOCKED)
    os.mkfifo("pipe.pem")
    with pytest.raises(ProblemsError) as refused:
        doors.read(msgspec.structs.replace(SETTINGS, tls_cert_file=certificate, tls_key_file=key))
    (problem,) = refused.value.problems
    assert why in problem.message


LOCKED = """\
-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAjBsg3jNTgfQwICCAAw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEKJQWbEY77MlHnWUqNHUUHoEgZBf
u529v3h1aSA8Cu629dHnE4iNTIgwpUyMgNEG4e3bfE7I0Uk7E4dCz2ImXubdGvfl
+277bMEx0Wn6zB/Y4wBScX6KsRYwGJ+yyM/tpumsyXFWQaiYHd/sL8fChPMwDGdJ
OCIyALv7BoqUKGizaUQ92FE0kQ2+o9/gDMjiEkNSPF6sjfny+jnZzIwmP320oc0=
-----END ENCRYPTED PRIVATE KEY-----
"""
