/* dit-plan: which split of a model over which devices is fastest, before any device is bought or occupied. See
 * usage_text.
 */
#define DIT_IMPLEMENTATION
#include "dit.h"
#include "../examples/cli/programs.h"
#include "plan_tables.h"
#include "plan_gantt.h"
#include "plan_measure.h"
#include <errno.h>

static const char usage_text[] =
    "usage: dit-plan --model NAME --devices LIST [options]\n"
    "Predicts time, bytes and memory of every split of a picture over several devices. Occupies none of them, but with\n"
    "--measure and --run-rank.\n"
    "\n"
    "  -m, --model NAME         a denoiser; --list shows them, devices and machines\n"
    "  -W, -H, --frames, --steps N  size of the picture or clip and its steps (default: the model's)\n"
    "  -d, --devices LIST       4xT4, or 2xL40,2xL20: unequal devices get proportional shares; @table.json: as measured\n"
    "      --machine NAME       how they are connected (default: as NCCL was measured between devices of the first kind;\n"
    "                           pcie3 and pcie4: copies through the host's memory)\n"
    "      --pair, --ring, --all-to-all GB/S  bandwidths per device while all exchange so\n"
    "      --latency US         of an exchange;  --per-socket N, --uplink GB/S  of all devices of a socket\n"
    "      --single S           seconds that one device was measured to take; else what its table says\n"
    "      --serial S           seconds of these that are not split: text encoders, autoencoder\n"
    "      --split SPLIT        only this one: cfg2,ulysses2, pipefusion4:m8w1,int8, or @plan.json\n"
    "      --methods LIST       only these: cfg, layers, pipefusion, ring, shard, tensor, ulysses\n"
    "      --payload f16|i8     what is sent (default: f16)\n"
    "      --warmup N           steps before PipeFusion begins (default: 1)\n"
    "      --cache first=1,blocks=20,from=10,interval=2  20 layers from layer 1 on are left out in steps 10, 12, ...\n"
    "      --gate N             guidance ends before step N\n"
    "      --system dit|xdit    dit.h, or xDiT in PyTorch as it was measured (default: dit)\n"
    "      --top N              splits to show (default: 8)\n"
    "      --gantt FILE.svg     one step of the best split, drawn\n"
    "  -o, --output FILE.json   the best split as a plan, for --split @FILE.json\n"
    "      --measure FILE.json  measure devices of this machine and what is between them (-d 0,1: these), for -d @FILE.json\n"
    "      --run-rank K         time what rank K of --split computes of -m FILE, here (-d 0), its peers left out\n"
    "      --list, -h, --help, --version  show the tables, this text, the version\n"
    "\n"
    "Times are for choosing, not for promises: most published times are met within 12 % (BENCHMARKS.md).\n" EXIT_CODES_HELP;

enum { MOST_ROWS = 600 };

/* ---- options ---- */

typedef struct options {
    const char *model, *width, *height, *frames, *steps, *devices, *machine, *pair, *ring, *all_to_all, *latency,
        *per_socket, *uplink, *single, *serial, *split, *methods, *payload, *warmup, *cache, *gate, *system, *top,
        *gantt, *output, *measure, *run_rank;
} options;

#undef TEXT /* windows.h has another one */
#define TEXT(name, member)                                                                                             \
    { name, offsetof(options, member) }
static const struct known_option {
    const char *name;
    size_t offset;
} known_options[] = {
    TEXT("--model", model),
    TEXT("-m", model),
    TEXT("-W", width),
    TEXT("--width", width),
    TEXT("-H", height),
    TEXT("--height", height),
    TEXT("--frames", frames),
    TEXT("--steps", steps),
    TEXT("--devices", devices),
    TEXT("-d", devices),
    TEXT("--machine", machine),
    TEXT("--pair", pair),
    TEXT("--ring", ring),
    TEXT("--latency", latency),
    TEXT("--all-to-all", all_to_all),
    TEXT("--uplink", uplink),
    TEXT("--single", single),
    TEXT("--per-socket", per_socket),
    TEXT("--serial", serial),
    TEXT("--split", split),
    TEXT("--methods", methods),
    TEXT("--payload", payload),
    TEXT("--warmup", warmup),
    TEXT("--cache", cache),
    TEXT("--gate", gate),
    TEXT("--system", system),
    TEXT("--top", top),
    TEXT("--gantt", gantt),
    TEXT("--output", output),
    TEXT("-o", output),
    TEXT("--measure", measure),
    TEXT("--run-rank", run_rank),
};
#undef TEXT

typedef struct planner {
    options o;
    diti_env env;
    const known_model *model;
    const known_machine *machine;
    const known_device *device; /* the first */
    const known_device *kinds[DITI_SPLIT_DEVICES];
    device_table table; /* with --devices @FILE */
    diti_split_request request;
    bool feedback, kept_int8; /* of --split: ":e" and "k8", which take no other time */
    uint32_t width, height, frames;
    diti_split_cost costs[MOST_ROWS];
    uint32_t count;       /* of costs */
    dit_context *context; /* with --measure */
    FILE *out, *errors;
} planner;

static int complain(const planner *p, int code, const char *format, ...) DITI_PRINTF(3, 4);
static int complain(const planner *p, int code, const char *format, ...) {
    va_list arguments;
    fputs("dit-plan: ", p->errors);
    va_start(arguments, format);
    vfprintf(p->errors, format, arguments);
    va_end(arguments);
    fputc('\n', p->errors);
    return code;
}

static int take_options(planner *p, int count, char **texts) {
    for (int i = 1; i < count; i++) {
        const struct known_option *known = known_options, *end = known_options + DITI_COUNT(known_options);
        char name[64];
        const char *value = attached_value(texts[i], name, sizeof name);
        while (known < end && strcmp(known->name, name) != 0) known++;
        if (known == end && name[0] != '-')
            return complain(p, EXIT_USAGE, "unexpected '%s'; a model's name stands behind --model", name);
        if (known == end)
            return complain(p, EXIT_USAGE, "%s: there is no such option; dit-plan --help lists them", name);
        if (!value && i + 1 < count) value = texts[++i];
        if (!value) return complain(p, EXIT_USAGE, "%s: a value is missing after it", name);
        memcpy((char *)&p->o + known->offset, &value, sizeof value);
    }
    if (p->o.measure) return EXIT_GOOD;
    if (!p->o.model) return complain(p, EXIT_USAGE, "which model? Say --model flux, for example; --list shows them");
    if (!p->o.devices && !p->o.run_rank)
        return complain(p, EXIT_USAGE, "which devices? Say --devices 4xT4, for example");
    return EXIT_GOOD;
}

/* text NULL: value stays. */
static int take_count(const planner *p, const char *name, const char *text, uint32_t least, uint32_t most,
                      uint32_t *value) {
    char *end;
    unsigned long number;
    if (!text) return EXIT_GOOD;
    number = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || number < least || number > most)
        return complain(p, EXIT_USAGE, "%s %s: give a whole number from %u to %u", name, text, least, most);
    *value = (uint32_t)number;
    return EXIT_GOOD;
}

static int take_number(const planner *p, const char *name, const char *text, double least, double unit, double *value) {
    char *end;
    double number;
    if (!text) return EXIT_GOOD;
    number = strtod(text, &end);
    if (end == text || *end || !(number >= least && number <= 1e6))
        return complain(p, EXIT_USAGE, "%s %s: give a number from %g to 1000000", name, text, least);
    *value = number * unit;
    return EXIT_GOOD;
}

/* ---- the request ---- */

static int take_model(planner *p) {
    diti_split_system *system = &p->request.system;
    const known_model *model = p->model = find_model(p->o.model);
    int code;
    if (!model) return complain(p, EXIT_USAGE, "--model %s: there is no such model; --list shows them", p->o.model);
    if (p->o.system && strcmp(p->o.system, "dit") != 0 && strcmp(p->o.system, "xdit") != 0)
        return complain(p, EXIT_USAGE, "--system %s: there are dit and xdit", p->o.system);
    *system = p->o.system && p->o.system[0] == 'x' ? system_xdit(model) : system_dit();
    p->request.shape = model->shape;
    p->width = model->width, p->height = model->height, p->frames = model->frames, system->steps = model->steps;
    code = take_count(p, "--width", p->o.width, model->row_pixels, 16384, &p->width);
    if (!code) code = take_count(p, "--height", p->o.height, model->row_pixels, 16384, &p->height);
    if (!code) code = take_count(p, "--frames", p->o.frames, 1, 1024, &p->frames);
    if (!code) code = take_count(p, "--steps", p->o.steps, 1, 1000, &system->steps);
    if (code) return code;
    if (p->width % model->row_pixels || p->height % model->row_pixels)
        return complain(p, EXIT_USAGE, "--width %u, --height %u: %s needs multiples of %u", p->width, p->height,
                        model->name, model->row_pixels);
    if (p->frames > 1 && model->frames == 1)
        return complain(p, EXIT_USAGE, "--frames %u: %s makes still pictures", p->frames, model->name);
    set_size(&p->request.shape, model, p->width, p->height, p->frames);
    return EXIT_GOOD;
}

static void add_device(planner *p, const known_device *device) {
    diti_split_box *box = &p->request.box;
    p->kinds[box->count] = device;
    box->devices[box->count].rate = device->rate * 1e12;
    box->devices[box->count].stream = device->stream * 1e9;
    box->devices[box->count++].memory = device->memory * 1e9;
}

/* One "4xT4" or "T4" of the list. */
static int take_device(planner *p, const char *text, size_t length) {
    size_t digits = strspn(text, "0123456789"), skip = digits && text[digits] == 'x' ? digits + 1 : 0;
    unsigned long count = skip ? strtoul(text, NULL, 10) : 1;
    diti_split_box *box = &p->request.box;
    const known_device *device;
    char name[32] = "";
    if (length - skip < sizeof name) memcpy(name, text + skip, length - skip);
    device = find_device(name);
    if (!length) return complain(p, EXIT_USAGE, "--devices %s: a device is missing at a comma", p->o.devices);
    if (!count) return complain(p, EXIT_USAGE, "--devices %.*s: give 1 device of a kind at least", (int)length, text);
    if (!device)
        return complain(p, EXIT_USAGE, "--devices %.*s: there is no such device; --list shows them", (int)length, text);
    if (count > DITI_SPLIT_DEVICES - box->count)
        return complain(p, EXIT_USAGE, "--devices: at most %d devices", (int)DITI_SPLIT_DEVICES);
    while (count--) add_device(p, device);
    return EXIT_GOOD;
}

static int take_devices(planner *p) {
    const char *at = p->o.devices;
    dit_error err = {0};
    if (*at == '@' && read_table(&p->env, at + 1, &p->table, &err) < 0)
        return complain(p, EXIT_INPUT, "%s", err.message);
    for (uint32_t i = 0; i < p->table.count; i++) add_device(p, &p->table.devices[i]);
    while (*at != '@') {
        size_t length = strcspn(at, ",");
        int code = take_device(p, at, length);
        if (code) return code;
        if (!at[length]) break;
        at += length + 1;
    }
    p->device = p->kinds[0];
    return EXIT_GOOD;
}

static int take_machine(planner *p) {
    diti_split_box *box = &p->request.box;
    const char *name = p->o.machine ? p->o.machine : p->device->machine;
    int code;
    p->machine = p->table.count && !p->o.machine ? &p->table.machine : find_machine(name);
    if (!p->machine) return complain(p, EXIT_USAGE, "--machine %s: there is no such machine; --list shows them", name);
    use_machine(&p->request, p->machine);
    code = take_count(p, "--per-socket", p->o.per_socket, 1, DITI_SPLIT_DEVICES, &box->per_socket);
    if (!code) code = take_number(p, "--pair", p->o.pair, 0.001, 1e9, &box->inside.pair);
    if (!code) code = take_number(p, "--ring", p->o.ring, 0.001, 1e9, &box->inside.ring);
    if (!code) code = take_number(p, "--all-to-all", p->o.all_to_all, 0.001, 1e9, &box->inside.all_to_all);
    if (!code) code = take_number(p, "--uplink", p->o.uplink, 0.001, 1e9, &box->uplink);
    if (!code) code = take_number(p, "--latency", p->o.latency, 0, 1e-6, &box->latency);
    if (p->o.pair || !p->machine->per_socket) box->across.pair = box->inside.pair;
    if (p->o.ring || !p->machine->per_socket) box->across.ring = box->inside.ring;
    if (p->o.all_to_all || !p->machine->per_socket) box->across.all_to_all = box->inside.all_to_all;
    return code;
}

/* --single scales all devices: it tells what the first one attains. */
static int take_times(planner *p) {
    diti_split_system *system = &p->request.system;
    double single = 0, factor;
    int code = take_number(p, "--serial", p->o.serial, 0, 1, &system->serial);
    if (!code) code = take_number(p, "--single", p->o.single, 1e-6, 1, &single);
    if (code || !p->o.single) return code;
    if (single <= system->serial)
        return complain(p, EXIT_USAGE, "--single %s: it must be more than the --serial part of it", p->o.single);
    factor = rate_of(&p->request, single) / p->request.box.devices[0].rate;
    for (uint32_t i = 0; i < p->request.box.count; i++) p->request.box.devices[i].rate *= factor;
    return EXIT_GOOD;
}

static int take_cache(planner *p) {
    diti_split_system *system = &p->request.system;
    uint32_t layers = p->request.shape.layers;
    int used = 0;
    int code = take_count(p, "--gate", p->o.gate, 1, 1000, &system->gate);
    if (!code && system->gate && !p->request.shape.guided)
        code = complain(p, EXIT_USAGE, "--gate %s: %s has no guidance that could end", p->o.gate, p->model->name);
    if (!code && system->gate > system->steps)
        code = complain(p, EXIT_USAGE, "--gate %s: guidance cannot end before it, since there are only %u steps",
                        p->o.gate, system->steps);
    if (code || !p->o.cache) return code;
    if (sscanf(p->o.cache, "first=%u,blocks=%u,from=%u,interval=%u%n", &system->skip_first, &system->skip_blocks,
               &system->skip_from, &system->skip_interval, &used) != 4 ||
        p->o.cache[used] || system->skip_interval < 1 || system->skip_first >= layers ||
        system->skip_blocks > layers - system->skip_first)
        return complain(p, EXIT_USAGE, "--cache %s: write first=1,blocks=20,from=10,interval=2; %s has %u layers",
                        p->o.cache, p->model->name, layers);
    if (system->skip_from >= system->steps)
        return complain(p, EXIT_USAGE, "--cache %s: from=%u is behind the last step, since there are only %u",
                        p->o.cache, system->skip_from, system->steps);
    return EXIT_GOOD;
}

static int take_methods(planner *p) {
    const char *at = p->o.methods, *payload = p->o.payload ? p->o.payload : "f16";
    diti_split_system *system = &p->request.system;
    int code = take_count(p, "--warmup", p->o.warmup, 0, 1000, &system->warmup);
    if (!code && p->o.warmup && system->warmup >= system->steps)
        code = complain(p, EXIT_USAGE, "--warmup %s: PipeFusion would never begin, since there are only %u steps",
                        p->o.warmup, system->steps);
    if (code) return code;
    if (strcmp(payload, "f16") != 0 && strcmp(payload, "i8") != 0)
        return complain(p, EXIT_USAGE, "--payload %s: there are f16 and i8", payload);
    if (payload[0] == 'i') p->request.system.element = 1;
    while (at && *at) {
        size_t length = strcspn(at, ",");
        uint32_t axis = 0;
        while (axis < DITI_SPLIT_AXES &&
               (strlen(diti_split_axis_name(axis)) != length || memcmp(diti_split_axis_name(axis), at, length) != 0))
            axis++;
        if (axis == DITI_SPLIT_AXES && (length != 5 || memcmp(at, "shard", 5) != 0))
            return complain(p, EXIT_USAGE,
                            "--methods %s: there are cfg, layers, pipefusion, ring, shard, tensor and ulysses",
                            p->o.methods);
        p->request.methods |= 1u << axis;
        at += length + (at[length] == ',');
    }
    p->request.methods = (p->request.methods ? p->request.methods : UINT32_MAX) & model_methods(p->model);
    if (!p->request.methods)
        return complain(p, EXIT_USAGE, "--methods %s: %s allows none of these", p->o.methods, p->model->name);
    return EXIT_GOOD;
}

/* ---- which splits ---- */

static int take_split(planner *p) {
    diti_split_plan plan;
    diti_split_system *system = &p->request.system;
    dit_error err = {0};
    if (diti_split_take(&p->env, p->o.split, &plan, &err) < 0)
        return complain(p, p->o.split[0] == '@' ? EXIT_INPUT : EXIT_USAGE, "%s", err.message);
    if (plan.int8) system->element = 1;
    p->feedback = plan.feedback;
    p->kept_int8 = plan.kept_int8;
    if (!diti_split_ranks(&plan.split)) return EXIT_GOOD;
    if (diti_split_ranks(&plan.split) != p->request.box.count)
        return complain(p, EXIT_USAGE, "--split %s: it is for %u devices, but --devices names %u", p->o.split,
                        diti_split_ranks(&plan.split), p->request.box.count);
    if (diti_split_check_plan(&plan, &p->request.shape, &err) < 0) return complain(p, EXIT_USAGE, "%s", err.message);
    for (uint32_t axis = 0; axis < DITI_SPLIT_AXES; axis++)
        if (plan.split.degree[axis] > 1 && !(model_methods(p->model) >> axis & 1))
            return complain(p, EXIT_USAGE, "--split %s: %s does not allow %s", p->o.split, p->model->name,
                            diti_split_axis_name(axis));
    if (!p->o.warmup) system->warmup = plan.warmup;
    system->strips = plan.strips;
    diti_split_predict(&p->request, &plan.split, &p->costs[0]);
    p->count = 1;
    return EXIT_GOOD;
}

static int choose(planner *p) {
    uint32_t top = 8;
    int code = take_count(p, "--top", p->o.top, 1, MOST_ROWS, &top);
    if (!code && p->o.split) code = take_split(p);
    if (code || p->count) return code;
    p->count = diti_split_choose(&p->request, p->costs, top);
    if (p->count > top) p->count = top;
    if (!p->count)
        return complain(p, EXIT_USAGE, "no split of %s over %u devices is allowed", p->model->name,
                        p->request.box.count);
    return EXIT_GOOD;
}

/* ---- what is shown ---- */

static bool is_assumed(const planner *p, const char *pattern) {
    const char *assumed = p->machine->assumed;
    return strcmp(assumed, "all") == 0 || strstr(assumed, pattern) != NULL;
}

static void show_rate(const planner *p, const char *pattern, double rate, const char *given) {
    fprintf(p->out, ", %s %g%s", pattern, rate / 1e9, !given && is_assumed(p, pattern) ? " (assumed)" : "");
}

static void show_machine(const planner *p) {
    const diti_split_box *box = &p->request.box;
    fprintf(p->out, "%u devices, %s; GB/s per device", box->count, p->machine->name);
    show_rate(p, "pair", box->inside.pair, p->o.pair);
    show_rate(p, "ring", box->inside.ring, p->o.ring);
    show_rate(p, "all to all", box->inside.all_to_all, p->o.all_to_all);
    if (box->per_socket)
        fprintf(p->out, "; sockets of %u, across them %g, %g, %g", box->per_socket, box->across.pair / 1e9,
                box->across.ring / 1e9, box->across.all_to_all / 1e9);
    if (box->per_socket && box->uplink > 0) show_rate(p, "uplink", box->uplink, p->o.uplink);
    fprintf(p->out, "; %g us\n", box->latency * 1e6);
    if (!p->o.system || p->o.system[0] == 'd')
        fprintf(p->out,
                "dit.h (assumed): %g %% of a ring's attention hides copies; a patch of %g rows has half the speed\n",
                100 * p->request.system.overlap, p->request.system.strip_rows);
}

static bool is_same(const known_device *a, const known_device *b) {
    return strcmp(a->name, b->name) == 0 && a->rate / b->rate > 0.98 && a->rate / b->rate < 1.02;
}

static void show_devices(const planner *p) {
    const diti_split_box *box = &p->request.box;
    for (uint32_t i = 0; i < box->count; i++) {
        diti_split_request one = p->request;
        diti_split split;
        diti_split_cost cost;
        dit_error err = {0};
        if (i && is_same(p->kinds[i], p->kinds[i - 1])) continue;
        one.box.count = 1;
        one.box.devices[0] = box->devices[i];
        diti_split_parse("cfg1", &split, &err);
        diti_split_predict(&one, &split, &cost);
        fprintf(p->out, "one %s alone: %.2f s at %.1f TFLOP/s%s%s\n", p->kinds[i]->name, cost.seconds,
                box->devices[i].rate / 1e12,
                p->o.single            ? " (as given)"
                : p->table.count       ? " (as its products were measured)"
                : p->kinds[i]->assumed ? " (assumed)"
                                       : " (as PyTorch attains)",
                cost.fits ? "" : ", if its memory were larger");
    }
}

static void show_costs(const planner *p) {
    diti_split_request one = p->request;
    diti_split split;
    diti_split_cost alone;
    char name[DITI_SPLIT_NAME];
    bool stale = false;
    one.box.count = 1;
    diti_split_parse("cfg1", &split, NULL);
    diti_split_predict(&one, &split, &alone);
    fprintf(p->out, "\n    %-30s %8s %7s %9s %9s %9s %8s\n    %-30s %8s %7s %9s %9s %9s %8s\n", "split", "seconds",
            "times", "compute", "copies", "sent", "memory", "", "", "", "ms/step", "ms/step", "MB/step", "GB");
    for (uint32_t i = 0; i < p->count; i++) {
        const diti_split_cost *c = &p->costs[i];
        fprintf(p->out, "%2u  %-30s %8.2f %6.2fx %9.1f %9.1f %9.1f %8.1f%s\n", i + 1, diti_split_print(&c->split, name),
                c->seconds, alone.seconds / c->seconds, c->compute * 1e3, c->exchange * 1e3, c->sent / 1e6,
                c->memory / 1e9, c->fits ? "" : " does not fit");
        stale |= c->split.degree[DITI_SPLIT_PIPEFUSION] > 1;
    }
    fprintf(p->out, "    memory: of the denoiser%s in 16 bits; text encoders and autoencoder come on top\n",
            p->request.shape.second_bytes > 0 ? ", both of its transformers," : "");
    if (stale)
        fputs("    pipefusion: keys and values of other patches are a step old, so the result differs slightly\n",
              p->out);
}

/* Adds the bytes that one axis sends from rank to rank in a step with nothing skipped. */
static void add_axis(const planner *p, const diti_split *split, diti_split_axis axis, bool mirror, double *bytes) {
    const diti_split_shape *shape = &p->request.shape;
    uint32_t ranks = diti_split_ranks(split), stride = diti_split_stride(split, axis), degree = split->degree[axis];
    double sent = diti_split_bytes(shape, split, axis, p->request.system.element);
    if (axis != DITI_SPLIT_CFG && shape->guided && split->degree[DITI_SPLIT_CFG] == 1) sent *= 2;
    if (axis <= DITI_SPLIT_RING)
        sent *= (double)shape->layers / (split->degree[DITI_SPLIT_PIPEFUSION] * split->degree[DITI_SPLIT_LAYERS]);
    if (mirror) sent = diti_split_skip_bytes(&p->request, split);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        uint32_t place = rank / stride % degree;
        for (uint32_t peer = 0; peer < degree; peer++) {
            uint32_t other = rank + peer * stride - place * stride;
            double part = sent * diti_split_peer(axis, degree, place, peer, mirror);
            bytes[rank * ranks + other] += part;
        }
    }
}

/* bytes: [ranks, ranks], from and to. */
static void link_bytes(const planner *p, const diti_split *split, double *bytes) {
    uint32_t ranks = diti_split_ranks(split);
    memset(bytes, 0, (size_t)ranks * ranks * sizeof *bytes);
    for (uint32_t axis = 0; axis < DITI_SPLIT_AXES; axis++)
        if (split->degree[axis] > 1) add_axis(p, split, (diti_split_axis)axis, false, bytes);
    if (split->degree[DITI_SPLIT_PIPEFUSION] > 1) add_axis(p, split, DITI_SPLIT_PIPEFUSION, true, bytes);
    for (uint32_t i = 0; i < ranks * ranks && split->shard; i++)
        if (i / ranks != i % ranks) bytes[i] += diti_split_shard_bytes(&p->request.shape, split) / (ranks - 1);
}

static void show_links(const planner *p, const diti_split *split) {
    static double bytes[DITI_SPLIT_DEVICES * DITI_SPLIT_DEVICES];
    uint32_t ranks = diti_split_ranks(split);
    char name[DITI_SPLIT_NAME];
    link_bytes(p, split, bytes);
    fprintf(p->out, "\nMB per step and link of %s:\n", diti_split_print(split, name));
    for (uint32_t from = 0; from < ranks; from++) {
        bool any = false;
        for (uint32_t to = 0; to < ranks; to++) {
            if (bytes[from * ranks + to] <= 0) continue;
            if (!any) fprintf(p->out, "    %u ->", from);
            fprintf(p->out, "%s %u: %.1f", any ? "," : "", to, bytes[from * ranks + to] / 1e6);
            any = true;
        }
        if (any) fputc('\n', p->out);
    }
}

static void show(const planner *p) {
    const diti_split_system *system = &p->request.system;
    fprintf(p->out, "%s, %u x %u", p->model->name, p->width, p->height);
    if (p->frames > 1) fprintf(p->out, ", %u frames", p->frames);
    fprintf(p->out, ", %u steps of %.1f TFLOP%s\n", system->steps,
            diti_split_flops(&p->request.shape) * (p->request.shape.guided ? 2 : 1) / 1e12,
            p->request.shape.guided ? " (two branches)" : "");
    show_machine(p);
    show_devices(p);
    show_costs(p);
    if (p->request.box.count > 1) show_links(p, &p->costs[0].split);
}

static void show_measured_rates(FILE *out, const char *where, const diti_split_rates *rates) {
    fprintf(out, "%s: pairs %.2f, round %.2f, all to all %.2f GB/s per device\n", where, rates->pair * 1e-9,
            rates->ring * 1e-9, rates->all_to_all * 1e-9);
}

static void show_measured_links(FILE *out, const diti_split_links *links) {
    fputs("GB/s of each pair alone:\n", out);
    for (uint32_t a = 0; a < links->count; a++)
        for (uint32_t b = a + 1; b < links->count; b++)
            fprintf(out, "    %u, %u: %.2f\n", a, b, links->pairs[a][b] * 1e-9);
    show_measured_rates(out, links->per_socket ? "all at once, inside sockets" : "all at once", &links->inside);
    if (links->per_socket) show_measured_rates(out, "across them", &links->across);
    fprintf(out, "a copy of next to nothing: %.0f us\n", links->latency * 1e6);
}

static void show_list(FILE *out) {
    fprintf(out, "models (default size, steps, TFLOP of an evaluation):\n");
    for (size_t i = 0; i < DITI_COUNT(known_models); i++) {
        const known_model *m = &known_models[i];
        fprintf(out, "  %-16s %u x %u x %u, %u, %.2f\n", m->name, m->width, m->height, m->frames, m->steps,
                diti_split_flops(&m->shape) / 1e12);
    }
    fprintf(out, "devices (TFLOP/s: peak, attained; GB/s, GB; machine):\n");
    for (size_t i = 0; i < DITI_COUNT(known_devices); i++) {
        const known_device *d = &known_devices[i];
        fprintf(out, "  %-10s %5g, %5g%s; %g, %g; %s\n", d->name, d->peak, d->rate, d->assumed ? " (assumed)" : "",
                d->stream, d->memory, d->machine);
    }
    fprintf(out, "machines (GB/s per device: pair, ring, all to all; latency):\n");
    for (size_t i = 0; i < DITI_COUNT(known_machines); i++) {
        const known_machine *m = &known_machines[i];
        fprintf(out, "  %-16s %5g, %5g, %5g; %g us%s%s\n", m->name, m->inside.pair, m->inside.ring,
                m->inside.all_to_all, m->latency_us, m->assumed[0] ? "; assumed: " : "", m->assumed);
    }
}

/* ---- files ---- */

static int check_output(const planner *p, const char *option, const char *path) {
    const char *why = path ? why_not_writable(path) : NULL;
    return why ? complain(p, EXIT_OUTPUT, "%s %s: %s", option, path, why) : EXIT_GOOD;
}

/* The path behind the @ of --devices @table.json; NULL: there is no @. */
static const char *file_at(const char *value) { return value && value[0] == '@' ? value + 1 : NULL; }

/* Checks before any work that all outputs can be written, and that none is another one or an input. */
static int check_outputs(const planner *p) {
    const options *o = &p->o;
    const named_path outputs[] = {{"--gantt", o->gantt}, {"--output", o->output}, {"--measure", o->measure}},
                     inputs[] = {{"--devices", file_at(o->devices)}, {"--split", file_at(o->split)}};
    char why[2 * PATH_SIZE];
    int code = EXIT_GOOD;
    for (size_t i = 0; i < DITI_COUNT(outputs) && !code; i++)
        code = check_output(p, outputs[i].option, outputs[i].path);
    if (!code && find_overwritten(outputs, DITI_COUNT(outputs), inputs, DITI_COUNT(inputs), why, sizeof why))
        code = complain(p, EXIT_USAGE, "%s", why);
    return code;
}

static int write_file(const planner *p, const char *path, bool (*write)(const planner *p, FILE *file)) {
    output_file out;
    if (output_open(&out, path) && output_close(&out, write(p, out.file))) return EXIT_GOOD;
    return complain(p, exit_code_of_writing(errno), "%s: %s", path, told_reason(errno));
}

static void make_note(const planner *p, char *out, size_t size) {
    diti_format(out, size, "%s %ux%u, %u steps, %s on %s: %.2f s", p->model->name, p->width, p->height,
                p->request.system.steps, p->o.devices, p->machine->name, p->costs[0].seconds);
}

static bool write_svg(const planner *p, FILE *file) {
    char note[128], title[256], name[DITI_SPLIT_NAME];
    make_note(p, note, sizeof note);
    diti_format(title, sizeof title, "%s, %s", diti_split_print(&p->costs[0].split, name), note);
    return write_gantt(file, &p->request, &p->costs[0], title);
}

static void fill_plan(const planner *p, diti_split_plan *plan) {
    const diti_split_box *box = &p->request.box;
    uint32_t each;
    memset(plan, 0, sizeof *plan);
    make_note(p, plan->note, sizeof plan->note);
    plan->split = p->costs[0].split;
    plan->strips = plan->split.degree[DITI_SPLIT_PIPEFUSION]; /* else one device would run strips, too */
    if (plan->strips > 1 && p->request.system.strips) plan->strips = p->request.system.strips;
    plan->warmup = p->request.system.warmup;
    plan->int8 = p->request.system.element < 2;
    plan->feedback = p->feedback;
    plan->kept_int8 = p->kept_int8;
    each = box->count / plan->split.degree[DITI_SPLIT_CFG];
    for (uint32_t rank = 0; rank < box->count; rank++) {
        double sum = 0;
        for (uint32_t i = rank / each * each; i < rank / each * each + each; i++) sum += box->devices[i].rate;
        plan->shares[rank] = box->devices[rank].rate / sum;
    }
}

static bool write_plan(const planner *p, FILE *file) {
    diti_split_plan plan;
    char *text = NULL;
    bool good;
    fill_plan(p, &plan);
    good = diti_split_write(&p->env, &plan, &text, NULL) >= 0 && fputs(text, file) >= 0;
    diti_free(&p->env, text);
    return good;
}

/* ---- this machine ---- */

static bool write_measured(const planner *p, FILE *file) { return write_table(file, p->context); }

static int measure(planner *p) {
    dit_error err = {0};
    int code = EXIT_GOOD;
    dit_result result = measure_context(p->o.devices, &p->context, &err);
    if (result < 0) code = complain(p, exit_code_of(result), "%s", err.message);
    for (uint32_t i = 0; !code && i < p->context->device_count; i++)
        fprintf(p->out, "device %u, %s: %.3g TFLOP/s of products, %.3g GB/s of memory, %.1f GB\n", i,
                p->context->devices[i]->info.name, 1e3 / (double)p->context->devices[i]->speed.us_per_gflop,
                1e6 / (double)p->context->devices[i]->speed.us_per_gigabyte,
                (double)p->context->devices[i]->memory_limit * 1e-9);
    if (!code && p->context->peers) show_measured_links(p->out, &p->context->peers->links);
    if (!code) code = write_file(p, p->o.measure, write_measured);
    dit_context_destroy(p->context);
    return code;
}

static int take_rank(planner *p, rank_run *run) {
    diti_split_plan plan;
    dit_error err = {0};
    int code;
    if (!p->o.split) return complain(p, EXIT_USAGE, "--run-rank %s: of which --split?", p->o.run_rank);
    if (diti_split_take(&p->env, p->o.split, &plan, &err) < 0)
        return complain(p, p->o.split[0] == '@' ? EXIT_INPUT : EXIT_USAGE, "%s", err.message);
    run->ranks = diti_split_ranks(&plan.split);
    if (run->ranks < 2 || run->ranks > DITI_MAX_DEVICES)
        return complain(p, EXIT_USAGE, "--run-rank %s: --split must name one for 2 to %u devices", p->o.run_rank,
                        DITI_MAX_DEVICES);
    code = take_count(p, "--run-rank", p->o.run_rank, 0, run->ranks - 1, &run->rank);
    if (!code) code = take_count(p, "--width", p->o.width, 1, 16384, &run->width);
    if (!code) code = take_count(p, "--height", p->o.height, 1, 16384, &run->height);
    if (!code) code = take_count(p, "--steps", p->o.steps, 1, 1000, &run->steps);
    run->model = p->o.model, run->devices = p->o.devices, run->split = p->o.split;
    return code;
}

static int time_rank(planner *p) {
    rank_run run = {0};
    dit_error err = {0};
    dit_result result;
    int code = take_rank(p, &run);
    if (code) return code;
    result = run_rank(&run, &err);
    if (result < 0) return complain(p, exit_code_of(result), "%s", err.message);
    fprintf(p->out,
            "rank %u of %u, %s on %s: %.2f ms of arithmetic a step (%u of %u slices by the device's clock)\n"
            "With its own half of each copy %.2f ms (median of %u steps), %.2f s in all; it sends %.2f MB a picture.\n"
            "Its peers were left out: the picture is none, and no byte of theirs was waited for.\n",
            run.rank, run.ranks, run.split, run.device, run.compute_seconds * 1e3, run.measured, run.slices,
            run.step_seconds * 1e3, run.steps_done, run.all_seconds, (double)run.sent * 1e-6);
    return EXIT_GOOD;
}

static int predict(planner *p) {
    int code = take_model(p);
    if (!code) code = take_devices(p);
    if (!code) code = take_machine(p);
    if (!code) code = take_times(p);
    if (!code) code = take_cache(p);
    if (!code) code = take_methods(p);
    if (!code) code = choose(p);
    if (code) return code;
    show(p);
    if (p->o.gantt) code = write_file(p, p->o.gantt, write_svg);
    if (!code && p->o.output) code = write_file(p, p->o.output, write_plan);
    return code;
}

static int plan_run(int count, char **texts, FILE *out, FILE *errors) {
    static planner p;
    int code;
    memset(&p, 0, sizeof p);
    p.out = out;
    p.errors = errors;
    diti_env_init(&p.env, NULL, NULL, NULL);
    if (tells_version(count, texts, out)) return EXIT_GOOD;
    for (int i = 1; i < count; i++) {
        if (!strcmp(texts[i], "--help") || !strcmp(texts[i], "-h")) return fputs(usage_text, out), EXIT_GOOD;
        if (!strcmp(texts[i], "--list")) return show_list(out), EXIT_GOOD;
    }
    code = take_options(&p, count, texts);
    if (!code) code = check_outputs(&p);
    if (code) return code;
    return p.o.measure ? measure(&p) : p.o.run_rank ? time_rank(&p) : predict(&p);
}

#ifndef PLAN_NO_MAIN
int main(int count, char **texts) {
    end_cleanly_by_signals();
    return end_printing("dit-plan", plan_run(count, texts, stdout, stderr));
}
#endif
