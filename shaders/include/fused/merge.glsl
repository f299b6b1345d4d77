// The end of split attention: the last of a head's splits to finish adds all of them up, in the order of the splits, so that the
// bits do not depend on who was last. As wide as what comes before it: each invocation has four neighbouring elements of a share
// of the splits, eight loads at a time.
//
// A partial result is HEAD_DIM / 4 vec4 for each query head, followed by one with its weight and its largest score.

const uint MERGE_HEADS = GROUP < 2u ? GROUP : 2u;  // heads that are added up at once
const uint MERGE_QUADS = 2u * T * MERGE_HEADS;
const uint SPLIT_GROUPS = T / QUADS;               // invocations that share a quad of the merge
#ifndef A_MERGE_STEP
#define A_MERGE_STEP (GROUP > 4u ? 2u : 4u)
#endif
const uint MERGE_STEP = A_MERGE_STEP; // loads of a quad that are in flight at once, for each query head

shared vec2 abouts[SPLIT_GROUPS * MERGE_HEADS];
shared uint arrived;
#ifdef A_SHARED
A_SHARED
#endif

// Adds up the partial results of all splits of a head.
void merge(Attention a, uint head, uint splits) {
    uint lane = gl_LocalInvocationID.x;
    uint stride = GROUP * (QUADS + 1u);
    uint base = head * a.splits * stride;
    uint quad = lane % QUADS;
    uint my_splits = lane / QUADS; // every SPLIT_GROUPS-th from here on
    vec4 sum[GROUP];
    vec2 about[GROUP]; // weight and largest score
    [[unroll]] for (uint j = 0u; j < GROUP; j++) {
        sum[j] = vec4(0.0);
        about[j] = vec2(0.0, -3.4e38);
    }
    for (uint s = my_splits; s < splits; s += MERGE_STEP * SPLIT_GROUPS) {
        vec4 part[MERGE_STEP * GROUP];
        vec2 part_about[MERGE_STEP * GROUP];
        [[unroll]] for (uint i = 0u; i < MERGE_STEP * GROUP; i++) {
            uint at = base + min(s + i / GROUP * SPLIT_GROUPS, splits - 1u) * stride + i % GROUP * (QUADS + 1u);
            part[i] = A_PART(at + quad);
            part_about[i] = A_PART(at + QUADS).xy;
        }
        [[unroll]] for (uint i = 0u; i < MERGE_STEP * GROUP; i++) {
            if (s + i / GROUP * SPLIT_GROUPS >= splits) {
                part_about[i].y = -3.4e38;
            }
        }
        [[unroll]] for (uint j = 0u; j < GROUP; j++) {
            float top = about[j].y;
            [[unroll]] for (uint e = 0u; e < MERGE_STEP; e++) {
                top = max(top, part_about[e * GROUP + j].y);
            }
            float shrink = exp(about[j].y - top);
            sum[j] *= shrink;
            about[j] = vec2(shrink * about[j].x, top);
            [[unroll]] for (uint e = 0u; e < MERGE_STEP; e++) {
                float grow = exp(part_about[e * GROUP + j].y - top);
                sum[j] += grow * part[e * GROUP + j];
                about[j].x += grow * part_about[e * GROUP + j].x;
            }
        }
    }
    for (uint first = 0u; first < GROUP; first += MERGE_HEADS) {
        [[unroll]] for (uint j = 0u; j < GROUP; j++) {
            if (j / MERGE_HEADS * MERGE_HEADS == first && my_splits < SPLIT_GROUPS) {
                A_SET(j % MERGE_HEADS * T + lane, sum[j]);
                if (quad == 0u) {
                    abouts[j % MERGE_HEADS * SPLIT_GROUPS + my_splits] = about[j];
                }
            }
        }
        barrier();
        for (uint i = lane; i < MERGE_HEADS * QUADS; i += T) {
            uint j = i / QUADS;
            float top = -3.4e38;
            [[unroll]] for (uint g = 0u; g < SPLIT_GROUPS; g++) {
                top = max(top, abouts[j * SPLIT_GROUPS + g].y);
            }
            vec4 all = vec4(0.0);
            float weight = 0.0;
            [[unroll]] for (uint g = 0u; g < SPLIT_GROUPS; g++) {
                vec2 its = abouts[j * SPLIT_GROUPS + g];
                float grow = exp(its.y - top);
                all += grow * A_GET(j * T + g * QUADS + i % QUADS);
                weight += grow * its.x;
            }
            if (first + j < GROUP) {
                A_OUT4((head * GROUP + first + j) * QUADS + i % QUADS, all / weight);
            }
        }
        barrier();
    }
}

// A split of a head is done, of so many; the last one merges them.
void arrive(Attention a, uint head, uint splits) {
    if (splits == 1u) {
        return;
    }
    A_RELEASE();
    if (gl_LocalInvocationID.x == 0u) {
        arrived = A_ARRIVE(head);
    }
    A_ACQUIRE();
    if (arrived + 1u < splits) {
        return;
    }
    // The last one: everybody's partial results are here. The counter is zero again for the next layer.
    if (gl_LocalInvocationID.x == 0u) {
        A_RESET(head);
    }
    merge(a, head, splits);
}
