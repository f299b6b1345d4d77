"""A wave equation in OpenGL compute shaders on zink, Mesa's OpenGL over Vulkan, without a window.

moderngl asks EGL for a context without a surface. 90 steps go forth and back between two buffers, with OpenGL's barrier
after each; zink turns those and its own knowledge of uses into Vulkan's barriers. Prints the renderer's name, a digest
of the field's bits and a few of its values.
"""

import hashlib

import moderngl
import numpy

SIDE, STEPS = 64, 90
STEP = """
#version 430
layout(local_size_x = 8, local_size_y = 8) in;
layout(std430, binding = 0) readonly buffer Now { float now[]; };
layout(std430, binding = 1) buffer Then { float then[]; };
const int side = %d;

float at(ivec2 p) { p = clamp(p, ivec2(0), ivec2(side - 1)); return now[p.y * side + p.x]; }

void main() {
    ivec2 p = ivec2(gl_GlobalInvocationID.xy);
    float around = at(p + ivec2(1, 0)) + at(p - ivec2(1, 0)) + at(p + ivec2(0, 1)) + at(p - ivec2(0, 1));
    int i = p.y * side + p.x;
    then[i] = 0.996 * (2.0 * now[i] - then[i] + 0.2 * (around - 4.0 * now[i]));
}
""" % SIDE


def main() -> None:
    context = moderngl.create_context(standalone=True, backend="egl", require=430)
    renderer = context.info["GL_RENDERER"]
    if "zink" not in renderer:
        raise SystemExit(f"not zink but {renderer}")
    field = numpy.zeros((SIDE, SIDE), dtype=numpy.float32)
    field[SIDE // 3, SIDE // 4], field[40, 50] = 1, -2
    now, then = context.buffer(field.tobytes()), context.buffer(field.tobytes())
    step = context.compute_shader(STEP)
    for _ in range(STEPS):
        now.bind_to_storage_buffer(0)
        then.bind_to_storage_buffer(1)
        step.run(SIDE // 8, SIDE // 8)
        context.memory_barrier()
        now, then = then, now
    values = numpy.frombuffer(now.read(), dtype=numpy.float32)
    if not numpy.isfinite(values).all() or numpy.count_nonzero(values) < values.size // 2:
        raise SystemExit("the field is not a wave")
    print(renderer)
    print(hashlib.sha256(values.tobytes()).hexdigest(), values[:4].tolist())


main()
