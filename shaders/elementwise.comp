#version 450
// Work on each element alone: activation and addition, picking a row of a table, the solver step. One invocation does
// four columns.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "activation.glsl"

#define OP_MAP 0u     // dst[r, c] = activation(x[r, c] * scale + offset) + add[r % add_rows, c]
#define OP_SELECT 1u  // the same with x[*step, c]
#define OP_ADVANCE 2u // *dst += 1
#define OP_SOLVER 3u  // one step of sample/sample.h, see solve() below
#define OP_GUIDE 4u   // how a guided prediction is mixed, an image to a workgroup, see guide() below
#define OP_JUDGE 5u   // looks at the records of guards, see judge() below
#define OP_WEIGH 6u   // rows of a prompt times weights, a workgroup per row, see weigh() below
#define OP_MERGE 7u   // attention to some keys and to others becomes attention to both, see merge() below

layout(constant_id = 1) const uint OP = OP_MAP;
layout(constant_id = 2) const uint X_FORMAT = FORMAT_F32;
layout(constant_id = 3) const uint OUT_FORMAT = FORMAT_F32;
layout(constant_id = 4) const uint ACTIVATION = ACTIVATION_NONE;
layout(constant_id = 5) const bool ADD = false;
layout(constant_id = 6) const bool VECTOR = true; // columns, offsets and pitches are multiples of 4
layout(constant_id = 7) const bool GUIDED = false;
layout(constant_id = 8) const bool KEEP_X0 = false;
layout(constant_id = 9) const bool NOISY = false;
layout(constant_id = 10) const bool CORRECTS = false; // below h2 stands y
layout(constant_id = 11) const bool LEARNED = false;  // below each image's prediction stands that of the variance
layout(constant_id = 12) const bool MIXED = false;    // guide() has said how
layout(constant_id = 13) const bool GATED = false;    // the record is the first one, see judge() below
layout(constant_id = 14) const bool KEPT = false; // below y stand a picture's latent, its noise, and 0 where they stay

layout(push_constant) uniform Push {
    uint first_group;
    uint rows, columns;
    uint x_offset, x_pitch;
    uint add_offset, add_pitch, add_rows; // add_rows: also the channels of an image
    uint out_offset, out_pitch;
    float scale, offset;
    uint h1_offset, h2_offset, x0_offset, noise_offset; // all with the pitch of out
    uint guard_offset;                                  // solver: of health
};

READABLE(0, x, readonly)
READABLE(1, add, readonly)
WRITABLE(2, dst)
WRITABLE(3, h1)
WRITABLE(4, h2)
WRITABLE(5, x0)
READABLE(6, noise, readonly)
#define GUARD_BINDING 7
#include "guard.glsl"

vec4 load_i8(uint row, uint column) {
    int word = int(x_u1[(row + column) >> 2]);
    vec4 v = vec4(bitfieldExtract(word, 0, 8), bitfieldExtract(word, 8, 8), bitfieldExtract(word, 16, 8), word >> 24);
    return v * uintBitsToFloat(x_u1[(row + (columns + 15u) / 16u * 16u) >> 2]);
}

vec4 load_x(const uint at, const uint count) { return VECTOR ? x_load4(X_FORMAT, at) : x_some(X_FORMAT, at, count); }

void map(const uint row, const uint column) {
    uint from_row = row;
    if (OP == OP_SELECT) from_row = add_u1[add_offset];
    uint from = x_offset + from_row * x_pitch;
    vec4 v = X_FORMAT == FORMAT_I8 ? load_i8(from, column) : load_x(from + column, columns - column);
    v = activate(ACTIVATION, v * GUARD_FACTOR(y) * scale + offset);
    if (ACTIVATION == ACTIVATION_SQUASH) v = 3.0 * safe_tanh(v / 3.0);
    uint at = out_offset + row * out_pitch + column;
    if (ADD) {
        from = add_offset + row % add_rows * add_pitch + column;
        v += VECTOR ? add_load4(FORMAT_F32, from) : add_some(FORMAT_F32, from, columns - column);
    }
    if (VECTOR)
        dst_store4(OUT_FORMAT, at, v);
    else
        dst_store_some(OUT_FORMAT, at, columns - column, v);
}

float coefficient(const uint i) { return add_load1(FORMAT_F32, add_offset + i); }

// Where the first half of the batch has the prediction for a row of the latent; the second half is as long.
uint prediction_row(uint row) { return LEARNED ? row + row / add_rows * add_rows : row; }
uint prediction_half() { return LEARNED ? 2u * rows : rows; }

#define COEFFICIENTS 24u // then two numbers per image, by guide()

// With c the conditional prediction and d what the unconditional one falls short of it, the guided prediction is a * c
// + b * d. b = (scale - 1) * (limit / |d| where d is longer), a takes out what of d points along c, and both are
// rescaled so that the deviation comes closer to that of c.
shared vec2 lane_sums[OP == OP_GUIDE || OP == OP_WEIGH ? THREADS : 1u];
vec2 sum_lanes(vec2 v) {
    uint i = gl_LocalInvocationID.x;
    barrier();
    lane_sums[i] = v;
    barrier();
    for (uint span = THREADS / 2u; span > 0u; span /= 2u) {
        if (i < span) lane_sums[i] += lane_sums[i + span];
        barrier();
    }
    return lane_sums[0];
}

void guide(uint image) {
    vec2 sum = vec2(0.0), squares = vec2(0.0);
    float products = 0.0, count = float(add_rows * columns), scale = dst_load1(FORMAT_F32, out_offset + 9u);
    for (uint row = image * add_rows; row < (image + 1u) * add_rows; row++) {
        uint at = x_offset + prediction_row(row) * x_pitch;
        for (uint column = gl_LocalInvocationID.x; column < columns; column += THREADS) {
            float u = x_load1(FORMAT_F32, at + column),
                  c = x_load1(FORMAT_F32, at + prediction_half() * x_pitch + column), d = c - u;
            sum += vec2(c, d);
            squares += vec2(c * c, d * d);
            products += c * d;
        }
    }
    sum = sum_lanes(sum);
    squares = sum_lanes(squares);
    products = sum_lanes(vec2(products, 0.0)).x;
    float kept = min(1.0, dst_load1(FORMAT_F32, out_offset + 20u) / sqrt(max(squares.y, 1e-37)));
    float b = (scale - 1.0) * kept,
          a = 1.0 - dst_load1(FORMAT_F32, out_offset + 19u) * b * products / max(squares.x, 1e-37);
    sum /= count;
    squares = squares / count - sum * sum;
    products = products / count - sum.x * sum.y;
    float mixed = a * a * squares.x + 2.0 * a * b * products + b * b * squares.y;
    float closer =
        1.0 + dst_load1(FORMAT_F32, out_offset + 18u) * (sqrt(max(squares.x, 0.0) / max(mixed, 1e-37)) - 1.0);
    if (gl_LocalInvocationID.x == 0u) {
        dst_u1[out_offset + COEFFICIENTS + 2u * image] = floatBitsToUint(scale == 1.0 ? 1.0 : a * closer);
        dst_u1[out_offset + COEFFICIENTS + 2u * image + 1u] = floatBitsToUint(b * closer);
    }
}

// Rows times weights of their own, in place, then all rows of an item times what brings their mean back to where it
// was: how A1111's web UI weighs the tokens of a prompt. First (KEEP_X0) the sums of each row, and of the row times its
// weight, then the rows. A row of the table: weight, its item's first row and number of rows.
void weigh(uint row) {
    uint at = out_offset + row * out_pitch, table = add_offset + 4u * row, lane = gl_LocalInvocationID.x,
         summed = KEEP_X0 ? columns : 0u;
    uint sums = h1_offset / 2u, item = KEEP_X0 ? 0u : add_u1[table + 2u];
    float w = add_load1(FORMAT_F32, table);
    vec2 sum = vec2(0.0);
    for (uint c = lane; c < summed; c += THREADS) sum += dst_load1(FORMAT_F32, at + c) * vec2(1.0, w);
    for (uint r = lane; r < item; r += THREADS) sum += uintBitsToFloat(h1_h4[sums + add_u1[table + 1u] + r]);
    sum = sum_lanes(sum);
    if (KEEP_X0) h1_h4[sums + row] = floatBitsToUint(sum);
    w *= mix(1.0, sum.x / sum.y, abs(sum.x) < 1.0e6 * abs(sum.y)); // or there is no mean to keep
    for (uint c = lane; c < columns - summed; c += THREADS)
        dst_u1[at + c] = floatBitsToUint(dst_load1(FORMAT_F32, at + c) * w);
}

vec4 guided(vec4 u, vec4 c, uint row) {
    uint image = COEFFICIENTS + row / add_rows * 2u;
    if (MIXED) return coefficient(image) * c + coefficient(image + 1u) * (c - u);
    return coefficient(9u) == 1.0 || row % add_rows >= uint(coefficient(21u)) ? c : u + coefficient(9u) * (c - u);
}

// States and prediction have pitches that are multiples of 4, so whole groups of four are read and written; padding
// stays finite.
void solve(uint row, uint column) {
    uint at = row * out_pitch + column, at_y = at + rows * out_pitch,
         from = x_offset + prediction_row(row) * x_pitch + column;
    vec4 m = x_load4(FORMAT_F32, from);
    vec4 x = dst_load4(FORMAT_F32, out_offset + at), before = h1_load4(FORMAT_F32, h1_offset + at);
    vec4 older = h2_load4(FORMAT_F32, h2_offset + at);
    if (GUIDED) {
        from += prediction_half() * x_pitch;
        m = guided(m, x_load4(FORMAT_F32, from), row);
    }
    vec4 start = coefficient(0u) * x + coefficient(1u) * m;
    if (coefficient(2u) < 3e38) start = clamp(start, vec4(-coefficient(2u)), vec4(coefficient(2u)));
    vec4 next = coefficient(3u) * x + coefficient(4u) * m + coefficient(5u) * start + coefficient(6u) * before +
                coefficient(7u) * older;
    if (CORRECTS) {
        vec4 y = h2_load4(FORMAT_F32, h2_offset + at_y);
        next += coefficient(12u) * y;
        y = coefficient(13u) * x + coefficient(14u) * y + coefficient(15u) * start + coefficient(16u) * before +
            coefficient(17u) * older;
        h2_store4(FORMAT_F32, h2_offset + at_y, y);
    }
    if (NOISY) {
        vec4 noisy = coefficient(8u) * noise_load4(FORMAT_F32, noise_offset + at);
        if (LEARNED) noisy *= exp(coefficient(11u) * x_load4(FORMAT_F32, from + add_rows * x_pitch));
        next += noisy;
    }
    if (KEPT) {
        uint below = rows * out_pitch, kept = h2_offset + at_y + below;
        vec4 v = coefficient(22u) * h2_load4(FORMAT_F32, kept) + coefficient(23u) * h2_load4(FORMAT_F32, kept + below);
        next = mix(v, next, h2_load4(FORMAT_F32, kept + 2u * below));
    }
    h2_store4(FORMAT_F32, h2_offset + at, before);
    h1_store4(FORMAT_F32, h1_offset + at, start);
    dst_store4(FORMAT_F32, out_offset + at, next);
    if (KEEP_X0) x0_store4(FORMAT_F32, x0_offset + at, start);
    bvec4 real = lessThan(uvec4(column) + uvec4(0u, 1u, 2u, 3u), uvec4(columns));
    uvec4 exponents = max(floatBitsToUint(next) & 0x7f800000u, floatBitsToUint(m) & 0x7f800000u);
    if (any(equal(mix(uvec4(0u), exponents, real), uvec4(0x7f800000u)))) {
        atomicCompSwap(guard[guard_offset].x, 0u, uint(coefficient(10u)));
    }
}

// Notes in the first record, which is diti_health, that segment add_rows must run again: one of records x_offset to
// add_offset, each of x_pitch cells, has something to say.
void judge() {
    for (uint r = x_offset + gl_LocalInvocationID.x; r < add_offset; r += THREADS) {
        uvec2 peaks = guard[guard_offset + r * x_pitch + 1u].xy;
        if (peaks != uvec2(0u)) atomicCompSwap(guard[guard_offset].y, 0u, add_rows);
    }
}

// dst, whose sums of exponentials have the logarithms h1, takes in x with those in add; h2: the new ones. Heads have
// add_rows columns.
void merge(uint row, uint column) {
    uint head = row * add_pitch + column / add_rows, at = out_offset + row * out_pitch + column;
    float before = h1_load1(FORMAT_F32, h1_offset + head), more = add_load1(FORMAT_F32, add_offset + head) - before;
    vec4 o = dst_load4(FORMAT_F32, at);
    dst_store4(FORMAT_F32, at, o + (x_load4(FORMAT_F32, x_offset + row * x_pitch + column) - o) / (1.0 + exp(-more)));
    if (column % add_rows == 0u)
        h2_u1[h2_offset + head] = floatBitsToUint(before + max(more, 0.0) + log(1.0 + exp(-abs(more))));
}

void main() {
    if (OP == OP_GUIDE) guide(first_group + gl_WorkGroupID.x);
    if (OP == OP_JUDGE) judge();
    if (OP == OP_WEIGH) weigh(first_group + gl_WorkGroupID.x);
    if (OP >= OP_GUIDE && OP <= OP_WEIGH) return;
    uint quads = (columns + 3u) / 4u, i = (first_group + gl_WorkGroupID.x) * THREADS + gl_LocalInvocationID.x;
    if (i >= mix(rows * quads, 0u, GATED && guard[guard_offset].y != 0u)) return; // something must run again first
    uint row = i / quads, column = i % quads * 4u;
    if (OP <= OP_SELECT) map(row, column);
    if (OP == OP_ADVANCE) dst_u1[out_offset] += 1u;
    if (OP == OP_SOLVER) solve(row, column);
    if (OP == OP_MERGE) merge(row, column);
}
