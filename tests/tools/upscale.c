/* Pictures and latents scaled up (examples/cli/upscale.h) beside torch.nn.functional.interpolate in doubles (2.15,
   antialias where the filter has it) and Pillow 12's Lanczos: 5 x 3 values to 8 x 7. */
#include "examples/cli/upscale.h"
#include "library.h"
#include "test.h"
#include <string.h>

enum { FROM_WIDTH = 5, FROM_HEIGHT = 3, WIDTH = 8, HEIGHT = 7, VALUES = WIDTH * HEIGHT };

static const struct {
    upscale_kernel kernel;
    float values[VALUES];
} wanted[] = {
    {UPSCALE_NEAREST, {-0.500000f, -0.500000f, -0.224138f, -0.224138f, 0.051724f,  0.327586f,  0.327586f,  -0.396552f,
                       -0.500000f, -0.500000f, -0.224138f, -0.224138f, 0.051724f,  0.327586f,  0.327586f,  -0.396552f,
                       -0.500000f, -0.500000f, -0.224138f, -0.224138f, 0.051724f,  0.327586f,  0.327586f,  -0.396552f,
                       -0.120690f, -0.120690f, 0.155172f,  0.155172f,  0.431034f,  -0.293103f, -0.293103f, -0.017241f,
                       -0.120690f, -0.120690f, 0.155172f,  0.155172f,  0.431034f,  -0.293103f, -0.293103f, -0.017241f,
                       0.258621f,  0.258621f,  -0.465517f, -0.465517f, -0.189655f, 0.086207f,  0.086207f,  0.362069f,
                       0.258621f,  0.258621f,  -0.465517f, -0.465517f, -0.189655f, 0.086207f,  0.086207f,  0.362069f}},
    {UPSCALE_NEAREST_EXACT,
     {-0.500000f, -0.500000f, -0.224138f, 0.051724f,  0.051724f,  0.327586f,  -0.396552f, -0.396552f,
      -0.500000f, -0.500000f, -0.224138f, 0.051724f,  0.051724f,  0.327586f,  -0.396552f, -0.396552f,
      -0.120690f, -0.120690f, 0.155172f,  0.431034f,  0.431034f,  -0.293103f, -0.017241f, -0.017241f,
      -0.120690f, -0.120690f, 0.155172f,  0.431034f,  0.431034f,  -0.293103f, -0.017241f, -0.017241f,
      -0.120690f, -0.120690f, 0.155172f,  0.431034f,  0.431034f,  -0.293103f, -0.017241f, -0.017241f,
      0.258621f,  0.258621f,  -0.465517f, -0.189655f, -0.189655f, 0.086207f,  0.362069f,  0.362069f,
      0.258621f,  0.258621f,  -0.465517f, -0.189655f, -0.189655f, 0.086207f,  0.362069f,  0.362069f}},
    {UPSCALE_LINEAR, {-0.500000f, -0.379310f, -0.206897f, -0.034483f, 0.137931f,  0.310345f,  -0.079741f, -0.396552f,
                      -0.445813f, -0.325123f, -0.152709f, 0.019704f,  0.147475f,  0.230603f,  -0.088054f, -0.342365f,
                      -0.283251f, -0.162562f, 0.009852f,  0.182266f,  0.176108f,  -0.008621f, -0.112993f, -0.179803f,
                      -0.120690f, -0.000000f, 0.172414f,  0.344828f,  0.204741f,  -0.247845f, -0.137931f, -0.017241f,
                      0.041872f,  -0.024938f, -0.093596f, 0.078818f,  0.072660f,  -0.112069f, 0.024631f,  0.145320f,
                      0.204433f,  -0.049877f, -0.359606f, -0.187192f, -0.059421f, 0.023707f,  0.187192f,  0.307882f,
                      0.258621f,  -0.058190f, -0.448276f, -0.275862f, -0.103448f, 0.068966f,  0.241379f,  0.362069f}},
    {UPSCALE_CUBIC, {-0.567079f, -0.445177f, -0.241595f, -0.099177f, 0.195396f,  0.411404f,  -0.048685f, -0.515396f,
                     -0.485911f, -0.357152f, -0.144880f, 0.023958f,  0.208133f,  0.266076f,  -0.084950f, -0.411628f,
                     -0.355098f, -0.178341f, 0.091593f,  0.320799f,  0.255091f,  -0.045311f, -0.187468f, -0.229661f,
                     -0.146299f, -0.024397f, 0.182232f,  0.444494f,  0.235996f,  -0.267734f, -0.194283f, 0.008368f,
                     0.091730f,  -0.005787f, -0.056699f, 0.167703f,  0.101995f,  -0.193603f, -0.014914f, 0.217167f,
                     0.273697f,  -0.063810f, -0.396976f, -0.236305f, -0.052130f, 0.013980f,  0.208391f,  0.347980f,
                     0.377465f,  -0.080418f, -0.555067f, -0.422805f, -0.128232f, 0.097932f,  0.316075f,  0.429148f}},
    {UPSCALE_ANTIALIASED,
     {-0.556322f, -0.441453f, -0.243545f, -0.078056f, 0.164431f,  0.396589f,  -0.090447f, -0.492049f,
      -0.487875f, -0.369127f, -0.165598f, 0.014248f,  0.181321f,  0.277392f,  -0.106548f, -0.409308f,
      -0.337605f, -0.191705f, 0.049586f,  0.267494f,  0.235809f,  -0.027007f, -0.162178f, -0.221366f,
      -0.140540f, -0.025670f, 0.174245f,  0.418680f,  0.245025f,  -0.273480f, -0.162609f, 0.002608f,
      0.083435f,  -0.007272f, -0.086698f, 0.128116f,  0.096430f,  -0.163292f, 0.022254f,  0.199674f,
      0.271377f,  -0.036543f, -0.411357f, -0.237090f, -0.070017f, 0.031633f,  0.226036f,  0.349944f,
      0.354118f,  -0.042643f, -0.538240f, -0.379442f, -0.136955f, 0.101893f,  0.308363f,  0.418391f}},
    {UPSCALE_LANCZOS, {-0.555003f, -0.467497f, -0.288912f, -0.163433f, 0.196681f,  0.459124f,  -0.068419f, -0.539533f,
                       -0.498417f, -0.380700f, -0.141960f, 0.026218f,  0.225709f,  0.281402f,  -0.126024f, -0.440457f,
                       -0.387469f, -0.229879f, 0.094263f,  0.332608f,  0.267413f,  -0.017396f, -0.213158f, -0.259491f,
                       -0.140265f, -0.054314f, 0.190335f,  0.472670f,  0.234238f,  -0.271493f, -0.193334f, 0.033540f,
                       0.142044f,  0.003208f,  -0.083270f, 0.149211f,  0.084015f,  -0.194929f, 0.019929f,  0.270022f,
                       0.306627f,  -0.026326f, -0.411872f, -0.252610f, -0.053119f, 0.011490f,  0.228350f,  0.364587f,
                       0.395761f,  -0.048978f, -0.607681f, -0.492732f, -0.132618f, 0.140355f,  0.350100f,  0.411232f}},
};

/* Values as those that torch and Pillow were given: 37 i mod 29, from -0.5 on. */
static void make_values(float *out, uint32_t step) {
    uint32_t i;
    for (i = 0; i < FROM_WIDTH * FROM_HEIGHT * step; i++)
        out[i] = (float)(i / step * 37u % 29u) / 29.0f - 0.5f + (float)(i % step);
}

int main(void) {
    float from[FROM_WIDTH * FROM_HEIGHT * 2], to[VALUES * 2];
    uint32_t i, k, step;
    for (k = 0; k < sizeof wanted / sizeof wanted[0]; k++)
        for (step = 1; step <= 2; step++) { /* the second value of two is larger by one, and so is what becomes of it */
            make_values(from, step);
            CHECK(upscale_floats(wanted[k].kernel, from, FROM_WIDTH, FROM_HEIGHT, to, WIDTH, HEIGHT, step));
            for (i = 0; i < VALUES * step; i++)
                CHECK_MESSAGE(fabsf(to[i] - (float)(i % step) - wanted[k].values[i / step]) < 2e-6f,
                              "kernel %u, value %u of %u: %.7f for %.7f", (unsigned)k, (unsigned)i, (unsigned)step,
                              (double)to[i], (double)wanted[k].values[i / step]);
        }
    for (k = 0; k < UPSCALERS; k++) { /* the same size: the same values; one value: that one everywhere */
        make_values(from, 1);
        CHECK(upscale_floats(upscalers[k].kernel, from, FROM_WIDTH, FROM_HEIGHT, to, FROM_WIDTH, FROM_HEIGHT, 1));
        for (i = 0; i < FROM_WIDTH * FROM_HEIGHT; i++)
            CHECK_MESSAGE(fabsf(to[i] - from[i]) < 1e-6f, "%s, value %u", upscalers[k].name, (unsigned)i);
        CHECK(upscale_floats(upscalers[k].kernel, from + 3, 1, 1, to, WIDTH, HEIGHT, 1));
        for (i = 0; i < VALUES; i++)
            CHECK_MESSAGE(fabsf(to[i] - from[3]) < 1e-6f, "%s, value %u", upscalers[k].name, (unsigned)i);
    }
    CHECK(strcmp(upscaler_name(UPSCALE_LATENT), "Latent") == 0 && upscalers[UPSCALE_LATENT].latent);
    CHECK(!upscaler_name(UPSCALERS));
    return TEST_END("upscale");
}
