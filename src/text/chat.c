#include "text/text.h"

/* Chat templates: the exact text that pipelines put around a prompt for a decoder language model, and which of its
   hidden states they take (docs/models.md 5.5). */

#define DITI_CHAT_SYSTEM "<|im_start|>system\n"
#define DITI_CHAT_USER "<|im_start|>user\n"
#define DITI_CHAT_ANSWER "<|im_end|>\n<|im_start|>assistant\n"
#define DITI_CHAT_DESCRIBE                                                                                             \
    DITI_CHAT_SYSTEM                                                                                                   \
    "Describe the image by detailing the color, shape, size, texture, quantity, text, spatial relationships of the "   \
    "objects and background:<|im_end|>\n" DITI_CHAT_USER
#define DITI_CHAT_EDIT                                                                                                 \
    DITI_CHAT_SYSTEM                                                                                                   \
    "Describe the key features of the input image (color, shape, size, texture, objects, background), then explain "   \
    "how the user's text instruction should alter or modify the image. Generate a new image that meets the user's "    \
    "requirements while maintaining consistency with the original input where appropriate.<|im_end|>"                  \
    "\n" DITI_CHAT_USER
#define DITI_CHAT_VIDEO                                                                                                 \
    "<|start_header_id|>system<|end_header_id|>\n\nDescribe the video by detailing the following aspects: 1. The main " \
    "content and theme of the video.2. The color, shape, size, texture, quantity, text, and spatial relationships of "  \
    "the objects.3. Actions, events, behaviors temporal relationships, physical movement changes of the objects.4. "    \
    "background environment, light, style and atmosphere.5. camera angles, movements, and transitions used in the "     \
    "video:<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n"
#define DITI_CHAT_COMPREHEND DITI_CHAT_SYSTEM "Comprehend and analyze the provided prompt.<|im_end|>\n"

/* Mistral's; the message has a line feed in it, as BFL published it. */
#define DITI_CHAT_REASON                                                                                               \
    "[SYSTEM_PROMPT]You are an AI that reasons about image descriptions. You give structured responses focusing on "   \
    "object relationships, object\nattribution and actions without speculation.[/SYSTEM_PROMPT][INST]"

#define DITI_CHAT_SUPERIOR                                                                                              \
    "You are an assistant designed to generate superior images with the superior degree of image-text alignment based " \
    "on textual prompts or user prompts. <Prompt Start> "
#define DITI_CHAT_ENHANCE                                                                                               \
    "Given a user prompt, generate an 'Enhanced prompt' that provides detailed visual descriptions suitable for image " \
    "generation. Evaluate the level of detail in the user prompt:\n"                                                    \
    "- If the prompt is simple, focus on adding specifics about colors, shapes, sizes, textures, and spatial "          \
    "relationships to create vivid and concrete scenes.\n"                                                              \
    "- If the prompt is already detailed, refine and enhance the existing details slightly without "                    \
    "overcomplicating.\n"                                                                                               \
    "Here are examples of how to transform or refine prompts:\n"                                                        \
    "- User Prompt: A cat sleeping -> Enhanced: A small, fluffy white cat curled up in a round shape, sleeping "        \
    "peacefully on a warm sunny windowsill, surrounded by pots of blooming red flowers.\n"                              \
    "- User Prompt: A busy city street -> Enhanced: A bustling city street scene at dusk, featuring glowing street "    \
    "lamps, a diverse crowd of people in colorful clothing, and a double-decker bus passing by towering glass "         \
    "skyscrapers.\n"                                                                                                    \
    "Please generate only the enhanced description for the prompt below and avoid including any additional "            \
    "commentary or evaluations:\n"                                                                                      \
    "User Prompt: "

static const diti_chat diti_chats[DITI_CHATS] = {
    {"", "", "", NULL, "", "", 512, false, 0, {0, 0, {0}, false}, 0},
    {"ZImagePipeline", DITI_CHAT_USER, DITI_CHAT_ANSWER, NULL, "", "", 512, false, 0, {1, 0, {-2}, false}, 0},
    {"Flux2KleinPipeline Flux2KleinKVPipeline",
     DITI_CHAT_USER,
     DITI_CHAT_ANSWER "<think>\n\n</think>\n\n",
     NULL,
     "",
     "",
     512,
     true,
     0,
     {3, 36, {9, 18, 27}, false},
     0},
    {"Flux2Pipeline",
     DITI_CHAT_REASON,
     "[/INST]",
     NULL,
     "",
     "",
     512,
     true,
     DITI_CHAT_PADS_BEFORE,
     {3, 0, {10, 20, 30}, true},
     0},
    {"Flux3ModularPipeline Flux3DistilledModularPipeline Flux3AutoBlocks Flux3DistilledAutoBlocks",
     DITI_CHAT_USER,
     DITI_CHAT_ANSWER,
     NULL,
     "",
     "",
     1200,
     false,
     0,
     {8, 36, {4, 8, 12, 16, 20, 24, 28, 32}, false},
     80},
    {"QwenImagePipeline",
     DITI_CHAT_DESCRIBE,
     DITI_CHAT_ANSWER,
     NULL,
     DITI_CHAT_DESCRIBE,
     "",
     1024,
     false,
     0,
     {1, 0, {-1}, false},
     0},
    {"QwenImageEditPipeline",
     DITI_CHAT_EDIT,
     DITI_CHAT_ANSWER,
     "",
     DITI_CHAT_EDIT,
     "",
     1024,
     false,
     0,
     {1, 0, {-1}, false},
     0},
    {"QwenImageEditPlusPipeline",
     DITI_CHAT_EDIT,
     DITI_CHAT_ANSWER,
     "Picture #: ",
     DITI_CHAT_EDIT,
     "",
     1024,
     false,
     0,
     {1, 0, {-1}, false},
     0},
    {"QwenImage21Pipeline",
     DITI_CHAT_COMPREHEND DITI_CHAT_USER,
     DITI_CHAT_ANSWER,
     " <image#>",
     DITI_CHAT_COMPREHEND,
     " ",
     1024,
     false,
     0,
     {1, 0, {-1}, true},
     0},
    {"Krea2Pipeline",
     DITI_CHAT_DESCRIBE,
     DITI_CHAT_ANSWER,
     NULL,
     DITI_CHAT_DESCRIBE,
     "",
     512,
     false,
     DITI_CHAT_KEEPS_AFTER,
     {12, 36, {2, 5, 8, 11, 14, 17, 20, 23, 26, 29, 32, 35}, false},
     0},
    {"AnimaPipeline AnimaAutoBlocks", "", "", NULL, "", "", 512, false, 0, {1, 0, {-1}, false}, 0},
    {"HunyuanVideoPipeline",
     DITI_CHAT_VIDEO,
     "<|eot_id|>",
     NULL,
     DITI_CHAT_VIDEO,
     "",
     256,
     false,
     0,
     {1, 0, {-3}, false},
     0},
    {"Lumina2Pipeline Lumina2Text2ImgPipeline",
     DITI_CHAT_SUPERIOR,
     "",
     NULL,
     "",
     "",
     256,
     false,
     DITI_CHAT_PLAIN_GUIDES,
     {1, 0, {-2}, false},
     0},
    {"SanaPipeline SanaSprintPipeline",
     DITI_CHAT_ENHANCE,
     "",
     NULL,
     DITI_CHAT_ENHANCE,
     "",
     300,
     false,
     DITI_CHAT_LOWERS | DITI_CHAT_KEEPS_FIRST | DITI_CHAT_PLAIN_GUIDES,
     {1, 0, {-1}, false},
     0}};

DIT_INTERNAL const diti_chat *diti_chat_of(diti_chat_model model) { return &diti_chats[model]; }

DIT_INTERNAL const diti_chat *diti_chat_of_class(const char *class_name) {
    size_t i, length = strlen(class_name);
    for (i = 0; i < DITI_CHATS && length; i++) {
        const char *at = diti_chats[i].classes;
        while ((at = strstr(at, class_name)) != NULL) {
            bool begins = at == diti_chats[i].classes || at[-1] == ' ';
            if (begins && (at[length] == 0 || at[length] == ' ')) return &diti_chats[i];
            at += length;
        }
    }
    return NULL;
}

DIT_INTERNAL bool diti_taps_resolve(const diti_taps *taps, uint32_t own, uint32_t out[DITI_TAPS], uint32_t *count) {
    uint32_t i;
    *count = taps && taps->count ? taps->count : 1;
    out[0] = own;
    for (i = 0; taps && i < taps->count; i++) {
        int64_t at = taps->at[i] < 0 ? (int64_t)own + 1 + taps->at[i] : taps->at[i];
        if (taps->layers && taps->at[i] >= 0 && taps->layers != own) {
            if (at * own % taps->layers) return false;
            at = at * own / taps->layers;
        }
        if (at < 0 || at > (int64_t)own || (i && at <= (int64_t)out[i - 1])) return false;
        out[i] = (uint32_t)at;
    }
    return true;
}
