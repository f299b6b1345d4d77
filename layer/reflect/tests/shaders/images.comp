// Images and texel buffers: loading the handle reads no memory, what is done with it does.
// expect 0.0 StorageImage One read {0}
// expect 0.1 StorageImage One write {0}
// expect 0.2 StorageImage One both {0}
// expect 0.3 StorageImage One none {}
// expect 0.4 CombinedImageSampler One read {0}
// expect 0.5 SampledImage One read {0}
// expect 0.6 Sampler One none {}
// expect 0.7 SampledImage One read {0}
// expect 0.8 UniformTexelBuffer One read {0}
// expect 0.9 StorageTexelBuffer One write {0}
// expect 0.10 StorageTexelBuffer One read {0}
// expect 0.11 StorageImage One write {0}
// expect 0.12 CombinedImageSampler One none {}
// expect addresses none
// expect synchronising no
#version 450
#extension GL_EXT_samplerless_texture_functions : enable
layout(local_size_x = 8) in;
layout(set = 0, binding = 0, rgba32f) uniform image2D loaded;
layout(set = 0, binding = 1, rgba32f) uniform image2D stored;
layout(set = 0, binding = 2, r32ui) uniform uimage2D counted;
layout(set = 0, binding = 3, rgba32f) uniform image2D measured;
layout(set = 0, binding = 4) uniform sampler2D combined;
layout(set = 0, binding = 5) uniform texture2D separate;
layout(set = 0, binding = 6) uniform sampler plain;
layout(set = 0, binding = 7) uniform texture2D fetched;
layout(set = 0, binding = 8) uniform textureBuffer texels;
layout(set = 0, binding = 9, r32f) uniform imageBuffer texels_out;
layout(set = 0, binding = 10, r32f) uniform imageBuffer texels_in;
layout(set = 0, binding = 11, rgba32f) uniform image2D passed;
layout(set = 0, binding = 12) uniform sampler2D sized;
void paint(writeonly image2D target, vec4 colour) { imageStore(target, ivec2(0), colour); }
void main() {
    vec4 x = imageLoad(loaded, ivec2(0));
    imageStore(stored, imageSize(measured), x);
    imageAtomicAdd(counted, ivec2(0), 1u);
    x = textureLod(combined, vec2(0), 0) + textureLod(sampler2D(separate, plain), vec2(0), 0);
    x += texelFetch(fetched, ivec2(0), 0) + texelFetch(texels, 0) + imageLoad(texels_in, 0);
    imageStore(texels_out, 0, x);
    paint(passed, x + vec4(textureSize(sized, 0), 0, 0));
}
