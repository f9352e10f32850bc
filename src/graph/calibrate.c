/* The speed of a device is measured once per device and driver, and kept in the cache blob. Slices are cut by it, and
   devices share work by it. */
#include "graph/ops_internal.h"
#include "graph/plan_internal.h"

/* A GPU lowers its clocks while drivers compile, to a quarter on an H100, and raises them while it works: behind 0.1 s
   of work an H200 was found to have 34 and 41 TFLOP/s of 170. First it is kept busy for so long, and longer
   while it becomes faster, then what takes at least the third time counts. A software driver is as fast at once, and
   filled by less. */
#define DITI_CALIBRATE_WARM_US 300000.0
#define DITI_CALIBRATE_WARM_MOST_US 1000000.0
#define DITI_CALIBRATE_US 4000.0
#define DITI_CALIBRATE_SOFTWARE_US 500.0
#define DITI_CALIBRATE_RUNS 3u
#define DITI_CALIBRATE_LAUNCHES 8u   /* in a run, and runs: short ones are seldom disturbed */
#define DITI_CALIBRATE_MAX 4096u     /* rows and columns, of floats 2048 */
#define DITI_CALIBRATE_COLUMNS 1024u /* columns of norms, which thus need one kernel */

typedef struct diti_calibration diti_calibration;
typedef void diti_calibrate_emit(diti_graph *graph, const diti_calibration *what);
struct diti_calibration { /* a run: so many ops of these rows and columns (of a head), one after the other */
    diti_calibrate_emit *emit;
    uint32_t rows, columns, times, runs;
};

static void diti_calibrate_products(diti_graph *graph, const diti_calibration *what) {
    const diti_element format = graph->activation;
    diti_gemm gemm = DITI_ZERO;
    uint32_t i;
    gemm.x = diti_tensor_state(graph, format, what->rows, what->columns, "measured operand");
    gemm.weight = diti_tensor_state(graph, format, what->columns, what->columns, "measured weight");
    gemm.out = diti_tensor_state(graph, format, what->rows, what->columns, "measured result");
    gemm.rows = what->rows;
    gemm.columns = gemm.depth = what->columns;
    gemm.parts = 1;
    gemm.name = "measured product";
    for (i = 0; i < what->times && !diti_graph_failed(graph); i++) diti_op_gemm(graph, &gemm);
}

/* Norms read floats and write activations, as most ops do that are as fast as memory is; on a processor they take as
   long as their arithmetic, which a copy would not show. */
static void diti_calibrate_norms(diti_graph *graph, const diti_calibration *what) {
    diti_tensor x = diti_tensor_state(graph, DITI_F32, what->rows, what->columns, "measured operand");
    diti_norm_desc norm = DITI_ZERO;
    uint32_t i;
    norm.eps = 1e-6f;
    norm.out = diti_tensor_state(graph, graph->activation, what->rows, what->columns, "measured result");
    norm.name = "measured norm";
    for (i = 0; i < what->times && !diti_graph_failed(graph); i++) diti_norm(graph, x, &norm);
}

static void diti_calibrate_attentions(diti_graph *graph, const diti_calibration *what) {
    diti_attention_desc desc = DITI_ZERO;
    diti_tensor qkv[3];
    uint32_t i;
    desc.head_dim = what->columns;
    desc.heads = 16;
    desc.scale = 0.1f;
    desc.name = "measured attention";
    for (i = 0; i < 3; i++)
        qkv[i] = diti_tensor_state(graph, DITI_F16, what->rows, desc.heads * desc.head_dim, "measured operand");
    for (i = 0; i < what->times; i++) diti_attention(graph, qkv[0], qkv[1], qkv[2], &desc);
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

/* Runs the ops of a calibration, or lists their pipelines. us: the time that all of them take; amount: their
   operations, or bytes of norms. A kernel that does not compile leaves the device without its class, and other kernels
   are timed. */
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
        what->emit(&graph, what);
        result = graph.error.result;
        if (result < 0 && err) *err = graph.error;
        for (i = 0; i < graph.dispatch_count && result >= 0; i++) {
            const diti_dispatch *dispatch = &graph.dispatches[i];
            *amount += what->emit == diti_calibrate_norms ? dispatch->memory_bytes : dispatch->flops;
            *us += (double)diti_dispatch_us(&device->feigned, dispatch);
        }
        if (result >= 0 && !(device->feigned.us_per_gflop > 0))
            result = device->wanted ? diti_graph_want(&graph, err) : diti_calibrate_run(&graph, what->runs, us, err);
        again = graph.again;
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
    else if (what->emit == diti_calibrate_norms)
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
    double enough = device->software ? DITI_CALIBRATE_SOFTWARE_US : DITI_CALIBRATE_US, all = 0;
    double mark = HUGE_VAL, since = 0; /* the last run that took 3 % less than the mark before it; when it ended */
    double warm = device->software || device->feigned.us_per_gflop > 0 ? 0 : DITI_CALIBRATE_WARM_US;
    diti_calibration what = DITI_ZERO;
    what.emit = norms ? diti_calibrate_norms : diti_calibrate_products;
    what.rows = device->software ? 64 : 256;
    if (norms) what.rows /= 4;
    what.columns = norms ? DITI_CALIBRATE_COLUMNS : what.rows;
    what.times = 1;
    what.runs = device->software ? 2 : DITI_CALIBRATE_RUNS;
    for (;;) {
        double us, amount, more;
        dit_result result = diti_calibrate_time(device, &what, &us, &amount, err);
        if (result >= 0 && device->wanted && what.rows < most) { /* as if the device were as fast as can be */
            diti_calibrate_grow(&what, most, 1, enough);
            continue;
        }
        if (result < 0 || device->wanted || !(us > 0)) return result;
        all += us * (what.runs + 1);
        more = amount / what.times - least->amount;
        if (us / what.times > least->us && more > 0) *rate = (float)((us / what.times - least->us) / (more * 1e-9));
        if (us < mark * 0.97) {
            since = all;
            mark = us;
        }
        if (us >= enough && all >= warm && (all - since >= warm / 4 || all >= DITI_CALIBRATE_WARM_MOST_US))
            return DIT_OK;
        if (us >= enough) continue;
        diti_calibrate_grow(&what, most, us, enough);
        mark = HUGE_VAL;
    }
}

/* One row, again and again, with the barrier in between. */
static dit_result diti_calibrate_minimum(diti_device *device, diti_calibrated *out, dit_error *err) {
    diti_calibration what = DITI_ZERO;
    dit_result result;
    what.emit = diti_calibrate_norms;
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
    if (device->wanted) return result;
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

/* --- choices between two ways of computing: no device tells which one is faster --- */

#define DITI_CALIBRATE_GAIN 1.1 /* way 1 has to be so much faster, so that noise decides nothing */
#define DITI_CALIBRATE_TURNS 3u

/* The answer is kept among the tuned choices of the cache blob, so that a device does not change its mind: both ways
   may have results of their own. A device that cannot measure takes way 0. */
typedef struct diti_choice diti_choice;
struct diti_choice {
    const char *name, *ways[2];                 /* part of the answer's key; for the log */
    uint32_t head_dim;                          /* where attention is timed */
    bool (*is_open)(const diti_device *device); /* the device has both ways, and nothing else decides */
    dit_result (*time)(diti_device *device, const diti_choice *choice, uint32_t way, double *us,
                       dit_error *err); /* the way is used, and left */
    void (*take)(diti_device *device, const diti_choice *choice, uint32_t way);
};

/* Both ways are timed in turn: a GPU that has just compiled is slow at first. A kernel that does not compile may end
   the choice. */
static dit_result diti_choice_measure(diti_device *device, const diti_choice *choice, uint32_t *way, dit_error *err) {
    double us[2] = {HUGE_VAL, HUGE_VAL}, once = 0;
    uint32_t i;
    for (i = 0; i < 2 * DITI_CALIBRATE_TURNS; i++) {
        DITI_TRY(choice->time(device, choice, i % 2, &once, err));
        if (!choice->is_open(device)) return DIT_OK;
        if (once < us[i % 2]) us[i % 2] = once;
    }
    *way = us[1] * DITI_CALIBRATE_GAIN < us[0];
    diti_log(&device->env, DITI_LOG_INFO, "device %u, %s: %.0f us for %s, %.0f us for %s", device->ordinal,
             device->info.name, us[0], choice->ways[0], us[1], choice->ways[1]);
    return DIT_OK;
}

/* Lists the pipelines of both ways. */
static dit_result diti_choice_want(diti_device *device, const diti_choice *choice, dit_error *err) {
    double us;
    DITI_TRY(choice->time(device, choice, 0, &us, err));
    return choice->time(device, choice, 1, &us, err);
}

static dit_result diti_choice_make(diti_device *device, const diti_choice *choice, dit_error *err) {
    const uint64_t parts[2] = {device->proof_key, diti_hash(choice->name, strlen(choice->name))},
                   key = diti_hash(parts, sizeof parts);
    dit_error error = DITI_ZERO;
    uint32_t way = 0;
    if (!choice->is_open(device)) return DIT_OK;
    if (!diti_tuned_find(device, key, &way) && !(device->feigned.us_per_gflop > 0)) {
        dit_result result;
        if (device->wanted) return diti_choice_want(device, choice, err);
        result = diti_choice_measure(device, choice, &way, &error);
        if (result == DIT_ERROR_DEVICE_LOST || result == DIT_ERROR_OUT_OF_HOST_MEMORY) {
            if (err) *err = error;
            return result;
        }
        if (!choice->is_open(device)) return DIT_OK;
        if (result >= 0 && !diti_tuned_put(device, key, way)) return diti_fail_memory(err, "what was measured");
    }
    way = way == 1; /* a blob may say anything */
    if (!device->wanted)
        diti_log(&device->env, DITI_LOG_INFO, "device %u, %s: %s", device->ordinal, device->info.name,
                 choice->ways[way]);
    choice->take(device, choice, way);
    return DIT_OK;
}

/* Two ops of so many rows and columns; a software driver has fewer rows. */
static dit_result diti_choice_time(diti_device *device, diti_calibrate_emit *emit, uint32_t rows, uint32_t columns,
                                   double *us, dit_error *err) {
    diti_calibration what = DITI_ZERO;
    double amount;
    what.emit = emit;
    what.rows = device->software ? 64 : rows;
    what.columns = columns;
    what.times = 2;
    what.runs = device->software ? 1 : 2 * DITI_CALIBRATE_RUNS;
    return diti_calibrate_time(device, &what, us, &amount, err);
}

/* --- products on matrices or without, where it is in doubt that matrices are fast --- */

static bool diti_matrices_are_open(const diti_device *device) {
    return device->doubts_matrices && device->rung >= DITI_RUNG_COOP;
}

static dit_result diti_matrices_time(diti_device *device, const diti_choice *choice, uint32_t way, double *us,
                                     dit_error *err) {
    const diti_rung used = device->rung;
    dit_result result;
    (void)choice;
    if (way == 0) device->rung = DITI_RUNG_HALF;
    result = diti_choice_time(device, diti_calibrate_products, 1024, device->software ? 64 : 1024, us, err);
    if (way == 0) device->rung = used;
    return result;
}

static void diti_matrices_take(diti_device *device, const diti_choice *choice, uint32_t way) {
    (void)choice;
    if (way == 1) return;
    diti_class_drop(device, DITI_CLASS_COOP2);
    diti_class_drop(device, DITI_CLASS_COOP);
    diti_class_describe(device, device->dropped);
}

DIT_INTERNAL dit_result diti_device_choose_matrices(diti_device *device, dit_error *err) {
    static const diti_choice choice = {"faster products",
                                       {"products without matrices", "products on matrices"},
                                       0,
                                       diti_matrices_are_open,
                                       diti_matrices_time,
                                       diti_matrices_take};
    return diti_choice_make(device, &choice, err);
}

/* --- attention, which has two kernels on devices with VK_NV_cooperative_matrix2: the one on VK_KHR_cooperative_matrix
   may keep narrow heads in registers, too (attention_direct.comp), and wide ones never, so that the answer may be
   another for each --- */

static bool diti_attention_is_open(const diti_device *device) {
    return device->coop_attention == 2 && device->coop_attention_khr && !device->is_cpu;
}

static void diti_attention_take(diti_device *device, const diti_choice *choice, uint32_t way) {
    device->khr_is_faster[diti_attention_is_wide(device, choice->head_dim)] = way == 0;
}

static dit_result diti_attention_time(diti_device *device, const diti_choice *choice, uint32_t way, double *us,
                                      dit_error *err) {
    diti_attention_take(device, choice, way);
    return diti_choice_time(device, diti_calibrate_attentions, 2048, choice->head_dim, us, err);
}

/* The two widths are those that most models have. */
DIT_INTERNAL dit_result diti_device_choose_attention(diti_device *device, dit_error *err) {
    static const diti_choice choices[2] = {
        {"attention of narrow heads",
         {"narrow heads on matrices of VK_KHR_cooperative_matrix",
          "narrow heads on matrices of VK_NV_cooperative_matrix2"},
         64,
         diti_attention_is_open,
         diti_attention_time,
         diti_attention_take},
        {"attention of wide heads",
         {"wide heads on matrices of VK_KHR_cooperative_matrix", "wide heads on matrices of VK_NV_cooperative_matrix2"},
         128,
         diti_attention_is_open,
         diti_attention_time,
         diti_attention_take}};
    DITI_TRY(diti_choice_make(device, &choices[0], err));
    return diti_choice_make(device, &choices[1], err);
}
