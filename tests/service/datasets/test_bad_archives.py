"""Invalid archives, parsed as in the child process: each is rejected with a message."""

import io
import struct
import zipfile

import numpy as np
import pytest

from tests.written import written

NPZ = "application/x-npz"
X = np.arange(6.0).reshape(3, 2)


@pytest.fixture
def issue_of(make_reader):
    """Return a function that parses an archive and returns the first issue."""
    reader = make_reader(tasks=5, features=300, name_length=50)

    def read(body, **options):
        return reader.read(body, NPZ, **options)["issues"][0]

    return read


def npz(**arrays) -> bytes:
    return written(np.savez, **{name.replace("__", "/"): array for name, array in arrays.items()})


def archive(members) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as target:
        for name, data in members:
            target.writestr(name, data)
    return file.getvalue()


def npy(array) -> bytes:
    return written(np.save, array)


def npy_header(text: str, data: bytes = b"") -> bytes:
    """Return a .npy file with a custom header."""
    head = text.encode("latin1") + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data


def flipped(body: bytes) -> bytes:
    middle = len(body) // 3
    return body[:middle] + bytes(b ^ 0xFF for b in body[middle : middle + 40]) + body[middle + 40 :]


def encrypted() -> bytes:
    body = bytearray(npz(t__X=X))
    body[6] |= 1
    directory = body.index(b"PK\x01\x02")
    body[directory + 8] |= 1
    return bytes(body)


DENSE = np.random.default_rng(0).normal(size=(200, 20))


ARCHIVES = {
    "cut in half": (npz(t__X=DENSE)[:2000], "archive"),
    "damaged, stored": (flipped(npz(t__X=DENSE)), "t/X"),
    "encrypted": (encrypted(), "encrypted"),
    "only the magic": (b"PK\x03\x04", "archive"),
    "not an array": (archive([("t/X.npy", b"hello, I am long enough")]), "'t/X'"),
    "objects": (npz(t__X=X, t__y=np.array([1, "a", None], dtype=object)), "'t/y'"),
    "mixed labels": (npz(t__X=X, t__y=np.array([1, "a", 2.5], dtype=object)), "objects"),
    "objects in a field": (npz(t__X=np.zeros(3, [("a", "O"), ("b", "f8")])), "dtype"),
    "bytes": (npz(t__X=X, t__y=np.array([b"a", b"b", b"c"])), "'t/y'"),
    "one dimension": (npz(t__X=np.arange(3.0)), "got (3,)"),
    "no dimension": (npz(t__X=np.float64(3)), "got ()"),
    "three dimensions": (npz(t__X=np.zeros((2, 2, 2))), "got (2, 2, 2)"),
    "y too short": (npz(t__X=X, t__y=X[:2, 0]), "'t/y'"),
    "empty label": (npz(t__X=X, t__y=np.array(["a", "", "b"])), "empty"),
    "label with a control character": (npz(t__X=X, t__y=np.array(["a", "\x07", "b"])), "label"),
    "lone surrogate": (npz(t__X=X, t__y=np.array(["a", "\ud800", "b"])), "'t/y'"),
    "no character": (
        npz(t__X=X, t__y=np.array([1, 0x7FFFFFFF, 2], "<u4").view("<U1")),
        "'t/y'",
    ),
    "task of fractions": (npz(X=X, task=np.array([1.5, 1, 2])), "'task'"),
    "y of other length in a table": (npz(X=X, task=np.array([1, 1, 2]), y=X[:2, 0]), "'y'"),
    "a control character": (archive([("a\nb/X.npy", npy(X))]), "control character"),
    "a long name": (archive([("t" * 51 + "/X.npy", npy(X))]), "51 characters"),
    "too many tasks": (archive([(f"{i}/X.npy", npy(X)) for i in range(6)]), "limit"),
    "too many columns": (npz(t__X=np.zeros((1, 301))), "301 columns"),
}


@pytest.mark.parametrize("kind", ARCHIVES)
def test_an_invalid_npz_is_reported_as_an_issue(issue_of, kind):
    body, word = ARCHIVES[kind]
    assert word in issue_of(body)["detail"]


HEADERS = {
    "absurd shape": "{'descr': '<f8', 'fortran_order': False, 'shape': (999999999999, 9)}",
    "absurd and empty": "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 10**30)}",
    "huge and empty": f"{{'descr': '<f8', 'fortran_order': False, 'shape': (0, {10**30})}}",
    "large axes and empty": (
        "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 1000000000, 100000000000)}"
    ),
    "negative": "{'descr': '<f8', 'fortran_order': False, 'shape': (-3, -2)}",
    "negative one": "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 2)}",
    "not a header": "{'descr': '<f8', 'fortran_order'",
    "deep": "(" * 3000,
    "code": "__import__('os').getpid()",
    "unknown dtype": "{'descr': 'q9', 'fortran_order': False, 'shape': (3, 2)}",
    "too long": "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2)}" + " " * 20_000,
}


@pytest.mark.parametrize("kind", HEADERS)
def test_a_corrupt_header_names_the_array(issue_of, kind):
    member = npy_header(HEADERS[kind], b"" if "empty" in kind else X.tobytes())
    assert "'t/X'" in issue_of(archive([("t/X.npy", member)]))["detail"]


@pytest.mark.parametrize("y", [[0.5, 1, 2], [np.inf, 1, 2], [1e300, 1, 2]])
def test_classes_that_are_not_whole_numbers_are_rejected(issue_of, y):
    issue = issue_of(npz(t__X=X, t__y=np.array(y)), target_kind="classes")
    assert (issue["task"], issue["row"]) == ("t", 0)


def test_arrays_of_text_are_rejected_as_rows(issue_of):
    body = npz(t__X=X, t__y=np.array(["1", "two", "3"]))
    assert "text" in issue_of(body, target_kind="numbers")["detail"]
