"""`meshnet site ...`, except for what stays running."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

import pytest

from meshnet.artifact.gguf import artifact_digest
from meshnet.golden.probe import write_golden
from tests.simulators.fake_model import write_fake_model
from tests.unit.meshnet.golden.goldens import fake_golden
from tracker_site.accounts.models import ApiKey, NodeToken, User
from tracker_site.billing.ledger import balance_micros
from tracker_site.billing.models import Account
from tracker_site.commands import main

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_django.fixtures import SettingsWrapper

# The audit wants a transaction of its own.
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return Run(capsys)


class Run:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def json(self, *arguments: str) -> dict[str, object]:
        assert main([*arguments, "--json"]) == 0
        (line,) = self._capsys.readouterr().out.splitlines()
        document: dict[str, object] = json.loads(line)
        return document

    def fails(self, status: int, *arguments: str) -> str:
        assert main(arguments) == status
        captured = self._capsys.readouterr()
        assert captured.out == ""
        return captured.err


def test_a_user_with_key_token_and_credits(run: Run) -> None:
    made = run.json("create-user", "alice")
    alice = User.objects.get()
    assert alice.check_password(str(made["password"]))
    assert not alice.is_staff
    key = ApiKey.find(str(run.json("create-key", "alice", "--name", "demo")["key"]))
    assert key is not None
    assert (key.user, key.name) == (alice, "demo")
    assert NodeToken.find(str(run.json("create-node-token", "alice")["token"])) is not None
    for _ in range(2):
        granted = run.json("grant", "alice", "2.5", "--key", "first")
    assert granted["balance_micros"] == balance_micros(alice) == 2_500_000
    assert run.json("audit") == {
        "accounts": 2, "transfers": 1, "open_holds": 0, "balance_sum_micros": 0, "problems": [],
    }  # fmt: skip


def test_an_administrator_with_a_given_password(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("a long pass phrase\n"))
    assert run.json("create-user", "dora", "--admin", "--password-stdin") == {"username": "dora", "admin": True}
    assert User.objects.get().check_password("a long pass phrase")
    assert User.objects.get().is_superuser


@pytest.mark.parametrize("password", ["", "short", "1234567890123", "password"])
def test_weak_passwords_are_refused(run: Run, monkeypatch: pytest.MonkeyPatch, password: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(password + "\n"))
    assert "[bad_user]" in run.fails(1, "create-user", "alice", "--password-stdin")
    assert not User.objects.exists()


def test_what_exists_and_what_does_not(run: Run) -> None:
    run.json("create-user", "alice")
    assert "[user_exists]" in run.fails(1, "create-user", "alice")
    assert "[bad_user]" in run.fails(1, "create-user", "al ice")
    for command in (["create-key", "bob"], ["create-node-token", "bob"], ["grant", "bob", "1"]):
        assert "[unknown_user]" in run.fails(1, *command)


def test_a_model_is_imported_once(run: Run, tmp_path: Path, settings: SettingsWrapper) -> None:
    settings.VOCABULARY_DIRECTORY = tmp_path / "vocabularies"
    gguf = write_fake_model(tmp_path / "fake.gguf")
    first = run.json("import-model", str(gguf), "--name", "fake", "--prompt-price", "0.5")
    assert (first["name"], first["created"], first["n_layers"]) == ("fake", True, 8)
    assert run.json("import-model", str(gguf))["created"] is False
    told = run.fails(1, "import-model", str(tmp_path / "absent.gguf"))
    assert told.endswith(f"{tmp_path}/absent.gguf: No such file or directory [unreadable]\n")


def test_a_golden_probe_is_imported_for_its_own_model(run: Run, tmp_path: Path, settings: SettingsWrapper) -> None:
    settings.VOCABULARY_DIRECTORY, settings.GOLDEN_DIRECTORY = tmp_path / "vocabularies", tmp_path / "goldens"
    gguf = write_fake_model(tmp_path / "fake.gguf", n_layers=4, width=16)
    run.json("import-model", str(gguf), "--name", "fake")
    path = tmp_path / "golden.safetensors"
    path.write_bytes(write_golden(fake_golden(4, 16, artifact_digest([gguf]))))
    told = run.json("import-golden", "fake", str(path))
    assert (told["rows"], told["cuts"], told["backend"]) == (8, 3, "fake")
    assert "[unknown_model]" in run.fails(1, "import-golden", "other", str(path))
    told = run.fails(1, "import-golden", "fake", str(tmp_path / "\x1b[2J"))
    assert told.endswith(f"{tmp_path}/?[2J: No such file or directory [unreadable]\n")
    path.write_bytes(write_golden(fake_golden(4, 16)))
    assert "[golden_of_another]" in run.fails(1, "import-golden", "fake", str(path))
    assert [run.json("drop-golden", "fake")["dropped"] for _ in range(2)] == [True, False]
    assert "[unknown_model]" in run.fails(1, "drop-golden", "other")


def test_a_tampered_ledger_fails_the_audit(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.json("create-user", "alice")
    run.json("grant", "alice", "1")
    Account.objects.filter(kind=Account.Kind.CREDITS).update(balance_micros=2)
    assert main(["audit", "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["problems"]) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["fly"], ["grant", "alice"], ["grant", "alice", "-1"], ["grant", "alice", "0.0000001"],
        ["grant", "alice", "NaN"],        ["serve", "--port", "65536"], ["serve", "--port", "x"], ["import-model"],
    ],
    ids=str,
)  # fmt: skip
def test_wrong_calls(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "usage: meshnet site" in capsys.readouterr().err
