/* The speed of a device is measured once per device and driver, and kept in the cache blob. Slices are cut by it, and
   devices share work by it. */
#include "graph/ops_internal.h"
#include "graph/plan_internal.h"

/* A GPU lowers its clocks while drivers compile, to a quarter on an H100, and raises them while it works: first it is
   kept busy for so long, and longer while it becomes faster, then what takes at least the third time counts. A software
   driver is as fast at once, and filled by less. */
#define DITI_CALIBRATE_WARM_US 100000.0
#define DITI_CALIBRATE_WARM_MOST_US 1000000.0
#define DITI_CALIBRATE_US 4000.0
#define DITI_CALIBRATE_SOFTWARE_US 500.0
#define DITI_CALIBRATE_RUNS 3u
#define DITI_CALIBRATE_LAUNCHES 8u   /* in a run, and runs: short ones are seldom disturbed */
#define DITI_CALIBRATE_MAX 4096u     /* rows and columns, of floats 2048 */
#define DITI_CALIBRATE_COLUMNS 1024u /* columns of norms, which thus need one kernel */

typedef struct diti_calibration { /* a run: so many ops of these rows and columns, one after the other */
    bool norms;                   /* false: products */
    uint32_t rows, columns, times, runs;
} diti_calibration;

/* Norms read floats and write activations, as most ops do that are as fast as memory is; on a processor they take as
   long as their arithmetic, which a copy would not show. */
static void diti_calibrate_emit(diti_graph *graph, const diti_calibration *what) {
    diti_element format = graph->activation;
    diti_tensor x =
        diti_tensor_state(graph, what->norms ? DITI_F32 : format, what->rows, what->columns, "measured operand");
    diti_tensor w = what->norms ? 0 : diti_tensor_state(graph, format, what->columns, what->columns, "measured weight");
    diti_tensor out = diti_tensor_state(graph, format, what->rows, what->columns, "measured result");
    uint32_t i;
    for (i = 0; i < what->times && !diti_graph_failed(graph); i++) {
        diti_norm_desc norm = DITI_ZERO;
        diti_gemm gemm = DITI_ZERO;
        norm.eps = 1e-6f;
        norm.out = out;
        norm.name = "measured norm";
        gemm.x = x;
        gemm.weight = w;
        gemm.out = out;
        gemm.rows = what->rows;
        gemm.columns = gemm.depth = what->columns;
        gemm.parts = 1;
        gemm.name = "measured product";
        if (what->norms)
            diti_norm(graph, x, &norm);
        else
            diti_op_gemm(graph, &gemm);
    }
}

/* The shortest of a few runs behind a first one, which may pay for the driver's compiler. */
static dit_result diti_calibrate_run(diti_graph *graph, uint32_t runs, double *us, dit_error *err) {
    diti_plan *plan = NULL;
    dit_result result = diti_plan_create(graph, NULL, &plan, err);
    uint32_t run;
    double once;
    if (result >= 0) result = diti_plan_run(plan, 0, 2, err);
    for (run = 0; run < runs && result >= 0; run++) {
        result = diti_plan_time(plan, 1, &once, err);
        if (result >= 0 && (run == 0 || once < *us)) *us = once;
    }
    diti_plan_destroy(plan);
    return result;
}

/* Runs the ops of a calibration. us: the time that all of them take; amount: their operations, or bytes of norms. */
static dit_result diti_calibrate_time(diti_device *device, const diti_calibration *what, double *us, double *amount,
                                      dit_error *err) {
    diti_graph graph;
    dit_result result;
    bool again;
    size_t i;
    do {
        *us = *amount = 0;
        diti_graph_init(&graph, device);
        graph.candidate = 1;
        graph.slice_us = 500000; /* not cut */
        diti_graph_segment(&graph, "begin", false);
        diti_graph_segment(&graph, "measured", false);
        diti_calibrate_emit(&graph, what);
        result = graph.error.result;
        if (result < 0 && err) *err = graph.error;
        for (i = 0; i < graph.dispatch_count && result >= 0; i++) {
            const diti_dispatch *dispatch = &graph.dispatches[i];
            *amount += what->norms ? dispatch->memory_bytes : dispatch->flops;
            *us += (double)diti_dispatch_us(&device->feigned, dispatch);
        }
        if (result >= 0 && !(device->feigned.us_per_gflop > 0))
            result = diti_calibrate_run(&graph, what->runs, us, err);
        again = graph.again; /* a kernel did not compile, and the device does without it now */
        diti_graph_free(&graph);
    } while (again);
    return result;
}

/* Makes ops larger until they are as large as may be, then more of them, for what took us is to take `enough`. Products
   become larger in all directions, by as much as may do at once, since every size may need a kernel of its own, which
   takes long to compile; norms get more rows. */
static void diti_calibrate_grow(diti_calibration *what, uint32_t most, double us, double enough) {
    double wanted = 1.2 * enough / us;
    uint32_t times = wanted < 1 ? 1 : wanted > 64 ? 64 : (uint32_t)wanted + 1;
    if (what->rows >= most)
        what->times *= times;
    else if (what->norms)
        what->rows = what->rows * times < most ? what->rows * times : most;
    else
        what->columns = what->rows *= wanted > 16 && what->rows * 4 <= most ? 4 : 2;
}

/* The most rows and columns of operands, three of which take no more than a quarter of the memory that is left; 0: not
   even the smallest do. */
static uint32_t diti_calibrate_limit(diti_device *device) {
    uint32_t most = device->rung >= DITI_RUNG_FP16 ? DITI_CALIBRATE_MAX : DITI_CALIBRATE_MAX / 2;
    VkDeviceSize room;
    diti_lock(&device->lock);
    room = device->memory_limit > device->memory_used ? (device->memory_limit - device->memory_used) / 12 : 0;
    diti_unlock(&device->lock);
    if (device->limits.allocation < room) room = device->limits.allocation;
    if (device->limits.storage_range < room) room = device->limits.storage_range;
    while (most && (VkDeviceSize)most * (most > DITI_CALIBRATE_COLUMNS ? most : DITI_CALIBRATE_COLUMNS) * 4 > room)
        most /= 2;
    return most < 256 ? 0 : most;
}

typedef struct diti_calibrated { /* the time of one op, and its operations or bytes */
    double us, amount;
} diti_calibrated;

/* Microseconds for 10^9 operations or bytes: how much longer an op that fills the device takes than one that has next
   to nothing to do, for how much more. */
static dit_result diti_calibrate_rate(diti_device *device, bool norms, uint32_t most, const diti_calibrated *least,
                                      float *rate, dit_error *err) {
    double enough = device->software ? DITI_CALIBRATE_SOFTWARE_US : DITI_CALIBRATE_US, all = 0, best = HUGE_VAL,
           since = 0; /* the time by which it was reached */
    double warm = device->software || device->feigned.us_per_gflop > 0 ? 0 : DITI_CALIBRATE_WARM_US;
    diti_calibration what = DITI_ZERO;
    what.norms = norms;
    what.rows = device->software ? 64 : 256;
    if (norms) what.rows /= 4;
    what.columns = norms ? DITI_CALIBRATE_COLUMNS : what.rows;
    what.times = 1;
    what.runs = device->software ? 2 : DITI_CALIBRATE_RUNS;
    for (;;) {
        double us, amount, more;
        dit_result result = diti_calibrate_time(device, &what, &us, &amount, err);
        if (result < 0 || !(us > 0)) return result;
        all += us * (what.runs + 1);
        more = amount / what.times - least->amount;
        if (us / what.times > least->us && more > 0) *rate = (float)((us / what.times - least->us) / (more * 1e-9));
        if (us < best * 0.97) since = all;
        if (us < best) best = us;
        if (us >= enough && all >= warm && (all - since >= warm / 4 || all >= DITI_CALIBRATE_WARM_MOST_US))
            return DIT_OK;
        if (us >= enough) continue;
        diti_calibrate_grow(&what, most, us, enough);
        best = HUGE_VAL;
    }
}

/* One row, again and again, with the barrier in between. */
static dit_result diti_calibrate_minimum(diti_device *device, diti_calibrated *out, dit_error *err) {
    diti_calibration what = DITI_ZERO;
    dit_result result;
    what.norms = true;
    what.rows = 1;
    what.columns = DITI_CALIBRATE_COLUMNS;
    what.times = what.runs = device->software ? DITI_CALIBRATE_LAUNCHES / 2 : DITI_CALIBRATE_LAUNCHES;
    result = diti_calibrate_time(device, &what, &out->us, &out->amount, err);
    out->us /= what.times;
    out->amount /= what.times;
    return result;
}

/* A launch, once more: kernels of norms have warmed the device up by now. */
static dit_result diti_calibrate_minimum_again(diti_device *device, diti_calibrated *least, dit_error *err) {
    diti_calibrated again = *least;
    dit_result result = DIT_OK;
    if (!device->software) result = diti_calibrate_minimum(device, &again, err);
    if (result >= 0 && again.us < least->us) *least = again;
    return result;
}

DIT_INTERNAL dit_result diti_device_measure(diti_device *device, dit_error *err) {
    diti_speed speed = device->speed;
    uint32_t most = diti_calibrate_limit(device);
    diti_calibrated least = DITI_ZERO;
    dit_error error = DITI_ZERO;
    dit_result result;
    if (device->calibrated && device->calibrated_rung == device->rung) return DIT_OK;
    result = most ? diti_calibrate_minimum(device, &least, &error)
                  : diti_fail(&error, DIT_ERROR_UNSUPPORTED_DEVICE, "memory has no room for what would be timed");
    if (result >= 0) result = diti_calibrate_rate(device, true, most, &least, &speed.us_per_gigabyte, &error);
    if (result >= 0) result = diti_calibrate_minimum_again(device, &least, &error);
    least.us -= least.amount * 1e-9 * (double)speed.us_per_gigabyte; /* the launch is left */
    if (least.us < 0) least.us = 0;
    least.amount = 0;
    if (result >= 0) result = diti_calibrate_rate(device, false, most, &least, &speed.us_per_gflop, &error);
    if (result == DIT_ERROR_DEVICE_LOST || result == DIT_ERROR_OUT_OF_HOST_MEMORY ||
        result == DIT_ERROR_OUT_OF_DEVICE_MEMORY) {
        if (err) *err = error;
        return result;
    }
    if (result < 0) {
        diti_log(&device->env, DITI_LOG_WARNING, "how fast device %u, %s, is stays a guess: %s", device->ordinal,
                 device->info.name, error.message);
        return DIT_OK;
    }
    speed.launch_us = (float)least.us;
    device->speed = speed;
    device->calibrated = true;
    device->calibrated_rung = device->rung;
    diti_log(&device->env, DITI_LOG_INFO,
             "device %u, %s: %.3g TFLOP/s of products, %.3g GB/s of memory, %.1f us a launch", device->ordinal,
             device->info.name, 1e3 / (double)speed.us_per_gflop, 1e6 / (double)speed.us_per_gigabyte,
             (double)speed.launch_us);
    return DIT_OK;
}

/* --- matrices, where it is in doubt that they are fast --- */

#define DITI_CALIBRATE_GAIN 1.1 /* kernels in doubt have to be so much faster, so that noise decides nothing */

/* Products with matrices, then without. */
static dit_result diti_calibrate_matrices(diti_device *device, double us[2], dit_error *err) {
    const diti_rung used = device->rung;
    diti_calibration what = DITI_ZERO;
    dit_result result = DIT_OK;
    double amount;
    int i;
    what.rows = what.columns = device->software ? 64 : 1024;
    what.times = 2;
    what.runs = device->software ? 1 : 2 * DITI_CALIBRATE_RUNS;
    for (i = 0; i < 2 && result >= 0; i++) {
        device->rung = i ? DITI_RUNG_HALF : used;
        result = diti_calibrate_time(device, &what, &us[i], &amount, err);
    }
    device->rung = used;
    return result;
}

/* The answer is kept among the tuned choices of the cache blob: 1 for matrices, else 0. */
DIT_INTERNAL dit_result diti_device_choose_matrices(diti_device *device, dit_error *err) {
    const uint64_t parts[2] = {device->proof_key, diti_hash("faster products", 15)},
                   key = diti_hash(parts, sizeof parts);
    dit_error error = DITI_ZERO;
    dit_result result = DIT_OK;
    uint32_t choice = 0;
    double us[2] = {0, 0};
    if (!device->doubts_matrices || device->rung < DITI_RUNG_COOP) return DIT_OK;
    if (!diti_tuned_find(device, key, &choice) && !(device->feigned.us_per_gflop > 0)) {
        result = diti_calibrate_matrices(device, us, &error);
        if (result >= 0) choice = us[0] * DITI_CALIBRATE_GAIN < us[1];
        if (result >= 0 && !diti_tuned_put(device, key, choice)) return diti_fail_memory(err, "what was measured");
    }
    if (result == DIT_ERROR_DEVICE_LOST || result == DIT_ERROR_OUT_OF_HOST_MEMORY) {
        if (err) *err = error;
        return result;
    }
    diti_log(&device->env, DITI_LOG_INFO, "device %u, %s: products %s matrices (%.0f us with them, %.0f us without)",
             device->ordinal, device->info.name, choice ? "on" : "without", us[0], us[1]);
    if (choice) return DIT_OK;
    diti_class_drop(device, DITI_CLASS_COOP2);
    diti_class_drop(device, DITI_CLASS_COOP);
    diti_class_describe(device, device->dropped);
    return DIT_OK;
}

/* --- fragments of products, which may be large on devices with VK_NV_cooperative_matrix2 --- */

#define DITI_CALIBRATE_SHAPES 2048u /* rows and columns of the products */

/* Products on large fragments and on listed ones, in turn: a GPU that has just compiled is slow at first. */
static dit_result diti_calibrate_shapes(diti_device *device, double us[2], dit_error *err) {
    diti_calibration what = DITI_ZERO;
    dit_result result = DIT_OK;
    double once, amount;
    int i;
    what.rows = what.columns = device->software ? 64 : DITI_CALIBRATE_SHAPES;
    what.times = device->software ? 1 : 16;
    what.runs = device->software ? 1 : 2 * DITI_CALIBRATE_RUNS;
    us[0] = us[1] = HUGE_VAL;
    for (i = 0; i < 6 && result >= 0; i++) {
        device->listed_shapes = i % 2 != 0;
        result = diti_calibrate_time(device, &what, &once, &amount, err);
        if (once < us[i % 2]) us[i % 2] = once;
    }
    device->listed_shapes = false;
    return result;
}

/* The answer is kept among the tuned choices of the cache blob: 1 for listed shapes, else 0. */
DIT_INTERNAL dit_result diti_device_choose_shapes(diti_device *device, dit_error *err) {
    const uint64_t parts[2] = {device->proof_key, diti_hash("faster shapes", 13)}, key = diti_hash(parts, sizeof parts);
    const diti_coop *coop = &device->coop;
    dit_error error = DITI_ZERO;
    dit_result result = DIT_OK;
    uint32_t choice = 0;
    double us[2] = {0, 0};
    device->listed_shapes = false;
    if (device->rung != DITI_RUNG_COOP2 || device->is_cpu || !coop->flexible[DITI_COOP_F16].m ||
        !coop->subgroup_shape[DITI_COOP_F16].m)
        return DIT_OK;
    if (!diti_tuned_find(device, key, &choice) && !(device->feigned.us_per_gflop > 0)) {
        result = diti_calibrate_shapes(device, us, &error);
        if (result >= 0) choice = us[1] * DITI_CALIBRATE_GAIN < us[0];
        if (result >= 0 && !diti_tuned_put(device, key, choice)) return diti_fail_memory(err, "what was measured");
    }
    if (result == DIT_ERROR_DEVICE_LOST || result == DIT_ERROR_OUT_OF_HOST_MEMORY) {
        if (err) *err = error;
        return result;
    }
    device->listed_shapes = choice == 1 && device->rung == DITI_RUNG_COOP2;
    diti_log(&device->env, DITI_LOG_INFO,
             "device %u, %s: products on %s fragments (%.0f us on large ones, %.0f us on listed ones)", device->ordinal,
             device->info.name, choice ? "listed" : "large", us[0], us[1]);
    return DIT_OK;
}

/* --- attention, which has two kernels on devices with VK_NV_cooperative_matrix2 --- */

/* Heads of the two widths that most models have. */
static void diti_calibrate_attention_emit(diti_graph *graph, uint32_t rows) {
    static const uint32_t dims[] = {64, 128};
    size_t i;
    for (i = 0; i < DITI_COUNT(dims); i++) {
        diti_attention_desc desc = DITI_ZERO;
        diti_tensor qkv[3];
        uint32_t t;
        desc.heads = 16;
        desc.head_dim = dims[i];
        desc.scale = 0.1f;
        desc.name = "measured attention";
        for (t = 0; t < 3; t++)
            qkv[t] = diti_tensor_state(graph, DITI_F16, rows, desc.heads * dims[i], "measured operand");
        diti_attention(graph, qkv[0], qkv[1], qkv[2], &desc);
    }
}

static dit_result diti_calibrate_attention(diti_device *device, uint32_t which, double *us, dit_error *err) {
    const uint32_t used = device->coop_attention;
    diti_graph graph;
    dit_result result;
    device->coop_attention = which;
    diti_graph_init(&graph, device);
    graph.candidate = 1;
    graph.slice_us = 500000; /* not cut */
    diti_graph_segment(&graph, "begin", false);
    diti_graph_segment(&graph, "measured", false);
    diti_calibrate_attention_emit(&graph, device->software ? 64 : 2048);
    result = graph.error.result;
    if (result < 0 && err) *err = graph.error;
    if (result >= 0) result = diti_calibrate_run(&graph, device->software ? 1 : 2 * DITI_CALIBRATE_RUNS, us, err);
    diti_graph_free(&graph);
    device->coop_attention = used;
    return result;
}

/* The answer is kept among the tuned choices of the cache blob: both kernels have results of their own, so that a
   device should not change its mind. A device that cannot measure keeps VK_KHR_cooperative_matrix. */
DIT_INTERNAL dit_result diti_device_choose_attention(diti_device *device, dit_error *err) {
    const uint64_t parts[2] = {device->proof_key, diti_hash("faster attention", 16)},
                   key = diti_hash(parts, sizeof parts);
    dit_error error = DITI_ZERO;
    dit_result result = DIT_OK;
    uint32_t choice = 1;
    double us[2] = {0, 0};
    if (device->coop_attention != 2 || !device->coop_attention_khr || device->is_cpu) return DIT_OK;
    if (!diti_tuned_find(device, key, &choice) && !(device->feigned.us_per_gflop > 0)) {
        result = diti_calibrate_attention(device, 1, &us[0], &error);
        if (result >= 0) result = diti_calibrate_attention(device, 2, &us[1], &error);
        if (result >= 0) choice = us[1] * DITI_CALIBRATE_GAIN < us[0] ? 2 : 1;
        if (result >= 0 && !diti_tuned_put(device, key, choice)) return diti_fail_memory(err, "what was measured");
    }
    if (result == DIT_ERROR_DEVICE_LOST || result == DIT_ERROR_OUT_OF_HOST_MEMORY) {
        if (err) *err = error;
        return result;
    }
    device->coop_attention = choice == 2 ? 2 : 1;
    diti_log(&device->env, DITI_LOG_INFO, "device %u, %s: attention on the matrices of VK_%s (%.0f us, %.0f us)",
             device->ordinal, device->info.name, choice == 2 ? "NV_cooperative_matrix2" : "KHR_cooperative_matrix",
             us[0], us[1]);
    return DIT_OK;
}
