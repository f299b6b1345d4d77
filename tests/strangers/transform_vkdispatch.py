"""Fourier transforms by vkdispatch, which writes its compute shaders at run time: there and back, again and again.

All are recorded into one of its graphs, and each dispatch reads what the last one wrote. Prints a digest of the bits,
and how far the result is from what went in.
"""

import hashlib
import sys

import numpy
import vkdispatch

ROWS, SIDE, TURNS = 32, 64, 14


def main() -> None:
    vkdispatch.initialize(backend="vulkan")
    vkdispatch.make_context(use_cpu=True)
    random = numpy.random.default_rng(6)
    start = (random.standard_normal((ROWS, SIDE)) + 1j * random.standard_normal((ROWS, SIDE))).astype(numpy.complex64)
    field = vkdispatch.Buffer(start.shape, vkdispatch.complex64)
    field.write(start)

    graph = vkdispatch.CommandGraph()
    for _ in range(TURNS):
        vkdispatch.fft.fft2(field, graph=graph)
        vkdispatch.fft.ifft2(field, graph=graph)
    graph.submit()
    values = numpy.asarray(field.read(0))
    worst = float(numpy.abs(values - start).max())
    print(hashlib.sha256(values.tobytes()).hexdigest(), f"within {worst:.1e} of what went in")
    if worst > 1e-3:
        sys.exit("the transforms there and back do not give what went in")


main()
