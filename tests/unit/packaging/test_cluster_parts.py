import pytest

import cluster_parts
import system_packages
from cluster_parts import PACKAGES, Servers


def place(root, *versions):
    for version in versions:
        initdb = root / f"usr/lib/postgresql/{version}/bin/initdb"
        initdb.parent.mkdir(parents=True)
        initdb.touch()
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/redis-server").touch()


def test_the_newest_of_this_machines_servers_is_taken(tmp_path):
    place(tmp_path, "9", "15")
    found = cluster_parts.find(tmp_path / "build", tmp_path)
    assert found == Servers(tmp_path / "usr/lib/postgresql/15/bin", tmp_path / "usr/bin/redis-server")
    assert found.environment() == {}


def test_unpacked_servers_are_found_with_their_libraries(tmp_path):
    place(tmp_path / "cluster", "17")
    library = tmp_path / "cluster/usr/lib/x/libpq.so.5"
    library.parent.mkdir()
    library.touch()
    found = cluster_parts.find(tmp_path, tmp_path / "a machine without")
    assert found is not None
    assert found.environment() == {"LD_LIBRARY_PATH": str(library.parent)}


def test_one_server_alone_is_not_enough(tmp_path):
    place(tmp_path)
    assert cluster_parts.find(tmp_path / "build", tmp_path) is None


@pytest.mark.parametrize(("user", "way"), [(0, "installed"), (1000, "unpacked")])
def test_only_root_installs(monkeypatch, tmp_path, user, way):
    calls = []
    monkeypatch.setattr(cluster_parts, "find", lambda build: None)
    monkeypatch.setattr(cluster_parts.os, "geteuid", lambda: user)
    monkeypatch.setattr(system_packages, "install", lambda packages, as_root: calls.append(("installed", packages)))

    def unpack(packages, prefix, *, leave_out):
        calls.append(("unpacked", packages))
        assert prefix == tmp_path / "cluster"
        assert not leave_out.match("libpq5")
        return 3

    monkeypatch.setattr(system_packages, "unpack", unpack)
    assert way in cluster_parts.provide(tmp_path)
    assert calls == [(way, list(PACKAGES))]


def test_servers_that_are_there_are_left_alone(monkeypatch, tmp_path):
    monkeypatch.setattr(cluster_parts, "find", lambda build: Servers(tmp_path, tmp_path))
    assert cluster_parts.provide(tmp_path) == "PostgreSQL and Redis: none is missing"
