"""Mutual TLS between API, scheduler and workers.

Every client that can connect to a Dask scheduler can run code on its workers. One folder holds
``ca.pem``, the certificate authority, and ``cert.pem`` and ``key.pem``, signed by it. Connections
without a certificate of this authority are refused.
"""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from algorithms.interface.files import replaced_file

_NAMES: Final = ("ca.pem", "cert.pem", "key.pem")
_VALIDITY: Final = timedelta(days=3650)
_MAX_CLOCK_SKEW: Final = timedelta(minutes=5)


def find_security(url: str, folder: Path | None) -> Any:
    """Return Dask's TLS configuration; None for a scheduler on this machine without TLS.

    Raises
    ------
    ValueError
        The address is on another machine without TLS, or a file is missing.
    """
    from distributed.security import Security

    parsed = urlsplit(url)
    if folder is None:
        if parsed.scheme == "tls":
            raise ValueError(f"{url} uses TLS; set SIBLING_TLS_DIR to the folder of its files")
        if not _is_loopback(parsed.hostname or ""):
            raise ValueError(
                f"{url} is on another machine and does not use TLS, so any client that can connect "
                "to it could run code on the workers; use tls:// and SIBLING_TLS_DIR (see 'sibling "
                "certificates')"
            )
        return None
    ca, cert, key = (folder / name for name in _NAMES)
    for path in (ca, cert, key):
        if not path.is_file():
            raise ValueError(f"{path} is missing; run 'sibling certificates' to create it")
    files = {"tls_ca_file": str(ca)}
    for role in ("scheduler", "worker", "client"):
        files |= {f"tls_{role}_cert": str(cert), f"tls_{role}_key": str(key)}
    return Security(require_encryption=True, **files)


def make_certificates(folder: Path) -> bool:
    """Create an authority and one certificate for all processes; return False if they exist."""
    if all((folder / name).exists() for name in _NAMES):
        return False
    folder.mkdir(parents=True, exist_ok=True)
    authority = ec.generate_private_key(ec.SECP256R1())
    key = ec.generate_private_key(ec.SECP256R1())
    ca = _sign("Sibling engine authority", authority, authority, is_authority=True)
    cert = _sign("Sibling engine", key, authority, is_authority=False)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    for name, data in zip(_NAMES, (_pem(ca), _pem(cert), private), strict=True):
        with replaced_file(folder / name, mode=0o600) as file:
            file.write_bytes(data)
    return True  # the authority's key is not stored, so no further certificate can be signed


def _sign(name: str, key: Any, authority: Any, *, is_authority: bool) -> x509.Certificate:
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Sibling engine authority")])
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _MAX_CLOCK_SKEW)
        .not_valid_after(now + _VALIDITY)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .sign(authority, hashes.SHA256())
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
