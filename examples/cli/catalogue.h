/* Models that lie in the usual folders (--list-models): read from their headers alone. Include it after info.h and
   files.h. Not part of dit.h. */
#ifndef CATALOGUE_H
#define CATALOGUE_H
#include "files.h"
#include "info.h"
#ifndef _WIN32
#include <dirent.h>
#endif

typedef struct found_model {
    char path[PATH_SIZE], name[256];
    file_id id;
    dit_model_info info;
    uint64_t bytes; /* of weights in its files */
} found_model;

typedef struct catalogue {
    found_model *models; /* freed with free */
    uint32_t count, room;
} catalogue;

/* Calls take for each entry of a folder but . and .. */
static void each_entry(const char *folder, void (*take)(const char *path, void *user), void *user) {
    char path[PATH_SIZE];
#ifdef _WIN32
    WIN32_FIND_DATAA entry;
    HANDLE list;
    if (snprintf(path, sizeof path, "%s\\*", folder) >= (int)sizeof path) return;
    list = FindFirstFileA(path, &entry);
    if (list == INVALID_HANDLE_VALUE) return;
    do {
        const char *name = entry.cFileName;
        if (name[0] != '.' && snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path) take(path, user);
    } while (FindNextFileA(list, &entry));
    FindClose(list);
#else
    DIR *list = opendir(folder);
    struct dirent *entry;
    while (list && (entry = readdir(list)) != NULL)
        if (entry->d_name[0] != '.' && snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) < (int)sizeof path)
            take(path, user);
    if (list) closedir(list);
#endif
}

/* Adds what path holds when it is a model with a transformer. */
static void add_model(catalogue *c, const char *path, const char *name) {
    dit_model_desc desc = {0};
    dit_model *model = NULL;
    weight_table table = {0};
    found_model *m;
    file_id id;
    uint32_t i;
    if (!read_file_id(path, &id)) return;
    for (i = 0; i < c->count; i++)
        if (same_file(&c->models[i].id, &id)) return;
    if (c->count == c->room) {
        found_model *more = (found_model *)realloc(c->models, (2 * c->room + 16) * sizeof *more);
        if (!more) return;
        c->models = more;
        c->room = 2 * c->room + 16;
    }
    m = &c->models[c->count];
    memset(m, 0, sizeof *m);
    desc.source.path = path;
    desc.dry_run = true;
    if (dit_model_load(NULL, &desc, &model, NULL) != DIT_OK) return;
    dit_model_get_info(model, &m->info);
    if (m->info.layers && read_weights(model, &table, NULL) == DIT_OK) {
        for (i = 0; i < table.count; i++) m->bytes += table.rows[i].file_bytes;
        m->id = id;
        snprintf(m->path, sizeof m->path, "%s", path);
        snprintf(m->name, sizeof m->name, "%s", name);
        c->count++;
    }
    free(table.rows);
    dit_model_destroy(model);
}

/* A file of weights, or a folder of diffusers. */
static void add_candidate(const char *path, void *user) {
    static const char *const endings[] = {".gguf", ".safetensors", ".ckpt", ".pth", ".pt"};
    const char *dot = strrchr(base_name(path), '.');
    char inner[PATH_SIZE];
    size_t i;
    if (is_folder(path)) {
        if (snprintf(inner, sizeof inner, "%s/model_index.json", path) < (int)sizeof inner && file_exists(inner))
            add_model((catalogue *)user, path, base_name(path));
        return;
    }
    for (i = 0; dot && i < sizeof endings / sizeof endings[0]; i++)
        if (strcmp(dot, endings[i]) == 0) add_model((catalogue *)user, path, base_name(path));
}

typedef struct hub_entry {
    catalogue *all;
    const char *name;
} hub_entry;

static void add_snapshot(const char *path, void *user) {
    const hub_entry *entry = (const hub_entry *)user;
    char inner[PATH_SIZE];
    if (snprintf(inner, sizeof inner, "%s/model_index.json", path) < (int)sizeof inner && file_exists(inner))
        add_model(entry->all, path, entry->name);
}

/* models--OWNER--NAME/snapshots/REVISION, as Hugging Face's programs keep what they downloaded. */
static void add_hub(const char *path, void *user) {
    char name[256], inner[PATH_SIZE];
    hub_entry entry;
    char *p;
    if (strncmp(base_name(path), "models--", 8) != 0) return;
    snprintf(name, sizeof name, "%s", base_name(path) + 8);
    for (p = name; (p = strstr(p, "--")) != NULL; p++) {
        *p = '/';
        memmove(p + 1, p + 2, strlen(p + 2) + 1);
    }
    entry.all = (catalogue *)user;
    entry.name = name;
    if (snprintf(inner, sizeof inner, "%s/snapshots", path) < (int)sizeof inner)
        each_entry(inner, add_snapshot, &entry);
}

/* The folder of Hugging Face's downloads, as huggingface_hub chooses it. */
static bool hub_folder(char *out, size_t size) {
    static const struct {
        const char *name, *below;
    } places[] = {{"HF_HUB_CACHE", ""},
                  {"HUGGINGFACE_HUB_CACHE", ""},
                  {"HF_HOME", "/hub"},
                  {"XDG_CACHE_HOME", "/huggingface/hub"},
                  {"HOME", "/.cache/huggingface/hub"}};
    const char *home = getenv("HOME");
    size_t i;
    for (i = 0; i < sizeof places / sizeof places[0]; i++) {
        const char *value = getenv(places[i].name);
        const bool at_home = value && value[0] == '~' && (value[1] == '/' || !value[1]) && home;
        if (!value || !*value) continue;
        return snprintf(out, size, "%s%s%s", at_home ? home : "", value + at_home, places[i].below) < (int)size;
    }
    return false;
}

/* The usual folders: this one and models/ in it, those of the bundled model (bundled: its path, or empty), the user's,
   and the cache of Hugging Face; DIT_MODELS names one more. */
static void find_models(catalogue *c, const char *bundled) {
    const char *home = getenv("HOME"), *data = getenv("XDG_DATA_HOME"), *more = getenv("DIT_MODELS");
    char path[PATH_SIZE];
    if (*bundled) add_model(c, bundled, base_name(bundled));
    if (more && *more) each_entry(more, add_candidate, c);
    each_entry("models", add_candidate, c);
    each_entry(".", add_candidate, c);
    if (data && *data)
        snprintf(path, sizeof path, "%s/dit", data);
    else
        snprintf(path, sizeof path, "%s/.local/share/dit", home ? home : ".");
    each_entry(path, add_candidate, c);
    if (hub_folder(path, sizeof path)) each_entry(path, add_hub, c);
}

/* A line for each: name, kind, size, what it lacks, where it is. */
static void tell_models(const catalogue *c) {
    uint32_t i;
    int role;
    for (i = 0; i < c->count; i++) {
        const found_model *m = &c->models[i];
        const char *between = "  lacks ";
        printf("%s  %s%s%s  %s", m->name, m->info.family, m->info.variant[0] ? " " : "", m->info.variant,
               sized(m->bytes));
        for (role = 0; role < 32; role++) {
            if (!(m->info.missing & 1u << role)) continue;
            printf("%s%s", between, role_name(&m->info, (dit_role)role));
            between = ", ";
        }
        printf("  %s\n", m->path);
    }
}
#endif
