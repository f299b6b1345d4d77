"""A small residual network in ncnn's own format, with random weights, run on its Vulkan backend.

ncnn is an inference engine for phones that tracks the state of each buffer itself, so this is a stranger that asks
for barriers of its own choosing. The weights come from a seed: what is wanted is the order of its dispatches, and for
that any weights do. Prints a digest of the output's bits and a few of its values.

    network_ncnn.py SCRATCH_FOLDER
"""

import hashlib
import pathlib
import sys

import ncnn
import numpy

CHANNELS = 16
SIDE = 24
BLOCKS = 12


def parameters() -> str:
    """The network as ncnn's text: blocks of two convolutions and a sum with what went in."""
    layers, top = [f"Input input 0 1 b0 0={SIDE} 1={SIDE} 2={CHANNELS}"], "b0"
    weights = 9 * CHANNELS * CHANNELS
    for block in range(BLOCKS):
        a, b, c, d, out = (f"{kind}{block}" for kind in ("left", "right", "first", "second", "sum"))
        convolution = f"0={CHANNELS} 1=3 4=1 5=1 6={weights}"
        layers += [
            f"Split split{block} 1 2 {top} {a} {b}",
            f"Convolution one{block} 1 1 {a} {c} {convolution} 9=1",
            f"Convolution two{block} 1 1 {c} {d} {convolution}",
            f"BinaryOp add{block} 2 1 {b} {d} {out} 0=0",
        ]
        top = out
    blobs = 1 + 5 * BLOCKS
    return "\n".join(["7767517", f"{len(layers)} {blobs}", *layers, ""])


def weights() -> bytes:
    """For each convolution: a word that says f32, the kernel, the bias."""
    random = numpy.random.default_rng(1)
    parts = []
    for _ in range(2 * BLOCKS):
        kernel = random.standard_normal(9 * CHANNELS * CHANNELS) * (0.5 / (9 * CHANNELS) ** 0.5)
        bias = random.standard_normal(CHANNELS) * 0.1
        parts += [b"\0\0\0\0", kernel.astype("<f4").tobytes(), bias.astype("<f4").tobytes()]
    return b"".join(parts)


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    (folder / "network.param").write_text(parameters())
    (folder / "network.bin").write_bytes(weights())
    if ncnn.get_gpu_count() < 1:
        sys.exit("ncnn finds no Vulkan device")
    network = ncnn.Net()
    network.opt.use_vulkan_compute = True
    network.opt.num_threads = 1
    network.load_param(str(folder / "network.param"))
    network.load_model(str(folder / "network.bin"))
    image = numpy.random.default_rng(2).standard_normal((CHANNELS, SIDE, SIDE)).astype(numpy.float32)
    extractor = network.create_extractor()
    extractor.input("b0", ncnn.Mat(image))
    status, result = extractor.extract(f"sum{BLOCKS - 1}")
    if status != 0:
        sys.exit(f"ncnn could not run the network: status {status}")
    values = numpy.ascontiguousarray(numpy.array(result), dtype="<f4")
    print(values.shape, hashlib.sha256(values.tobytes()).hexdigest(), values.ravel()[:4].tolist())
    del extractor, network
    ncnn.destroy_gpu_instance()


main()
