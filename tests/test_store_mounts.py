"""Which file systems tell of every change, and that a change of mounts is noticed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from store_support import small_disk
from vademecum.store.mounts import Mounts

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's table")

TABLE = r"""
21 1 254:0 / / rw,relatime - ext4 /dev/vda rw
22 21 0:21 / /proc rw - proc proc rw
30 21 0:40 / /home/ann/a\040share rw,relatime shared:9 - cifs //server/share rw
31 21 0:41 / /srv rw shared:1 - nfs4 server:/srv rw
32 31 0:42 / /srv rw - xfs /dev/vdb rw
33 21 0:43 / /home/ann/notes/vault rw - fuse.sshfs server: rw
34 21 0:44 / /home/bob rw - tmpfs tmpfs rw
""".strip()


@pytest.mark.parametrize(
    ("root", "silent"),
    [
        ("/home/ann", "cifs at /home/ann/a share"),
        ("/home/ann/a share/notes", "cifs at /home/ann/a share"),
        ("/home/ann/a shared", None),
        ("/home/ann/notes", "fuse.sshfs at /home/ann/notes/vault"),
        ("/home/ann/notes/vault/x", "fuse.sshfs at /home/ann/notes/vault"),
        ("/home/ann/notes/other", None),
        ("/home/bob/notes", None),
        ("/srv/notes", None),
        ("/proc/x", "proc at /proc"),
    ],
)
def test_the_file_system_at_or_below_a_root_decides(tmp_path: Path, root: str, silent: str | None) -> None:
    (tmp_path / "table").write_text(TABLE + "\n")
    mounts = Mounts(tmp_path / "table")
    assert mounts.silent(Path(root)) == silent
    mounts.close()


@pytest.mark.parametrize("table", ["", "nonsense", "1 2 3 / /elsewhere rw - ext4 x rw"])
def test_a_table_that_does_not_say_is_no_reassurance(tmp_path: Path, table: str) -> None:
    (tmp_path / "table").write_text(table)
    for name in ("table", "missing"):
        mounts = Mounts(tmp_path / name)
        assert mounts.silent(Path("/home")) == "an unknown file system"
        mounts.close()


def test_a_mount_and_its_end_are_noticed_once_each(tmp_path: Path) -> None:
    mounts = Mounts()
    assert not mounts.changed()
    with small_disk(tmp_path / "disk", "1M"):
        assert mounts.changed()
        assert not mounts.changed()
        assert mounts.silent(tmp_path) is None
    assert mounts.changed()
    mounts.close()
    assert not mounts.changed()
