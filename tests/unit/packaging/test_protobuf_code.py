"""The control for proto-check: every way in which generated code can be wrong is seen."""

import shutil
from pathlib import Path

import pytest

import protobuf_code

pytest.importorskip("grpc_tools", reason="no grpcio-tools: run `make bootstrap`")

PROTO = 'syntax = "proto3";\npackage meshnet.v1;\nmessage Ping { uint32 n = 1; }\n'
SERVICE = PROTO.replace("Ping", "Pong") + "service Echo { rpc Call(Pong) returns (Pong); }\n"


@pytest.fixture
def shared(tmp_path):
    package = tmp_path / "shared/meshnet/v1"
    package.mkdir(parents=True)
    (package / "ping.proto").write_text(PROTO)
    (package / "echo.proto").write_text(SERVICE)
    protobuf_code.write(tmp_path / "shared")
    return tmp_path / "shared"


def test_writes_service_code_only_where_there_is_a_service_and_imports_by_package(shared):
    package = shared / "meshnet/v1"
    assert sorted(protobuf_code.generated_files(package)) == [
        "echo_pb2.py",
        "echo_pb2.pyi",
        "echo_pb2_grpc.py",
        "ping_pb2.py",
        "ping_pb2.pyi",
    ]
    assert "from meshnet.v1 import echo_pb2" in (package / "echo_pb2_grpc.py").read_text()
    assert protobuf_code.check(shared) == 0


@pytest.mark.parametrize("name", ["ping_pb2.py", "ping_pb2.pyi", "echo_pb2_grpc.py"])
def test_an_edited_or_missing_file_is_refused(name, shared, capsys):
    path = shared / "meshnet/v1" / name
    path.write_text(path.read_text() + "# edited\n")
    assert protobuf_code.check(shared) == 1
    assert f"{name}: differs" in capsys.readouterr().err

    path.unlink()
    assert protobuf_code.check(shared) == 1
    assert f"{name}: missing" in capsys.readouterr().err


def test_a_file_whose_proto_is_gone_is_refused_and_then_removed(shared, capsys):
    shutil.copy(shared / "meshnet/v1/ping_pb2.py", shared / "meshnet/v1/old_pb2.py")
    assert protobuf_code.check(shared) == 1
    assert "old_pb2.py: no proto generates it" in capsys.readouterr().err
    protobuf_code.write(shared)
    assert protobuf_code.check(shared) == 0


def test_comparing_nothing_is_no_success(tmp_path):
    (tmp_path / "meshnet/v1").mkdir(parents=True)
    assert protobuf_code.check(tmp_path) == 1


def test_the_checkout_itself_holds_generated_code():
    shared = Path(__file__).resolve().parents[3] / "shared"
    assert protobuf_code.generated_files(shared / "meshnet/v1")
