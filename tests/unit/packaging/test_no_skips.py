"""The control for `--no-skips`: a run with a skip of each kind passes without the option and fails with it."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CONFTEST = ROOT / "tests/conftest.py"
# The file asks the scripts of this folder what the machine has.
SETTINGS = f"[pytest]\npythonpath = {ROOT / 'packaging'}\n"
CASES = {
    "mark": "import pytest\n@pytest.mark.skip(reason='why')\ndef test_one(): pass\n",
    "call": "import pytest\ndef test_one(): pytest.skip('why')\n",
    "module": "import pytest\npytest.skip('why', allow_module_level=True)\n",
    "import": "import pytest\npytest.importorskip('no_such_module')\n",
    "marker of ours": "import pytest\n@pytest.mark.native\ndef test_one(): pass\n",
}


def run_pytest(folder, python_program, *options):
    command = [
        python_program,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        str(folder / "pytest.ini"),
        *options,
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize("name", CASES)
def test_a_skip_fails_only_where_none_is_allowed(name, tmp_path, python_program):
    folder = tmp_path / "tests"
    folder.mkdir()
    shutil.copy(CONFTEST, folder)
    (folder / "pytest.ini").write_text(SETTINGS + "markers =\n  native: x\n")
    (folder / "test_passes.py").write_text("def test_passes(): pass\n")
    (folder / "test_case.py").write_text(CASES[name])

    assert run_pytest(folder, python_program)[0] == 0
    status, output = run_pytest(folder, python_program, "--no-skips")
    assert status != 0
    assert "--no-skips allows none" in output


def test_an_expected_failure_is_not_a_skip(tmp_path, python_program):
    shutil.copy(CONFTEST, tmp_path)
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    (tmp_path / "test_case.py").write_text("import pytest\n@pytest.mark.xfail\ndef test_one(): raise OSError\n")
    assert run_pytest(tmp_path, python_program, "--no-skips")[0] == 0
