"""Machines with nothing but ssh and Python: a home and a file tree of their own."""

import subprocess
import sys

from support.ssh import SshLab

ROOT = "/mnt"  # where a machine keeps the tree that ssh leads to
INDEX_PORT = 8080
BARE_PYTHON = "/usr/bin/python3"
MAKE_TREE = """\
root=$1 disk=$2 size=$3
shift 3
if [ "$disk" ]; then mount --bind "$disk" "$root"
else mount -t tmpfs -o size=$size,mode=755 tmpfs "$root"; fi
cd "$root"
mkdir -p usr etc dev proc sys root tmp run var home
chmod 1777 tmp
for one in bin sbin lib lib32 lib64 libx32; do
    if [ -L "/$one" ]; then ln -sfn "usr/$one" "$one"; elif [ -d "/$one" ]; then
        mkdir -p "$one"; mount --bind "/$one" "$one"; fi
done
mount --rbind /usr usr
mount -o remount,bind,ro usr
mount --rbind /etc etc
mount --rbind /dev dev
mount -t proc proc proc
mount --rbind /sys sys
for one in "$@"; do
    mkdir -p "$root$one"; mount --bind "$one" "$root$one"; mount -o remount,bind,ro "$root$one"
done
"""


def has_bare_python():
    """Say whether the system's own Python is new enough, and lacks Unisono and torch."""
    code = "import sys; sys.exit(sys.version_info < (3, 11))"
    try:
        return not subprocess.run([BARE_PYTHON, "-c", code]).returncode
    except OSError:
        return False


class BareLab(SshLab):
    """Machines for `node0`, `node1`, … with a tree of their own; the last node is the laptop.

    `disks` holds, by node, a directory for the tree; without one it is in memory, with `sizes`.
    They see the directories `shared`, and cannot write there. The laptop serves the directory
    `index` as the package index that their pip uses: `index/NAME/` has the wheels of NAME.
    """

    usual_variables = {"LAB": "bare"}

    def __init__(
        self, home, nodes=3, disks=None, sizes=None, shared=(), index=None, variables=None
    ):
        own = {node: dict(variables[node]) for node in variables or {}}
        if index:
            where = self.address(nodes - 1)
            pip = {"PIP_INDEX_URL": f"http://{where}:{INDEX_PORT}", "PIP_TRUSTED_HOST": where}
            own = {node: {**pip, **own.get(node, {})} for node in range(nodes - 1)}
        super().__init__(home, nodes, own)
        self._index = index
        self.laptop = nodes - 1
        self._disks, self._sizes, self._shared = disks or {}, sizes or {}, shared

    def __enter__(self):
        super().__enter__()
        if self._index:
            words = [sys.executable, "-m", "http.server", str(INDEX_PORT)]
            self.start(
                self.laptop,
                [*words, "--directory", str(self._index)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            self.wait_for_port(self.laptop, INDEX_PORT)
        return self

    def server_settings(self, node):
        return "" if node == self.laptop else f"ChrootDirectory {ROOT}"

    def _serve(self, node):
        if node != self.laptop:
            words = [ROOT, str(self._disks.get(node, "")), self._sizes.get(node, "2g")]
            words += map(str, self._shared)
            done = self.run(node, ["sh", "-ec", MAKE_TREE, "tree", *words])
            assert done.returncode == 0, done.stderr
        super()._serve(node)

    def there(self, node, *words):
        """Run a program in the tree of a node; return what it says."""
        inside = ["chroot", ROOT, "env", "-i", "HOME=/root", "PATH=/usr/bin:/bin", *words]
        done = self.run(node, inside)
        assert done.returncode == 0, done.stderr
        return done.stdout
