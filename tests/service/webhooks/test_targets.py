"""Where webhooks may be sent to: hosts, and addresses that are not inside."""

import asyncio
import ipaddress

import httpx
import pytest

from service.settings import Settings
from service.webhooks.targets import Refused, Targets

INSIDE = [
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",  # metadata of clouds
    "100.64.0.1",  # networks of providers
    "192.0.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::10.0.0.1",
    "64:ff9b:1::a00:1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::",  # 127.0.0.1 by 6to4
    "2002:a00:1::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%2",
    "fec0::1",
    "ff02::1",
]
OUTSIDE = ["1.1.1.1", "93.184.216.34", "172.32.0.1", "::ffff:1.1.1.1", "2606:4700:4700::1111"]
#: Other ways to write an address, which resolvers of systems read.
WRITINGS = [
    "127.0.0.1",
    "127.1",
    "0x7f000001",
    "2130706433",
    "0177.0.0.1",
    "localhost",
    "0",
    "[::1]",
    "[::ffff:7f00:1]",
    "[::ffff:127.0.0.1]",
    "0xa9fea9fe",
]


def targets(hosts="*", networks=""):
    return Targets(Settings(webhook_hosts=hosts, webhook_networks=networks))


@pytest.mark.parametrize("address", INSIDE)
def test_an_address_inside_is_refused(address):
    assert not targets().allows(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", OUTSIDE)
def test_a_public_address_is_allowed(address):
    assert targets().allows(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["10.1.2.3", "::ffff:10.1.2.3", "2002:a01:203::1"])
def test_the_operator_can_allow_a_network_inside(address):
    allowed = targets(networks="10.1.0.0/16, fd00::/8")
    assert allowed.allows(ipaddress.ip_address(address))
    assert not allowed.allows(ipaddress.ip_address("10.2.0.1"))
    assert not allowed.allows(ipaddress.ip_address("127.0.0.1"))
    assert not allowed.allows(ipaddress.ip_address("fe80::1"))


@pytest.mark.parametrize("writing", WRITINGS)
def test_no_writing_of_an_address_inside_is_accepted(writing):
    with pytest.raises((Refused, httpx.InvalidURL), match=r"not public|Invalid IPv4"):
        asyncio.run(targets().addresses(httpx.URL(f"http://{writing}:8000/")))


def test_the_addresses_of_a_host_are_those_that_are_allowed():
    allowed = targets(networks="127.0.0.0/8")
    found = asyncio.run(allowed.addresses(httpx.URL("http://localhost:80/")))
    assert found == ["127.0.0.1"]


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.com/x?y=z",
        "http://HOOKS.example.com:8080",
        "https://hooks.example.com./",
        "https://a.b.example.org",
        "https://bücher.example.net/",
        "https://xn--bcher-kva.example.net/",
    ],
)
def test_hosts_that_the_operator_names_are_allowed(url):
    names = "hooks.example.com, *.Example.org,xn--bcher-kva.example.net"
    targets(names).check(httpx.URL(url))


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com",
        "https://example.org",
        "https://xhooks.example.com",
        "https://hooks.example.com.evil.net",
        "https://evilexample.org",
        "https://hooks.example.com@evil.net/",
        "https://evil.net#hooks.example.com",
        "https://user:secret@hooks.example.com/",
        "https://hooks.example.com/#part",
        "ftp://hooks.example.com/",
        "file:///etc/passwd",
        "hooks.example.com",
        "//hooks.example.com/",
        "https:///x",
        "https://127.0.0.1/",
    ],
)
def test_all_others_are_refused(url):
    with pytest.raises(Refused):
        targets("hooks.example.com,*.example.org").check(httpx.URL(url))


def test_a_setting_that_is_no_network_is_refused():
    with pytest.raises(ValueError, match=r"10\.1\.0\.0/16"):
        Settings(webhook_networks="10.0.0.1/8")
