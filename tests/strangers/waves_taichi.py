"""A wave equation on a grid in Taichi, which compiles its own SPIR-V and puts a barrier after every launch.

Each step reads the two last fields and writes a third, so order matters; beside it each step counts into a field of its
own, which nothing reads until the end, so some of what Taichi asks for is free. Prints a digest of the fields' bits.
"""

import hashlib

import numpy
import taichi

taichi.init(arch=taichi.vulkan, offline_cache=False, log_level=taichi.ERROR)
SIDE = 64
STEPS = 40
now = taichi.field(taichi.f32, (SIDE, SIDE))
before = taichi.field(taichi.f32, (SIDE, SIDE))
after = taichi.field(taichi.f32, (SIDE, SIDE))
visits = taichi.field(taichi.i32, (SIDE, SIDE))


@taichi.kernel
def advance():
    for i, j in now:
        around = (
            now[(i + 1) % SIDE, j] + now[(i - 1) % SIDE, j] + now[i, (j + 1) % SIDE] + now[i, (j - 1) % SIDE]
        )
        after[i, j] = 2.0 * now[i, j] - before[i, j] + 0.2 * (around - 4.0 * now[i, j])


@taichi.kernel
def shift():
    for i, j in now:
        before[i, j] = now[i, j]
        now[i, j] = after[i, j]


@taichi.kernel
def count():
    for i, j in visits:
        visits[i, j] += i + j


def main() -> None:
    start = numpy.random.default_rng(4).standard_normal((SIDE, SIDE)).astype(numpy.float32)
    now.from_numpy(start)
    before.from_numpy(start)
    for _ in range(STEPS):
        advance()
        shift()
        count()
    taichi.sync()
    digest = hashlib.sha256()
    for field in (now, before, visits):
        digest.update(field.to_numpy().tobytes())
    print(digest.hexdigest(), now.to_numpy().ravel()[:4].tolist(), int(visits.to_numpy().sum()))


# The device may be missing, and Taichi then quietly takes the processor.
if taichi.lang.impl.current_cfg().arch != taichi.vulkan:
    raise SystemExit("Taichi finds no Vulkan device")
main()
