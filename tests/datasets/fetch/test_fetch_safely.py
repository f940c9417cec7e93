"""Encrypted first, certificates checked, proxies honoured."""

import shutil

import pytest

from support.bad_server import BadServer, Reply, make_certificate
from unisono.datasets.fetch import Remote
from unisono.datasets.fetch.response import addresses
from unisono.errors import DataError

needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="no openssl program to make a certificate with"
)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def encrypted(certificate):
    with BadServer(certificate) as started:
        yield started


@pytest.fixture
def trusted(certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))


def test_encrypted_addresses_come_first():
    urls = ("http://a.org/x", "https://b.org/x", "http://c.org:80/x", "http://127.0.0.1:9/x")
    https = ("https://a.org/x", "https://b.org/x", "https://c.org/x", "http://127.0.0.1:9/x")
    assert addresses(Remote("x", urls)) == https
    assert addresses(Remote("x", urls, md5="0" * 32)) == (*https, urls[0], urls[2])


@needs_openssl
def test_a_trusted_server_is_believed(encrypted, get, trusted, body):
    url = encrypted.serve("a.gz", Reply(body))
    assert get(Remote("a.gz", (url,))).path.read_bytes() == body


@needs_openssl
def test_a_break_within_an_encrypted_connection_is_continued(
    encrypted, get, trusted, known, body
):
    url = encrypted.serve("a.gz", Reply(body, break_after=70_000), Reply(body))
    assert get(known(url)).path.read_bytes() == body
    assert encrypted.ranges("a.gz") == ["", "bytes=70000-"]


@needs_openssl
def test_a_certificate_nobody_vouches_for_is_refused(encrypted, get, known, body):
    url = encrypted.serve("a.gz", Reply(body))
    with pytest.raises(DataError, match="its certificate is not trusted"):
        get(known(url))
    assert encrypted.asked == []
    assert get.pauses == []


@needs_openssl
def test_a_redirect_never_gives_up_encryption(encrypted, server, get, trusted, known, body):
    there = server.serve("a.gz", Reply(body))
    url = encrypted.serve("a.gz", Reply(status=302, headers={"Location": there}))
    with pytest.raises(DataError, match="which is not encrypted"):
        get(known(url))
    assert server.asked == []


def test_a_server_that_speaks_no_tls(server, get, known):
    url = server.url("a.gz").replace("http:", "https:")
    with pytest.raises(DataError, match="no encrypted connection"):
        get(known(url))


def test_http_is_tried_as_https_first_and_through_the_proxy(
    server, get, known, body, monkeypatch
):
    for scheme in ("http", "https"):
        monkeypatch.setenv(f"{scheme}_proxy", server.url(""))
    server.serve("a.gz", Reply(body))
    fetched = get(known("http://corpus.invalid/a.gz"))
    assert fetched.url == "http://corpus.invalid/a.gz"
    assert [asked.path for asked in server.asked] == ["corpus.invalid:443", "/a.gz"]


def test_without_checksum_http_is_not_trusted(server, get, body, monkeypatch):
    for scheme in ("http", "https"):
        monkeypatch.setenv(f"{scheme}_proxy", server.url(""))
    server.serve("a.gz", Reply(body))
    with pytest.raises(DataError, match="https://corpus.invalid/a.gz: no connection"):
        get(Remote("a.gz", ("http://corpus.invalid/a.gz",)))
    assert [asked.path for asked in server.asked] == ["corpus.invalid:443"]
