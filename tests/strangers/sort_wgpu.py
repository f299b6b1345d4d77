"""A bitonic sort on wgpu-native, which wgpu-py wraps: 55 dispatches, each of which reads what the last one wrote.

wgpu derives barriers from how it sees buffers used, as a browser does, and the shader reaches the driver through its
own compiler (naga). Prints a digest of the result and whether it is sorted.
"""

import hashlib
import struct

import numpy
import wgpu

COUNT = 1024
SHADER = """
struct Step { block: u32, distance: u32 }
@group(0) @binding(0) var<storage, read_write> keys: array<u32>;
@group(0) @binding(1) var<uniform> step: Step;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x;
    let j = i ^ step.distance;
    if (j > i) {
        let ascending = (i & step.block) == 0u;
        let a = keys[i];
        let b = keys[j];
        if ((a > b) == ascending) {
            keys[i] = b;
            keys[j] = a;
        }
    }
}
"""


def steps():
    """The (block, distance) of each pass."""
    block = 2
    while block <= COUNT:
        distance = block // 2
        while distance > 0:
            yield block, distance
            distance //= 2
        block *= 2


def main() -> None:
    adapter = wgpu.gpu.request_adapter_sync()
    device = adapter.request_device_sync()
    unsorted = numpy.random.default_rng(3).integers(0, 2**32, COUNT, dtype=numpy.uint32)
    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
    keys = device.create_buffer_with_data(data=unsorted.tobytes(), usage=usage)
    module = device.create_shader_module(code=SHADER)
    pipeline = device.create_compute_pipeline(layout="auto", compute={"module": module, "entry_point": "main"})
    encoder = device.create_command_encoder()
    compute = encoder.begin_compute_pass()
    compute.set_pipeline(pipeline)
    kept = []
    for step in steps():
        uniform = device.create_buffer_with_data(data=struct.pack("<II", *step), usage=wgpu.BufferUsage.UNIFORM)
        entries = [
            {"binding": 0, "resource": {"buffer": keys, "offset": 0, "size": keys.size}},
            {"binding": 1, "resource": {"buffer": uniform, "offset": 0, "size": uniform.size}},
        ]
        group = device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)
        kept += [uniform, group]
        compute.set_bind_group(0, group)
        compute.dispatch_workgroups(COUNT // 64)
    compute.end()
    device.queue.submit([encoder.finish()])
    result = numpy.frombuffer(device.queue.read_buffer(keys), dtype="<u4")
    verdict = "sorted" if (result == numpy.sort(unsorted)).all() else "not sorted"
    print(verdict, hashlib.sha256(result.tobytes()).hexdigest())


main()
