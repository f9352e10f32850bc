/* Names and shapes of published autoencoders that real_shapes.h has not: decoders, and encoders of some. */
#ifndef REAL_VAES_H
#define REAL_VAES_H
#include "real_shapes.h"

/* FLUX.2's autoencoder (docs/models.md 4.4). */
static inline void vae_flux2(real_file *file) {
    static const char *const names[] = {"bn.running_mean", "bn.running_var"};
    uint32_t i;
    real_vae(file, 32, true);
    for (i = 0; i < 2; i++) real_vector(file, 128, 1, names[i], names[i], 0, "");
}

/* Wan's decoder (docs/models.md 4.5), as diffusers names it. */
static inline void real_volume(real_file *file, uint64_t out, uint64_t in, uint64_t frames, uint64_t side,
                               const char *name) {
    const uint64_t shape[5] = {out, in, frames, side, side};
    real_tensor_of(file, shape, 5, 0, 1 / sqrt((double)(frames * side * side * in)), name, name, 0, ".weight");
    real_vector(file, out, 0, name, name, 0, ".bias");
}

static inline void real_gamma(real_file *file, uint64_t channels, uint32_t rank, const char *name) {
    const uint64_t shape[4] = {channels, 1, 1, 1};
    real_tensor_of(file, shape, rank, 1, 0.02, name, name, 0, ".gamma");
}

static inline void real_wan_resnet(real_file *file, uint64_t out, uint64_t in, const char *name) {
    static const char *const parts[] = {"%s.norm1", "%s.conv1", "%s.norm2", "%s.conv2", "%s.conv_shortcut"};
    char full[112];
    uint32_t i;
    for (i = 0; i < (out == in ? 4u : 5u); i++) {
        diti_format(full, sizeof full, parts[i], name);
        if (i == 0 || i == 2)
            real_gamma(file, i ? out : in, 4, full);
        else
            real_volume(file, out, i == 3 ? out : in, i < 4 ? 3 : 1, i < 4 ? 3 : 1, full);
    }
}

static inline void wan_middle(real_file *file, uint64_t channels, const char *half) {
    char name[112];
    uint32_t i;
    for (i = 0; i < 2; i++) {
        diti_format(name, sizeof name, "%s.mid_block.resnets.%u", half, i);
        real_wan_resnet(file, channels, channels, name);
    }
    diti_format(name, sizeof name, "%s.mid_block.attentions.0.norm", half);
    real_gamma(file, channels, 3, name);
    diti_format(name, sizeof name, "%s.mid_block.attentions.0.to_qkv", half);
    real_convolution(file, 3 * channels, channels, 1, name);
    diti_format(name, sizeof name, "%s.mid_block.attentions.0.proj", half);
    real_convolution(file, channels, channels, 1, name);
}
static inline void vae_wan(real_file *file) {
    static const uint64_t channels[] = {384, 384, 192, 96}, first[] = {384, 192, 192, 96};
    char name[112];
    uint32_t i, k;
    real_volume(file, 384, 16, 3, 3, "decoder.conv_in");
    wan_middle(file, 384, "decoder");
    for (i = 0; i < 4; i++) {
        for (k = 0; k < 3; k++) {
            diti_format(name, sizeof name, "decoder.up_blocks.%u.resnets.%u", i, k);
            real_wan_resnet(file, channels[i], k ? channels[i] : first[i], name);
        }
        diti_format(name, sizeof name, "decoder.up_blocks.%u.upsamplers.0.resample.1", i);
        if (i < 3) real_convolution(file, channels[i] / 2, channels[i], 3, name);
        diti_format(name, sizeof name, "decoder.up_blocks.%u.upsamplers.0.time_conv", i);
        if (i < 2) {
            const uint64_t shape[5] = {2 * channels[i], channels[i], 3, 1, 1};
            real_tensor_of(file, shape, 5, 0, 0.02, name, name, 0, ".weight");
            real_vector(file, 2 * channels[i], 0, name, name, 0, ".bias");
        }
    }
    real_gamma(file, 96, 4, "decoder.norm_out");
    real_volume(file, 3, 96, 3, 3, "decoder.conv_out");
    real_volume(file, 16, 16, 1, 1, "post_quant_conv");
}

/* Qwen-Image-2.1's decoder (docs/models.md 4.5.1), and Wan's resnets with convolutions of pictures. */
static inline void flat_resnet(real_file *file, uint64_t out, uint64_t in, const char *name) {
    static const char *const parts[] = {"%s.norm1", "%s.conv1", "%s.norm2", "%s.conv2", "%s.conv_shortcut"};
    char full[112];
    uint32_t i;
    for (i = 0; i < (out == in ? 4u : 5u); i++) {
        diti_format(full, sizeof full, parts[i], name);
        if (i == 0 || i == 2)
            real_gamma(file, i ? out : in, 4, full);
        else
            real_convolution(file, out, i == 3 ? out : in, i < 4 ? 3 : 1, full);
    }
}
static inline void vae_qwenimage21(real_file *file) {
    static const uint64_t channels[] = {1152, 1152, 1152, 576, 288, 144};
    char name[112];
    uint32_t i, k;
    real_convolution(file, 1152, 64, 3, "decoder.conv_in");
    for (i = 0; i < 2; i++) {
        diti_format(name, sizeof name, "decoder.mid_block.resnets.%u", i);
        flat_resnet(file, 1152, 1152, name);
    }
    real_gamma(file, 1152, 3, "decoder.mid_block.attentions.0.norm");
    real_convolution(file, 3 * 1152, 1152, 1, "decoder.mid_block.attentions.0.to_qkv");
    real_convolution(file, 1152, 1152, 1, "decoder.mid_block.attentions.0.proj");
    for (i = 0; i < 5; i++) {
        for (k = 0; k < 3; k++) {
            diti_format(name, sizeof name, "decoder.up_blocks.%u.resnets.%u", i, k);
            flat_resnet(file, channels[i + 1], channels[k ? i + 1 : i], name);
        }
        diti_format(name, sizeof name, "decoder.up_blocks.%u.upsampler.resample.1", i);
        if (i < 4) real_convolution(file, channels[i + 1], channels[i + 1], 3, name);
        diti_format(name, sizeof name, "decoder.up_blocks.%u.upsampler.time_conv", i);
        if (i < 3) real_convolution(file, 2 * channels[i + 1], channels[i + 1], 1, name);
    }
    real_gamma(file, 144, 4, "decoder.norm_out");
    real_convolution(file, 4, 144, 3, "decoder.conv_out");
    real_convolution(file, 64, 64, 1, "post_quant_conv");
}

/* Causal convolutions, which CogVideoX, HunyuanVideo and LTX-Video have (docs/models.md 4.7 to 4.10). */
static inline void causal(real_file *file, uint64_t out, uint64_t in, uint64_t kernel, const char *block,
                          const char *part) {
    char name[112];
    diti_format(name, sizeof name, "%s%s", block, part);
    real_volume(file, out, in, kernel, kernel, name);
}
static inline void norm_of(real_file *file, uint64_t channels, const char *block, const char *part) {
    char name[112];
    diti_format(name, sizeof name, "%s%s", block, part);
    real_norm(file, channels, true, name, name, 0);
}

/* CogVideoX: a norm reads the latent, too. */
static inline void cogvideox_norm(real_file *file, uint64_t channels, const char *block, const char *part) {
    char name[112];
    diti_format(name, sizeof name, "%s%s", block, part);
    norm_of(file, channels, name, ".norm_layer");
    causal(file, channels, 16, 1, name, ".conv_y.conv");
    causal(file, channels, 16, 1, name, ".conv_b.conv");
}
static inline void cogvideox_resnet(real_file *file, uint64_t out, uint64_t in, const char *block) {
    cogvideox_norm(file, in, block, ".norm1");
    cogvideox_norm(file, out, block, ".norm2");
    causal(file, out, in, 3, block, ".conv1.conv");
    causal(file, out, out, 3, block, ".conv2.conv");
    if (out != in) causal(file, out, in, 1, block, ".conv_shortcut");
}
static inline void vae_cogvideox(real_file *file) {
    static const uint64_t channels[] = {512, 512, 256, 256, 128};
    char name[112];
    uint32_t i, k;
    causal(file, 512, 16, 3, "decoder", ".conv_in.conv");
    for (i = 0; i < 2; i++) {
        diti_format(name, sizeof name, "decoder.mid_block.resnets.%u", i);
        cogvideox_resnet(file, 512, 512, name);
    }
    for (i = 0; i < 4; i++) {
        for (k = 0; k < 4; k++) {
            diti_format(name, sizeof name, "decoder.up_blocks.%u.resnets.%u", i, k);
            cogvideox_resnet(file, channels[i + 1], channels[k ? i + 1 : i], name);
        }
        diti_format(name, sizeof name, "decoder.up_blocks.%u.upsamplers.0.conv", i);
        if (i < 3) real_convolution(file, channels[i + 1], channels[i + 1], 3, name);
    }
    cogvideox_norm(file, 128, "decoder", ".norm_out");
    causal(file, 3, 128, 3, "decoder", ".conv_out.conv");
}

static inline void hunyuanvideo_resnet(real_file *file, uint64_t out, uint64_t in, const char *block) {
    norm_of(file, in, block, ".norm1");
    norm_of(file, out, block, ".norm2");
    causal(file, out, in, 3, block, ".conv1.conv");
    causal(file, out, out, 3, block, ".conv2.conv");
    if (out != in) causal(file, out, in, 1, block, ".conv_shortcut.conv");
}
static inline void vae_hunyuanvideo(real_file *file) {
    static const uint64_t channels[] = {512, 512, 512, 256, 128};
    static const char *const layers[] = {"to_q", "to_k", "to_v", "to_out.0"};
    char name[112];
    uint32_t i, k;
    causal(file, 512, 16, 3, "decoder", ".conv_in.conv");
    for (i = 0; i < 2; i++) {
        diti_format(name, sizeof name, "decoder.mid_block.resnets.%u", i);
        hunyuanvideo_resnet(file, 512, 512, name);
    }
    norm_of(file, 512, "decoder.mid_block.attentions.0", ".group_norm");
    for (i = 0; i < 4; i++) {
        diti_format(name, sizeof name, "decoder.mid_block.attentions.0.%s", layers[i]);
        real_layer(file, 512, 512, name, name, 0);
    }
    for (i = 0; i < 4; i++) {
        for (k = 0; k < 3; k++) {
            diti_format(name, sizeof name, "decoder.up_blocks.%u.resnets.%u", i, k);
            hunyuanvideo_resnet(file, channels[i + 1], channels[k ? i + 1 : i], name);
        }
        diti_format(name, sizeof name, "decoder.up_blocks.%u", i);
        if (i < 3) causal(file, channels[i + 1], channels[i + 1], 3, name, ".upsamplers.0.conv.conv");
    }
    norm_of(file, 128, "decoder", ".conv_norm_out");
    causal(file, 3, 128, 3, "decoder", ".conv_out.conv");
    causal(file, 16, 16, 1, "post_quant_conv", "");
}

/* HunyuanVideo 1.5's: a level trades the channels of its convolution, times in the first two (decoder). */
static inline void hunyuanvideo15_resnet(real_file *file, uint64_t channels, const char *block) {
    static const char *const parts[] = {"norm1", "conv1.conv", "norm2", "conv2.conv"};
    char name[112];
    uint32_t i;
    for (i = 0; i < 4; i++) {
        diti_format(name, sizeof name, "%s.%s", block, parts[i]);
        if (i % 2)
            real_volume(file, channels, channels, 3, 3, name);
        else
            real_gamma(file, channels, 4, name);
    }
}
static inline void hunyuanvideo15_middle(real_file *file, const char *half) {
    static const char *const layers[] = {"to_q", "to_k", "to_v", "proj_out"};
    char name[112];
    uint32_t i;
    for (i = 0; i < 2; i++) {
        diti_format(name, sizeof name, "%s.mid_block.resnets.%u", half, i);
        hunyuanvideo15_resnet(file, 1024, name);
    }
    diti_format(name, sizeof name, "%s.mid_block.attentions.0.norm", half);
    real_gamma(file, 1024, 4, name);
    for (i = 0; i < 4; i++) {
        diti_format(name, sizeof name, "%s.mid_block.attentions.0.%s", half, layers[i]);
        real_volume(file, 1024, 1024, 1, 1, name);
    }
}
static inline void vae_hunyuanvideo15(real_file *file) {
    static const uint64_t channels[] = {1024, 1024, 512, 256, 128};
    char name[112];
    uint32_t i, k;
    real_volume(file, 1024, 32, 3, 3, "decoder.conv_in.conv");
    hunyuanvideo15_middle(file, "decoder");
    for (i = 0; i < 5; i++) {
        for (k = 0; k < 3; k++) {
            diti_format(name, sizeof name, "decoder.up_blocks.%u.resnets.%u", i, k);
            hunyuanvideo15_resnet(file, channels[i], name);
        }
        diti_format(name, sizeof name, "decoder.up_blocks.%u.upsamplers.0.conv.conv", i);
        if (i < 4) real_volume(file, (i < 2 ? 8 : 4) * channels[i + 1], channels[i], 3, 3, name);
    }
    real_gamma(file, 128, 4, "decoder.norm_out");
    real_volume(file, 3, 128, 3, 3, "decoder.conv_out.conv");
}
static inline void vae_hunyuanvideo15_encoder(real_file *file) {
    static const uint64_t channels[] = {128, 256, 512, 1024, 1024};
    char name[112];
    uint32_t i, k;
    real_volume(file, 128, 3, 3, 3, "encoder.conv_in.conv");
    for (i = 0; i < 5; i++) {
        for (k = 0; k < 2; k++) {
            diti_format(name, sizeof name, "encoder.down_blocks.%u.resnets.%u", i, k);
            hunyuanvideo15_resnet(file, channels[i], name);
        }
        diti_format(name, sizeof name, "encoder.down_blocks.%u.downsamplers.0.conv.conv", i);
        if (i < 4) real_volume(file, channels[i + 1] / (i < 2 ? 4 : 8), channels[i], 3, 3, name);
    }
    hunyuanvideo15_middle(file, "encoder");
    real_gamma(file, 1024, 4, "encoder.norm_out");
    real_volume(file, 64, 1024, 3, 3, "encoder.conv_out.conv");
}

/* LTX-Video 0.9.0: norms without weights, but where channels change. */
static inline void ltx_resnet(real_file *file, uint64_t out, uint64_t in, const char *block) {
    causal(file, out, in, 3, block, ".conv1.conv");
    causal(file, out, out, 3, block, ".conv2.conv");
    if (out == in) return;
    norm_of(file, in, block, ".norm3");
    causal(file, out, in, 1, block, ".conv_shortcut.conv");
}
static inline void vae_ltx(real_file *file) {
    static const uint64_t channels[] = {512, 512, 512, 256, 128};
    static const uint32_t counts[] = {4, 3, 3, 3, 4}; /* the first is the middle */
    char name[112];
    uint32_t i, k;
    real_vector(file, 128, 0, "latents_mean", "latents_mean", 0, "");
    real_vector(file, 128, 1, "latents_std", "latents_std", 0, "");
    causal(file, 512, 128, 3, "decoder", ".conv_in.conv");
    for (i = 0; i < 5; i++) {
        char block[64];
        diti_format(block, sizeof block, i ? "decoder.up_blocks.%u" : "decoder.mid_block", i - 1);
        if (i && channels[i] != channels[i - 1]) {
            diti_format(name, sizeof name, "%s.conv_in", block);
            ltx_resnet(file, channels[i], channels[i - 1], name);
        }
        if (i > 1) causal(file, 8 * channels[i], channels[i], 3, block, ".upsamplers.0.conv.conv");
        for (k = 0; k < counts[i]; k++) {
            diti_format(name, sizeof name, "%s.resnets.%u", block, k);
            ltx_resnet(file, channels[i], channels[i], name);
        }
    }
    causal(file, 48, 128, 3, "decoder", ".conv_out.conv");
}

/* LTX-2's and LTX-2.3's decoders. */
static inline void vae_ltx2_of(real_file *file, uint32_t levels, const uint64_t *channels, const uint32_t *counts,
                               const uint32_t *rows) {
    char name[112];
    uint32_t i, k;
    real_vector(file, 128, 0, "latents_mean", "latents_mean", 0, "");
    real_vector(file, 128, 1, "latents_std", "latents_std", 0, "");
    causal(file, channels[0], 128, 3, "decoder", ".conv_in.conv");
    for (i = 0; i < levels; i++) {
        char block[64];
        diti_format(block, sizeof block, i ? "decoder.up_blocks.%u" : "decoder.mid_block", i - 1);
        if (i) causal(file, rows[i], channels[i - 1], 3, block, ".upsamplers.0.conv.conv");
        for (k = 0; k < counts[i]; k++) {
            diti_format(name, sizeof name, "%s.resnets.%u", block, k);
            ltx_resnet(file, channels[i], channels[i], name);
        }
    }
    causal(file, 48, channels[levels - 1], 3, "decoder", ".conv_out.conv");
}
static inline void vae_ltx2(real_file *file) {
    static const uint64_t channels[] = {1024, 512, 256, 128};
    static const uint32_t counts[] = {5, 5, 5, 5}, rows[] = {0, 4096, 2048, 1024};
    vae_ltx2_of(file, 4, channels, counts, rows);
}
static inline void vae_ltx23(real_file *file) {
    static const uint64_t channels[] = {1024, 512, 512, 256, 128};
    static const uint32_t counts[] = {2, 2, 4, 6, 4}, rows[] = {0, 4096, 4096, 512, 512};
    vae_ltx2_of(file, 5, channels, counts, rows);
}

/* The parts that make the sound of LTX-2's clips (docs/models.md 4.12), by the original's names: a decoder that is
   AutoencoderKLLTX2Audio with diffusers' defaults, and a vocoder, or two of them. */
static inline void real_sound_block(real_file *file, uint64_t out, uint64_t in, const char *name) {
    static const char *const parts[] = {"conv1", "conv2", "nin_shortcut"};
    char full[112];
    uint32_t i;
    for (i = 0; i < (out == in ? 2u : 3u); i++) {
        diti_format(full, sizeof full, "audio_vae.decoder.%s.%s.conv", name, parts[i]);
        real_convolution(file, out, i == 1 ? out : in, i == 2 ? 1 : 3, full);
    }
}
static inline void real_spectrogram(real_file *file) {
    static const uint64_t channels[] = {128, 256, 512};
    uint64_t in = 512;
    char name[112];
    uint32_t i, k;
    real_vector(file, 128, 0, "", "audio_vae.per_channel_statistics.mean-of-means", 0, "");
    real_vector(file, 128, 1, "", "audio_vae.per_channel_statistics.std-of-means", 0, "");
    real_convolution(file, in, 8, 3, "audio_vae.decoder.conv_in.conv");
    real_sound_block(file, in, in, "mid.block_1");
    real_sound_block(file, in, in, "mid.block_2");
    for (i = 3; i-- > 0; in = channels[i]) {
        for (k = 0; k < 3; k++) {
            diti_format(name, sizeof name, "up.%u.block.%u", i, k);
            real_sound_block(file, channels[i], k ? channels[i] : in, name);
        }
        diti_format(name, sizeof name, "audio_vae.decoder.up.%u.upsample.conv.conv", i);
        if (i) real_convolution(file, channels[i], channels[i], 3, name);
    }
    real_convolution(file, 2, in, 3, "audio_vae.decoder.conv_out.conv");
}
/* A convolution over time; a transposed one has its channels the other way round. */
static inline void real_taps(real_file *file, uint64_t out, uint64_t in, uint64_t taps, bool transposed, bool bias,
                             const char *name) {
    const uint64_t shape[3] = {transposed ? in : out, transposed ? out : in, taps};
    real_tensor_of(file, shape, 3, 0, 1 / sqrt((double)(taps * in)), "", name, 0, ".weight");
    if (bias) real_vector(file, out, 0, "", name, 0, ".bias");
}
static inline void real_snake(real_file *file, uint64_t channels, const char *name) {
    static const uint64_t taps[3] = {1, 1, 12};
    real_vector(file, channels, 0, "", name, 0, ".act.alpha");
    real_vector(file, channels, 0, "", name, 0, ".act.beta");
    real_tensor_of(file, taps, 3, 0, 1, "", name, 0, ".upsample.filter");
    real_tensor_of(file, taps, 3, 0, 1, "", name, 0, ".downsample.lowpass.filter");
}
/* kernels: taps of the levels, 0 behind the last one. */
static inline void real_vocoder(real_file *file, const char *before, uint64_t channels, const uint32_t *kernels,
                                bool snakes) {
    static const uint32_t taps[] = {3, 7, 11};
    char name[112];
    uint32_t i, k, j;
#define NAME(...) (diti_format(name, sizeof name, __VA_ARGS__), name)
    real_taps(file, channels, 128, 7, false, true, NAME("%sconv_pre", before));
    for (i = 0; kernels[i]; i++) {
        real_taps(file, channels / 2, channels, kernels[i], true, true, NAME("%sups.%u", before, i));
        channels /= 2;
        for (k = 0; k < 18; k++) {
            const uint32_t block = 3 * i + k / 6;
            j = k % 3;
            real_taps(file, channels, channels, taps[k / 6], false, true,
                      NAME("%sresblocks.%u.convs%u.%u", before, block, k / 3 % 2 + 1, j));
            if (snakes) real_snake(file, channels, NAME("%sresblocks.%u.acts%u.%u", before, block, k / 3 % 2 + 1, j));
        }
    }
    if (snakes) real_snake(file, channels, NAME("%sact_post", before));
    real_taps(file, 2, channels, 7, false, !snakes, NAME("%sconv_post", before));
#undef NAME
}
static inline void sound_ltx2(real_file *file) {
    static const uint32_t kernels[] = {16, 15, 8, 4, 4, 0};
    real_spectrogram(file);
    real_vocoder(file, "vocoder.", 1024, kernels, false);
}
static inline void sound_ltx23(real_file *file) {
    static const uint32_t first[] = {11, 4, 4, 4, 4, 4, 0}, second[] = {12, 11, 4, 4, 4, 0};
    static const uint64_t windows[3] = {514, 1, 512};
    real_spectrogram(file);
    real_vocoder(file, "vocoder.vocoder.", 1536, first, true);
    real_vocoder(file, "vocoder.bwe_generator.", 512, second, true);
    real_table(file, 64, 257, "", "vocoder.mel_stft.mel_basis", 0);
    real_tensor_of(file, windows, 3, 0, 1, "", "vocoder.mel_stft.stft_fn.forward_basis", 0, "");
}

/* MiniMax-H3's decoder, by diffusers' names. */
static inline void vae_minimax(real_file *file) {
    static const char *const qkv[] = {"to_q", "to_k", "to_v", "to_out.0"};
    const uint64_t width = 2048, registers[3] = {1, 4, width};
    char name[112];
    uint32_t i, k;
    real_convolution(file, 24, 24, 1, "post_quant_conv");
    real_layer(file, width, 24, "decoder.proj_in", "decoder.proj_in", 0);
    real_tensor_of(file, registers, 3, 0, 1, "decoder.register_tokens", "decoder.register_tokens", 0, "");
    for (i = 0; i < 36; i++) {
#define NAME(REST) (diti_format(name, sizeof name, "decoder.transformer_blocks.%u.%s", i, REST), name)
        real_norm(file, width, false, NAME("norm1"), name, 0);
        real_norm(file, width, false, NAME("norm2"), name, 0);
        for (k = 0; k < 4; k++) {
            diti_format(name, sizeof name, "decoder.transformer_blocks.%u.attn.%s", i, qkv[k]);
            real_layer(file, width, width, name, name, 0);
        }
        real_layer(file, 8 * width, width, NAME("ff.net.0.proj"), name, 0);
        real_layer(file, width, 4 * width, NAME("ff.net.2"), name, 0);
        real_vector(file, width, 1, NAME("scale1"), name, 0, "");
        real_vector(file, width, 1, NAME("scale2"), name, 0, "");
#undef NAME
    }
    real_norm(file, width, true, "decoder.norm_out", "decoder.norm_out", 0);
    real_layer(file, 3072, width, "decoder.proj_out", "decoder.proj_out", 0);
}

static inline void vae_minimax_encoder(real_file *file) {
    static const uint64_t channels[] = {128, 256, 256, 512, 512, 1024};
    char block[80];
    uint32_t i, k;
    real_volume(file, 128, 3, 3, 3, "encoder.conv_in");
    for (i = 0; i < 6; i++) {
        for (k = 0; k < 2; k++) {
            uint64_t out = channels[i], in = i && !k ? channels[i - 1] : out;
            diti_format(block, sizeof block, "encoder.down_blocks.%u.resnets.%u", i, k);
            norm_of(file, in, block, ".norm1");
            causal(file, out, in, 3, block, ".conv1");
            norm_of(file, out, block, ".norm2");
            causal(file, out, out, 3, block, ".conv2");
            if (out != in) causal(file, out, in, 1, block, ".conv_shortcut");
        }
        diti_format(block, sizeof block, "encoder.down_blocks.%u.downsamplers.0.conv", i);
        if (i < 4) real_volume(file, channels[i], channels[i], 3, 3, block);
    }
    norm_of(file, 1024, "encoder.norm_out", "");
    real_volume(file, 48, 1024, 3, 3, "encoder.conv_out");
    real_volume(file, 48, 48, 1, 1, "quant_conv");
}
/* The decoder of MiniMax-H3's sound (docs/models.md 4.12.1), as ComfyUI's file has it. */
static inline void sound_minimax(real_file *file) {
    static const uint32_t kernels[] = {9, 9, 4, 4, 4, 4, 4}, taps[] = {3, 7, 11};
    uint64_t channels = 1024;
    char name[112];
    uint32_t i, k;
#define NAME(...) (diti_format(name, sizeof name, __VA_ARGS__), name)
    real_vector(file, 32, 0, "", "latents_mean", 0, "");
    real_vector(file, 32, 1, "", "latents_std", 0, "");
    real_taps(file, 2048, 32, 1, false, true, "dec_in_proj");
    real_taps(file, channels, 2048, 7, false, true, "decoder.conv_pre");
    for (i = 0; i < 7; i++, channels /= 2) {
        real_taps(file, channels / 2, channels, kernels[i], true, true, NAME("decoder.ups.%u.0", i));
        for (k = 0; k < 18; k++) {
            const uint32_t block = 3 * i + k / 6, j = k % 6;
            real_taps(file, channels / 2, channels / 2, taps[k / 6], false, true,
                      NAME("decoder.resblocks.%u.convs%u.%u", block, j % 2 + 1, j / 2));
            real_snake(file, channels / 2, NAME("decoder.resblocks.%u.activations.%u", block, j));
        }
    }
    real_snake(file, channels, "decoder.activation_post");
    real_taps(file, 1, channels, 7, false, false, "decoder.conv_post");
#undef NAME
}

/* Open-Sora-Plan 1.1 (docs/models.md 4.7). */
static inline void plan_resnet(real_file *file, uint64_t out, uint64_t in, const char *block) {
    norm_of(file, in, block, ".norm1");
    norm_of(file, out, block, ".norm2");
    causal(file, out, in, 3, block, ".conv1.conv");
    causal(file, out, out, 3, block, ".conv2.conv");
    if (out != in) causal(file, out, in, 1, block, ".nin_shortcut.conv");
}
static inline void vae_open_sora_plan(real_file *file) {
    static const char *const layers[] = {".q.conv", ".k.conv", ".v.conv", ".proj_out.conv"};
    static const uint64_t channels[] = {128, 256, 512, 512, 512}, one[] = {1};
    char name[112], mix[128];
    uint32_t i, k;
    causal(file, 512, 4, 3, "decoder", ".conv_in.conv");
    plan_resnet(file, 512, 512, "decoder.mid.block_1");
    norm_of(file, 512, "decoder.mid.attn_1", ".norm");
    for (i = 0; i < 4; i++) causal(file, 512, 512, 1, "decoder.mid.attn_1", layers[i]);
    plan_resnet(file, 512, 512, "decoder.mid.block_2");
    for (i = 4; i-- > 0;) {
        for (k = 0; k < 3; k++) {
            diti_format(name, sizeof name, "decoder.up.%u.block.%u", i, k);
            plan_resnet(file, channels[i], channels[k ? i : i + 1], name);
        }
        diti_format(name, sizeof name, "decoder.up.%u.upsample.conv.conv", i);
        if (i > 0) real_volume(file, channels[i], channels[i], 1, 3, name);
        diti_format(name, sizeof name, "decoder.up.%u.time_upsample", i);
        diti_format(mix, sizeof mix, "%s.mix_factor", name);
        if (i < 2) continue;
        causal(file, channels[i], channels[i], 3, name, ".conv.conv");
        real_tensor_of(file, one, 1, 0, 0.02, mix, mix, 0, "");
    }
    norm_of(file, 128, "decoder", ".norm_out");
    causal(file, 3, 128, 3, "decoder", ".conv_out.conv");
    causal(file, 4, 4, 1, "post_quant_conv", ".conv");
}

/* Open-Sora 1.2 (docs/models.md 4.8): frames over time, then pictures. */
static inline void open_sora_conv(real_file *file, uint64_t out, uint64_t in, uint64_t kernel, const char *block,
                                  const char *part) {
    const uint64_t shape[5] = {out, in, kernel, kernel, kernel};
    char name[112];
    diti_format(name, sizeof name, "%s%s", block, part);
    real_tensor_of(file, shape, 5, 0, 0.02, name, name, 0, ".weight");
}
static inline void open_sora_resnet(real_file *file, uint64_t out, uint64_t in, const char *block) {
    norm_of(file, in, block, ".norm1");
    norm_of(file, out, block, ".norm2");
    open_sora_conv(file, out, in, 3, block, ".conv1.conv");
    open_sora_conv(file, out, out, 3, block, ".conv2.conv");
    if (out != in) open_sora_conv(file, out, in, 1, block, ".conv3.conv");
}
static inline void vae_open_sora(real_file *file) {
    static const uint64_t channels[] = {128, 256, 256, 512, 512}, ends[] = {1, 4, 1, 1, 1};
    char name[112];
    uint32_t i, k;
    real_tensor_of(file, ends, 5, 3, 0.02, "scale", "scale", 0, "");
    real_tensor_of(file, ends, 5, 0, 0.02, "shift", "shift", 0, "");
    causal(file, 4, 4, 1, "temporal_vae.post_quant_conv", ".conv");
    causal(file, 512, 4, 3, "temporal_vae.decoder", ".conv1.conv");
    for (k = 0; k < 4; k++) {
        diti_format(name, sizeof name, "temporal_vae.decoder.res_blocks.%u", k);
        open_sora_resnet(file, 512, 512, name);
    }
    for (i = 4; i-- > 0;) {
        for (k = 0; k < 4; k++) {
            diti_format(name, sizeof name, "temporal_vae.decoder.block_res_blocks.%u.%u", i, k);
            open_sora_resnet(file, channels[i], channels[k ? i : i + 1], name);
        }
        diti_format(name, sizeof name, "temporal_vae.decoder.conv_blocks.%u", i - 1);
        if (i > 1) causal(file, 2 * channels[i], channels[i], 3, name, ".conv");
    }
    norm_of(file, 128, "temporal_vae.decoder", ".norm1");
    causal(file, 4, 128, 3, "temporal_vae.decoder", ".conv_out.conv");
    file->prefix = "spatial_vae.module.";
    real_vae(file, 4, true);
    file->prefix = NULL;
}

/* ---- encoders, for those whose published size counts both halves ---- */

/* Wan 2.1's: one list of resnets and of what makes pictures smaller. */
static inline void vae_wan_encoder(real_file *file) {
    static const uint64_t channels[] = {96, 96, 192, 384, 384};
    char name[112];
    uint32_t i, k, block = 0;
    real_volume(file, 96, 3, 3, 3, "encoder.conv_in");
    for (i = 0; i < 4; i++) {
        for (k = 0; k < 2; k++) {
            diti_format(name, sizeof name, "encoder.down_blocks.%u", block++);
            real_wan_resnet(file, channels[i + 1], channels[k ? i + 1 : i], name);
        }
        if (i == 3) break;
        diti_format(name, sizeof name, "encoder.down_blocks.%u.resample.1", block);
        real_convolution(file, channels[i + 1], channels[i + 1], 3, name);
        diti_format(name, sizeof name, "encoder.down_blocks.%u.time_conv", block++);
        if (i) real_volume(file, channels[i + 1], channels[i + 1], 3, 1, name);
    }
    wan_middle(file, 384, "encoder");
    real_gamma(file, 384, 4, "encoder.norm_out");
    real_volume(file, 32, 384, 3, 3, "encoder.conv_out");
    real_volume(file, 32, 32, 1, 1, "quant_conv");
}

/* Wan 2.2's: other widths, and lists of lists. */
static inline void wan22_half(real_file *file, const uint64_t *channels, uint32_t resnets, bool decoder) {
    const char *half = decoder ? "decoder" : "encoder", *blocks = decoder ? "up" : "down";
    char name[112];
    uint32_t i, k;
    diti_format(name, sizeof name, "%s.conv_in", half);
    real_volume(file, channels[0], decoder ? 48 : 12, 3, 3, name);
    for (i = 0; i < 4; i++) {
        bool timed = decoder ? i < 2 : i == 1 || i == 2;
        for (k = 0; k < resnets; k++) {
            diti_format(name, sizeof name, "%s.%s_blocks.%u.resnets.%u", half, blocks, i, k);
            real_wan_resnet(file, channels[i + 1], channels[k ? i + 1 : i], name);
        }
        if (i == 3) break;
        diti_format(name, sizeof name, "%s.%s_blocks.%u.%ssampler.resample.1", half, blocks, i, blocks);
        real_convolution(file, channels[i + 1], channels[i + 1], 3, name);
        diti_format(name, sizeof name, "%s.%s_blocks.%u.%ssampler.time_conv", half, blocks, i, blocks);
        if (timed) real_volume(file, (decoder ? 2 : 1) * channels[i + 1], channels[i + 1], 3, 1, name);
    }
    wan_middle(file, channels[decoder ? 0 : 4], half);
    diti_format(name, sizeof name, "%s.norm_out", half);
    real_gamma(file, channels[4], 4, name);
    diti_format(name, sizeof name, "%s.conv_out", half);
    real_volume(file, decoder ? 12 : 96, channels[4], 3, 3, name);
}
/* width: channels of the last level. */
static inline void real_wan22_decoder(real_file *file, uint64_t width) {
    const uint64_t channels[] = {4 * width, 4 * width, 4 * width, 2 * width, width};
    wan22_half(file, channels, 3, true);
    real_volume(file, 48, 48, 1, 1, "post_quant_conv");
}
static inline void published_wan22_decoder(real_file *file) { real_wan22_decoder(file, 256); }
static inline void vae_wan22(real_file *file) {
    static const uint64_t in[] = {160, 160, 320, 640, 640};
    wan22_half(file, in, 2, false);
    real_volume(file, 96, 96, 1, 1, "quant_conv");
    published_wan22_decoder(file);
}

static inline void vae_hunyuanvideo_encoder(real_file *file) {
    static const uint64_t channels[] = {128, 128, 256, 512, 512};
    static const char *const layers[] = {"to_q", "to_k", "to_v", "to_out.0"};
    char name[112];
    uint32_t i, k;
    causal(file, 128, 3, 3, "encoder", ".conv_in.conv");
    for (i = 0; i < 4; i++) {
        for (k = 0; k < 2; k++) {
            diti_format(name, sizeof name, "encoder.down_blocks.%u.resnets.%u", i, k);
            hunyuanvideo_resnet(file, channels[i + 1], channels[k ? i + 1 : i], name);
        }
        diti_format(name, sizeof name, "encoder.down_blocks.%u", i);
        if (i < 3) causal(file, channels[i + 1], channels[i + 1], 3, name, ".downsamplers.0.conv.conv");
    }
    for (i = 0; i < 2; i++) {
        diti_format(name, sizeof name, "encoder.mid_block.resnets.%u", i);
        hunyuanvideo_resnet(file, 512, 512, name);
    }
    norm_of(file, 512, "encoder.mid_block.attentions.0", ".group_norm");
    for (i = 0; i < 4; i++) {
        diti_format(name, sizeof name, "encoder.mid_block.attentions.0.%s", layers[i]);
        real_layer(file, 512, 512, name, name, 0);
    }
    norm_of(file, 512, "encoder", ".conv_norm_out");
    causal(file, 32, 512, 3, "encoder", ".conv_out.conv");
    causal(file, 32, 32, 1, "quant_conv", "");
}

/* LTX-Video 0.9.0's: a level that becomes wider does so behind what makes it smaller. */
static inline void vae_ltx_encoder(real_file *file) {
    static const uint64_t channels[] = {128, 256, 512, 512, 512};
    static const uint32_t counts[] = {4, 3, 3, 3, 4}; /* the last is the middle */
    char name[112];
    uint32_t i, k;
    causal(file, 128, 48, 3, "encoder", ".conv_in.conv");
    for (i = 0; i < 5; i++) {
        uint64_t width = channels[i];
        char block[64];
        diti_format(block, sizeof block, i < 4 ? "encoder.down_blocks.%u" : "encoder.mid_block", i);
        for (k = 0; k < counts[i]; k++) {
            diti_format(name, sizeof name, "%s.resnets.%u", block, k);
            ltx_resnet(file, width, width, name);
        }
        if (i < 3) causal(file, width, width, 3, block, ".downsamplers.0.conv");
        diti_format(name, sizeof name, "%s.conv_out", block);
        if (i < 4 && channels[i + 1] != width) ltx_resnet(file, channels[i + 1], width, name);
    }
    causal(file, 129, 512, 3, "encoder", ".conv_out.conv");
}
#endif
