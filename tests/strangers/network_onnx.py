"""A small residual network with random weights on ONNX Runtime's WebGPU provider, which brings Dawn.

Eight blocks of two convolutions, normalisation by mean and deviation, and a sum; then a product with a matrix and a
softmax. The model is written here in ONNX's format, which is protobuf. Prints a digest of the output's bits and a few
of its values.
"""

import hashlib
import struct

import numpy
import onnxruntime

CHANNELS, SIDE, BLOCKS, CLASSES = 8, 16, 8, 32
FLOAT = 1


def varint(value: int) -> bytes:
    """A number in protobuf's variable length."""
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def field(number: int, value) -> bytes:
    """One protobuf field: of a number, of text, of bytes, or of a float."""
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def tensor(name: str, values: numpy.ndarray) -> bytes:
    """TensorProto: sizes, type, name and raw bytes."""
    sizes = b"".join(field(1, size) for size in values.shape)
    kind = FLOAT if values.dtype == numpy.float32 else 7
    return sizes + field(2, kind) + field(8, name) + field(9, values.tobytes())


def node(kind: str, inputs: list, output: str, **attributes) -> bytes:
    """NodeProto, whose attributes are numbers or lists of numbers."""
    text = b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, kind)
    for name, value in attributes.items():
        if isinstance(value, list):
            body = b"".join(field(8, number) for number in value) + field(20, 7)
        else:
            body = field(3, value) + field(20, 2)
        text += field(5, field(1, name) + body)
    return text


def value(name: str, shape: list) -> bytes:
    """ValueInfoProto: a tensor of floats of that shape."""
    sizes = b"".join(field(1, field(1, size)) for size in shape)
    return field(1, name) + field(2, field(1, field(1, FLOAT) + field(2, sizes)))


def model() -> bytes:
    """The network, as ModelProto."""
    random = numpy.random.default_rng(4)
    weights, nodes, top = [], [], "picture"

    def weight(name: str, shape: tuple, scale: float) -> str:
        weights.append(tensor(name, (random.standard_normal(shape) * scale).astype(numpy.float32)))
        return name

    weights.append(tensor("axes", numpy.array([2, 3], dtype=numpy.int64)))
    weights.append(tensor("flat", numpy.array([1, -1], dtype=numpy.int64)))
    for i in range(BLOCKS):
        shape, scale = (CHANNELS, CHANNELS, 3, 3), 1.0 / (9 * CHANNELS) ** 0.5
        pad = {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
        nodes += [
            node("Conv", [top, weight(f"k{i}", shape, scale), weight(f"b{i}", (CHANNELS,), 0.1)], f"one{i}", **pad),
            node("Relu", [f"one{i}"], f"cut{i}"),
            node("Conv", [f"cut{i}", weight(f"l{i}", shape, scale), weight(f"c{i}", (CHANNELS,), 0.1)], f"two{i}", **pad),
            node("ReduceMean", [f"two{i}", "axes"], f"mean{i}", keepdims=1),
            node("Sub", [f"two{i}", f"mean{i}"], f"even{i}"),
            node("Add", [top, f"even{i}"], f"sum{i}"),
        ]
        top = f"sum{i}"
    count = CHANNELS * SIDE * SIDE
    nodes += [
        node("Reshape", [top, "flat"], "row"),
        node("MatMul", ["row", weight("matrix", (count, CLASSES), 1.0 / count**0.5)], "scores"),
        node("Softmax", ["scores"], "classes", axis=1),
    ]
    graph = b"".join(field(1, one) for one in nodes) + field(2, "network") + b"".join(field(5, one) for one in weights)
    graph += field(11, value("picture", [1, CHANNELS, SIDE, SIDE]))
    graph += field(12, value("classes", [1, CLASSES])) + field(12, value(top, [1, CHANNELS, SIDE, SIDE]))
    return field(1, 8) + field(7, graph) + field(8, field(2, 18))


def main() -> None:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "0")
    provider = ("WebGpuExecutionProvider", {"dawnBackendType": "Vulkan"})
    session = onnxruntime.InferenceSession(model(), options, providers=[provider, "CPUExecutionProvider"])
    if session.get_providers()[0] != "WebGpuExecutionProvider":
        raise SystemExit(f"ONNX Runtime took {session.get_providers()}, not WebGPU")
    picture = numpy.random.default_rng(5).standard_normal((1, CHANNELS, SIDE, SIDE)).astype(numpy.float32)
    for _ in range(2):
        classes, features = session.run(None, {"picture": picture})
    bits = classes.tobytes() + features.tobytes()
    print(classes.shape, features.shape, hashlib.sha256(bits).hexdigest(), classes.ravel()[:4].tolist())


main()
