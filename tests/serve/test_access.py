"""Keys and rates."""

import pytest

from unisono.errors import ConfigError
from unisono.serve.access import MOST_CLIENTS, ApiKeys, RateLimit
from unisono.serve.requests import RequestError


def keys_of(tmp_path, text):
    path = tmp_path / "keys"
    path.write_text(text, "utf-8")
    return ApiKeys(path)


def refused(keys, key):
    with pytest.raises(RequestError) as found:
        keys.check(key)
    return found.value.status, str(found.value)


def test_only_a_key_of_the_file_is_accepted(tmp_path):
    keys = keys_of(tmp_path, "# ours\nfirst-key-1\n\nsecond-key # for tests\n")
    assert keys.are_required
    for key in ("first-key-1", "second-key"):
        keys.check(key)
    assert refused(keys, "") == (403, "an API key is required: send it as api_key")
    for key in ("first-key-", "# ours", "second-key # for tests", "\ud800"):
        assert refused(keys, key) == (403, "Invalid API key")


def test_without_a_file_everybody_may_ask():
    keys = ApiKeys()
    assert not keys.are_required
    keys.check("")


@pytest.mark.parametrize(
    ("text", "words"), [("", "no key"), ("# none\n", "no key"), ("short\n", "line 1")]
)
def test_a_file_without_good_keys_is_refused(tmp_path, text, words):
    with pytest.raises(ConfigError, match=words):
        keys_of(tmp_path, text)


def test_a_missing_file_of_keys_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        ApiKeys(tmp_path / "none")
    (tmp_path / "bytes").write_bytes(b"\xff\xff")
    with pytest.raises(ConfigError, match="cannot be read"):
        ApiKeys(tmp_path / "bytes")


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_so_many_requests_a_minute_and_no_more():
    clock = Clock()
    rate = RateLimit(3, clock)
    for _ in range(3):
        rate.count("a")
    rate.count("b")
    with pytest.raises(RequestError, match="3 per 1 minute") as found:
        rate.count("a")
    assert (found.value.status, found.value.retry_seconds) == (429, 20)
    clock.now += 20
    rate.count("a")
    with pytest.raises(RequestError):
        rate.count("a")
    clock.now += 60
    for _ in range(3):
        rate.count("a")


def test_strangers_cannot_fill_the_memory_of_the_limit():
    rate = RateLimit(1)
    for number in range(MOST_CLIENTS + 10):
        rate.count(str(number))
    assert len(rate._paid_back) == MOST_CLIENTS
