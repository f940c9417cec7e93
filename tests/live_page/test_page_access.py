"""Who may see the page."""

import pytest

from unisono.live_page.access import PageAccess, cookie_name


@pytest.mark.parametrize(
    ("host", "admitted"),
    [
        ("localhost:6006", True),
        ("LOCALHOST", True),
        ("127.0.0.1:1", True),
        ("[::1]:6006", True),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example:6006", False),
        ("localhost:6006@evil.example", False),
        ("", False),
    ],
)
def test_without_a_token_only_names_of_this_machine_lead_here(host, admitted):
    assert PageAccess().admits({"host": host}, 6006) is admitted


def test_a_token_is_good_for_the_link_and_only_the_cookie_for_the_page():
    access = PageAccess("the token")
    assert access.has_token("the token")
    assert not any(map(access.has_token, ("", "the toke", "the token ", "\udcff")))
    assert not PageAccess().has_token("")
    cookie = access.cookie(6006).partition(";")[0]
    assert access.admits({"cookie": f"other=1; {cookie}"}, 6006)
    assert "the token" not in cookie
    name = cookie_name(6006)
    for given in (
        "",
        f"{name}=",
        f"{name}=the token",
        cookie + "x",
        cookie.replace("6006", "1"),
    ):
        assert not access.admits({"cookie": given, "host": "localhost"}, 6006)
    assert not PageAccess("the token").admits({"cookie": cookie}, 6006)
