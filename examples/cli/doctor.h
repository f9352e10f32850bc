/* `dit doctor`: what is installed, which devices there are, how fast each draws and with how much memory, what is
   wrong, and the command that mends it. txt2img.c includes it behind what makes pictures. Not part of dit.h. */
#ifndef DOCTOR_H
#define DOCTOR_H
#include "catalogue.h"

typedef struct doctor {
    unsigned wrong;
    dit_memory memory; /* of the picture that a device draws */
} doctor;

/* A thing that is wrong, and the command that mends it; command NULL: none does. */
static void tell_wrong(doctor *d, const char *command, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("wrong: ", stdout);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    if (command) printf("    %s\n", command);
    d->wrong++;
}

/* The command that installs a package, by its names with apt-get, dnf, pacman and zypper. */
static const char *install_command(const char *const names[4]) {
    static const char *const managers[4][2] = {{"/usr/bin/apt-get", "apt-get install "},
                                               {"/usr/bin/dnf", "dnf install "},
                                               {"/usr/bin/pacman", "pacman -S "},
                                               {"/usr/bin/zypper", "zypper install "}};
    static char command[256];
    size_t i;
    for (i = 0; i < 4; i++) {
        if (!file_exists(managers[i][0])) continue;
        snprintf(command, sizeof command, "sudo %s%s", managers[i][1], names[i]);
        return command;
    }
    return NULL;
}

static const char *const loader_packages[4] = {"libvulkan1", "vulkan-loader", "vulkan-icd-loader", "libvulkan1"};
static const char *const mesa_packages[4] = {"mesa-vulkan-drivers", "mesa-vulkan-drivers",
                                             "vulkan-swrast vulkan-radeon vulkan-intel", "Mesa-vulkan-drivers"};

/* ---- This program ---- */

static void tell_program(doctor *d, const char *version) {
    static const struct {
        const char *what, *packages[4];
        bool has;
    } parts[] = {
#ifdef DIT_WEBP
        {"WebP", {"", "", "", ""}, true},
#else
        {"WebP", {"libwebp-dev", "libwebp-devel", "libwebp", "libwebp-devel"}, false},
#endif
#ifdef DIT_JPEG
        {"JPEG", {"", "", "", ""}, true},
#else
        {"JPEG", {"libjpeg-dev", "libjpeg-turbo-devel", "libjpeg-turbo", "libjpeg8-devel"}, false},
#endif
#ifdef DIT_SIXEL
        {"Sixel", {"", "", "", ""}, true},
#else
        {"Sixel", {"libsixel-dev", "libsixel-devel", "libsixel", "libsixel-devel"}, false},
#endif
#ifdef DIT_EDIT
        {"a prompt with history", {"", "", "", ""}, true},
#else
        {"a prompt with history", {"libedit-dev", "libedit-devel", "libedit", "libedit-devel"}, false},
#endif
#ifdef DIT_JSON
        {"batches in JSON", {"", "", "", ""}, true},
#else
        {"batches in JSON", {"libjansson-dev", "jansson-devel", "jansson", "libjansson-devel"}, false},
#endif
#if defined(DIT_HTTP) && defined(DIT_JSON)
        {"a server", {"", "", "", ""}, true},
#else
        {"a server",
         {"libmicrohttpd-dev libjansson-dev", "libmicrohttpd-devel jansson-devel", "libmicrohttpd jansson",
          "libmicrohttpd-devel libjansson-devel"},
         false},
#endif
    };
    char folder[PATH_SIZE] = "?";
    const char *between = " with ";
    size_t i;
    own_folder(folder, sizeof folder);
    printf("dit: %s in %s", version, folder);
    for (i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (!parts[i].has) continue;
        printf("%s%s", between, parts[i].what);
        between = ", ";
    }
    putchar('\n');
#ifndef _WIN32
    for (i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const char *command = parts[i].has ? NULL : install_command(parts[i].packages);
        if (!parts[i].has)
            printf("without %s%s%s%s\n", parts[i].what, command ? ": " : "", command ? command : "",
                   command ? ", and build dit again" : "");
    }
#endif
    (void)d;
}

static void tell_folders(doctor *d, const app *a) {
    char path[PATH_SIZE] = "";
    const char *why;
    if (!find_bundled("emoji-q8_0.gguf", path)) {
        if (!a->o.model) tell_wrong(d, NULL, "the bundled model is not beside this program; name a model with --model");
    } else {
        printf("bundled model: %s\n", path);
    }
    if (cache_folder(path, sizeof path - 8)) {
        strcat(path, "/trial");
        why = why_not_writable(path);
        path[strlen(path) - 6] = 0;
        if (why)
            tell_wrong(d, NULL, "compiled kernels cannot be kept in %s: %s", path, why);
        else
            printf("cache: %s\n", path);
    } else {
        tell_wrong(d, "export HOME=/path/of/yours", "there is no folder to keep compiled kernels in");
    }
}

/* ---- Drivers ---- */

#ifndef _WIN32
typedef struct manifest_list {
    doctor *d;
    const char *command; /* that mends a wrong one; NULL: none does */
    char names[1024];
    uint32_t count;
} manifest_list;

/* Copies what a manifest of a driver says of "library_path". False: it is no manifest, or its quotes or braces do not
   match. */
static bool read_manifest(const char *path, char *out, size_t size) {
    static const char key[] = "\"library_path\"";
    char text[16384], *p = text, *value;
    FILE *file = fopen(path, "rb");
    const size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    int open = 0;
    if (file) fclose(file);
    text[length] = 0;
    value = strstr(text, key);
    value = value ? strchr(value + sizeof key - 1, '"') : NULL;
    if (!value) return false;
    for (; *p; p++) {
        open += *p == '{' ? 1 : *p == '}' ? -1 : 0;
        if (*p != '"') continue;
        for (p++; *p && *p != '"'; p++) p += *p == '\\' && p[1];
        if (!*p) return false;
    }
    return open == 0 && snprintf(out, size, "%.*s", (int)strcspn(value + 1, "\""), value + 1) < (int)size;
}

/* A manifest that is broken, or whose driver is gone. A library without a folder is looked for as others are. */
static void check_manifest(const manifest_list *list, const char *path) {
    char library[PATH_SIZE], folder[PATH_SIZE], whole[2 * PATH_SIZE];
    if (!read_manifest(path, library, sizeof library)) {
        tell_wrong(list->d, list->command,
                   "%s is no manifest of a driver, and one such file keeps some Vulkan loaders from all drivers; "
                   "mend or remove it",
                   path);
    } else if (strchr(library, '/') && folder_of(path, folder, sizeof folder)) {
        snprintf(whole, sizeof whole, "%s%s%s", library[0] == '/' ? "" : folder, library[0] == '/' ? "" : "/", library);
        if (!file_exists(whole)) tell_wrong(list->d, list->command, "%s names %s, which is not there", path, whole);
    }
}

static void add_manifest(const char *path, void *user) {
    manifest_list *list = (manifest_list *)user;
    const size_t length = strlen(list->names);
    const char *dot = strrchr(base_name(path), '.');
    if (!dot || strcmp(dot, ".json") != 0) return;
    snprintf(list->names + length, sizeof list->names - length, "%s%s", list->count ? ", " : "", base_name(path));
    list->count++;
    check_manifest(list, path);
}

/* The folders "vulkan/icd.d" in each of these folders. value: of a variable; NULL or empty: the usual folders. */
static void add_manifests(manifest_list *list, const char *value, const char *usual) {
    char paths[2 * PATH_SIZE], folder[3 * PATH_SIZE], *path;
    snprintf(paths, sizeof paths, "%s", value && *value ? value : usual);
    for (path = strtok(paths, ":"); path; path = strtok(NULL, ":")) {
        snprintf(folder, sizeof folder, "%s/vulkan/icd.d", path);
        each_entry(folder, add_manifest, list);
    }
}

/* Manifests that the loader reads, or those that the environment names in place of all. */
static void tell_drivers(doctor *d) {
    static const char *const names[] = {"VK_DRIVER_FILES", "VK_ICD_FILENAMES"};
    manifest_list list = {0};
    char command[64], paths[2 * PATH_SIZE], *path;
    size_t i;
    list.d = d;
    for (i = 0; i < 2; i++) {
        const char *value = getenv(names[i]);
        if (!value || !*value) continue;
        printf("drivers: only those of %s, %s\n", names[i], value);
        snprintf(paths, sizeof paths, "%s", value);
        snprintf(command, sizeof command, "unset %s", names[i]);
        list.command = command;
        for (path = strtok(paths, ":"); path; path = strtok(NULL, ":")) {
            if (!file_exists(path))
                tell_wrong(d, command, "%s names %s, which is not there", names[i], path);
            else if (!is_folder(path))
                check_manifest(&list, path);
        }
        return;
    }
    path = getenv("HOME");
    snprintf(paths, sizeof paths, "%s/.local/share", path ? path : "");
    add_manifests(&list, getenv("XDG_CONFIG_DIRS"), "/etc/xdg");
    add_manifests(&list, NULL, "/etc:/usr/local/etc");
    add_manifests(&list, getenv("XDG_DATA_HOME"), paths);
    add_manifests(&list, getenv("XDG_DATA_DIRS"), "/usr/local/share:/usr/share");
    if (list.count)
        printf("drivers: %s\n", list.names);
    else if (!getenv("VK_ADD_DRIVER_FILES"))
        tell_wrong(d, install_command(mesa_packages),
                   "no Vulkan driver is installed; Mesa's draw on AMD, Intel and the CPU, NVIDIA's own on NVIDIA");
}

typedef struct card_search {
    doctor *d;
    const dit_device_info *devices;
    uint32_t count;
} card_search;

/* A graphics card that the kernel knows, below /sys/class/drm, and no Vulkan device of the same maker. */
static void check_card(const char *path, void *user) {
    static const struct {
        uint32_t vendor;
        const char *name, *packages[4];
    } makers[] = {{0x10de, "NVIDIA", {"nvidia-driver", "akmod-nvidia", "nvidia-utils", "nvidia-video-G06"}},
                  {0x1002, "AMD", {"mesa-vulkan-drivers", "mesa-vulkan-drivers", "vulkan-radeon", "libvulkan_radeon"}},
                  {0x8086, "Intel", {"mesa-vulkan-drivers", "mesa-vulkan-drivers", "vulkan-intel", "libvulkan_intel"}}};
    const card_search *s = (const card_search *)user;
    char file[PATH_SIZE], text[32] = "";
    uint32_t vendor, i;
    size_t k;
    FILE *from;
    if (strncmp(base_name(path), "renderD", 7) != 0) return;
    if (snprintf(file, sizeof file, "%s/device/vendor", path) >= (int)sizeof file) return;
    from = fopen(file, "r");
    if (!from) return;
    if (!fgets(text, sizeof text, from)) text[0] = 0;
    fclose(from);
    vendor = (uint32_t)strtoul(text, NULL, 16);
    for (k = 0; k < sizeof makers / sizeof makers[0] && makers[k].vendor != vendor; k++) {
    }
    if (k == sizeof makers / sizeof makers[0]) return;
    if (snprintf(file, sizeof file, "/dev/dri/%s", base_name(path)) >= (int)sizeof file) return;
    if (access(file, R_OK | W_OK) != 0 && file_exists(file)) {
        tell_wrong(s->d, "sudo usermod -aG render,video \"$USER\"    # then log in again",
                   "you may not open %s, the %s card", file, makers[k].name);
        return;
    }
    for (i = 0; i < s->count; i++)
        if (s->devices[i].vendor == vendor) return;
    tell_wrong(s->d, install_command(makers[k].packages), "%s is an %s card that no Vulkan driver opens", file,
               makers[k].name);
}
#endif

/* ---- Devices ---- */

/* In place of a file: the memory that the picture took. */
static bool keep_memory(app *a, uint32_t i) {
    doctor *d = (doctor *)a->follow.user;
    dit_job_desc desc;
    dit_tensor noise;
    describe_job(a, i, &desc, &noise);
    return dit_job_memory(a->context, &desc, &d->memory, NULL) == DIT_OK;
}

/* A picture on a device, as the options ask for it, but in three steps. */
static void try_device(doctor *d, app *a, const options *usual, uint32_t index, const dit_device_info *device) {
    dit_device_info used;
    char number[16];
    int code;
    printf("device %u: %s, Vulkan %u.%u, driver %08x, %.1f GB, %s\n", index, device->name,
           device->api_version >> 22 & 0x7f, device->api_version >> 12 & 0x3ff, device->driver_version,
           (double)device->memory / 1e9, device->rung);
    fflush(stdout);
    if (strcmp(device->rung, "none") == 0) return;
    snprintf(number, sizeof number, "%u", index);
    a->o = *usual;
    a->o.device = number;
    a->o.steps = "3";
    a->o.quiet = true;
    if (!a->o.prompt) a->o.prompt = "red heart";
    a->follow.take = keep_memory;
    a->follow.user = d;
    memset(&d->memory, 0, sizeof d->memory);
    complaint.silent = true;
    code = make_request(a);
    complaint.silent = false;
    memset(&a->follow, 0, sizeof a->follow);
    if (code)
        tell_wrong(d, NULL, "%s", complaint.text);
    else if (dit_context_device(a->context, &used, &a->err) == DIT_OK)
        printf(
            "    ready after %.2f s with kernels of rung %s, %.2f steps/s, decoding %.2f s, %.0f MB of device memory\n",
            a->took.ready, used.rung, a->took.steps > 0 ? 3 / a->took.steps : 0, a->took.decode,
            (double)d->memory.peak / 1e6);
    keep_pipeline_cache(a);
    unload(a);
}

static int see_doctor(app *a) {
    static doctor d;
    const options usual = a->o;
    dit_device_info *devices = NULL;
    uint32_t count = 0, usable = 0, i;
    unsigned wrong = 0; /* things about drivers, each with what mends it */
    char version[64];
    dit_result result;
    version_text(version, sizeof version);
    tell_program(&d, version);
    tell_folders(&d, a);
#ifndef _WIN32
    wrong = d.wrong;
    tell_drivers(&d);
    wrong = d.wrong - wrong;
#endif
    result = dit_device_list(NULL, &count, &a->err);
    if (result == DIT_OK) devices = (dit_device_info *)calloc(count + 1, sizeof *devices);
    if (devices) result = dit_device_list(devices, &count, &a->err);
    if (result != DIT_OK) {
        count = 0;
        tell_wrong(&d,
                   wrong ? NULL : install_command(strstr(a->err.message, "loader") ? loader_packages : mesa_packages),
                   "%s", a->err.message);
    }
#ifndef _WIN32
    {
        card_search search;
        search.d = &d;
        search.devices = devices;
        search.count = count;
        each_entry("/sys/class/drm", check_card, &search);
    }
#endif
    for (i = 0; devices && i < count && !caught_signal; i++) {
        usable += strcmp(devices[i].rung, "none") != 0;
        try_device(&d, a, &usual, i, &devices[i]);
    }
    a->o = usual;
    free(devices);
    if (d.wrong)
        printf("%u thing%s wrong\n", d.wrong, d.wrong > 1 ? "s are" : " is");
    else
        puts("nothing is wrong");
    return caught_signal ? 128 + caught_signal : usable ? EXIT_GOOD : EXIT_DEVICE;
}
#endif
