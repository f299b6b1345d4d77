"""Runs a command on an X display of its own, which Xvfb makes and which goes with it. Its exit status is the command's.

    on_display.py COMMAND ARGUMENTS...
"""

import os
import subprocess
import sys


def main() -> int:
    read, write = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", "800x600x24", "-nolisten", "tcp", "-noreset"],
        pass_fds=[write], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={"PATH": os.environ.get("PATH", "")})
    os.close(write)
    try:
        with os.fdopen(read) as numbers:
            number = numbers.readline().strip()
        if not number:
            sys.exit("Xvfb did not start")
        variables = os.environ | {"DISPLAY": f":{number}", "GDK_BACKEND": "x11"}
        variables.pop("WAYLAND_DISPLAY", None)
        return subprocess.run(sys.argv[1:], env=variables).returncode
    finally:
        server.kill()
        server.wait()


sys.exit(main())
