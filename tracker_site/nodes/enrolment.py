"""Enrols nodes: a public key becomes one node, which belongs to the user whose token came with the key.

Invariants: if a key is enrolled, its owner may enrol it again, which changes at most the node's name; nobody else can.
An enrolled node connects without a token. Possession of the private key is proven at each control connection, not here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import transaction

from meshnet.errors import MeshnetError
from meshnet.keys import PUBLIC_KEY_BYTES
from meshnet.printable import one_line
from tracker_site.accounts.authentication import authenticate_node_token
from tracker_site.nodes.models import Node
from tracker_site.nodes.refusals import BLOCKED_MESSAGE

if TYPE_CHECKING:
    from tracker_site.accounts.models import User

MAX_NAME_CHARACTERS = 64
# Checked by a pattern, since bytes.fromhex alone would skip blanks.
PUBLIC_KEY = re.compile(rf"[0-9a-fA-F]{{{2 * PUBLIC_KEY_BYTES}}}")


class EnrolmentError(MeshnetError):
    """The node was not enrolled. The same request would fail again."""


@dataclass(frozen=True)
class EnrolmentRequest:
    """A node's request to be enrolled.

    Attributes:
        token: a node token of the user to whom the node will belong; `repr` does not show it.
        public_key: the node's Ed25519 key, 32 bytes.
        name: the node's name for people.
    """

    token: str
    public_key: bytes
    name: str

    def __repr__(self) -> str:
        return f"EnrolmentRequest({self.name!r}, {self.public_key.hex()[:16]})"


def parse_enrolment(document: object) -> EnrolmentRequest:
    """Check a decoded JSON document and return it as a request.

    Raises:
        EnrolmentError: bad_request, naming the field at fault.
    """
    if not isinstance(document, dict):
        raise _bad_request("the body must be a JSON object")
    token, key, name = document.get("token"), document.get("public_key"), document.get("name")
    if not isinstance(token, str) or not token:
        raise _bad_request("token must be a string")
    if not isinstance(name, str) or not one_line(name, MAX_NAME_CHARACTERS):
        raise _bad_request("name must be a string of 1 to 64 characters")
    return EnrolmentRequest(token, _parse_key(key), one_line(name, MAX_NAME_CHARACTERS))


def enrol(request: EnrolmentRequest) -> tuple[Node, bool]:
    """Enrol the request's public key; return its node, and whether the node is new.

    Raises:
        EnrolmentError: bad_token, key_enrolled_elsewhere, node_blocked or too_many_nodes.
    """
    token = authenticate_node_token(request.token)
    if token is None:
        message = "the token is wrong or revoked; make a new one on the account page"
        raise EnrolmentError("bad_token", "Token not accepted", message)
    return _enrol(token.user, request.public_key.hex(), request.name)


@transaction.atomic
def _enrol(owner: User, public_key: str, name: str) -> tuple[Node, bool]:
    existing = Node.objects.select_for_update().filter(public_key=public_key).first()
    if existing is not None:
        return _enrol_again(existing, owner, name), False
    if Node.objects.filter(owner=owner).count() >= settings.NODES_PER_USER:
        message = f"you have {settings.NODES_PER_USER} nodes, which is the limit; ask the administrator to remove one"
        raise EnrolmentError("too_many_nodes", "Too many nodes", message)
    # If two first enrolments run at once, the second finds the row here.
    node, is_new = Node.objects.get_or_create(public_key=public_key, defaults={"owner": owner, "name": name})
    return (node, True) if is_new else (_enrol_again(node, owner, name), False)


def _enrol_again(node: Node, owner: User, name: str) -> Node:
    if node.owner_id != owner.pk:
        message = "this node's key belongs to another user; delete the node's state folder to draw a new key"
        raise EnrolmentError("key_enrolled_elsewhere", "Key taken", message)
    if node.is_blocked:
        raise EnrolmentError("node_blocked", "Node blocked", BLOCKED_MESSAGE)
    if node.name != name:
        node.name = name
        node.save(update_fields=["name"])
    return node


def _parse_key(key: object) -> bytes:
    if not isinstance(key, str) or not PUBLIC_KEY.fullmatch(key):
        raise _bad_request("public_key must be 64 hexadecimal digits")
    return bytes.fromhex(key)


def _bad_request(message: str) -> EnrolmentError:
    return EnrolmentError("bad_request", "Request not understood", message)
