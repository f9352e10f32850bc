/* LoRAs on the command line: --lora FILE:0.8, and <lora:NAME:0.8> in the prompt, whose NAME is a file in --lora-dir. A
   picture's text has them all as "LoRA", with their files by names alone, and the prompt without its tags. |high_noise|
   or |low_noise| before a name is an expert of a model with two, the only one that the LoRA is for. Not part of dit.h.
 */
#ifndef LORA_H
#define LORA_H
#include "dit.h"
#include "files.h"
#include "options.h"
#include <ctype.h>

typedef struct lora_item {
    char path[PATH_SIZE];
    float weight;
    dit_role expert; /* DIT_ROLE_NONE: its name tells, see divide_loras */
} lora_item;

static const struct {
    const char *before; /* the name, as in stable-diffusion.cpp */
    const char *word, *noise;
    dit_role role;
} lora_experts[] = {{"|high_noise|", "high", "high noise", DIT_ROLE_TRANSFORMER},
                    {"|low_noise|", "low", "low noise", DIT_ROLE_TRANSFORMER_2}};
enum { LORA_EXPERTS = 2 };

typedef struct lora_list {
    lora_item items[LORA_MOST];
    uint32_t count;
    char *prompt; /* without tags; NULL: it had none */
    char *told;   /* as a picture's text has it; NULL: there are none */
} lora_list;

static void free_loras(lora_list *list) {
    free(list->prompt);
    free(list->told);
    memset(list, 0, sizeof *list);
}

/* A number behind the last colon; false: there is none, as in "C:\style". */
static bool lora_weight(const char *text, size_t length, size_t *name, float *weight) {
    char number[32], *end;
    size_t at = length;
    double value;
    *name = length;
    *weight = 1;
    while (at > 0 && text[at - 1] != ':') at--;
    if (at < 2 || at == length || length - at >= sizeof number) return false;
    memcpy(number, text + at, length - at);
    number[length - at] = 0;
    value = strtod(number, &end);
    if (*end || !(value > -1000 && value < 1000)) return false;
    *name = at - 1;
    *weight = (float)value;
    return true;
}

/* The file or folder of that name: as it is, beside the picture that is repeated, or in the folder of LoRAs; with an
   ending of models, if need be. */
static bool find_lora(const options *o, const char *name, bool tag, char out[PATH_SIZE]) {
    static const char *const endings[] = {"", ".safetensors", ".gguf", ".pt", ".ckpt", ".bin"};
    const char *picture = o->repeat_from ? o->repeat_from : "", *folders[3];
    size_t i, k, count = 0;
    char beside[PATH_SIZE];
    snprintf(beside, sizeof beside, "%.*s", (int)(base_name(picture) - picture), picture);
    if (!tag) folders[count++] = "";
    if (!tag && *beside) folders[count++] = beside;
    if (o->lora_dir) folders[count++] = o->lora_dir;
    for (i = 0; i < count; i++) {
        const char *folder = folders[i];
        bool ends = !*folder || folder[strlen(folder) - 1] == '/';
        for (k = 0; k < sizeof endings / sizeof endings[0]; k++) {
            int n = snprintf(out, PATH_SIZE, "%s%s%s%s", folder, ends ? "" : "/", name, endings[k]);
            if (n < PATH_SIZE && file_exists(out)) return true;
        }
    }
    return false;
}

/* Where a name that is no file is one up to one of its colons, what follows that colon is wrong. A1111 takes weights of
   the text encoders, of the transformer, and a dimension there, in this order or by names; other programs have the
   transformer's first. text: the name and its weight. */
static int check_lora_weight(const options *o, const char *name, const char *text, size_t length, bool tag) {
    char stem[PATH_SIZE], path[PATH_SIZE];
    const char *begin = tag ? "<lora:" : "--lora ", *end = tag ? "> in the prompt" : "", *colon;
    const int why = errno;
    size_t parts = 0;
    snprintf(stem, sizeof stem, "%s", name);
    for (colon = strrchr(stem, ':'); colon; colon = strrchr(stem, ':')) {
        stem[colon - stem] = 0;
        parts++;
        if (*stem && find_lora(o, stem, tag, path)) break;
    }
    if (!colon) return errno = why, EXIT_GOOD;
    if (parts > 1 || strlen(name) < length || strchr(colon + 1, '='))
        return complain(EXIT_USAGE,
                        "%s%.*s%s: a LoRA has one weight here, for the transformer and for text encoders alike; write "
                        "%s%s:0.8%s",
                        begin, (int)length, text, end, begin, base_name(stem), tag ? ">" : "");
    return complain(EXIT_USAGE, "%s%s%s: the weight '%s' must be a number above -1000 and below 1000, as in %s:0.8",
                    begin, name, end, colon + 1, base_name(stem));
}

static int add_lora(const options *o, const char *text, size_t length, bool tag, lora_list *out) {
    char name[PATH_SIZE];
    lora_item *item;
    float weight, other;
    size_t size, stem;
    dit_role expert = DIT_ROLE_NONE;
    while (length && text[0] == ' ') text++, length--;
    for (size_t i = 0; i < LORA_EXPERTS; i++) {
        const size_t before = strlen(lora_experts[i].before);
        if (length < before || strncmp(text, lora_experts[i].before, before)) continue;
        expert = lora_experts[i].role;
        text += before, length -= before;
    }
    if (!length) return EXIT_GOOD;
    lora_weight(text, length, &size, &weight);
    if (out->count == LORA_MOST)
        return complain(EXIT_USAGE, "--lora: more than %d LoRAs; merge some of them", LORA_MOST);
    if (size >= sizeof name) return complain(EXIT_USAGE, "--lora %.40s...: the name is too long", text);
    snprintf(name, sizeof name, "%.*s", (int)size, text);
    if (tag && (strchr(name, '/') || strchr(name, '\\') || !strcmp(name, "..")))
        return complain(EXIT_USAGE, "<lora:%s> in the prompt: a name in --lora-dir, without a folder", name);
    item = &out->items[out->count];
    if (!find_lora(o, name, tag, item->path) && size < length && lora_weight(text, size, &stem, &other) &&
        other == weight)
        name[stem] = 0; /* the same weight twice, for text encoders and transformer */
    if (!find_lora(o, name, tag, item->path)) {
        const int code = check_lora_weight(o, name, text, length, tag);
        if (code) return code;
        if (!tag) return complain(EXIT_INPUT, "--lora %s: %s", name, told_reason(errno));
        if (!o->lora_dir)
            return complain(EXIT_USAGE, "<lora:%s> in the prompt: --lora-dir must name the folder that has it", name);
        return complain(EXIT_USAGE, "<lora:%s> in the prompt: there is no such file in --lora-dir %s", name,
                        o->lora_dir);
    }
    item->weight = weight;
    item->expert = expert;
    if (weight != 0) out->count++;
    return EXIT_GOOD;
}

/* Entries with ; between them. */
static int add_loras(const options *o, const char *text, lora_list *out) {
    int code = EXIT_GOOD;
    while (text && *text && !code) {
        size_t length = strcspn(text, ";");
        code = add_lora(o, text, length, false, out);
        text += length + (text[length] == ';');
    }
    return code;
}

/* Takes the tags out of the prompt, and one space beside each. */
static int take_lora_tags(const options *o, lora_list *out) {
    static const char begin[] = "<lora:";
    const char *from = o->prompt, *tag, *end;
    size_t used = 0;
    int code = EXIT_GOOD;
    if (!from || !strstr(from, begin)) return EXIT_GOOD;
    out->prompt = malloc(strlen(from) + 1);
    if (!out->prompt) return complain(EXIT_MEMORY, "out of memory");
    while (!code && (tag = strstr(from, begin)) != NULL && (end = strchr(tag, '>')) != NULL) {
        const char *name = tag + sizeof begin - 1;
        memcpy(out->prompt + used, from, (size_t)(tag - from));
        used += (size_t)(tag - from);
        code = add_lora(o, name, (size_t)(end - name), true, out);
        from = end + 1;
        if (*from == ' ' && (!used || out->prompt[used - 1] == ' ')) from++;
    }
    if (!*from && used && out->prompt[used - 1] == ' ') used--;
    strcpy(out->prompt + used, from);
    return code;
}

static const char *lora_before(const lora_item *item) {
    for (size_t i = 0; i < LORA_EXPERTS; i++)
        if (lora_experts[i].role == item->expert) return lora_experts[i].before;
    return "";
}

/* The first mark of an expert; NULL: there is none. */
static const char *marked_lora(const lora_list *list) {
    for (uint32_t i = 0; i < list->count; i++)
        if (list->items[i].expert) return lora_before(&list->items[i]);
    return NULL;
}

static int tell_loras(lora_list *list) {
    char weight[32];
    size_t room = 1, used = 0;
    uint32_t i;
    if (!list->count) return EXIT_GOOD;
    for (i = 0; i < list->count; i++) room += strlen(base_name(list->items[i].path)) + sizeof weight + 16;
    list->told = malloc(room);
    if (!list->told) return complain(EXIT_MEMORY, "out of memory");
    for (i = 0; i < list->count; i++) {
        shortest_number(list->items[i].weight, weight, sizeof weight);
        used += (size_t)snprintf(list->told + used, room - used, "%s%s%s:%s", i ? "; " : "",
                                 lora_before(&list->items[i]), base_name(list->items[i].path), weight);
    }
    return EXIT_GOOD;
}

/* All LoRAs of the options; the prompt loses its tags. */
static int take_loras(options *o, lora_list *out) {
    int code = EXIT_GOOD;
    uint32_t i;
    free_loras(out);
    for (i = 0; i < o->lora_count && !code; i++) code = add_loras(o, o->loras[i], out);
    if (!o->lora_count) code = add_loras(o, o->lora, out); /* a picture's */
    if (!code) code = take_lora_tags(o, out);
    if (!code) code = tell_loras(out);
    if (out->prompt) o->prompt = out->prompt;
    return code;
}

static void loras_to_parts(const lora_list *list, bool merge, dit_component *parts, uint32_t *count) {
    uint32_t i;
    for (i = 0; i < list->count; i++) {
        dit_component *part = &parts[(*count)++];
        memset(part, 0, sizeof *part);
        part->source.path = list->items[i].path;
        part->role = DIT_ROLE_LORA;
        part->weight = list->items[i].weight;
        part->merge = merge;
    }
}

/* Whether the file's name says that it is for the expert of that word: "..._high_noise.safetensors", "HighNoise",
   "..._high.safetensors" or "T2V-HIGH-v2", but not "high_detail". */
static bool names_expert(const char *path, const char *word) {
    char name[PATH_SIZE], *at, *ending;
    bool capitals = true;
    snprintf(name, sizeof name, "%s", base_name(path));
    ending = strrchr(name, '.');
    if (ending) *ending = 0;
    for (at = name; *at; at++) {
        const char *behind = at;
        size_t i;
        for (i = 0, capitals = true; word[i] && tolower((unsigned char)at[i]) == word[i]; i++, behind++)
            capitals = capitals && isupper((unsigned char)at[i]);
        if (word[i]) continue;
        if (at > name && !isalnum((unsigned char)at[-1]) &&
            (!*behind || (capitals && !isalnum((unsigned char)*behind))))
            return true;
        if (*behind && strchr("_- ", *behind)) behind++;
        if (tolower((unsigned char)behind[0]) == 'n' && !strncmp(behind + 1, "oise", 4)) return true;
        if (!strncmp(behind, "NOISE", 5)) return true;
    }
    return false;
}

/* A LoRA of a model with two experts is for the one that stands before its name, or that its name tells, else for both,
   as a part for each. Returns whether parts have changed. */
static bool divide_loras(const lora_list *list, dit_component *parts, uint32_t *count, bool quiet) {
    const uint32_t before = *count;
    bool divided = false;
    for (uint32_t i = 0; i < before; i++) {
        const char *path = parts[i].source.path;
        dit_role marked = DIT_ROLE_NONE;
        bool told[LORA_EXPERTS];
        if (parts[i].role != DIT_ROLE_LORA || parts[i].lora_of != DIT_ROLE_NONE) continue;
        for (uint32_t k = 0; k < list->count; k++)
            if (list->items[k].path == path) marked = list->items[k].expert;
        for (size_t k = 0; k < LORA_EXPERTS; k++)
            told[k] = marked ? marked == lora_experts[k].role : names_expert(path, lora_experts[k].word);
        parts[i].lora_of = told[1] && !told[0] ? DIT_ROLE_TRANSFORMER_2 : DIT_ROLE_TRANSFORMER;
        divided = true;
        if (told[0] == told[1]) {
            parts[*count] = parts[i];
            parts[(*count)++].lora_of = DIT_ROLE_TRANSFORMER_2;
        } else if (!quiet && !marked) {
            fprintf(stderr, "dit: LoRA %s is for the expert for %s, by its name\n", base_name(path),
                    lora_experts[told[1]].noise);
        }
    }
    return divided;
}
#endif
