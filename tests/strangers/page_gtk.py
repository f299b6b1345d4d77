"""A page of GTK's render nodes drawn by its Vulkan renderer: gradients, a shadow, a blur, a blend and a rounded clip.

gtk4-rendernode-tool draws page_gtk.node to a picture. Prints a digest of the file, which is the same for the same pixels.

    page_gtk.py RUN FOLDER     RUN starts a program of the folder of Debian's packages
"""

import hashlib
import pathlib
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parent / "page_gtk.node"


def main() -> None:
    start, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    picture = folder / "page.png"
    subprocess.run([start, "gtk4-rendernode-tool", "render", "--renderer=vulkan", str(PAGE), str(picture)], check=True)
    data = picture.read_bytes()
    width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    print(f"{width}x{height}", hashlib.sha256(data).hexdigest())


main()
