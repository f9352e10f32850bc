// Activation functions (docs/models.md 1), safe for every finite argument.
#define ACTIVATION_NONE 0u
#define ACTIVATION_GELU_TANH 1u
#define ACTIVATION_GELU_ERF 2u
#define ACTIVATION_SILU 3u
#define ACTIVATION_QUICK_GELU 4u
#define ACTIVATION_RELU 5u   // products, of the finished sum, and elementwise
#define ACTIVATION_SQUASH 6u // elementwise only: 3 tanh(x / 3)

// tanh is 1 to the last bit from 10 on; drivers that compute it from exp overflow far beyond that.
vec4 safe_tanh(const vec4 x) { return tanh(clamp(x, -15.0, 15.0)); }

// x * sigmoid(k * x)
vec4 sigmoid_gate(const vec4 x, const float k) { return x / (1.0 + exp(-clamp(k * x, -88.0, 88.0))); }

// Abramowitz and Stegun 7.1.26: absolute error below 1.5e-7.
vec4 erf_of(const vec4 x) {
    vec4 a = min(abs(x), 9.0);
    vec4 t = 1.0 / (1.0 + 0.3275911 * a);
    vec4 p = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    vec4 e = 1.0 - p * exp(-a * a);
    return mix(e, -e, lessThan(x, vec4(0.0)));
}

vec4 activate(const uint kind, const vec4 x) {
    vec4 y = x;
    precise vec4 bent = x + 0.044715 * x * x * x; // never fused: every kernel shall give the same bytes
    if (kind == ACTIVATION_SILU || kind == ACTIVATION_QUICK_GELU)
        y = sigmoid_gate(x, kind == ACTIVATION_SILU ? 1.0 : 1.702);
    else if (kind == ACTIVATION_GELU_ERF)
        y = 0.5 * x * (1.0 + erf_of(x * 0.7071067811865476));
    else if (kind == ACTIVATION_GELU_TANH)
        y = 0.5 * x * (1.0 + safe_tanh(0.7978845608028654 * bent));
    return y;
}
