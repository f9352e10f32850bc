#version 450
/* A cube or a rectangle, without vertex buffers. */
layout(push_constant) uniform Push {
    vec4 place; /* of a rectangle: x, y, width, height; of the cube: sine and cosine of its angle, width / height, 0 */
    vec4 color; /* a > 0: instead of the texture */
    uint cube;
};
layout(location = 0) out vec2 uv;
layout(location = 1) out vec4 tint;
layout(location = 2) out float light;

const vec2 corners[6] = vec2[](vec2(0, 0), vec2(1, 0), vec2(1, 1), vec2(0, 0), vec2(1, 1), vec2(0, 1));

void main() {
    vec2 corner = corners[gl_VertexIndex % 6];
    uv = corner;
    tint = color;
    light = 1.0;
    if (cube == 0u) {
        gl_Position = vec4(place.xy + corner * place.zw, 0.0, 1.0);
        return;
    }
    uint side = gl_VertexIndex / 6;
    vec3 p = vec3(corner * 2.0 - 1.0, 1.0); /* the side that faces -z after its turn */
    p = side == 0u ? vec3(p.x, p.y, -p.z) : side == 1u ? vec3(p.z, p.y, p.x) : side == 2u ? vec3(-p.x, p.y, p.z)
      : side == 3u ? vec3(-p.z, p.y, -p.x) : side == 4u ? vec3(p.x, -p.z, -p.y) : vec3(p.x, p.z, p.y);
    p = vec3(p.x * place.y + p.z * place.x, p.y, p.z * place.y - p.x * place.x); /* about y, then a little about x */
    p = vec3(p.x, p.y * 0.92 - p.z * 0.39, p.z * 0.92 + p.y * 0.39);
    light = side == 4u || side == 5u ? 0.7 : 0.85 + 0.15 * abs(place.y);
    float w = p.z + 4.5;
    gl_Position = vec4(p.x * 2.0 / place.z, p.y * 2.0, 0.5 * w, w);
}
