"""A peer with a certificate of its own that says on a Link whatever a test wants."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator

import grpc
import grpc.aio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from meshnet.v1 import link_pb2

# The name in every worker's certificate; Python's gRPC insists on checking one.
WORKER_NAME = "meshnet-worker"


class PeerCertificate:
    """A key and a self-signed certificate."""

    def __init__(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hostile")])
        long_ago = dt.datetime(1990, 1, 1, tzinfo=dt.UTC)  # dates do not matter to a worker
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(long_ago)
            .not_valid_after(long_ago + dt.timedelta(days=1))
            .sign(key, hashes.SHA256())
        )
        self.certificate_pem = certificate.public_bytes(serialization.Encoding.PEM)
        self.key_pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        self.fingerprint = hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).digest()


@contextlib.asynccontextmanager
async def dialled(address: str, own: PeerCertificate) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to a worker's link listener, with our certificate."""
    host, port = address.rsplit(":", 1)
    server_pem = _server_certificate(host, int(port), own)
    credentials = grpc.ssl_channel_credentials(server_pem, own.key_pem, own.certificate_pem)
    options = [("grpc.ssl_target_name_override", WORKER_NAME)]
    async with grpc.aio.secure_channel(address, credentials, options) as channel:
        yield channel


def hello(lane: int = link_pb2.Hello.LANE_DECODE, **changes: object) -> link_pb2.LinkMessage:
    """A Hello that is right, changed field by field."""
    fields: dict[str, object] = {
        "wire_version_min": 1,
        "wire_version_max": 1,
        "lane": lane,
        "connection": b"c" * 16,
    }
    return link_pb2.LinkMessage(hello=link_pb2.Hello(**(fields | changes)))


def _server_certificate(host: str, port: int, own: PeerCertificate) -> bytes:
    """What the listener shows; checked by nobody here, since the tests are about what the listener checks."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with tempfile.NamedTemporaryFile() as chain:
        chain.write(own.certificate_pem + own.key_pem)
        chain.flush()
        context.load_cert_chain(chain.name)
    with socket.create_connection((host, port), timeout=10) as plain, context.wrap_socket(plain) as wrapped:
        der = wrapped.getpeercert(binary_form=True)
    if der is None:
        raise ValueError("the listener showed no certificate")
    return ssl.DER_cert_to_PEM_cert(der).encode()
