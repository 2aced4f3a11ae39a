"""scripts/check/wheel.py finds what is wrong with a wheel: a good one is spoilt in every way that it looks for."""

import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[4] / "scripts/check/wheel.py"
CORE = "uvatrain/_core.abi3.so"


@pytest.fixture(scope="module")
def wheel():
    """The wheel that is tested."""
    named = os.environ.get("UVATRAIN_WHEEL")
    if not named:
        pytest.skip("needs UVATRAIN_WHEEL, which scripts/check/python.sh sets")
    pytest.importorskip("abi3info")
    return Path(named)


def check(wheel, *options):
    return subprocess.run([sys.executable, SCRIPT, wheel, *options], capture_output=True, text=True, timeout=120)


PROGRAM = re.compile(r"uvatrain-[^/]+\.data/scripts/uvatrain")


def spoilt(wheel, folder, name=None, without=(), instead=None):
    """A copy under another name, without some members, or with some replaced or added, and with its list unchanged."""
    copy = folder / (name or wheel.name)
    instead = dict(instead or {})
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(copy, "w") as target:
        for member in source.namelist():
            if not any(part in member for part in without):
                about = source.getinfo(member)
                target.writestr(about, instead.pop(member, None) or source.read(member), about.compress_type)
        for member, data in instead.items():
            target.writestr(member, data)
    return copy


def library(folder, code, *options):
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    source, built = folder / "core.cc", folder / "core.so"
    source.write_text('extern "C" {\n' + code + "\n}\n")
    subprocess.run([compiler, "-shared", "-fPIC", "-O0", "-o", built, source, *options], check=True)
    return built.read_bytes()


def refuses(wheel, words, *options):
    done = check(wheel, *options)
    assert done.returncode == 1, done.stdout
    assert any(words in line for line in done.stderr.splitlines()), done.stderr


def test_the_wheel_that_is_tested_is_well(wheel):
    done = check(wheel)
    assert done.returncode == 0, done.stderr
    assert "libtorch" not in done.stdout and "libpython" not in done.stdout and "libcuda" not in done.stdout


def test_a_wheel_for_one_python_is_refused(wheel, tmp_path):
    name = wheel.name.replace("cp310-abi3", "cp311-cp311")
    refuses(spoilt(wheel, tmp_path, name), "it is for cp311-cp311")


def test_a_wheel_for_another_system_is_refused(wheel, tmp_path):
    name = "-".join([*wheel.name.split("-")[:-1], "win_amd64.whl"])
    refuses(spoilt(wheel, tmp_path, name), "its platform is win_amd64")


def test_a_wheel_that_is_too_big_is_refused(wheel):
    refuses(wheel, f"it has {wheel.stat().st_size} bytes", "--most-bytes", "1000")


@pytest.mark.parametrize(
    ("member", "words"),
    [
        ("_core.pyi", "type stubs of the core is not inside"),
        ("py.typed", "py.typed is not inside"),
        ("LICENSE-MIT", "the MIT licence is not inside"),
        ("LICENSE-APACHE", "the Apache licence is not inside"),
        (CORE, "the core is not inside"),
        ("scripts/uvatrain", "the program is not inside"),
        ("RECORD", "its list of files, RECORD, is not inside"),
        ("loader/loader.py", "uvatrain/loader/loader.py is in its list of files and not inside"),
    ],
)
def test_a_wheel_with_a_missing_file_is_refused(wheel, tmp_path, member, words):
    refuses(spoilt(wheel, tmp_path, without=[member]), words)


def test_a_wheel_with_an_unexpected_file_is_refused(wheel, tmp_path):
    refuses(spoilt(wheel, tmp_path, instead={"uvatrain.libs/libtorch.so": b""}), "uvatrain.libs/libtorch.so does not belong")


def test_a_library_linked_to_more_than_the_c_library_is_refused(wheel, tmp_path):
    code = "void *PyModule_New(const char *); void *PyInit__core(void) { return PyModule_New(\"_core\"); }"
    linked = library(tmp_path, code, "-Wl,--no-as-needed", "-lstdc++")
    refuses(spoilt(wheel, tmp_path, instead={CORE: linked}), "it is linked to libstdc++.so.6")


def test_a_library_that_leaves_the_stable_abi_is_refused(wheel, tmp_path):
    code = """
    void *PyUnicode_New(long, unsigned); void *PyModule_New(const char *); int Py_IsNone(void *);
    void *PyInit__core(void) { Py_IsNone(PyUnicode_New(1, 1)); return PyModule_New("_core"); }
    """
    refuses(spoilt(wheel, tmp_path, instead={CORE: library(tmp_path, code)}), "it uses PyUnicode_New, which is not in")
    # In the stable ABI, but not of the oldest Python.
    code = """
    void *PyModule_New(const char *); void *PyType_GetName(void *);
    void *PyInit__core(void) { return PyType_GetName(PyModule_New("_core")); }
    """
    refuses(spoilt(wheel, tmp_path, instead={CORE: library(tmp_path, code)}), "it uses PyType_GetName, in the stable ABI since 3.11")


def test_a_library_that_python_cannot_load_is_refused(wheel, tmp_path):
    refuses(spoilt(wheel, tmp_path, instead={CORE: library(tmp_path, "int x(void) { return 1; }")}), "it has no PyInit__core")


def test_debug_information_and_folders_of_the_builder_are_refused(wheel, tmp_path):
    code = "void *PyModule_New(const char *); void *PyInit__core(void) { return PyModule_New(\"_core\"); }"
    built = library(tmp_path, code, "-g", "-Wl,-rpath,/home/somebody/lib")
    copy = spoilt(wheel, tmp_path, instead={CORE: built})
    refuses(copy, "it has debug information")
    refuses(copy, "it looks for libraries in /home/somebody/lib")


def test_the_program_of_the_wheel_runs_once_pip_has_installed_it(wheel, tmp_path):
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", tmp_path, wheel]
    subprocess.run(pip, check=True, timeout=120)
    said = subprocess.run([tmp_path / "bin/uvatrain", "--version"], capture_output=True, text=True, timeout=60)
    version = wheel.name.split("-")[1]
    assert (said.returncode, said.stdout.split()[:2]) == (0, ["uvatrain", version]), said.stderr


def test_a_program_that_pip_would_not_make_executable_is_refused(wheel, tmp_path):
    copy = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(copy, "w") as target:
        for member in source.infolist():
            if PROGRAM.fullmatch(member.filename):
                member.external_attr = 0o100644 << 16
            target.writestr(member, source.read(member.filename))
    refuses(copy, "the program: pip would not make it executable")


def test_a_file_that_is_not_the_one_of_the_list_is_refused(wheel, tmp_path):
    refuses(spoilt(wheel, tmp_path, instead={"uvatrain/doctor.py": b"# Another."}), "uvatrain/doctor.py is not the file of its list")
    refuses(spoilt(wheel, tmp_path, instead={"uvatrain/more.py": b""}), "uvatrain/more.py is not in its list of files")


def test_a_program_linked_to_libtorch_is_refused(wheel, tmp_path):
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    (tmp_path / "torch.cc").write_text("extern \"C\" int torch() { return 1; }")
    (tmp_path / "program.cc").write_text("extern \"C\" int torch(); int main() { return torch(); }")
    library = tmp_path / "libtorch_cpu.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "torch.cc"], check=True)
    subprocess.run([compiler, "-o", tmp_path / "program", tmp_path / "program.cc", library], check=True)
    (name,) = [name for name in zipfile.ZipFile(wheel).namelist() if PROGRAM.fullmatch(name)]
    copy = spoilt(wheel, tmp_path, instead={name: (tmp_path / "program").read_bytes()})
    refuses(copy, "the program: it is linked to")


def test_a_c_library_newer_than_the_tag_promises_is_refused(wheel, tmp_path):
    name = "-".join([*wheel.name.split("-")[:-1], f"manylinux_2_5_{platform.machine()}.whl"])
    refuses(spoilt(wheel, tmp_path, name), "is required, but its tag promises 2.5")
