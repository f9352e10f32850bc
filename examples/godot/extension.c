/* dit in Godot 4: the classes DitModel and DitGenerator. README.md beside this file tells how to use them; worker.c
   makes the pictures in a thread of its own, and here is what nodes see of it. */
#include "gd.h"
#include "worker.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static worker *thread; /* from the first request to the end of the extension */

/* ---- DitTexture: a texture of the RenderingDevice that ends with the object ---- */

typedef struct texture {
    gd_instance_head head;
    variant rid; /* nil: none yet */
} texture;

enum { /* RenderingDevice.DATA_FORMAT_, TEXTURE_USAGE_ */
       FORMAT_RGBA8_UNORM = 36,
       FORMAT_RGBA8_SRGB = 42,
       USAGE_SAMPLING = 1,
       USAGE_CAN_UPDATE = 64,
       USAGE_CAN_COPY_FROM = 128,
       IMAGE_RGBA8 = 5 /* Image.FORMAT_ */
};

/* nil: Godot draws without one, or in a thread of its own, where only that thread may call it. */
static variant rendering_device(void) {
    variant server = gd_singleton("RenderingServer"), device = CALL0(&server, "get_rendering_device"),
            here = CALL0(&server, "is_on_render_thread");
    if (!gd_to_object(&device) || !gd_to_bool(&here)) gd_free(&device);
    gd_free(&server);
    return device;
}

/* A texture may end in any thread. */
static void free_rid(variant *rid) {
    variant server = gd_singleton("RenderingServer"), device = CALL0(&server, "get_rendering_device");
    if (!gd_is_nil(rid) && gd_to_object(&device)) {
        variant call = gd_callable(gd_to_object(&device), "free_rid");
        DO(&server, "call_on_render_thread", CALL(&call, "bind", gd_copy(rid)));
        gd_free(&call);
    }
    gd_free(&server);
    gd_free(&device);
    gd_free(rid);
}

static void texture_begin(void *instance) { ((texture *)instance)->rid = gd_nil(); }

/* Texture2DRD has let go of it by then. */
static void texture_end(void *instance) { free_rid(&((texture *)instance)->rid); }

static variant make_rid(variant *device, int64_t width, int64_t height) {
    variant format = gd_new("RDTextureFormat"), view = gd_new("RDTextureView"), rid;
    DO(&format, "set_format", gd_int(FORMAT_RGBA8_UNORM));
    DO(&format, "add_shareable_format", gd_int(FORMAT_RGBA8_UNORM));
    DO(&format, "add_shareable_format", gd_int(FORMAT_RGBA8_SRGB)); /* for materials, which read linear light */
    DO(&format, "set_width", gd_int(width));
    DO(&format, "set_height", gd_int(height));
    DO(&format, "set_usage_bits", gd_int(USAGE_SAMPLING | USAGE_CAN_UPDATE | USAGE_CAN_COPY_FROM));
    rid = CALL(device, "texture_create", gd_copy(&format), gd_copy(&view));
    gd_free(&format);
    gd_free(&view);
    return rid;
}

static const gd_class texture_class = {.name = "DitTexture",
                                       .parent = "Texture2DRD",
                                       .counted = true,
                                       .hidden = true,
                                       .size = sizeof(texture),
                                       .begin = texture_begin,
                                       .end = texture_end};

static void show_by_device(variant *device, variant *shown, const report *seen) {
    bool first = gd_is_nil(shown);
    texture *t;
    if (first) *shown = gd_new("DitTexture");
    t = gd_instance(shown, "DitTexture");
    if (!t) return;
    if (first) t->rid = make_rid(device, seen->width, seen->height);
    DO(device, "texture_update", gd_copy(&t->rid), gd_int(0),
       gd_bytes(seen->rgba, (size_t)seen->width * seen->height * 4));
    if (first) DO(shown, "set_texture_rd_rid", gd_copy(&t->rid));
}

/* A headless Godot keeps the first pixels of a texture: there a picture after a preview is not seen. */
static void show_by_image(variant *shown, const report *seen) {
    variant image = gd_new("Image");
    bool first = gd_is_nil(shown);
    if (first) *shown = gd_new("ImageTexture");
    DO(&image, "set_data", gd_int(seen->width), gd_int(seen->height), gd_bool(false), gd_int(IMAGE_RGBA8),
       gd_bytes(seen->rgba, (size_t)seen->width * seen->height * 4));
    DO(shown, first ? "set_image" : "update", gd_copy(&image));
    gd_free(&image);
}

/* Puts pixels into the texture of a request, which is made with the first of them. */
static void show(variant *shown, const report *seen) {
    variant device = rendering_device();
    if (gd_is_nil(&device))
        show_by_image(shown, seen);
    else
        show_by_device(&device, shown, seen);
    gd_free(&device);
}

/* ---- DitModel ---- */

typedef struct model {
    gd_instance_head head;
    char *path;
    int64_t weight_budget_mb;
    bool release_text_encoders, int8;
    weights *loaded; /* NULL: not asked for yet */
} model;

enum { HINT_FILE = 13, HINT_RESOURCE_TYPE = 17, HINT_MULTILINE_TEXT = 18 }; /* PROPERTY_HINT_ */

static const gd_property model_properties[] = {
    {"path", GDEXTENSION_VARIANT_TYPE_STRING, offsetof(model, path), HINT_FILE, "*.gguf,*.safetensors,*.pth"},
    {"weight_budget_mb", GDEXTENSION_VARIANT_TYPE_INT, offsetof(model, weight_budget_mb), 0, NULL},
    {"release_text_encoders", GDEXTENSION_VARIANT_TYPE_BOOL, offsetof(model, release_text_encoders), 0, NULL},
    {"int8", GDEXTENSION_VARIANT_TYPE_BOOL, offsetof(model, int8), 0, NULL}};

static void model_changed(void *instance) { /* requests that are under way keep what they have */
    model *m = instance;
    weights_release(m->loaded);
    m->loaded = NULL;
}

static const gd_class model_class = {.name = "DitModel",
                                     .parent = "Resource",
                                     .counted = true,
                                     .size = sizeof(model),
                                     .end = model_changed,
                                     .changed = model_changed,
                                     .properties = model_properties,
                                     .property_count = 4};

static bool is_there(const char *path) {
    FILE *file = path ? fopen(path, "rb") : NULL;
    if (file) fclose(file);
    return file != NULL;
}

/* An exported game has its res:// in a package, which only Godot reads: there the file lies beside the program. */
static char *real_path(const char *path) {
    variant settings = gd_singleton("ProjectSettings"), os = gd_singleton("OS"),
            global = CALL(&settings, "globalize_path", gd_text(path)), program = CALL0(&os, "get_executable_path"),
            folder = CALL0(&program, "get_base_dir");
    char *found = gd_to_text(&global), *beside;
    if (!strncmp(path, "res://", 6) && !is_there(found)) {
        variant joined = CALL(&folder, "path_join", gd_text(path + 6));
        beside = gd_to_text(&joined);
        if (is_there(beside)) {
            free(found);
            found = beside;
        } else {
            free(beside);
        }
        gd_free(&joined);
    }
    gd_free(&settings);
    gd_free(&os);
    gd_free(&global);
    gd_free(&program);
    gd_free(&folder);
    return found;
}

static weights *model_weights(model *m) {
    model_options options = {0};
    char *path;
    if (m->loaded) return m->loaded;
    path = real_path(m->path ? m->path : "");
    options.path = path;
    options.weight_budget = m->weight_budget_mb > 0 ? (uint64_t)m->weight_budget_mb << 20 : 0;
    options.release_encoders = m->release_text_encoders;
    options.int8 = m->int8;
    m->loaded = path ? weights_new(thread, &options) : NULL;
    free(path);
    return m->loaded;
}

/* ---- DitGenerator ---- */

typedef struct pending { /* a request, from generate() to its last signal */
    int64_t id;
    request *r; /* NULL: it failed before the thread had it, because of what message tells */
    const char *message;
    bool started;
    float fraction;
    variant shown; /* its texture */
    struct pending *next;
} pending;

typedef struct generator {
    gd_instance_head head;
    variant model;
    char *prompt, *negative_prompt;
    int64_t seed, steps, preview_interval;
    vector2i size;
    double guidance;
    pending *first;
} generator;

static int64_t newest_id;

static const gd_property generator_properties[] = {
    {"model", GDEXTENSION_VARIANT_TYPE_OBJECT, offsetof(generator, model), HINT_RESOURCE_TYPE, "DitModel"},
    {"prompt", GDEXTENSION_VARIANT_TYPE_STRING, offsetof(generator, prompt), HINT_MULTILINE_TEXT, NULL},
    {"negative_prompt", GDEXTENSION_VARIANT_TYPE_STRING, offsetof(generator, negative_prompt), HINT_MULTILINE_TEXT,
     NULL},
    {"seed", GDEXTENSION_VARIANT_TYPE_INT, offsetof(generator, seed), 0, NULL},
    {"size", GDEXTENSION_VARIANT_TYPE_VECTOR2I, offsetof(generator, size), 0, NULL},
    {"steps", GDEXTENSION_VARIANT_TYPE_INT, offsetof(generator, steps), 0, NULL},
    {"guidance", GDEXTENSION_VARIANT_TYPE_FLOAT, offsetof(generator, guidance), 0, NULL},
    {"preview_interval", GDEXTENSION_VARIANT_TYPE_INT, offsetof(generator, preview_interval), 0, NULL}};

#define ID                                                                                                             \
    { GDEXTENSION_VARIANT_TYPE_INT, "id" }
#define TEXTURE                                                                                                        \
    { GDEXTENSION_VARIANT_TYPE_OBJECT, "texture" }
static const gd_signal generator_signals[] = {{"started", 1, {ID}},
                                              {"progress", 2, {ID, {GDEXTENSION_VARIANT_TYPE_FLOAT, "fraction"}}},
                                              {"preview", 2, {ID, TEXTURE}},
                                              {"finished", 2, {ID, TEXTURE}},
                                              {"failed", 2, {ID, {GDEXTENSION_VARIANT_TYPE_STRING, "message"}}}};

static variant setting(const char *name, variant otherwise) {
    variant settings = gd_singleton("ProjectSettings"),
            value = CALL(&settings, "get_setting", gd_text(name), otherwise);
    gd_free(&settings);
    return value;
}

static void *driver_resource(variant *device, int64_t which) {
    variant value = CALL(device, "get_driver_resource", gd_int(which), gd_rid(), gd_int(0));
    return (void *)(uintptr_t)gd_to_int(&value);
}

/* Godot's objects that the thread may use, as its renderer tells. */
static place find_place(void) {
    enum {
        DEVICE,
        PHYSICAL_DEVICE,
        TOPMOST_OBJECT,
        COMMAND_QUEUE,
        QUEUE_FAMILY
    }; /* RenderingDevice.DRIVER_RESOURCE_ */
    variant device = rendering_device(), server = gd_singleton("RenderingServer"),
            name = CALL0(&server, "get_current_rendering_driver_name"),
            godots = setting("dit/use_godots_device", gd_bool(false)), slice = setting("dit/slice_us", gd_int(2000));
    char *driver = gd_to_text(&name);
    place at = {0};
    if (!gd_is_nil(&device) && driver && !strcmp(driver, "vulkan")) {
        at.instance = driver_resource(&device, TOPMOST_OBJECT);
        at.physical_device = driver_resource(&device, PHYSICAL_DEVICE);
        if (gd_to_bool(&godots)) at.device = driver_resource(&device, DEVICE);
        at.queue_family = (uint32_t)(uintptr_t)driver_resource(&device, QUEUE_FAMILY);
    }
    at.slice_us = (uint32_t)gd_to_int(&slice);
    free(driver);
    gd_free(&device);
    gd_free(&server);
    gd_free(&name);
    gd_free(&godots);
    gd_free(&slice);
    return at;
}

static uint32_t positive(int64_t value) { return value > 0 ? value < INT32_MAX ? (uint32_t)value : INT32_MAX : 0; }

static request *ask(generator *g, const char **message) {
    model *m = gd_instance(&g->model, "DitModel");
    request *r = NULL;
    place at;
    if (!m) {
        *message = "the generator has no model: set it to a DitModel";
        return NULL;
    }
    if (!thread) {
        at = find_place();
        thread = worker_start(&at);
    }
    if (g->size.x < 0 || g->size.y < 0)
        *message = "the size is negative";
    else if (!thread || !model_weights(m))
        *message = "no memory for a request";
    else {
        wish what = {g->prompt,           g->negative_prompt, (uint64_t)g->seed,  (uint32_t)g->size.x,
                     (uint32_t)g->size.y, positive(g->steps), (float)g->guidance, positive(g->preview_interval)};
        r = request_new(m->loaded, &what);
        if (!r) *message = "no memory for a request";
    }
    return r;
}

static variant generate(void *instance, const variant *const *args) {
    generator *g = instance;
    pending *p = calloc(1, sizeof *p), **last = &g->first;
    (void)args;
    if (!p) return gd_int(0);
    p->id = ++newest_id;
    p->shown = gd_nil();
    p->r = ask(g, &p->message);
    while (*last) last = &(*last)->next;
    *last = p;
    return gd_int(p->id);
}

static void end_pending(pending *p) {
    request_release(p->r);
    gd_free(&p->shown);
    free(p);
}

static variant cancel(void *instance, const variant *const *args) {
    pending *p;
    (void)args;
    for (p = ((generator *)instance)->first; p; p = p->next)
        if (p->r) request_cancel(p->r);
    return gd_nil();
}

static const gd_method generator_methods[] = {{"generate", generate, GDEXTENSION_VARIANT_TYPE_INT, 0, {{0}}},
                                              {"cancel", cancel, GDEXTENSION_VARIANT_TYPE_NIL, 0, {{0}}}};

static void print_note(void) {
    char line[256];
    if (thread && worker_note(thread, line, sizeof line)) gd_print(line);
}

/* Emits what has changed of one request; false: its node is gone, because a handler freed it. */
static bool emit(generator *g, const char *name, int64_t id, variant value, bool has_value) {
    variant self = gd_object(g->head.object);
    uint64_t object = gd_id(g->head.object);
    if (has_value)
        DO(&self, "emit_signal", gd_text(name), gd_int(id), value);
    else
        DO(&self, "emit_signal", gd_text(name), gd_int(id));
    gd_free(&self);
    return gd_lives(object);
}

static pending **find(generator *g, int64_t id) {
    pending **at = &g->first;
    while (*at && (*at)->id != id) at = &(*at)->next;
    return at;
}

/* Signals of a request, in their order. Handlers may call generate and cancel. */
static bool tell(generator *g, pending *p) {
    report seen = {.state = STATE_FAILED};
    int64_t id = p->id;
    variant shown;
    bool ended, lives, pixels;
    if (p->r)
        request_look(p->r, &seen);
    else
        snprintf(seen.message, sizeof seen.message, "%s", p->message);
    ended = seen.state == STATE_FINISHED || seen.state == STATE_FAILED;
    if (!p->started && seen.state != STATE_WAITING && seen.state != STATE_FAILED) {
        p->started = true;
        if (!emit(g, "started", id, gd_nil(), false)) return free(seen.rgba), false;
    }
    if (seen.fraction > p->fraction) {
        p->fraction = seen.fraction;
        if (!emit(g, "progress", id, gd_float(seen.fraction), true)) return free(seen.rgba), false;
    }
    pixels = seen.rgba != NULL;
    if (pixels) show(&p->shown, &seen);
    free(seen.rgba);
    shown = gd_copy(&p->shown);
    if (ended) {
        pending **at = find(g, id);
        *at = p->next;
        end_pending(p);
    }
    if (seen.state == STATE_FAILED)
        lives = emit(g, "failed", id, gd_text(seen.message), true);
    else
        lives = !pixels || emit(g, ended ? "finished" : "preview", id, gd_copy(&shown), true);
    gd_free(&shown);
    return lives;
}

/* In each frame, while the node is in the tree. */
static void look(generator *g) {
    int64_t until = newest_id, id = 0;
    pending *p = g->first;
    print_note();
    while (p && p->id <= until) {
        id = p->id;
        if (!tell(g, p)) return;
        for (p = g->first; p && p->id <= id; p = p->next) {
        }
    }
}

static void generator_notification(void *instance, int32_t what) {
    enum { ENTER_TREE = 10, INTERNAL_PROCESS = 25 }; /* Node.NOTIFICATION_ */
    generator *g = instance;
    if (what == INTERNAL_PROCESS && g->first) look(g);
    if (what == ENTER_TREE) {
        variant self = gd_object(g->head.object);
        DO(&self, "set_process_internal", gd_bool(true));
        gd_free(&self);
    }
}

/* Requests of a node that is freed are cancelled; nobody hears of them any more. */
static void generator_end(void *instance) {
    generator *g = instance;
    while (g->first) {
        pending *p = g->first;
        g->first = p->next;
        end_pending(p);
    }
}

static const gd_class generator_class = {.name = "DitGenerator",
                                         .parent = "Node",
                                         .size = sizeof(generator),
                                         .end = generator_end,
                                         .notification = generator_notification,
                                         .methods = generator_methods,
                                         .method_count = 2,
                                         .properties = generator_properties,
                                         .property_count = 8,
                                         .signals = generator_signals,
                                         .signal_count = 5};

/* ---- the extension ---- */

static const gd_class *const classes[] = {&texture_class, &model_class, &generator_class};
enum { CLASSES = sizeof classes / sizeof *classes };

static void begin(void *user, GDExtensionInitializationLevel level) {
    int i;
    (void)user;
    if (level == GDEXTENSION_INITIALIZATION_SCENE)
        for (i = 0; i < CLASSES; i++) gd_register(classes[i]);
}

/* Whatever is under way is cancelled first. */
static void end(void *user, GDExtensionInitializationLevel level) {
    int i;
    (void)user;
    if (level != GDEXTENSION_INITIALIZATION_SCENE) return;
    worker_stop(thread);
    thread = NULL;
    for (i = CLASSES; i-- > 0;) gd_unregister(classes[i]);
}

#ifdef _WIN32
__declspec(dllexport)
#else
__attribute__((visibility("default")))
#endif
    GDExtensionBool dit_godot(GDExtensionInterfaceGetProcAddress get, GDExtensionClassLibraryPtr library,
                              GDExtensionInitialization *out) {
    if (!gd_open(get, library)) {
        fprintf(stderr, "dit: this extension needs Godot 4.4 or newer\n");
        return 0;
    }
    out->minimum_initialization_level = GDEXTENSION_INITIALIZATION_SCENE;
    out->initialize = begin;
    out->deinitialize = end;
    return 1;
}
