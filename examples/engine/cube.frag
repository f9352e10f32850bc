#version 450
layout(set = 0, binding = 0) uniform sampler2D picture;
layout(location = 0) in vec2 uv;
layout(location = 1) in vec4 tint;
layout(location = 2) in float light;
layout(location = 0) out vec4 color;

void main() {
    vec4 texel = texture(picture, uv);
    color = vec4((tint.a > 0.0 ? tint.rgb : texel.rgb) * light, 1.0);
}
