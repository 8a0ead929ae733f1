"""Make the pages of `asv publish` work without a network: `python asv_bench/offline.py`.

asv's page loads its scripts from servers of others. They are packages of npm, too: each is packed by npm once, what the
page needs of it is put beside the page, and the page is made to load that. Ends nonzero if another one is left.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path, PurePosixPath

HTML = Path(__file__).parent / ".asv" / "html"

#: By the name of a file in the page's addresses: the package, and the file in it.
SOURCES = {
    "jquery-3.3.1.min.js": ("jquery@3.3.1", "dist/jquery.min.js"),
    "jquery.flot.min.js": ("flot@0.8.3", "jquery.flot.js"),
    "jquery.flot.time.min.js": ("flot@0.8.3", "jquery.flot.time.js"),
    "jquery.flot.selection.min.js": ("flot@0.8.3", "jquery.flot.selection.js"),
    "jquery.flot.categories.min.js": ("flot@0.8.3", "jquery.flot.categories.js"),
    "jquery.flot.orderBars.js": ("flot-orderbars@1.0.0", "js/jquery.flot.orderBars.js"),
    "stupidtable.min.js": ("stupid-table-plugin@1.1.3", "stupidtable.min.js"),
    "md5.min.js": ("blueimp-md5@2.19.0", "js/md5.min.js"),
    "bootstrap.min.js": ("bootstrap@3.1.1", "dist/js/bootstrap.min.js"),
    "bootstrap.min.css": ("bootstrap@3.1.1", "dist/css/bootstrap.min.css"),
}
#: A script or a style from elsewhere, up to the hash that the server's own file has.
_REMOTE = re.compile(r"(?P<what>src|href)=\"https://[^\"]*/(?P<file>[^/\"]+\.(?:js|css))\" integrity=\"[^\"]*\"")


def take(package: str, file: str, folder: Path) -> None:
    """Write one file of a package into a folder."""
    with tempfile.TemporaryDirectory() as packed:
        subprocess.run(["npm", "pack", "--silent", package], cwd=packed, check=True, stdout=subprocess.DEVNULL)
        (archive,) = Path(packed).iterdir()
        with tarfile.open(archive) as tar:
            content = tar.extractfile(f"package/{file}")
            assert content is not None
            with open(folder / PurePosixPath(file).name, "wb") as target:
                shutil.copyfileobj(content, target)


def main() -> None:
    page, vendor = HTML / "index.html", HTML / "vendor"
    text = page.read_text(encoding="utf-8")
    vendor.mkdir(exist_ok=True)

    def local(found: re.Match[str]) -> str:
        if found["file"] not in SOURCES:
            return found[0]
        package, file = SOURCES[found["file"]]
        take(package, file, vendor)
        return f'{found["what"]}="vendor/{PurePosixPath(file).name}"'

    page.write_text(_REMOTE.sub(local, text), encoding="utf-8")
    left = re.findall(r"(?:src|href)=\"https?://[^\"]*\.(?:js|css)\"", page.read_text(encoding="utf-8"))
    sys.exit(f"the page still loads {', '.join(left)}" if left else None)


if __name__ == "__main__":
    main()
