/* build/dit, driven as a process: every option, every refusal with its exit code and the value it names, the PNG read
   back, batches, interruption, damaged models, what --info tells, device memory that runs out, and streams that are
   closed or full. cli_inputs.c has what the program is given.
   Usage: cli [PROGRAM]; PROGRAM is build/dit unless given.   test-runs: lavapipe */
#define _GNU_SOURCE
#include "command_line.h"
#include "test.h"
#include "examples/cli/options.h"
#include <sys/resource.h>

#define HEART "ein grünes Herz ♥"

/* ---- Texts that are printed on demand, streams that are closed or full, options without effect ---- */

static void test_answers(void) {
    static const char *const words[] = {"--model",
                                        "-m,",
                                        "--prompt",
                                        "-p,",
                                        "--negative-prompt",
                                        "-n,",
                                        "-W,",
                                        "-H,",
                                        "--steps",
                                        "--cfg-scale",
                                        "--sampler",
                                        "--sampling-method",
                                        "--scheduler",
                                        "--seed",
                                        "-s,",
                                        "--batch-count",
                                        "-b,",
                                        "--frames",
                                        "--fps",
                                        "--init-video",
                                        "--output",
                                        "-o,",
                                        "--device",
                                        "--list-devices",
                                        "--class",
                                        "--lora",
                                        "--ref-image",
                                        "--preview",
                                        "--verbose",
                                        "--quiet",
                                        "--help",
                                        "--help-all",
                                        "--info",
                                        "--version",
                                        "130"};
    static const char *const rarer[] = {
        "--plain-prompt", "--rng",           "--noise", "--latent-out",        "--trace",
        "--tune",         "--clip-on-cpu",   "--type ", "--tensor-type-rules", "--info-level",
        "--video-frames", "--mask-strategy", "--loop ", "--encode-prompt",     "--conditioning"};
    outcome o = RUN("--help-all");
    size_t column = 0, widest = 0, i;
    CHECK(o.code == 0 && !*o.err);
    for (i = 0; i < sizeof rarer / sizeof rarer[0]; i++)
        CHECK_MESSAGE(strstr(o.out, rarer[i]), "%s is not in --help-all", rarer[i]);
    for (i = 0; o.out[i]; i++) {
        column = o.out[i] == '\n' ? 0 : column + 1;
        if (column > widest) widest = column;
    }
    o = RUN("--help");
    CHECK(o.code == 0 && !*o.err);
    CHECK_MESSAGE(count_lines(o.out) >= 20 && count_lines(o.out) <= 40, "%d lines", count_lines(o.out));
    for (i = 0; o.out[i]; i++) {
        column = o.out[i] == '\n' ? 0 : column + 1;
        if (column > widest) widest = column;
    }
    CHECK_MESSAGE(widest <= 80, "%zu columns", widest);
    for (i = 0; i < sizeof words / sizeof words[0]; i++)
        CHECK_MESSAGE(strstr(o.out, words[i]), "%s is not in --help", words[i]);
    o = RUN("-h");
    CHECK(o.code == 0 && strstr(o.out, "usage: dit"));
    o = RUN("--version");
    CHECK(o.code == 0 && strncmp(o.out, "dit.h ", 6) == 0 && count_lines(o.out) == 1);
    CHECK_MESSAGE(system("for tool in bench compare convert plan; do "
                         "test \"$(build/dit-$tool --version)\" = \"$(build/dit --version)\" || exit; done") == 0,
                  "a tool tells another version than dit");
    o = RUN("--sampler", "list");
    CHECK(o.code == 0 && strstr(o.out, "euler\n"));
    o = RUN("--type", "list");
    CHECK(o.code == 0 && strstr(o.out, "i8r+rot\n"));
    o = RUN("--rng", "list");
    CHECK(o.code == 0 && strstr(o.out, "cpu\n"));
    o = RUN("--list-devices");
    CHECK_MESSAGE(o.code == 0 && strncmp(o.out, "0: ", 3) == 0 && strstr(o.out, "Vulkan 1."), "%s%s", o.out, o.err);
}

/* An option that would have no effect is refused, or told where it may be meant for other models. */
static void test_without_effect(void) {
    char *out = strdup(in_work("rules.png"));
    outcome o = RUN("--info", BUNDLED, "--json");
    CHECK(one_line_saying(&o, 2, "--json: --info tells tables"));
    o = RUN(QUICK, "-o", out, "--tensor-type-rules", "nomatch=i8r,transformer.*=i8r");
    CHECK_MESSAGE(o.code == 0 && strstr(o.err, "dit: warning: --tensor-type-rules or --type has a rule for "
                                               "\"nomatch\", which decides about no weight"),
                  "%s", o.err);
    CHECK(!strstr(o.err, "\"transformer.*\""));
    o = RUN(QUICK, "-o", out, "--tensor-type-rules", "transformer.*=i8r", "--type", "i8r");
    CHECK_MESSAGE(o.code == 0 && strstr(o.err, "has a rule for \"transformer.*blocks.*\", which"), "%s", o.err);
    o = RUN(QUICK, "-o", out, "--type", "i8r", "--offload-to-cpu");
    CHECK_MESSAGE(o.code == 0 && !strstr(o.err, "has a rule"), "%s", o.err);
    free(out);
}

static void test_streams(void) {
    outcome o = run_as(STREAMS_NO_OUTPUT, NO_STOP, (char **)ARGS("--help"));
    CHECK(one_line_saying(&o, 4, "closed"));
    o = run_as(STREAMS_FULL_OUTPUT, NO_STOP, (char **)ARGS("--help"));
    CHECK(one_line_saying(&o, 4, "standard output"));
    o = run_as(STREAMS_NO_OUTPUT, NO_STOP, (char **)ARGS(QUICK, "--json", "-o", (char *)in_work("untold.png")));
    CHECK(one_line_saying(&o, 4, "closed"));
    CHECK(!exists(in_work("untold.png")));
    o = run_as(STREAMS_FULL_OUTPUT, NO_STOP, (char **)ARGS(QUICK, "--json", "-o", (char *)in_work("untold.png")));
    CHECK(one_line_saying(&o, 4, "cannot write to standard output: "));
    CHECK(exists(in_work("untold.png")));
    o = run_as(STREAMS_FULL_OUTPUT, NO_STOP, (char **)ARGS(QUICK, "-o", (char *)in_work("untold.png")));
    CHECK(o.code == 4 && strstr(o.err, "dit: cannot write to standard output: "));
    store(in_work("untold.txt"), "a\nb\n", 4);
    o = run_as(STREAMS_FULL_OUTPUT, NO_STOP,
               (char **)ARGS("-m", MODEL, "--steps", "1", "-W", "32", "-H", "32", "--json", "--batch",
                             (char *)in_work("untold.txt"), "-o", (char *)in_work("untold.png")));
    CHECK(one_line_saying(&o, 4, "standard output") && exists(in_work("untold_2.png")));
}

/* The lines of the other programs arrive, too, or the exit code says that they do not. */
static void test_full_programs(void) {
    static const char *const lines[][10] = {
        {"build/dit-bench", "gemm", "--m", "8", "--n", "32", "--k", "32", "--runs", "1"},
        {"build/dit-bench", "--help"},
        {"build/dit-plan", "-m", "flux", "-d", "4xT4"},
        {"build/dit-plan", "--list"},
        {"build/dit-convert", "--help"},
        {"build/dit-compare", "--help"},
        {"build/dit-compare", "-m", CLASSES, "--class", "3", "--steps", "1", "--list"}};
    const char *usual = program;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char *args[12] = {"dit"};
        outcome o;
        program = lines[i][0];
        for (int k = 1; k < 10; k++) args[k] = (char *)lines[i][k];
        o = run_as(STREAMS_FULL_OUTPUT, NO_STOP, args);
        CHECK_MESSAGE(o.code == 4 && strstr(o.err, "cannot write to standard output: "), "%s %s: %d: %s", program,
                      args[1], o.code, o.err);
    }
    program = usual;
}

/* ---- Refusals: before any work, one line, the nearest valid value ---- */

typedef struct refusal {
    const char *args[8]; /* the last is NULL */
    int code;
    const char *says;
} refusal;

static const refusal refusals[] = {
    {{"-W", "40"}, 2, "is 48"},
    {{"-W", "33"}, 2, "is 32"},
    {{"-W", "0"}, 2, "is 16"},
    {{"--width", "-16"}, 2, "is 16"},
    {{"-H", "100000"}, 2, "is 16384"},
    {{"--height=12.5"}, 2, "is 16"},
    {{"-H", "tall"}, 2, "is 64"},
    {{"-H", "99999999999999999999"}, 2, "is 16384"},
    {{"--steps", "0"}, 2, "is 1"},
    {{"--steps", "1001"}, 2, "is 1000"},
    {{"--steps", "12.7"}, 2, "is 13"},
    {{"--steps", "20x"}, 2, "is 20"},
    {{"--steps", "many"}, 2, "is 20"},
    {{"--steps="}, 2, "is 20"},
    {{"--steps", " 5"}, 2, "is 5"},
    {{"--steps", "0x10"}, 2, "is 16"},
    {{"-b", "0"}, 2, "is 1"},
    {{"--batch-count", "-3"}, 2, "is 1"},
    {{"-b", "10000"}, 2, "is 9999"},
    {{"-b", "nan"}, 2, "is 1"},
    {{"--cfg-scale", "0.5"}, 2, "is 1"},
    {{"--cfg-scale", "101"}, 2, "is 100"},
    {{"--cfg-scale", "inf"}, 2, "is 100"},
    {{"--cfg-scale", "nan"}, 2, "is 4.5"},
    {{"--cfg-scale", "4,5"}, 2, "is 4"},
    {{"--low-noise-cfg-scale", "0"}, 2, "is 1"},
    {{"--low-noise-cfg-scale", "3"}, 2, "this model has one transformer, whose guidance is --cfg-scale"},
    {{"--high-noise-cfg-scale", "3"}, 2, "--low-noise-cfg-scale that of the second"},
    {{"-s", "18446744073709551616"}, 2, "is 18446744073709551615"},
    {{"-s", "abc"}, 2, "is 42"},
    {{"-s", "-1.5"}, 2, "-1 or random"},
    {{"-s", "7.9"}, 2, "is 7"},
    {{"--sampler", "eular"}, 2, "is euler"},
    {{"--sampling-method", "dpm++2n"}, 2, "is dpm++2m"},
    {{"--sampler", "seeds_2"}, 2, "does not have the sampler \"seeds_2\"; the nearest is res-multistep-a;"},
    {{"--sampler", "DPM++ 2S a"}, 2, "is dpm2-a;"},
    {{"--scheduler", "no such schedule"}, 2, "linspace, leading"},
    {{"--scheduler", "ays"}, 2, "is karras;"},
    {{"--rng", "gpu"}, 2, "is cpu"},
    {{"--weight-budget", "4X"}, 2, "800M or 4G"},
    {{"--weight-budget", "4K"}, 2, "at least"},
    {{"--promt", "x"}, 2, "--prompt"},
    {{"--cfg", "3"}, 2, "did you mean --cfg-scale?"},
    {{"--negative=x"}, 2, "did you mean --negative-prompt?"},
    {{"--guidance-scale", "3"}, 2, "--cfg-scale is the scale of guidance, --guidance what a distilled"},
    {{"--ref-image", "models/strip.png"}, 2, "--ref-image: this model (pixart sigma) takes no references; leave them"},
    {{"--keep-references"}, 2, "does not take; leave it out"},
    {{"--preview", "tae,x.png"},
     2,
     "--preview wants a tiny autoencoder, and the model has none: name its file with --taesd"},
    {{"-m", BUNDLED, "--preview", "proj,x.png"}, 2, "take tae or vae in place of proj"},
    {{"-x"}, 2, "--help"},
    {{"-t", "4"}, 2, "-t is no option of dit: the device computes"},
    {{"--threads", "4"}, 2, "leave it out"},
    {{"--hires-scale", "2"}, 2, "--hires-scale: it is about --hires, the second pass, which is not asked for"},
    {{"--hires", "--hires-scale", "0.5"}, 2, "--hires-scale '0.5': must be a number from 1 to 8"},
    {{"--hires", "--hires-width", "100"}, 2, "--hires-width '100': must be a multiple of 16"},
    {{"--hires", "--hires-width", "16"}, 2, "--hires: 16x16 is smaller than the first pass, 64x64"},
    {{"--hires", "--hires-width", "64", "--hires-scale", "2"}, 2, "--hires-scale: --hires-width and --hires-height"},
    {{"--hires", "--hires-upscaler", "4x-UltraSharp"}, 2, "--hires-upscaler '4x-UltraSharp': there is none of this"},
    {{"--hires", "--hires-steps", "0"}, 2, "--hires-steps '0': must be a whole number"},
    {{"--hires", "--hires-denoising-strength", "2"}, 2, "--hires-denoising-strength '2': must be a number"},
    {{"--hires-sigmas", "1,0.5"}, 2, "--hires-steps and --hires-denoising-strength choose"},
    {{"--upscale-model", "x.pth"}, 2, "no network scales up; --hires makes a second pass"},
    {{"--prompt-file", "x.txt"}, 2, "--batch FILE has a prompt a line"},
    {{"--stream-layers"}, 2, "--weight-budget 4G streams"},
    {{"--output-begin-idx=3"}, 2, "numbers begin with 1"},
    {{"--threads=4"}, 2, "--threads is no option of dit: the device computes"},
    {{"--batch_size", "2"}, 2, "--batch_size is no option of dit: --batch-count is the number of pictures"},
    {{"--listen-port", "1234"}, 2, "--serve HOST:PORT has both"},
    {{"--image", "a.png"}, 2, "--init-img begins with a picture, --ref-image"},
    {{"--size", "64x64"}, 2, "-W and -H are the width and the height"},
    {{"--lowvram"}, 2, "--weight-budget 4G take less device memory"},
    {{"--preview_intervall", "2"}, 2, "did you mean --preview-interval?"},
    {{"--color"}, 2, "--color is no option of dit: messages have no colours; leave it out"},
    {{"--generator", "2"}, 2, "--seed is the number"},
    {{"--circularx"}, 2, "pictures have edges"},
    {{"--params-backend=disk"}, 2, "--weight-budget 4G take less device memory"},
    {{"--auto-fit"}, 2, "--device-memory 6G is the most"},
    {{"--image_guidance_scale", "1.5"}, 2, "--cfg-scale is the one scale"},
    {{"--enable-sequential-cpu-offload"}, 2, "--offload-to-cpu, --vae-tiling and --weight-budget"},
    {{"--pretrained_model_name_or_path", "x"}, 2, "--model is the file"},
    {{"-M", "metadata"}, 2, "--info PICTURE tells its parameters"},
    {{"--info", "models/strip.png"}, 3, "--info models/strip.png: no text with parameters is in it"},
    {{"--disable-metadata", "-W", "33"}, 2, "--width '33'"},
    {{"--disable-image-metadata", "-W", "33"}, 2, "--width '33'"},
    {{"--num-inference-steps", "0"}, 2, "--steps '0'"},
    {{"--true_cfg_scale", "0"}, 2, "--cfg-scale '0'"},
    {{"--sampler_name", "nonsense"}, 2, "--sampler 'nonsense'"},
    {{"--denoise", "0.5"}, 2, "--strength: there is no picture"},
    {{"--denoising-strength", "0.5"}, 2, "--strength: there is no picture"},
    {{"--mask-image", "models/strip.png"}, 2, "--mask: there is no picture"},
    {{"--init_image", "no such picture"}, 3, "--init-img no such picture"},
    {{"--text-encoder-2", "no such file"}, 3, "--clip-g no such file"},
    {{"--tae", "no such file"}, 3, "--taesd no such file"},
    {{"--embeddings-connectors", "no such file"}, 3, "--clip-g no such file"},
    {{"--audio-vae", "no such file"}, 3, "--audio-vae no such file"},
    {{"--audio-vae", "tests/fixtures/pipe_ltx2/vocoder"}, 3, "serves models that make it with a clip"},
    {{"--clip_vision", "no such file"}, 3, "--clip-vision no such file"},
    {{"--image-encoder", "no such file"}, 3, "--clip-vision no such file"},
    {{"--cache", "taylorseer"}, 2, "dit: --cache \"taylorseer\" is unknown"},
    {{"-q7"}, 2, "unknown option -q7"},
    {{"blue"}, 2, "quotes"},
    {{"a blue heart"}, 2, "unexpected 'a blue heart'; a prompt stands behind --prompt"},
    {{"serve"}, 2, "unexpected 'serve'; did you mean --serve?"},
    {{"list-models"}, 2, "unexpected 'list-models'; did you mean --list-models?"},
    {{"convert"}, 2, "unexpected 'convert'; dit-convert is a program of its own"},
    {{"--doctor", "--json"}, 2, "--json: dit doctor tells sentences"},
    {{"--steps"}, 2, "needs a value"},
    {{"--tae"}, 2, "--tae needs a value; write --tae=VALUE for"},
    {{"--device", "99"}, 5, "dit: --device: '99': "},
    {{"--output", "--steps", "3"}, 2, "needs a value"},
    {{"--quiet=yes"}, 2, "takes no value"},
    {{"-q", "-v"}, 2, "exclude"},
    {{"-p", "a\xff"}, 2, "byte 2 (0xff)"},
    {{"-p", "\xc0\xaf"}, 2, "UTF-8"},
    {{"-p", "\xed\xa0\x80"}, 2, "UTF-8"},
    {{"-n", "\xe2\x82"}, 2, "--negative-prompt: byte 1 (0xe2)"},
    {{"-o", "/no/such/folder/a.png"}, 4, "does not exist"},
    {{"-o", "/"}, 4, "folder"},
    {{"-o", ""}, 4, "empty"},
    {{"-o", "a.gif"}, 2, "a.png"},
    {{"-o", "a.TIF"}, 2, "a.png"},
    {{"-o", "-", "-b", "2"}, 2, "one picture"},
    {{"--info-level", "1"}, 2, "--info MODEL"},
    {{"--repeat-from", "no such picture"}, 3, "No such file"},
    {{"--repeat-from", "tests/tools/cli.c"}, 3, "this is no PNG"},
    {{"-o", "tests/tools/cli.c/a.png"}, 4, "does not exist"},
    {{"-o", "/proc/a.png"}, 4, "cannot be made"},
    {{"--latent-out", "/no/such/folder/a"}, 4, "does not exist"},
    {{"--preview", "/no/such/folder/a"}, 4, "does not exist"},
    {{"--preview", "same.png", "--output", "same.png"}, 2, "same file"},
    {{"--trace", "/no/such/folder/a.json"}, 4, "does not exist"},
    {{"--trace", "same.png", "--output", "same.png"}, 2, "same file"},
    {{"--type", "q8_0"}, 2, "dit-convert"},
    {{"--type", "i8r+"}, 2, "i8r+rot"},
    {{"--tensor-type-rules", "i8r"}, 2, "GLOB=NAME"},
    {{"--tensor-type-rules", "vae.*=i8r,=i8r"}, 2, "GLOB=NAME"},
    {{"--tensor-type-rules", "vae.*=i8r,"}, 2, "GLOB=NAME"},
    {{"--tensor-type-rules", "a=i8,b=i8r"}, 2, "'i8'"},
    {{"--tensor-type-rules",
      "a=i8r,b=i8r,c=i8r,d=i8r,e=i8r,f=i8r,g=i8r,h=i8r,i=i8r,j=i8r,k=i8r,l=i8r,m=i8r,n=i8r,o=i8r,p=i8r,q=i8r"},
     2,
     "more than"},
    {{"--class", "3"}, 2, "no classes"},
    {{"--class", "\xff"}, 2, "--class: byte 1 (0xff)"},
    {{"--noise", "no such file"}, 3, "No such file"},
    {{"--noise", "tests/tools/cli.c"}, 3, "no safetensors file"},
    {{"-m", "no such model"}, 3, "No such file"},
    {{"-m", "tests/tools/cli.c"}, 3, "tests/tools/cli.c: neither GGUF nor safetensors"},
    {{"-m", "tests"}, 3, "tests holds no transformer, text encoder or VAE"},
    {{"--mask", "a.png"}, 2, "--init-img"},
    {{"--strength", "0.5"}, 2, "--init-img"},
    {{"-i", "a.png", "--strength", "2"}, 2, "value is 1"},
    {{"-i", "no such picture"}, 3, "--init-img no such picture: No such file or directory; check the path"},
    {{"-i", "tests/corpus/picture/png_bit", "--mask", "no such mask"}, 3, "--mask no such mask: No such file"},
    {{"-q", "--repeat-from", "tests/corpus/parameters/png", "-o", "tests/corpus/parameters/png"}, 2, "--repeat-from"},
    {{"-i", "tests/tools/cli.c"}, 3, "PNG or JPEG"},
    {{"--guidance-end", "0"}, 2, "is 0.001"},
    {{"--guidance-start", "0.8", "--guidance-end", "0.5"}, 2, "--guidance-start 0.8: must be less"},
    {{"--skip-layer-start", "0.8"}, 2, "--skip-layer-start 0.8: must be less"},
    {{"--guidance", "3"}, 2, "--guidance: this model is told none"},
    {{"--eta", "0.5"}, 2, "--eta 0.5: only"},
    {{"--flow-shift", "3"}, 2, "--flow-shift 3: only"},
    {{"--guidance-rescale", "nan"}, 2, "is 0.7"},
    {{"--apg-eta", "1.5"}, 2, "value is 1"},
    {{"--slg-scale", "2.8"}, 2, "--slg-scale: models of family pixart have no skip-layer"},
    {{"--skip-layers", "7,x"}, 2, "7,8,9"},
    {{"--skip-layers", "3"}, 2, "--skip-layers: it is about --slg-scale, which is not there"},
    {{"--skip-layer-end", "0.5"}, 2, "--skip-layer-end: it is about --slg-scale, which is not there"},
    {{"--clip-skip", "2"}, 2, "--clip-skip: this model uses no layers of a CLIP"},
    {{"--clip-skip", "1"}, 2, "--clip-skip 1: models that read layers of CLIP leave out one at least"},
    {{"--clip-skip", "-2"}, 2, "a whole number from 1 to 33; the nearest valid value is 1"},
    {{"--vae-tile-size", "big"}, 2, "is 512"},
    {{"--frames", "5"}, 2, "--frames 5: this model makes pictures; leave it out"},
    {{"--video-frames", "0"}, 2, "is 1"},
    {{"--num_frames=-3"}, 2, "--frames '-3': must be a whole number from 1 to 99999"},
    {{"--fps", "12"}, 2, "--fps 12: this model makes pictures"},
    {{"--fps", "0"}, 2, "is 0.001"},
    {{"--fps", "nan"}, 2, "is 24"},
    {{"--init-video", "tests"}, 2, "--init-img begins with one"},
    {{"--mask-strategy", "0"}, 2, "takes no frames"},
    {{"--loop", "2"}, 2, "--loop 2: no clip of this model"},
    {{"--loop", "0"}, 2, "is 1"},
    {{"--loop-edit", "1.5"}, 2, "value is 1"},
    {{"--end-img", "a.png"}, 2, "--end-img a.png: this model makes pictures; leave it out"},
    {{"-m", CLIPS, "--end-img", "a.png"}, 2, "--end-img a.png: a clip that ends with a picture begins with one"},
    {{"-m", CLIPS, "--init-img", "models/strip.png", "--end-image", "a.png"}, 3, "--end-img a.png: No such file"},
    {{"--conditioning", "a"}, 2, "leave out --prompt"},
    {{"--encode-prompt", "/no/such/folder/a"}, 4, "--encode-prompt /no/such/folder/a: its folder does not exist"},
    {{"-o", "a.bmp"}, 2, "a.png"},
    {{"-o", "a.b/c.mp4"}, 4, "does not exist"},
    {{"--steps", "1", "-o", "z.mp4"}, 2, "--output z.mp4: pictures are written as PNG, JPEG or WebP; use z.png"},
    {{"--steps", "1", "-o", "z.y4m"}, 2, "use z.png"},
    {{"--steps", "1", "-o", "z.apng"}, 2, "use z.png"},
    {{"--steps", "1", "-o", "z.txt"}, 2, "use z.png"},
    {{"--steps", "1", "-o", "z.gguf"}, 2, "use z.png"},
    {{"--steps", "1", "-o", "fox."}, 2, "use fox.png"},
    {{"--steps", "1", "--grid", "g.svg"}, 2, "--grid g.svg: pictures are written as PNG, JPEG or WebP; use g.png"},
    {{"--steps", "1", "--preview", "kity"}, 2, "--preview 'kity': there are terminal, kitty, "},
    {{"--steps", "1", "--preview", "proj,kity"}, 2, "--preview 'kity': there are"},
    {{"--steps", "1", "--preview", "p.mkv"}, 2, "only PNG is written; use p.png"},
    {{"--steps", "1", "--preview-path", "p.webp"}, 2, "only PNG is written; use p.png"},
    {{"-m", CLIPS, "--frames", "100000"}, 2, "is 99999"},
    {{"-m", CLIPS, "-o", "a.avi"}, 2, "ends in .y4m, .apng"},
    {{"-m", CLIPS, "-o", "no such folder/%04d.png"}, 4, "does not exist"},
    {{"-m", CLIPS, "-o", "%s.png"}, 2, "%04d"},
    {{"-m", CLIPS, "-o", "-", "-b", "2"}, 2, "one picture or clip"},
    {{"-m", CLIPS, "--grid", "/tmp/g.png", "--steps", "1"}, 2, "--grid /tmp/g.png: its sheet shows pictures"},
    {{"-m", CLIPS, "--strength", "0.5"}, 2, "there is no clip that it is about; name it with --init-video"},
    {{"-m", CLIPS, "-q", "-i", "models/strip.png", "--strength", "0.5"}, 2, "--strength is given without --init-video"},
    {{"-m", "tests/fixtures/pipe_ltx", "-q", "-i", "models/strip.png", "--strength", "0.5"},
     2,
     "--strength: this model moves a picture as it is; leave it out"},
    {{"-M", "vid_gen", "-m", CLIPS}, 2, "-M is no option of dit: the model and the inputs say what is made"},
    {{"-m", CLIPS, "-i", "a.png", "--mask", "a.png"}, 2, "--mask a.png: clips are not repainted in part"},
    {{"-m", CLIPS, "--mask-strategy", "0"}, 2, "nothing to take frames from"},
    {{"--control-video", "tests"}, 2, "--control-video tests: this model makes pictures"},
    {{"-m", CLIPS, "--control-video", "tests"}, 2, "this model follows no clip"},
    {{"-m", CLIPS, "--init-video", "no such clip"}, 3, "--init-video no such clip: No such file"},
    {{"-m", CLIPS, "--init-video", "tests/tools"}, 3, "no PNG or JPEG is in this folder"},
    {{"-m", CLIPS, "--init-video", "tests/corpus/frames/ten_bits"}, 3, "420p10"},
    {{"-m", CLIPS, "-q", "--init-video", "tests/corpus/frames/cut"}, 3, "ends within frame 2"},
    {{"-m", CLIPS, "--noise", "tests/tools/cli.c"}, 3, "[B,C,frames,h,w]"},
    {{"--device", "99"}, 5, "99"},
    {{"--device", "5"}, 5, "digits are an index"}, /* although it is a part of "LLVM 15.0.6, 256 bits" */
    {{"--device", "no such device"}, 5, "is called 'no such device'; the devices are 0: "},
};

static void test_refusals(void) {
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const refusal *r = &refusals[i];
        char *args[16] = {"dit", "-m", MODEL, "-p", "x", "-o", (char *)in_work("refused.png")};
        int n = 7;
        outcome o;
        for (int k = 0; r->args[k]; k++) args[n++] = (char *)r->args[k];
        o = run_as(STREAMS_PIPES, NO_STOP, args);
        CHECK_MESSAGE(one_line_saying(&o, r->code, r->says), "for %s %s", r->args[0], r->args[1] ? r->args[1] : "");
        CHECK_MESSAGE(!*o.out, "it printed %s", o.out);
        CHECK_MESSAGE(!strstr(o.err, "dit_") && !strstr(o.err, "guidance."), "a word of the API: %s", o.err);
    }
    CHECK(!exists(in_work("refused.png")));
    outcome o = RUN("-m", MODEL);
    CHECK(one_line_saying(&o, 2, "--prompt"));
}

/* ---- A picture, and what its names may be ---- */

/* quick.png is what later tests compare with. */
static void test_picture(void) {
    outcome o =
        RUN("-m", MODEL, "-p", "a red heart", "-n", "blue, green", "--steps", "2", "-W", "96", "-H", "32", "-s", "7",
            "--cfg-scale", "2.5", "--sampler", "dpm++2m", "--rng", "cuda", "-o", (char *)in_work("quick.png"));
    png_file png = read_png(in_work("quick.png"));
    CHECK_MESSAGE(o.code == 0, "%d %s", o.code, o.err);
    CHECK(png.sound && png.width == 96 && png.height == 32);
    CHECK(strcmp(png.kind, "tEXt") == 0);
    CHECK_MESSAGE(strncmp(png.text, "a red heart\nNegative prompt: blue, green\nSteps: 2, Sampler: dpm++2m, ", 69) == 0,
                  "%s", png.text);
    CHECK_MESSAGE(
        strstr(png.text, "CFG scale: 2.5, Seed: 7, Size: 96x32, Model: pipe_pixart_sigma, RNG: cuda, Device: "), "%s",
        png.text);
    CHECK(strstr(o.out, in_work("quick.png")) && strstr(o.out, "seed 7") && count_lines(o.out) == 1);
    CHECK_MESSAGE(!strpbrk(o.err, "\r\033"), "a terminal's line in a log: %s", o.err);
    free(png.rgb);
    o = RUN(QUICK, "-q", "-o", (char *)in_work("quick.png"));
    CHECK_MESSAGE(o.code == 0 && !*o.out && !*o.err, "not quiet: %s%s", o.out, o.err);
    png = read_png(in_work("quick.png"));
    CHECK_MESSAGE(png.sound && png.width == 32, "an existing file is not replaced");
    free(png.rgb);
}

/* A name of any length and of any characters that the file system takes is written, and told in the picture; a longer
   one, of the last picture too, is refused first. */
static void test_names(void) {
    char path[700], target[512], *cwd = realpath(".", NULL);
    size_t at = (size_t)snprintf(path, sizeof path, "%s/", work);
    outcome o;
    png_file png;
    /* characters that separate values, and a backslash among the letters */
    snprintf(target, sizeof target, "%s/%s", cwd, MODEL);
    CHECK(symlink(target, in_work("mo\ndel, \"x\"")) == 0);
    memset(path + at, 'a', 300);
    memcpy(path + at, "no\\folder", 9);
    strcpy(path + at + 251, ".png");
    o = RUN("-m", (char *)in_work("mo\ndel, \"x\""), "-p", "x", "--steps", "1", "-W", "32", "-H", "32", "-s", "random",
            "-o", path);
    png = read_png(path);
    CHECK_MESSAGE(o.code == 0 && strstr(png.text, ", Model: \"mo\\ndel, \\\"x\\\"\", RNG: "), "%s%s", o.err, png.text);
    CHECK(count_lines(png.text) == 1 && strstr(o.out, "seed ") && !strstr(o.out, "seed random"));
    free(png.rgb);
    o = RUN(QUICK, "-q", "--steps", "1", "-b", "2", "-o", path);
    CHECK(one_line_saying(&o, 4, "too long"));
    memset(path + at, 'a', 300);
    strcpy(path + at + 252, ".png");
    o = RUN(QUICK, "--steps", "1", "-o", path);
    CHECK(one_line_saying(&o, 4, "too long"));
    /* beyond ASCII; and nothing that is printed goes into the picture where standard output is closed */
    memset(path + at, 0, 300);
    for (int i = 0; i < 84; i++) strcat(path, "♥");
    o = run_as(STREAMS_NO_OUTPUT, NO_STOP, (char **)ARGS(QUICK, "-p", HEART, "-o", path));
    CHECK_MESSAGE(o.code == 0, "%s", o.err);
    png = read_png(path);
    CHECK(png.sound && strcmp(png.kind, "iTXt") == 0);
    CHECK_MESSAGE(strncmp(png.text, HEART "\nSteps: 2", sizeof HEART "\nSteps: 2" - 1) == 0, "%s", png.text);
    free(png.rgb);
    CHECK(rename(path, in_work("heart.png")) == 0);
    free(cwd);
}

/* Every realloc of the program itself is refused: that of the PNG encoder. */
static const char no_realloc[] =
    "#define _GNU_SOURCE\n"
    "#include <errno.h>\n"
    "#include <link.h>\n"
    "extern void *__libc_realloc(void *, size_t);\n"
    "static char *begin, *end;\n"
    "static int first(struct dl_phdr_info *info, size_t size, void *user) {\n"
    "    for (int i = 0; i < info->dlpi_phnum; i++)\n"
    "        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X)\n"
    "            begin = (char *)info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, end = begin + info->dlpi_phdr[i].p_memsz;\n"
    "    return 1;\n"
    "}\n"
    "__attribute__((constructor)) static void find(void) { dl_iterate_phdr(first, 0); }\n"
    "void *realloc(void *block, size_t size) {\n"
    "    char *caller = __builtin_return_address(0);\n"
    "    if (caller < begin || caller >= end || size < 2048) return __libc_realloc(block, size);\n"
    "    errno = ENOMEM;\n"
    "    return 0;\n"
    "}\n";

/* The finished picture is not lost where memory for its compression is missing. */
static void test_encoder_without_memory(void) {
    char command[800];
    png_file png;
    outcome o;
    store(in_work("no_realloc.c"), no_realloc, sizeof no_realloc - 1);
    snprintf(command, sizeof command, "cc -shared -fPIC -o %s/no_realloc.so %s/no_realloc.c", work, work);
    if (!CHECK(system(command) == 0)) return;
    setenv("LD_PRELOAD", in_work("no_realloc.so"), 1);
    o = RUN(QUICK, "-p", HEART, "-b", "2", "-o", (char *)in_work("whole.png"));
    unsetenv("LD_PRELOAD");
    CHECK_MESSAGE(o.code == 6 && strstr(o.err, "uncompressed") && strstr(o.err, "whole.png"), "%d %s", o.code, o.err);
    CHECK_MESSAGE(strstr(o.out, "whole.png  seed 42") && count_lines(o.out) == 1, "%s", o.out);
    png = read_png(in_work("whole.png"));
    CHECK_MESSAGE(png.sound && strncmp(png.text, HEART "\nSteps: 2", sizeof HEART "\nSteps: 2" - 1) == 0, "%s",
                  png.text);
    free(png.rgb);
    CHECK(same_pixels(in_work("whole.png"), in_work("heart.png"))); /* of test_names */
    setenv("LD_PRELOAD", in_work("no_realloc.so"), 1);
    o = RUN(QUICK, "-o", "-");
    unsetenv("LD_PRELOAD");
    CHECK_MESSAGE(o.code == 6 && strstr(o.err, "uncompressed") && strncmp(o.out, "\211PNG\r\n\032\n", 8) == 0, "%d %s",
                  o.code, o.err);
    o = RUN("--repeat-from", (char *)in_work("heart.png"), "-m", MODEL, "-o", (char *)in_work("heart.png"));
    CHECK_MESSAGE(o.code == 2 && strstr(o.err, "same file as --repeat-from"), "%d %s", o.code, o.err);
}

/* ---- The text in a PNG, and the picture that is made from it again ---- */

#define START "in \"a\",\nb\\c.png" /* a name that has all that separates and quotes */

static char *const told_args[] = {"-m",
                                  MODEL,
                                  "-p",
                                  "a (red:1.3) heart",
                                  "-n",
                                  "blue\nsky",
                                  "--steps",
                                  "3",
                                  "-W",
                                  "32",
                                  "-H",
                                  "48",
                                  "-s-1",
                                  "--cfg-scale",
                                  "3.1415927",
                                  "--sampler",
                                  "Euler a",
                                  "--scheduler",
                                  "KARRAS",
                                  "--rng",
                                  "cuda",
                                  "--guidance-start",
                                  "0.1",
                                  "--guidance-end",
                                  "0.9",
                                  "--guidance-rescale",
                                  "0.3",
                                  "--apg-eta",
                                  "0.2",
                                  "--apg-norm",
                                  "7",
                                  "--plain-prompt",
                                  "--dynamic-guidance",
                                  "--vae-tile-size",
                                  "64",
                                  "--type",
                                  "i8r",
                                  "--tensor-type-rules",
                                  "transformer.*=stored,vae.*=stored",
                                  "--strength",
                                  "0.9",
                                  "--init-img",
                                  NULL,
                                  "--mask",
                                  NULL,
                                  NULL};
static char *const unchanging[] = {"--latent-out",
                                   NULL,
                                   "--preview",
                                   NULL,
                                   "--trace",
                                   NULL,
                                   "--weight-budget",
                                   "200K",
                                   "--offload-to-cpu",
                                   "--keep-streamed",
                                   "-b",
                                   "2",
                                   "-v",
                                   "-o",
                                   NULL,
                                   NULL};
static char *const slow[] = {"--tune", NULL}; /* make test-all */
static char *const split_args[] = {"--devices",        "0,0", "--split", "cfg2",
                                   "--resume-on-loss", NULL}; /* the same bytes */
static char *const told_by_text[] = {/* tests/tools/parameters.c; or of models and machines that are not here */
                                     "--class",
                                     "--guidance",
                                     "--slg-scale",
                                     "--skip-layers",
                                     "--skip-layer-start",
                                     "--skip-layer-end",
                                     "--eta",
                                     "--flow-shift",
                                     "--clip-skip",
                                     "--vae-tiling",
                                     "--device-memory",
                                     "--diffusion-model",
                                     "--high-noise-diffusion-model",
                                     "--uncond-diffusion-model",
                                     "--high-noise-control-net",
                                     "--clip-l",
                                     "--clip-g",
                                     "--t5",
                                     "--clip-vision",
                                     "--vae",
                                     "--taesd",
                                     "--tokenizer",
                                     "--noise",
                                     "--clip-on-cpu",
                                     "--quiet",
                                     "--repeat-from",
                                     NULL};
static char *const of_pictures[] = {
    "--ref-image",
    "--cache",
    "--keep-references",
    "--lora",
    "--lora-dir",
    "--lora-merge",
    "--control-net",
    "--control-image",
    "--control-strength",
    "--control-start",
    "--control-end",
    "--control-mode",
    "--cfg-normalization",
    "--low-noise-cfg-scale",
    "--mask-blur",
    "--padding-mask-crop",
    "--hires",
    "--hires-scale",
    "--hires-width",
    "--hires-height",
    "--hires-steps",
    "--hires-upscaler",
    "--hires-denoising-strength",
    NULL}; /* cli_inputs.c: test_references, test_loras, test_steered, test_pasting, test_hires */
static char *const pictureless[] = {"--list-devices", "--info",    "--info-level",    "--help",
                                    "--help-all",     "--version", "--encode-prompt", "--list-models",
                                    "--doctor",       "--man",     "--completion",    NULL};
static char *const of_terminal[] = {
    "--batch", "--grid",    "--json",        "--preview-path", "--preview-interval",
    "--serve", "--quality", "--no-metadata", "--resume",       NULL}; /* tests/tools/terminal.c, server.c, resume.c */
static char *const of_clips[] = {
    "--frames",        "--fps",
    "--init-video",    "--mask-strategy",
    "--loop",          "--loop-frames",
    "--loop-edit",     "--conditioning",
    "--end-img",       "--sound-cfg-scale",
    "--stg-scale",     "--modality-scale",
    "--control-video", "--audio-vae",
    "--no-sound",      NULL}; /* cli_inputs.c: test_clip, test_conditioning, test_followed; sound_files.c */

/* All options of stable-diffusion.cpp's programs (August 2026): each is one here, or its advice says what is. */
static void test_flags_of_sd_cpp(void) {
    char names[] =
        "ad-model ad-negative-prompt ad-prompt audio-vae auto-fit backend batch-count cache-mode cache-option canny "
        "cfg-scale circular circularx circulary clip-on-cpu clip-skip clip_g clip_l clip_vision color control-image "
        "control-net control-net-cpu control-strength control-video convert-name diffusion-conv-direct diffusion-fa "
        "diffusion-model disable-auto-resize-ref-image disable-image-metadata eager-load embd-dir "
        "embeddings-connectors end-img eta extra-ad-args extra-sample-args extra-tiling-args fa flow-shift "
        "force-sdxl-vae-conv-scale fps guidance height help high-noise-cfg-scale high-noise-diffusion-model "
        "high-noise-eta high-noise-guidance high-noise-img-cfg-scale high-noise-sampling-method "
        "high-noise-skip-layer-end high-noise-skip-layer-start high-noise-skip-layers high-noise-slg-scale "
        "high-noise-steps hires hires-denoising-strength hires-height hires-scale hires-sigmas hires-steps "
        "hires-upscale-tile-size hires-upscaler hires-upscalers-dir hires-width image imat-in imat-out img-cfg-scale "
        "increase-ref-index init-img ip-adapter ip-adapter-image ip-adapter-strength list-devices listen-ip "
        "listen-port llm llm_vision lora-apply-mode lora-model-dir mask max-vram metadata-all metadata-brief "
        "metadata-format metadata-raw mmap mode model model-args moe-boundary motion-module negative-prompt "
        "negative-prompt-file offload-to-cpu output output-begin-idx params-backend photo-maker pm-id-embed-path "
        "pm-id-images-dir pm-style-strength prediction preview preview-interval preview-noisy preview-path prompt "
        "prompt-file pulid-id-embedding pulid-id-weight pulid-weights qwen-image-layers qwen2vl qwen2vl_vision "
        "ref-audio ref-image ref-image-args ref-video ref-video-audio rng rpc-servers sampler-rng sampling-method "
        "scheduler scm-mask scm-policy seed serve-html-path sigmas skip-layer-end skip-layer-start skip-layers "
        "slg-scale split-mode steps stream-layers strength t5xxl tae taesd taesd-preview-only temporal-tiling "
        "tensor-type-rules threads timestep-shift type uncond-diffusion-model upscale-model upscale-repeats "
        "upscale-tile-size vace-strength vae vae-conv-direct vae-format vae-on-cpu vae-relative-tile-size "
        "vae-tile-overlap vae-tile-size vae-tiling verbose version video-frames width";
    for (char *name = strtok(names, " "); name; name = strtok(NULL, " ")) {
        char flag[64];
        bool known;
        snprintf(flag, sizeof flag, "--%s", name);
        known = find_option(flag) != NULL;
        for (size_t k = 0; k < sizeof foreign_options / sizeof foreign_options[0]; k++)
            known = known || matches_alias(foreign_options[k].names, flag);
        CHECK_MESSAGE(known, "%s is an unknown option", flag);
    }
}

/* An option that no test knows is one that might change pictures unseen. */
static void check_all_options_known(void) {
    char *const *const lists[] = {told_args, unchanging, split_args,  told_by_text, pictureless,
                                  slow,      of_clips,   of_terminal, of_pictures};
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        bool known = false;
        for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
            for (size_t n = 0; n < (k == 0   ? sizeof told_args
                                    : k == 1 ? sizeof unchanging
                                             : 0) /
                                       sizeof(char *) ||
                               (k > 1 && lists[k][n]);
                 n++) {
                char word[64];
                if (!lists[k][n]) continue;
                snprintf(word, sizeof word, strncmp(lists[k][n], "--", 2) ? "%.2s" : "%s", lists[k][n]);
                known = known || option_matches(&option_table[i], word);
            }
        CHECK_MESSAGE(known, "%s is in no list of this test: does a picture depend on it?", option_table[i].name);
    }
}

/* Fills the places of files in a list. */
static void fill(char **out, char *const *list, size_t count, char *const *files) {
    size_t i, k = 0;
    for (i = 0; i + 1 < count; i++) out[i] = list[i] ? list[i] : files[k++];
    out[count - 1] = NULL;
}

static void test_repeating(void) {
    char start[320], other[320], base[320], first[320], *told[64], *same[32], *files[4], text[400];
    outcome o;
    png_file png;
    size_t i, size = 0;
    unsigned char *bytes;
    check_all_options_known();
    test_flags_of_sd_cpp();
    snprintf(start, sizeof start, "%s", in_work(START));
    snprintf(base, sizeof base, "%s", in_work("quick.png")); /* of test_picture */
    snprintf(other, sizeof other, "%s", in_work("other.png"));
    snprintf(first, sizeof first, "%s", in_work("b_3.png")); /* of test_batch: seed 1 */
    o = RUN(QUICK, "-q", "--cache-mode", "disabled", "-o", other);
    CHECK_MESSAGE(o.code == 0 && same_files(base, other), "%d %s", o.code, o.err);
    bytes = load(base, &size);
    if (!CHECK(bytes)) return;
    store(start, bytes, size);
    free(bytes);
    fill(told, told_args, sizeof told_args / sizeof told_args[0], LIST(start, start));
    check_repeated(told, LIST("-m", MODEL), "CFG scale: 3.1415927, Seed: ");
    png = read_png(in_work("made.png"));
    for (i = 0; i < OPTION_COUNT; i++)
        for (size_t k = 0; told[k]; k++) {
            if (!option_matches(&option_table[i], told[k]) || !is_told(&option_table[i])) continue;
            snprintf(text, sizeof text, "%s: ", option_table[i].key);
            CHECK_MESSAGE(strstr(png.text, text), "%s is not in %s", text, png.text);
        }
    CHECK_MESSAGE(strstr(png.text, "Sampler: euler-a, Schedule type: karras, "), "%s", png.text);
    CHECK_MESSAGE(strstr(png.text, "Init image: \"in \\\"a\\\",\\nb\\\\c.png\", Mask: \"in "), "%s", png.text);
    free(png.rgb);
    /* further options go first; other inputs are refused, missing ones named */
    o = RUN("--repeat-from", base, "-m", MODEL, "--seed", "1", "-q", "-o", other);
    CHECK_MESSAGE(o.code == 0 && same_files(first, other), "%d: %s", o.code, o.err);
    if (test_sweeps()) {
        o = RUN("--repeat-from", (char *)in_work("made.png"), "-m", MODEL, "--seed", "5", "-q", "-o", other);
        png = read_png(other);
        CHECK_MESSAGE(o.code == 0 && strstr(png.text, "Seed: 5, ") && strstr(png.text, "Guidance end: 0.9"), "%s%s",
                      o.err, png.text);
        free(png.rgb);
    }
    o = RUN("--repeat-from", (char *)in_work("made.png"), "-q", "-o", other);
    CHECK(one_line_saying(&o, 3, "name it with --model"));
    bytes = load(start, &size);
    bytes[size - 20] ^= 1;
    store(start, bytes, size);
    free(bytes);
    o = RUN("--repeat-from", (char *)in_work("made.png"), "-m", MODEL, "-q", "-o", other);
    CHECK_MESSAGE(o.code == 3 && strstr(o.err, "another file"), "%d: %s", o.code, o.err);
    /* options that change nothing, and a split that changes nothing */
    files[0] = strdup(in_work("u.latent"));
    files[1] = strdup(in_work("u_preview.png"));
    files[2] = strdup(in_work("u.json"));
    files[3] = other;
    fill(same, unchanging, sizeof unchanging / sizeof unchanging[0], files);
    told[0] = "dit";
    for (i = 0; i < 10; i++) told[1 + i] = LIST(QUICK)[i];
    for (i = 0; same[i]; i++) told[11 + i] = same[i];
    told[11 + i] = NULL;
    o = run_as(STREAMS_PIPES, NO_STOP, told);
    CHECK_MESSAGE(o.code == 0 && same_files(base, other), "%d: %s", o.code, o.err);
    if (test_sweeps()) {
        o = RUN(QUICK, "-q", "--steps", "8", "--preview", files[1], "-o", start);
        CHECK(o.code == 0 && exists(files[1]));
        o = RUN(QUICK, "-q", "--steps", "8", "-o", other);
        CHECK_MESSAGE(o.code == 0 && same_files(start, other), "previews change the picture");
    }
    o = RUN(QUICK, "-q", "--devices", "0,0", "--split", "cfg2", "--resume-on-loss", "-o", other);
    CHECK_MESSAGE(o.code == 0 && same_files(base, other), "%d: %s", o.code, o.err);
    if (test_sweeps()) {
        o = RUN(QUICK, "-q", slow[0], "-o", other);
        CHECK_MESSAGE(o.code == 0 && same_files(base, other), "%d: %s", o.code, o.err);
        o = RUN("--repeat-from", base, "-m", MODEL, "-q", "-o", other);
        CHECK_MESSAGE(o.code == 0 && same_files(base, other), "%d: %s", o.code, o.err);
    }
    for (i = 0; i < 3; i++) free(files[i]);
    if (test_sweeps())
        check_repeated(LIST(QUICK, "--devices", "0,0", "--split", "pipefusion2"), LIST("-m", MODEL, "--devices", "0,0"),
                       "Split: pipefusion2, ");
    if (test_sweeps())
        check_repeated(LIST("-p", "banana", "--steps", "1", "-W", "32", "-H", "32"), LIST(NULL), "Model: emoji-q8_0, ");
}

/* The PNG alone goes to standard output. */
static void test_standard_output(void) {
    char command[1200];
    outcome o;
    snprintf(command, sizeof command,
             "XDG_CACHE_HOME=%s %s -m %s -p 'a red heart' --steps 2 -W 32 -H 32 -o - >%s 2>%s && test ! -e ./-",
             in_work("cache"), program, MODEL, in_work("stdout.png"), in_work("stderr"));
    CHECK(system(command) == 0);
    CHECK(same_files(in_work("stdout.png"), in_work("quick.png"))); /* of test_picture */
    o = run_as(STREAMS_NO_OUTPUT, NO_STOP, (char **)ARGS(QUICK, "-o", "-"));
    CHECK(one_line_saying(&o, 4, "closed"));
    o = run_as(STREAMS_FULL_OUTPUT, NO_STOP, (char **)ARGS(QUICK, "-q", "-o", "-"));
    CHECK(one_line_saying(&o, 4, "standard output"));
}

/* ---- Classes, types of weights, defaults and batches ---- */

/* A class in place of a prompt. */
static void test_class(void) {
    outcome o;
    png_file png;
    check_repeated(LIST("-m", CLASSES, "--class", "3", "--steps", "2", "--eta", "0.5", "--vae-tiling"),
                   LIST("-m", CLASSES), "Eta: 0.5, VAE tile size: 512, ");
    png = read_png(in_work("made.png"));
    CHECK_MESSAGE(png.sound && png.width == 64 && strncmp(png.text, "\nClass: 3, Steps: 2, Sampler: ddim, ", 36) == 0,
                  "%s", png.text);
    free(png.rgb);
    o = RUN("-m", CLASSES, "--class", "10");
    CHECK(one_line_saying(&o, 2, "0 to 9"));
    o = RUN("-m", CLASSES, "-p", "a cat");
    CHECK(one_line_saying(&o, 2, "--class"));
    o = RUN("-m", CLASSES);
    CHECK(one_line_saying(&o, 2, "what shall be on the picture? Not a prompt, this model takes none; say --class"));
    o = RUN("-m", CLASSES, "--class", "3", "-n", "fox");
    CHECK(one_line_saying(&o, 2, "--negative-prompt: this model takes none beside --class; leave it out"));
}

/* int8 products: another picture than with stored weights, but nearly the same; told in the PNG; rules go first. */
static void test_types(void) {
    static const char *const words[][4] = {{NULL}, /* quick.png of test_picture */
                                           {"--type", "i8r"},
                                           {"--type", "i8r", "--tensor-type-rules", "transformer.*=stored"},
                                           {"--tensor-type-rules", "transformer.*blocks.*=i8r"}};
    static const char *const told[] = {"pipe_pixart_sigma, RNG: ", "pipe_pixart_sigma, Weights: i8r, RNG: ",
                                       "pipe_pixart_sigma, Weights: i8r, Weight rules: transformer.*=stored, RNG: ",
                                       "pipe_pixart_sigma, Weight rules: transformer.*blocks.*=i8r, RNG: "};
    png_file pngs[4];
    int difference[4] = {0};
    for (int i = 0; i < 4; i++) {
        char name[16], *args[24] = {"dit", QUICK, "-q", "-o"};
        int n = 13;
        outcome o;
        snprintf(name, sizeof name, i ? "type%d.png" : "quick.png", i);
        args[n++] = (char *)in_work(name);
        for (int k = 0; k < 4 && words[i][k]; k++) args[n++] = (char *)words[i][k];
        if (i) o = run_as(STREAMS_PIPES, NO_STOP, args), CHECK_MESSAGE(o.code == 0, "%s", o.err);
        pngs[i] = read_png(in_work(name));
        if (!CHECK(pngs[i].rgb && pngs[i].width == 32 && pngs[0].rgb)) continue;
        CHECK_MESSAGE(strstr(pngs[i].text, told[i]), "no %s in %s", told[i], pngs[i].text);
        for (int k = 0; k < 3 * 32 * 32; k++) {
            int d = abs(pngs[i].rgb[k] - pngs[0].rgb[k]);
            if (d > difference[i]) difference[i] = d;
        }
    }
    CHECK_MESSAGE(difference[1] > 0 && difference[1] < 48, "%d", difference[1]);
    CHECK(difference[2] == 0);
    CHECK(pngs[1].rgb && pngs[3].rgb && !memcmp(pngs[1].rgb, pngs[3].rgb, 3 * 32 * 32));
    for (int i = 0; i < 4; i++) free(pngs[i].rgb);
}

static void test_defaults(void) {
    outcome o = RUN("-m", MODEL, "-p", "x", "-v", "--steps", "1", "-o", (char *)in_work("d.png"));
    png_file png = read_png(in_work("d.png"));
    CHECK(o.code == 0 && png.sound && png.width == 64 && png.height == 64);
    CHECK(strstr(png.text, "Seed: 42, ") && strstr(png.text, "RNG: cpu, "));
    CHECK(strstr(o.err, "device memory") && strstr(o.err, "dispatches"));
    free(png.rgb);
}

/* Three pictures and what the device did for them; the seed after the last one is 0. */
static void test_batch(void) {
    outcome o = RUN(QUICK, "-q", "-s", "18446744073709551615", "-b", "3", "-o", (char *)in_work("b.png"), "--trace",
                    (char *)in_work("t.json"));
    size_t size = 0;
    unsigned char *text = load(in_work("t.json"), &size);
    diti_env env;
    diti_json *root = NULL;
    const diti_json *list, *event;
    uint32_t pictures = 0, products = 0;
    png_file png;
    diti_env_init(&env, NULL, NULL, NULL);
    CHECK_MESSAGE(o.code == 0 && !*o.out && !*o.err, "%s%s", o.out, o.err);
    if (CHECK(text && diti_json_parse(&env, (char *)text, size, "t.json", &root, NULL) == DIT_OK)) {
        list = diti_json_get(root, "traceEvents");
        for (event = list ? list->first : NULL; event; event = event->next) {
            pictures +=
                diti_equal(diti_json_string(event, "name", ""), "picture") && diti_json_number(event, "pid", 0) == 1;
            products += diti_equal(diti_json_string(event, "cat", ""), "gemm");
        }
        CHECK_MESSAGE(pictures == 3 && products > 20, "%u pictures and %u products in the trace", pictures, products);
    }
    diti_json_free(&env, root);
    free(text);
    CHECK(exists(in_work("b.png")) && exists(in_work("b_2.png")) && exists(in_work("b_3.png")) &&
          !exists(in_work("b_4.png")));
    o = RUN(QUICK, "-q", "-s", "1", "-o", (char *)in_work("single.png"));
    CHECK(o.code == 0);
    CHECK_MESSAGE(same_pixels(in_work("b_3.png"), in_work("single.png")), "picture 3 is not its single run");
    CHECK_MESSAGE(other_pixels(in_work("b.png"), in_work("single.png")), "the seed changes nothing");
    png = read_png(in_work("b_3.png"));
    CHECK(strstr(png.text, "Seed: 1, "));
    free(png.rgb);
    png = read_png(in_work("b_2.png"));
    CHECK_MESSAGE(png.sound && strstr(png.text, "Seed: 0, "), "the seed after the last is 0");
    free(png.rgb);
}

/* ---- A terminal, interruption, and outputs that cannot be written ---- */

static void test_terminal(void) {
    size_t widest = 0;
    char *line;
    png_file png;
    outcome o = run_as(STREAMS_TERMINAL, NO_STOP,
                       (char **)ARGS("-m", MODEL, "-p", "x", "--steps", "300", "-W", "32", "-H", "32", "--preview",
                                     (char *)in_work("preview.png"), "-o", (char *)in_work("t.png")));
    CHECK(o.code == 0);
    png = read_png(in_work("preview.png"));
    CHECK(png.sound && png.width >= 4 && png.width <= 32 && png.height >= 4);
    free(png.rgb);
    CHECK_MESSAGE(strchr(o.err, '\r') && strstr(o.err, "step "), "no progress line: %s", o.err);
    CHECK_MESSAGE(count_lines(o.err) == 0, "progress left lines behind: %s", o.err);
    for (line = strtok(o.err, "\r"); line; line = strtok(NULL, "\r")) {
        size_t length = strcspn(line, "\033");
        if (length > widest) widest = length;
    }
    CHECK_MESSAGE(widest > 10 && widest < NARROW, "%zu columns on a terminal of %d", widest, NARROW);
}

static int left_parts;
static int count_part(const char *path, const struct stat *info, int kind, struct FTW *ftw) {
    (void)info, (void)kind, (void)ftw;
    left_parts += strstr(path, ".part") != NULL;
    return 0;
}

static void test_interruption(int number) {
    interruption stop = {number, in_work("begun.png"), false};
    double begin = seconds();
    outcome o;
    remove(in_work("begun.png"));
    o = run_as(STREAMS_PIPES, stop,
               (char **)ARGS("-m", MODEL, "-p", "x", "--steps", "400", "-W", "128", "-H", "128", "-b", "9999",
                             "--preview", (char *)in_work("begun.png"), "-o", (char *)in_work("never.png"),
                             "--latent-out", (char *)in_work("never")));
    CHECK_MESSAGE(o.code == 128 + number, "exit code %d: %s", o.code, o.err);
    CHECK_MESSAGE(seconds() - begin < 60, "it took %.1f s to stop", seconds() - begin);
    CHECK_MESSAGE(strstr(o.err, "interrupted"), "it said %s", o.err);
    CHECK(!exists(in_work("never.png")) && !exists(in_work("never")));
    left_parts = 0;
    nftw(work, count_part, 16, FTW_PHYS);
    CHECK_MESSAGE(left_parts == 0, "%d half-written files", left_parts);
}

/* Interrupts clips that continue each other when the file is begun, or when the first picture is there, which stays. */
static void test_clip_interruption(const char *name, const char *first) {
    char path[320], begun[320];
    interruption stop = {SIGTERM, begun, !first};
    outcome o;
    snprintf(path, sizeof path, "%s", in_work(name));
    snprintf(begun, sizeof begun, "%s", in_work(first ? first : name));
    o = run_as(STREAMS_PIPES, stop,
               (char **)ARGS(QUICK_CLIP, "--loop", "1000", "--loop-frames", "1", "--steps", "100", "-o", path));
    CHECK_MESSAGE(o.code == 128 + SIGTERM && exists(begun) == (first != NULL), "%s: exit code %d: %s", name, o.code,
                  o.err);
    left_parts = 0;
    nftw(work, count_part, 16, FTW_PHYS);
    CHECK_MESSAGE(left_parts == 0, "%s: %d half-written files", name, left_parts);
}

/* Interrupts before the first step: while the device is opened, the model is read or kernels are prepared. */
static void test_early_interruption(int number) {
    interruption stop = {number, "/", false};
    outcome o = run_as(STREAMS_PIPES, stop, (char **)ARGS(QUICK, "--steps", "400", "-o", (char *)in_work("never.png")));
    CHECK_MESSAGE(o.code == 128 + number, "exit code %d: %s", o.code, o.err);
    CHECK(!exists(in_work("never.png")));
}

/* As sd.cpp does, but from 1 on, as frames of clips are numbered. */
static void test_numbered_stills(void) {
    char *pattern = strdup(in_work("still-%03d.png"));
    outcome o = RUN(QUICK, "-q", "-b", "2", "-o", pattern);
    CHECK_MESSAGE(o.code == 0 && exists(in_work("still-001.png")) && exists(in_work("still-002.png")), "%s", o.err);
    CHECK(!exists(pattern));
    check_refusal(RUN(QUICK, "-o", "a%d%d.png"), 2, "the place of the number is written once");
    check_refusal(RUN(QUICK, "-i", (char *)in_work("still-002.png"), "-b", "2", "-o", pattern), 2,
                  "the same file as --init-img");
    free(pattern);
}

static void test_write_failure(void) {
    char command[400];
    outcome o = RUN(QUICK, "-q", "-o", "/dev/full");
    CHECK(one_line_saying(&o, 4, "/dev/full"));
    CHECK(setrlimit(RLIMIT_FSIZE, &(struct rlimit){1024, RLIM_INFINITY}) == 0);
    o = RUN(QUICK, "-q", "-W", "64", "-H", "64", "-o", (char *)in_work("limited.png"));
    CHECK(setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}) == 0);
    CHECK(one_line_saying(&o, 4, "(ulimit -f)") && !exists(in_work("limited.png")));
    snprintf(command, sizeof command, "! ls '%s' | grep '\\.part$'", work);
    CHECK_MESSAGE(system(command) == 0, "half a file stays");
}

/* ---- Models and caches ---- */

/* The cache of runs without --device: there are others, of runs with it. Half of one is replaced. */
static void test_cache(void) {
    char path[320];
    size_t size = 0;
    struct stat info;
    unsigned char *whole;
    snprintf(path, sizeof path, "%s", in_work("cache/dit/pipelines-cbf29ce484222325.cache"));
    whole = load(path, &size);
    if (!CHECK_MESSAGE(whole && size > 8, "no pipeline cache was kept")) return;
    store(path, whole, size / 2);
    store(in_work("half.cache"), whole, size / 2);
    free(whole);
    outcome o = RUN(QUICK, "-q", "-o", (char *)in_work("c.png"));
    CHECK_MESSAGE(o.code == 0 && !*o.err, "%s", o.err);
    CHECK_MESSAGE(other_files(path, in_work("half.cache")), "it stays cut");
    CHECK(remove(path) == 0 && mkfifo(path, 0600) == 0);
    /* an output that is a symbolic link stays one, and its file is written */
    store(in_work("real.png"), "x", 1);
    CHECK(symlink("real.png", in_work("link.png")) == 0);
    o = RUN(QUICK, "-q", "-o", (char *)in_work("link.png"));
    CHECK_MESSAGE(o.code == 0 && !*o.err, "%s", o.err);
    CHECK(lstat(in_work("link.png"), &info) == 0 && S_ISLNK(info.st_mode));
    CHECK(stat(in_work("real.png"), &info) == 0 && info.st_size > 100);
    CHECK(remove(path) == 0);
}

static void test_damaged_model(void) {
    size_t size = 0;
    unsigned char *file = load(BUNDLED, &size);
    outcome o;
    if (!file) file = load("tests/fixtures/gguf_t5_q8_0/model.gguf", &size);
    if (!CHECK_MESSAGE(file, "no GGUF to damage")) return;
    store(in_work("half.gguf"), file, size / 2);
    o = RUN("-p", "x", "-m", (char *)in_work("half.gguf"), "-o", (char *)in_work("h.png"));
    CHECK(one_line_saying(&o, 3, "half.gguf"));
    file[8] ^= 0x40; /* the count of tensors */
    file[15] ^= 0x40;
    store(in_work("half.gguf"), file, size);
    o = RUN("-p", "x", "-m", (char *)in_work("half.gguf"), "-o", (char *)in_work("h.png"));
    CHECK(one_line_saying(&o, 3, "half.gguf"));
    o = RUN("-p", "x", "-m", "tests/fixtures/gguf_t5_q8_0/model.gguf", "-o", (char *)in_work("h.png"));
    CHECK(one_line_saying(&o, 3, "model.gguf"));
    CHECK(!exists(in_work("h.png")));
    free(file);
    file = load(BUNDLED, &size);
    if (file) store(in_work("half.gguf"), file, size / 2);
    o = RUN("-p", "x", "-m", BUNDLED, "--diffusion-model", (char *)in_work("half.gguf"));
    CHECK(file && one_line_saying(&o, 3, "--diffusion-model") && strstr(o.err, "half.gguf: "));
    o = RUN("-p", "x", "--diffusion-model", BUNDLED, "--vae", (char *)in_work("half.gguf"));
    CHECK(file && one_line_saying(&o, 3, "--vae") && strstr(o.err, "half.gguf: "));
    o = RUN("-p", "x", "-m", (char *)in_work("half.gguf"), "--vae", BUNDLED);
    CHECK(file && one_line_saying(&o, 3, "--model") && strstr(o.err, "half.gguf: "));
    free(file);
}

/* A pipeline's folder without one of its files, or with another in its place: the message is about that file. */
static void test_damaged_folder(void) {
    static const char reversed[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}";
    static const struct {
        const char *file, *text, *says; /* text NULL: the file is not there */
    } damages[] = {
        {"tokenizer", NULL, "there is no tokenizer (--tokenizer names one), and the usual one does not do: "},
        {"transformer/config.json", NULL, "config.json is missing beside it: PixArt transformer: 0 heads"},
        {"tokenizer/special_tokens_map.json", "[]", "tokenizer/special_tokens_map.json: it is not an"},
        {"vae/diffusion_pytorch_model.safetensors", reversed, "data_offsets 4 to 0 run backwards"}};
    char command[512], path[320], data[256] = "";
    size_t i;
    for (i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        outcome o;
        snprintf(command, sizeof command, "rm -rf %s && cp -r " MODEL " %s && rm -r %s/%s", in_work("damaged"),
                 in_work("damaged"), in_work("damaged"), damages[i].file);
        CHECK(system(command) == 0);
        snprintf(path, sizeof path, "%s/%s", in_work("damaged"), damages[i].file);
        if (damages[i].text == reversed) { /* a header, and four bytes */
            data[0] = (char)strlen(reversed);
            memcpy(data + 8, reversed, sizeof reversed);
            store(path, data, 8 + strlen(reversed) + 4);
        } else if (damages[i].text)
            store(path, damages[i].text, strlen(damages[i].text));
        o = RUN("-m", (char *)in_work("damaged"), "-p", "x");
        CHECK(one_line_saying(&o, 3, damages[i].says));
        if (i == 0) CHECK(strstr(o.err, "tokenizer.json in "));
    }
}

/* ---- --info: what a model is, takes and lacks; nothing is loaded ---- */

/* The bundled model's header with none of its data. */
static size_t store_header(const char *path) {
    size_t size = 0;
    unsigned char *file = load(BUNDLED, &size);
    const size_t header = size / 10;
    if (file) store(path, file, header);
    free(file);
    return header;
}

static void test_info(void) {
    char whole[65536];
    unsigned char *text;
    size_t size = 0;
    outcome o = RUN("--info", BUNDLED, "-W", "256");
    CHECK_MESSAGE(o.code == 0 && !*o.err, "%s", o.err);
    CHECK_MESSAGE(strstr(o.out, BUNDLED ": pixart sigma\n10 layers, hidden 256, 4 heads, patch 2, 8 latent channels\n"),
                  "%s", o.out);
    CHECK_MESSAGE(strstr(o.out, "\ntransformer") && strstr(o.out, " 11,209,504 ") &&
                      strstr(o.out, "Q8_0 11.7 MB in 103"),
                  "%s", o.out);
    CHECK_MESSAGE(strstr(o.out, "missing: nothing\n") && strstr(o.out, "\n256x128 pixels, 20 steps\n") &&
                      strstr(o.out, "\ndevice memory: "),
                  "%s", o.out);
    memcpy(whole, o.out, sizeof whole);
    o = RUN("--info", BUNDLED);
    text = load("docs/memory.md", &size);
    if (CHECK(text != NULL)) {
        text[size - 1] = 0;
        CHECK_MESSAGE(o.code == 0 && *o.out && strstr((char *)text, o.out), "docs/memory.md quotes another --info");
    }
    free(text);
    o = RUN("--info", "-m", BUNDLED, "--width=256");
    CHECK_MESSAGE(o.code == 0 && strcmp(whole, o.out) == 0, "--info without a value is another model: %s", o.out);
    o = RUN("--info", BUNDLED, "--info-level", "1");
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "missing: nothing\n") && !strstr(o.out, "device memory"), "%s", o.out);
}

/* Models of clips: defaults, frames that are possible, and memory for as many as are asked for. */
static void test_info_clips(void) {
    outcome o = RUN("--info", CLIPS, "--frames", "12", "-W", "64", "-H", "48");
    CHECK_MESSAGE(o.code == 0 && !*o.err &&
                      strstr(o.out, "\nclips of 16 frames, 8 a second, unless told otherwise; "
                                    "frames possible: any number\n") &&
                      strstr(o.out, "\n64x48 pixels, 12 frames, 100 steps\n") && strstr(o.out, "\ndevice memory: "),
                  "%s%s", o.err, o.out);
    o = RUN("--info", CLIPS, "--frames", "0");
    CHECK(one_line_saying(&o, 2, "is 1"));
    o = RUN("--info", "tests/fixtures/pipe_wan22_i2v_a14b", "--frames", "5", "-W", "64", "-H", "32", "-b", "2");
    CHECK_MESSAGE(o.code == 0 && !*o.err && strstr(o.out, "\ndevice memory: "), "%s%s", o.err, o.out);
}

/* A clip that is longer than those of the model is cut, which is told where nobody has asked for so many frames. */
static void test_longer_clip(void) {
    enum { MODELS = 16, SIDE = 8, FRAME = 6 + SIDE * SIDE };
    static const char head[] = "YUV4MPEG2 W8 H8 F12:1 Cmono\n";
    static char y4m[sizeof head - 1 + (MODELS + 1) * FRAME];
    char longer[2][320], command[1024], wanted[64];
    outcome o;
    int i;
    memcpy(y4m, head, sizeof head - 1);
    for (i = 0; i <= MODELS; i++) memcpy(y4m + sizeof head - 1 + i * FRAME, "FRAME\n", 6);
    snprintf(longer[0], sizeof longer[0], "%s", in_work("longer.y4m"));
    snprintf(longer[1], sizeof longer[1], "%s", in_work("longer"));
    store(longer[0], y4m, sizeof y4m);
    snprintf(command, sizeof command,
             "mkdir %s; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17; do "
             "cp tests/corpus/picture/png_rgb %s/$i.png || exit; done",
             longer[1], longer[1]);
    CHECK(system(command) == 0);
    snprintf(wanted, sizeof wanted, " has more than the usual %d frames, the first of them are taken", MODELS);
    for (i = 0; i < 2; i++) {
        o = RUN("--info", CLIPS, "--init-video", longer[i]);
        CHECK_MESSAGE(o.code == 0 && strstr(o.err, wanted), "%s", o.err);
        o = RUN("--info", CLIPS, "--init-video", longer[i], "--frames", "16");
        CHECK_MESSAGE(o.code == 0 && !strstr(o.err, "more than"), "%s", o.err);
    }
    store(longer[0], y4m, sizeof y4m - FRAME);
    o = RUN("--info", CLIPS, "--init-video", longer[0]);
    CHECK_MESSAGE(o.code == 0 && !strstr(o.err, "more than"), "%s", o.err);
}

/* Every op and tensor; the peak is marked where most lives. */
static void test_info_plan(void) {
    outcome o = RUN("--info", CLASSES, "--info-level", "3", "--steps", "3", "-b", "2");
    const char *ops = strstr(o.out, "\nops: "), *tensors = strstr(o.out, "\ntensors: "), *line;
    unsigned peak = 0, first, last, marked = 0, spanning = 0;
    CHECK_MESSAGE(o.code == 0 && !*o.err && ops && tensors && ops < tensors, "%s%s", o.err, o.out);
    if (o.code || !ops || !tensors) return;
    CHECK(strstr(ops, "\nstep, each step\n") && strstr(ops, "\ndecode\n") && strstr(o.out, "2 pictures at a time"));
    CHECK(sscanf(strstr(tensors, "peak, op"), "peak, op %u", &peak) == 1);
    for (line = strchr(tensors + 1, '\n'); line && line[1]; line = strchr(line + 1, '\n')) {
        char mark = 0;
        if (!CHECK(sscanf(line, " %u %u%c", &first, &last, &mark) == 3 && first <= last)) return;
        if (strstr(line, "(kept)") && strstr(line, "(kept)") < strchr(line + 1, '\n')) continue;
        marked += mark == '*';
        spanning += first <= peak && peak <= last;
    }
    CHECK_MESSAGE(marked > 0 && marked == spanning, "%u marked, %u live at the peak", marked, spanning);
}

static void test_info_damaged(void) {
    char path[320];
    size_t size = 0, header;
    unsigned char *file;
    outcome o;
    snprintf(path, sizeof path, "%s", in_work("header.gguf"));
    header = store_header(path);
    o = RUN("--info", path);
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, " 11,209,504 ") && strstr(o.out, "cut off: "), "%s%s", o.err, o.out);
    o = RUN("-m", path, "-p", "x", "-o", (char *)in_work("h.png"));
    CHECK(one_line_saying(&o, 3, "missing") && !exists(in_work("h.png")));
    file = load(path, &size);
    store(path, file, header / 50);
    free(file);
    o = RUN("--info", path);
    CHECK(one_line_saying(&o, 3, "header.gguf") && !*o.out);
    store(path, "", 0);
    o = RUN("--info", path);
    CHECK(one_line_saying(&o, 3, "header.gguf"));
    o = RUN("--info", "tests/fixtures/nothing.gguf");
    CHECK(one_line_saying(&o, 3, "nothing.gguf"));
    o = RUN("--info", BUNDLED, "-m", MODEL);
    CHECK(one_line_saying(&o, 2, "--model"));
    o = RUN("--info", BUNDLED, "--info-level", "4");
    CHECK(one_line_saying(&o, 2, "--info-level '4'"));
    o = RUN("--info", BUNDLED, "-W", "100");
    CHECK(one_line_saying(&o, 2, "96"));
}

/* A part of a pipeline is answered, too, with what it lacks and where that usually is. */
static void test_info_part(void) {
    size_t size = 0, header;
    unsigned char *file = load(MODEL "/transformer/diffusion_pytorch_model.safetensors", &size);
    unsigned char *config = load(MODEL "/transformer/config.json", &header);
    outcome o = RUN("--info", MODEL "/transformer");
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "missing: autoencoder, usually from PixArt-alpha/") &&
                      strstr(o.out, "missing: T5, usually from ") && strstr(o.out, "\ndevice memory: "),
                  "%s%s", o.err, o.out);
    CHECK(mkdir(in_work("headers"), 0700) == 0 && mkdir(in_work("headers/transformer"), 0700) == 0);
    if (file && config) {
        store(in_work("headers/transformer/config.json"), config, header);
        header = 8 + (size_t)file[0] + ((size_t)file[1] << 8);
        store(in_work("headers/transformer/diffusion_pytorch_model.safetensors"), file, header + 100);
    }
    o = RUN("--info", (char *)in_work("headers"));
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "pixart sigma") && strstr(o.out, "cut off: "), "%s%s", o.err, o.out);
    o = RUN("-m", (char *)in_work("headers"), "-p", "x");
    CHECK(one_line_saying(&o, 3, "missing"));
    o = RUN("--info", "tests/fixtures/t5_encoder");
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "no transformer") && strstr(o.out, "missing: transformer\n") &&
                      strstr(o.out, "127,824") && !strstr(o.out, "text encoder 2"),
                  "%s%s", o.err, o.out);
    o = RUN("--info", "tests/fixtures/flux_fill"); /* its memory depends on the autoencoder, which is missing */
    CHECK_MESSAGE(o.code == 0 && !o.err[0] && strstr(o.out, "missing: autoencoder") &&
                      strstr(o.out, "\nmemory is told with the autoencoder"),
                  "%s%s", o.err, o.out);
    o = RUN("--info", "tests/fixtures/pipe_ltx2/transformer"); /* a latent alone has no size in pixels */
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "\n30 steps, guidance 3, ") &&
                      strstr(o.out, "clips; their sizes and frames are told with the autoencoder\n") &&
                      strstr(o.out, "memory is told with the autoencoder, which tells the size of the clip\n"),
                  "%s%s", o.err, o.out);
    free(file);
    free(config);
}

/* Where no file tells a distilled model, --info says what it wants, and a run does whose model is called so. */
static void test_distilled(void) {
    static char advice[] = "ERNIE-Image-Turbo looks alike and wants 8 steps and guidance 1 (--steps, --cfg-scale)\n",
                *turbo;
    char *own[] = {NULL, "-q", "--steps=1", "--cfg-scale=2"}, target[512], command[1024],
         *made = (char *)in_work("turbo.gguf");
    size_t i;
    outcome o = RUN("--info", "tests/fixtures/pipe_ernie", "--info-level", "1");
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, advice), "%s%s", o.err, o.out);
    if (!CHECK(getcwd(target, sizeof target - 32) != NULL)) return;
    strcat(target, "/tests/fixtures/pipe_ernie");
    turbo = (char *)in_work("ERNIE-Image-Turbo");
    CHECK(symlink(target, turbo) == 0);
    for (i = 0; i < sizeof own / sizeof own[0]; i++) { /* a width that cannot be ends each run before its work */
        o = RUN("-m", turbo, "-p", "x", "-W", "40", own[i]);
        CHECK_MESSAGE(o.code == 2 && !strstr(o.err, advice) == (i > 0), "%s: %s", own[i] ? own[i] : "", o.err);
    }
    o = RUN("-m", "tests/fixtures/pipe_ernie", "-p", "x", "-W", "40");
    CHECK(one_line_saying(&o, 2, "multiple of 16"));
    snprintf(command, sizeof command, "build/dit-convert %s/transformer --steps 8 --guidance 1 %s", turbo, made);
    CHECK(system(command) == 0);
    o = RUN("--info", made, "--info-level", "1");
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, " 8 steps, guidance 1,") && !strstr(o.out, advice), "%s%s", o.err,
                  o.out);
    /* Half of a pair is told, too. */
    o = RUN("--info", "tests/fixtures/pipe_ideogram4/transformer");
    CHECK_MESSAGE(o.code == 0 && !o.err[0] && strstr(o.out, "\nmemory is told with the unconditional transformer"),
                  "%s%s", o.err, o.out);
    o = RUN("--info", "tests/fixtures/pipe_ideogram4/transformer", "--cfg-scale", "1");
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "\ndevice memory: "), "%s%s", o.err, o.out);
}

/* ---- An installed program, and device memory that runs out ---- */

static int count_of(const char *text, const char *word) {
    int count = 0;
    for (; (text = strstr(text, word)) != NULL; text++) count++;
    return count;
}

/* Less memory is taken, step by step; each is said once. */
static bool relieved(const outcome *o, bool tiles, bool encoders, bool weights) {
    bool good = o->code == 0 && count_of(o->err, "--vae-tiling") == tiles &&
                count_of(o->err, "--offload-to-cpu") == encoders && count_of(o->err, "--weight-budget") == weights &&
                count_of(o->err, "memory ran out") == tiles + encoders + weights;
    if (!good) fprintf(stderr, "    exit code %d; it said: %s\n", o->code, o->err);
    return good;
}

/* The loader reads two variables, the second one first. */
static outcome run_without_drivers(void) {
    static const char *const names[] = {"VK_ICD_FILENAMES", "VK_DRIVER_FILES"};
    char *drivers[2];
    outcome o;
    size_t i;
    for (i = 0; i < 2; i++) {
        drivers[i] = getenv(names[i]) ? strdup(getenv(names[i])) : NULL;
        setenv(names[i], "/nowhere.json", 1);
    }
    o = RUN("-m", BUNDLED, SMALL, "-o", (char *)in_work("none.png"), "--clip-on-cpu");
    for (i = 0; i < 2; i++) {
        if (drivers[i])
            setenv(names[i], drivers[i], 1);
        else
            unsetenv(names[i]);
        free(drivers[i]);
    }
    return o;
}

/* Installed below a prefix the program finds its model there; without one it says what to do. */
static void test_prefix(void) {
    const char *here = program;
    char *cwd = realpath(".", NULL), target[512];
    size_t size = 0;
    unsigned char *binary = load(here, &size);
    outcome o;
    CHECK(mkdir(in_work("bin"), 0700) == 0 && mkdir(in_work("share"), 0700) == 0 &&
          mkdir(in_work("share/dit"), 0700) == 0);
    store(in_work("bin/dit"), binary, size);
    CHECK(chmod(in_work("bin/dit"), 0700) == 0);
    program = in_work("bin/dit");
    o = RUN("-p", "banana", "-o", (char *)in_work("installed.png"));
    CHECK(one_line_saying(&o, 3, "--model"));
    snprintf(target, sizeof target, "%s/%s", cwd, BUNDLED);
    CHECK(symlink(target, in_work("share/dit/emoji-q8_0.gguf")) == 0);
    o = RUN(SMALL, "-o", (char *)in_work("installed.png"));
    CHECK(relieved(&o, false, false, false) && exists(in_work("installed.png")));
    program = here;
    free(binary);
    free(cwd);
}

static void test_memory_runs_out(void) {
    char plenty[320], less[320];
    png_file png;
    outcome o;
    snprintf(plenty, sizeof plenty, "%s", in_work("installed.png")); /* of test_prefix */
    snprintf(less, sizeof less, "%s", in_work("less.png"));
    if (test_sweeps()) {
        o = RUN("-m", BUNDLED, SMALL, "-o", less, "--device-memory", "19M");
        CHECK(relieved(&o, false, true, false) && same_pixels(plenty, less));
        o = RUN("-m", BUNDLED, SMALL, "-o", less, "--device-memory", "9M", "-q");
        CHECK(o.code == 0 && !*o.err);
    }
    o = RUN("-m", BUNDLED, SMALL, "-o", less, "--device-memory", "9M");
    CHECK(relieved(&o, false, true, true) && same_pixels(plenty, less));
    o = RUN(SMALL, "-o", less, "--clip-on-cpu", "--clip-skip",
            "-1"); /* without a model: the one that is below the working folder */
    CHECK(relieved(&o, false, false, false) && same_pixels(plenty, less));
    png = read_png(less);
    CHECK_MESSAGE(strstr(png.text, "Size: 64x64, Model: emoji-q8_0, "), "%s", png.text);
    free(png.rgb);
    if (test_sweeps()) {
        o = RUN("-p", "banana", "-q", "--steps", "2", "-o", less);
        png = read_png(less);
        CHECK_MESSAGE(o.code == 0 && png.sound && png.width == 128 && png.height == 128, "%s", o.err);
        free(png.rgb);
    }
    o = run_without_drivers();
    CHECK_MESSAGE(o.code == 5 && strstr(o.err, "--clip-on-cpu: "), "%d: %s", o.code, o.err);
    o = RUN("-m", BUNDLED, SMALL, "-o", (char *)in_work("none.png"), "--device-memory", "2M");
    CHECK_MESSAGE(o.code == 6 && count_of(o.err, "--offload-to-cpu") == 1 && !exists(in_work("none.png")), "%d: %s",
                  o.code, o.err);
    o = RUN("-m", MODEL, SMALL, "-W", "256", "-H", "256", "-o", less, "--device-memory", "6M");
    png = read_png(less);
    CHECK(relieved(&o, true, false, false) && png.sound && png.width == 256);
    free(png.rgb);
}

/* ---- The other programs ---- */

/* dit-plan on this machine: a table that it reads again, a plan of it that build/dit runs, and one rank of two alone.
 */
static void test_planner(void) {
    const char *usual = program;
    char table[320], plan[320];
    outcome o;
    snprintf(table, sizeof table, "@%s", in_work("table.json"));
    snprintf(plan, sizeof plan, "@%s", in_work("plan.json"));
    program = "build/dit-plan";
    o = RUN("--measure", table + 1, "-d", "0,0");
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "device 1, ") && strstr(o.out, "all to all"), "%d: %s", o.code, o.err);
    o = RUN("-m", "flux", "-d", table, "--methods", "ulysses", "-o", plan + 1);
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "2 devices, measured") && strstr(o.out, "ulysses2"), "%s", o.err);
    o = RUN("--run-rank", "1", "--split", "cfg2", "-m", MODEL, "-W", "32", "-H", "32", "--steps", "3", "-d", "0");
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "rank 1 of 2, cfg2 on ") && strstr(o.out, "ms of arithmetic a step"),
                  "%s", o.err);
    o = RUN("--run-rank", "1", "--split", "cfg2", "-m", "absent.gguf", "-d", "0");
    CHECK_MESSAGE(o.code == 3 && strstr(o.err, "absent.gguf"), "%d: %s", o.code, o.err);
    o = RUN("--measure", table + 1, "-d", "no such device");
    CHECK_MESSAGE(o.code == 5 && strstr(o.err, "no such device"), "%d: %s", o.code, o.err);
    program = usual;
    o = RUN("-m", MODEL, "-p", "apple", "-W", "32", "-H", "32", "--steps", "1", "--devices", "0,0", "--split", plan,
            "--resume-on-loss", "-o", (char *)in_work("split.png"));
    CHECK_MESSAGE(o.code == 0 && strstr(o.err, "dit: device 0, ") && strstr(o.err, "heads 1-1 of 2; ") &&
                      strstr(o.err, " % of the work, sends "),
                  "%d: %s", o.code, o.err);
    o = RUN("--info", MODEL, "--devices", "0,0", "--split", "ulysses2,int8", "-W", "32", "-H", "32");
    CHECK_MESSAGE(o.code == 0 && strstr(o.out, "\nsplit over devices: ulysses2,int8\n"), "%d: %s", o.code, o.err);
    o = RUN("-m", MODEL, "-p", "apple", "--devices", "0", "--split", "@absent.json");
    CHECK_MESSAGE(o.code != 0 && strstr(o.err, "absent.json"), "%d: %s", o.code, o.err);
}

/* All programs end with the same codes, and say so in their help. */
static void test_exit_codes(void) {
    static const char codes[] = "Exit codes: 0 good, 2 wrong usage, 3 model or input file, 4 output, 5 device,\n"
                                "6 out of memory, 130 interrupted, 1 anything else.\n";
    static const char *const programs[] = {"build/dit-convert", "build/dit-plan", "build/dit-bench"};
    static const struct {
        int program, code;
        const char *args[8];
    } cases[] = {{0, 2, {"--fast", "a", "b.gguf"}},
                 {0, 3, {"tests/fixtures/none", "none.gguf"}},
                 {0, 4, {MODEL, "/no/such/folder/none.gguf"}},
                 {1, 2, {"-m", "nothing", "-d", "4xT4"}},
                 {1, 2, {"-m", "flux", "-d", "4xT4", "-o", "build/none", "--gantt", "build/none"}},
                 {1, 3, {"-m", "flux", "-d", "@absent.json"}},
                 {1, 4, {"-m", "flux", "-d", "4xT4", "-o", "/proc/plan.json"}},
                 {1, 5, {"--measure", "/dev/null", "-d", "no such device"}},
                 {2, 2, {"gem"}},
                 {2, 2, {"copy", "--report", "build/none", "--cache", "./build/none"}},
                 {2, 3, {"model", "--model", "no/such/file.gguf"}},
                 {2, 4, {"copy", "--report", "/no/such/folder/report.md"}},
                 {2, 5, {"copy", "--device", "no such device"}}};
    const char *usual = program;
    outcome o = RUN("--help");
    CHECK(strstr(o.out, codes));
    for (size_t i = 0; i < 3; i++) {
        program = programs[i];
        o = RUN("--help");
        CHECK_MESSAGE(o.code == 0 && strstr(o.out, codes), "%s --help: %s", program, o.out);
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *args[10] = {"dit"};
        for (int k = 0; k < 8; k++) args[k + 1] = (char *)cases[i].args[k];
        program = programs[cases[i].program];
        o = run_as(STREAMS_PIPES, NO_STOP, args);
        CHECK_MESSAGE(o.code == cases[i].code && count_lines(o.err) == 1, "%s %s %s: %d, not %d: %s", program, args[1],
                      args[2], o.code, cases[i].code, o.err);
    }
    program = "build/dit-convert";
    o = RUN(MODEL, "none.gguf", "--help");
    CHECK(o.code == 0 && strstr(o.out, codes));
    program = usual;
}

/* dit-convert leaves nothing half-written, and what was there. Q4_K takes it long enough to be interrupted on a busy
 * machine. */
static void test_interrupted_conversion(int number) {
    interruption stop = {number, in_work("converted.gguf"), true};
    const char *usual = program;
    struct stat info;
    outcome o;
    store(in_work("converted.gguf"), "old", 3);
    program = "build/dit-convert";
    o = run_as(STREAMS_PIPES, stop, (char **)ARGS("--type", "q4_k", BUNDLED, (char *)in_work("converted.gguf")));
    CHECK_MESSAGE(o.code == 128 + number, "exit code %d: %s", o.code, o.err);
    CHECK(stat(in_work("converted.gguf"), &info) == 0 && info.st_size == 3);
    left_parts = 0;
    nftw(work, count_part, 16, FTW_PHYS);
    CHECK_MESSAGE(left_parts == 0, "%d half-written files", left_parts);
    program = usual;
}

int main(int argc, char **argv) {
    if (argc > 1) program = argv[1];
    if (!make_work("cli")) return 1;
    signal(SIGPIPE, SIG_IGN);
    test_answers();
    test_refusals();
    test_picture();
    test_names();
    test_encoder_without_memory();
    test_batch();
    test_repeating();
    test_standard_output();
    test_class();
    test_types();
    test_without_effect();
    test_streams();
    test_full_programs();
    test_defaults();
    test_terminal();
    test_interruption(SIGINT);
    if (test_sweeps()) test_interruption(SIGTERM);
    test_early_interruption(SIGTERM);
    if (test_sweeps()) test_early_interruption(SIGINT);
    test_clip_interruption("never.apng", NULL);
    if (test_sweeps()) test_clip_interruption("never%d.png", "never1.png");
    if (test_sweeps() && system("ffmpeg -version >/dev/null 2>&1") == 0) test_clip_interruption("never.mp4", NULL);
    test_numbered_stills();
    test_write_failure();
    test_cache();
    test_damaged_model();
    test_damaged_folder();
    test_prefix();
    test_memory_runs_out();
    test_info();
    test_info_clips();
    test_longer_clip();
    test_info_plan();
    test_info_damaged();
    test_info_part();
    test_distilled();
    test_planner();
    test_exit_codes();
    test_interrupted_conversion(SIGINT);
    test_interrupted_conversion(SIGTERM);
    remove_work();
    return TEST_END("cli");
}