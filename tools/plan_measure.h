/* dit-plan measures the devices of this machine and the links between them, times one rank of a split with its peers
   left out, and reads and writes tables of devices as files. Not part of dit.h. */
#ifndef PLAN_MEASURE_H
#define PLAN_MEASURE_H
#include "plan_tables.h"

/* {"format": "dit-device-table", "version": 1, "devices": [{"name", "tflops", "stream", "memory"}], "inside": {"pair",
 * "ring", "all_to_all"}, "across": the same, "per_socket", "latency_us", "pairs": [[...]]}; GB/s per device, GB. */
typedef struct device_table {
    known_device devices[DITI_SPLIT_DEVICES];
    char names[DITI_SPLIT_DEVICES][64];
    uint32_t count;
    known_machine machine;
} device_table;

/* ---- as files ---- */

static void write_rates(FILE *file, const char *name, const diti_split_rates *rates) {
    fprintf(file, "  \"%s\": {\"pair\": %.6g, \"ring\": %.6g, \"all_to_all\": %.6g},\n", name, rates->pair * 1e-9,
            rates->ring * 1e-9, rates->all_to_all * 1e-9);
}

static void write_device(FILE *file, const diti_device *device, bool last) {
    char name[64] = "";
    for (size_t i = 0; i + 1 < sizeof name && device->info.name[i]; i++)
        name[i] = strchr("\"\\", device->info.name[i]) || (unsigned char)device->info.name[i] < ' '
                      ? '_'
                      : device->info.name[i];
    fprintf(file, "    {\"name\": \"%s\", \"tflops\": %.6g, \"stream\": %.6g, \"memory\": %.6g}%s\n", name,
            1e3 / (double)device->speed.us_per_gflop, 1e6 / (double)device->speed.us_per_gigabyte,
            (double)device->memory_limit * 1e-9, last ? "" : ",");
}

static bool write_table(FILE *file, const dit_context *context) {
    static const diti_split_links none;
    const diti_split_links *links = context->peers ? &context->peers->links : &none;
    fputs("{\n  \"format\": \"dit-device-table\",\n  \"version\": 1,\n  \"devices\": [\n", file);
    for (uint32_t i = 0; i < context->device_count; i++)
        write_device(file, context->devices[i], i + 1 == context->device_count);
    fputs("  ],\n", file);
    write_rates(file, "inside", &links->inside);
    write_rates(file, "across", &links->across);
    fprintf(file, "  \"per_socket\": %u,\n  \"latency_us\": %.6g,\n  \"pairs\": [", links->per_socket,
            links->latency * 1e6);
    for (uint32_t a = 0; a < links->count; a++) {
        for (uint32_t b = 0; b < links->count; b++)
            fprintf(file, "%s%.6g", b ? ", " : a ? ", [" : "[", links->pairs[a][b] * 1e-9);
        fputs("]", file);
    }
    fputs("]\n}\n", file);
    return !ferror(file);
}

static bool read_amount(const diti_json *from, const char *key, double least, double *out) {
    diti_settings settings = diti_settings_of(from, "", NULL);
    *out = diti_setting_number(&settings, key, -1, least, 1e9);
    return *out >= least;
}

static bool read_rates(const diti_json *root, const char *key, double least, diti_split_rates *out) {
    const diti_json *rates = diti_json_get(root, key);
    return rates && rates->kind == DITI_JSON_OBJECT && read_amount(rates, "pair", least, &out->pair) &&
           read_amount(rates, "ring", least, &out->ring) && read_amount(rates, "all_to_all", least, &out->all_to_all);
}

static const char *read_devices(const diti_json *root, device_table *out) {
    const diti_json *devices = diti_json_get(root, "devices"), *one;
    if (!devices || devices->kind != DITI_JSON_ARRAY || devices->count < 1 || devices->count > DITI_SPLIT_DEVICES)
        return "devices must be a list of 1 to 64";
    for (one = devices->first; one; one = one->next) {
        known_device *device = &out->devices[out->count];
        const char *name = one->kind == DITI_JSON_OBJECT ? diti_json_string(one, "name", "") : "";
        if (!name[0] || !read_amount(one, "tflops", 1e-9, &device->rate) ||
            !read_amount(one, "stream", 1e-9, &device->stream) || !read_amount(one, "memory", 0, &device->memory))
            return "a device needs a name and the numbers tflops, stream (GB/s) and memory (GB)";
        diti_format(out->names[out->count], sizeof out->names[0], "%.63s", name);
        device->name = out->names[out->count++];
        device->peak = device->rate;
        device->machine = "measured";
    }
    return NULL;
}

/* Reads the values of a table; returns what is wrong with them, NULL: nothing. */
static const char *read_table_values(const diti_json *root, device_table *out) {
    double socket = 0, version;
    const char *wrong;
    read_amount(root, "version", 0, &version);
    if (!diti_equal(diti_json_string(root, "format", ""), "dit-device-table"))
        return "it does not say \"format\": \"dit-device-table\", so dit-plan --measure did not write it";
    if (version < 1 || version > 1) return "its version is not 1, the one that is known";
    wrong = read_devices(root, out);
    if (wrong) return wrong;
    out->machine.name = "measured";
    out->machine.assumed = "";
    out->machine.host = 1;
    if (!read_rates(root, "inside", out->count > 1 ? 1e-9 : 0, &out->machine.inside) ||
        !read_rates(root, "across", out->count > 1 ? 1e-9 : 0, &out->machine.across))
        return "inside and across need pair, ring and all_to_all, in GB/s per device";
    if (!read_amount(root, "latency_us", 0, &out->machine.latency_us) || !read_amount(root, "per_socket", 0, &socket) ||
        socket > DITI_SPLIT_DEVICES)
        return "latency_us and per_socket must be numbers, per_socket at most 64";
    out->machine.per_socket = (uint32_t)socket;
    return NULL;
}

static dit_result read_table(const diti_env *env, const char *path, device_table *out, dit_error *err) {
    dit_source source = DITI_ZERO;
    diti_file *file = NULL;
    diti_json *root = NULL;
    char *text = NULL;
    size_t size = 0;
    const char *wrong;
    dit_result result;
    source.path = path;
    memset(out, 0, sizeof *out);
    result = diti_file_open(env, &source, NULL, &file, err);
    if (result >= 0 && diti_file_size(file) > 1u << 20)
        result = diti_fail(err, DIT_ERROR_BAD_FILE, "%s: too large for a table of devices", path);
    if (result >= 0) result = diti_file_read_all(env, file, &text, &size, err);
    if (result >= 0) result = diti_json_parse(env, text, size, path, &root, err);
    wrong = result >= 0 ? read_table_values(root, out) : NULL;
    if (wrong) result = diti_fail(err, DIT_ERROR_BAD_FILE, "%s: %s", path, wrong);
    if (root) diti_json_free(env, root);
    diti_free(env, text);
    diti_file_close(file);
    return result;
}

/* ---- devices of this machine ---- */

/* "0,1,2": every device that dit can use, software only where there is nothing else. */
static dit_result all_devices(char *out, size_t size, dit_error *err) {
    static dit_device_info devices[DITI_MAX_DEVICES];
    uint32_t count = DITI_MAX_DEVICES;
    size_t length = 0;
    dit_result result = dit_device_list(devices, &count, err);
    out[0] = 0;
    for (int software = 0; software < 2 && result >= 0 && !length; software++) {
        for (uint32_t i = 0; i < count && i < DITI_MAX_DEVICES; i++) {
            if (!strcmp(devices[i].rung, "none") || (devices[i].type == VK_PHYSICAL_DEVICE_TYPE_CPU) != (software == 1))
                continue;
            diti_format(out + length, size - length, "%s%u", length ? "," : "", i);
            length = strlen(out);
        }
    }
    return result;
}

static dit_result measure_context(const char *devices, dit_context **out, dit_error *err) {
    dit_context_desc desc = {0};
    char list[128];
    dit_result result = devices ? DIT_OK : all_devices(list, sizeof list, err);
    *out = NULL;
    desc.devices = devices ? devices : list;
    if (result >= 0) result = dit_context_create(&desc, out, err); /* making a context measures the devices */
    if (result >= 0 && (*out)->peers) result = diti_peers_measure((*out)->peers, err);
    return result;
}

/* ---- one rank alone ---- */

typedef struct rank_run {
    const char *model, *devices, *split;
    uint32_t rank, ranks, width, height, steps; /* 0: the model's */
    double step_seconds, all_seconds;           /* the median of the steps but the first */
    double compute_seconds;                     /* the seconds of a step without copies, by timestamps on the device */
    uint32_t slices, measured;                  /* slices of a step; those not measured count as predicted */
    uint32_t steps_done;
    uint64_t sent; /* bytes that a rank's peers would get of a picture */
    char device[256];
    uint32_t said[DITI_MAX_DEVICES], *hears[DITI_MAX_DEVICES]; /* words to and from each peer, 0: none */
    unsigned char terms[DITI_MAX_DEVICES][1024];               /* of the newest job, as each peer was told them */
} rank_run;

/* The peers take everything at once and send zeros: the picture is worthless, the time is real. They say what they are
   told, so that they come to a run and end it with this rank, and agree to its terms: words (src/split/beats.c) and
   letters (src/split/peers.c) are from a rank to itself by their tags. */
static bool is_from_itself(uint64_t tag) { return (tag >> 14 & 31) == (tag >> 19 & 31); }

static bool is_word(uint64_t tag, size_t size) { return size == sizeof(uint32_t) && is_from_itself(tag); }

static bool is_terms(uint64_t tag, size_t size) {
    const uint64_t number = tag & 0x1ff; /* of a letter */
    return is_from_itself(tag) && tag & 0x200 && number >= DITI_LETTER_TERMS && number < DITI_LETTER_CHOICES &&
           size <= sizeof((rank_run *)0)->terms[0];
}

static void *stub_send(uint32_t to, const void *data, size_t size, uint64_t tag, void *user) {
    if (is_word(tag, size)) memcpy(&((rank_run *)user)->said[to], data, size);
    if (is_terms(tag, size)) memcpy(((rank_run *)user)->terms[to], data, size);
    return user;
}

static void *stub_receive(uint32_t from, void *data, size_t size, uint64_t tag, void *user) {
    rank_run *run = user;
    if (is_terms(tag, size)) return memcpy(data, run->terms[from], size), user;
    if (!is_word(tag, size)) return memset(data, 0, size), user;
    run->hears[from] = data;
    return &run->hears[from];
}

static int stub_poll(void *request, void *user) {
    rank_run *run = user;
    for (uint32_t i = 0; i < run->ranks; i++) {
        if (request != &run->hears[i]) continue;
        if (!run->said[i]) return 0;
        *run->hears[i] = run->said[i];
        run->said[i] = 0;
    }
    return 1;
}

enum { RANK_STEPS = 1024 };

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static dit_result time_steps(rank_run *run, dit_job *job) {
    static double seconds[RANK_STEPS];
    uint64_t begin = diti_clock_us(), last = begin, now;
    uint32_t count = 0, seen = 0;
    dit_result result = DIT_WORKING;
    dit_status status;
    while (result == DIT_WORKING) {
        result = dit_job_wait(job, 200000);
        now = diti_clock_us();
        dit_job_status(job, &status, NULL);
        if (status.step <= seen) continue;
        if (seen && count < RANK_STEPS) seconds[count++] = (double)(now - last) * 1e-6 / (status.step - seen);
        seen = status.step;
        last = now;
    }
    qsort(seconds, count, sizeof *seconds, by_size);
    run->all_seconds = (double)(diti_clock_us() - begin) * 1e-6;
    run->step_seconds = count ? seconds[count / 2] : run->all_seconds / (seen ? seen : 1);
    run->steps_done = seen;
    return result;
}

static void sum_slices(rank_run *run, const dit_job *job) {
    const diti_plan *plan = job->shares[0]->program.plan;
    uint32_t first = plan->segments[job->shares[0]->program.step_segment].first;
    run->slices = diti_plan_slice_count(plan, job->shares[0]->program.step_segment);
    for (uint32_t i = 0; i < run->slices; i++) {
        run->compute_seconds += (double)plan->slices[first + i].us * 1e-6;
        run->measured += plan->slices[first + i].measured;
    }
}

static dit_result run_rank(rank_run *run, dit_error *err) {
    dit_context_desc context_desc = {0};
    dit_model_desc model_desc = {0};
    dit_job_desc desc = {0};
    dit_context *context = NULL;
    dit_model *model = NULL;
    dit_job *job = NULL;
    dit_counters counters = {0};
    int32_t label = 0;
    dit_result result;
    context_desc.devices = run->devices;
    context_desc.transport.rank = run->rank;
    context_desc.transport.rank_count = run->ranks;
    context_desc.transport.send = stub_send;
    context_desc.transport.receive = stub_receive;
    context_desc.transport.poll = stub_poll;
    context_desc.transport.user = run;
    model_desc.source.path = run->model;
    result = dit_context_create(&context_desc, &context, err);
    if (result >= 0) result = dit_model_load(context, &model_desc, &model, err);
    desc.model = model;
    if (result >= 0 && model->info.class_count)
        desc.class_labels = &label;
    else
        desc.prompt = "a tree";
    desc.width = run->width;
    desc.height = run->height;
    desc.steps = run->steps;
    desc.split = run->split;
    if (result >= 0) result = dit_job_create(context, &desc, &job, err);
    if (result >= 0) result = dit_job_wait(job, UINT64_MAX); /* drivers compile while they run a job first */
    if (result >= 0) result = dit_job_restart(job, &desc, err);
    if (result >= 0) result = DIT_WORKING; /* one slice at a time, so that each is timed */
    while (result == DIT_WORKING) result = dit_job_step(job, 0);
    if (result >= 0) result = dit_job_restart(job, &desc, err);
    if (job) {
        if (result >= 0) result = time_steps(run, job);
        if (result >= 0) sum_slices(run, job);
        dit_job_status(job, NULL, result < 0 ? err : NULL);
        dit_job_get_counters(job, &counters);
        run->sent = counters.peer_bytes / 3;
        diti_format(run->device, sizeof run->device, "%s", context->device->info.name);
    }
    dit_job_destroy(job);
    dit_model_destroy(model);
    dit_context_destroy(context);
    return result;
}
#endif
