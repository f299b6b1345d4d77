// A bitonic sort on Dawn, Chromium's WebGPU, through its bindings for Node: 55 dispatches, each of which reads what the
// last one wrote. Dawn derives barriers from how it sees buffers used, and its compiler (Tint) makes the shader.
// Prints a digest of the result and whether it is sorted.
//
//     sort_dawn.js FOLDER_OF_THE_PACKAGE

"use strict";
const crypto = require("crypto");
const path = require("path");

const COUNT = 1024;
const SHADER = `
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
}`;

// The network's compare distances: for each block size, its halves down to one.
function steps() {
  const all = [];
  for (let block = 2; block <= COUNT; block *= 2) {
    for (let distance = block / 2; distance >= 1; distance /= 2) all.push([block, distance]);
  }
  return all;
}

// Numbers from a linear congruence, so that each run sorts the same ones.
function numbers() {
  const keys = new Uint32Array(COUNT);
  let state = 12345;
  for (let i = 0; i < COUNT; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    keys[i] = state;
  }
  return keys;
}

async function main() {
  const { create, globals } = require(path.resolve(process.argv[2]));
  Object.assign(globalThis, globals);
  const gpu = create(["backend=vulkan"]);
  const adapter = await gpu.requestAdapter();
  if (!adapter) throw new Error("Dawn finds no Vulkan device");
  const device = await adapter.requestDevice();
  device.addEventListener("uncapturederror", (event) => { throw event.error; });

  const { STORAGE, COPY_SRC, COPY_DST, UNIFORM, MAP_READ } = GPUBufferUsage;
  const bytes = 4 * COUNT;
  const keys = device.createBuffer({ size: bytes, usage: STORAGE | COPY_SRC | COPY_DST });
  const result = device.createBuffer({ size: bytes, usage: COPY_DST | MAP_READ });
  device.queue.writeBuffer(keys, 0, numbers());
  const module = device.createShaderModule({ code: SHADER });
  const pipeline = await device.createComputePipelineAsync({ layout: "auto", compute: { module, entryPoint: "main" } });
  const layout = pipeline.getBindGroupLayout(0);
  const encoder = device.createCommandEncoder();
  for (const step of steps()) {
    const parameters = device.createBuffer({ size: 8, usage: UNIFORM | COPY_DST });
    device.queue.writeBuffer(parameters, 0, new Uint32Array(step));
    const entries = [keys, parameters].map((buffer, binding) => ({ binding, resource: { buffer } }));
    const pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, device.createBindGroup({ layout, entries }));
    pass.dispatchWorkgroups(COUNT / 64);
    pass.end();
  }
  encoder.copyBufferToBuffer(keys, 0, result, 0, bytes);
  device.queue.submit([encoder.finish()]);
  await result.mapAsync(GPUMapMode.READ);
  const sorted = new Uint32Array(result.getMappedRange().slice(0));
  const inOrder = sorted.every((key, i) => i === 0 || sorted[i - 1] <= key);
  console.log(crypto.createHash("sha256").update(sorted).digest("hex"), inOrder ? "sorted" : "NOT SORTED");
  result.unmap();
  device.destroy();
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
