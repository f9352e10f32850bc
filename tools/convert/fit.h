/* --fit SIZE: a type for each matrix, so that the file is no larger and the errors are small.
 *
 * The error of a matrix W in a type is the relative square error of its outputs, sum d^2 r^2 / sum w^2 r^2, with d what
 * the type changes and r the root mean square of what comes through a column (1 where nothing was calibrated). With
 * --calibrate it is multiplied, so that for a type of four bits it is the square of what the latents are off by when
 * this matrix alone has it (sense.h). Every matrix begins with its largest type. The one whose next smaller type costs
 * the least error for each byte gets it, until the file fits. Only types on the lower convex hull of error over bytes
 * take part, so that no step hides a better one. */
#ifndef CONVERT_FIT_H
#define CONVERT_FIT_H
#include "sense.h"

enum { FIT_TYPES = 10, FIT_OPTIONS = FIT_TYPES + 1 };

typedef struct fit_option {
    dit_type type;
    uint64_t bytes;
    double error;
} fit_option;

typedef struct fit_entry { /* options by falling bytes */
    out_tensor *tensor;
    fit_option options[FIT_OPTIONS];
    uint32_t count, chosen;
    char component[64];
} fit_entry;

static uint64_t padded(uint64_t size) { return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

/* Mean squares of what comes through each column; NULL: unknown. */
static double *column_squares(const converter *convert, const out_tensor *tensor) {
    layer_statistics s;
    double *squares = NULL;
    if (statistics_of(convert->calibration, tensor->rest, &s) && s.columns == row_length(tensor->stored)) {
        squares = (double *)malloc(s.columns * sizeof *squares);
        for (size_t k = 0; squares && k < s.columns; k++) squares[k] = s.h[k * s.columns + k];
    }
    statistics_free(&s);
    return squares;
}

/* Fills in the errors of all options of a matrix. */
static dit_result measure_options(converter *convert, fit_entry *entry) {
    static uint8_t stored[8 * CHUNK], encoded[8 * CHUNK];
    static float values[CHUNK], decoded[CHUNK];
    const out_tensor *tensor = entry->tensor;
    const uint64_t elements = diti_stored_tensor_elements(tensor->stored), columns = row_length(tensor->stored);
    const uint32_t block = diti_type_block(tensor->stored->type), bytes = diti_type_block_bytes(tensor->stored->type);
    double *squares = column_squares(convert, tensor), size = 0;
    dit_result result = DIT_OK;
    for (uint64_t first = 0; first < elements && result >= 0; first += CHUNK) {
        const size_t count = elements - first < CHUNK ? (size_t)(elements - first) : CHUNK;
        result = diti_checkpoint_read(tensor->from, tensor->stored, first / block * bytes, stored,
                                      count / block * bytes, convert->err);
        if (result < 0) break;
        diti_type_to_float(tensor->stored->type, stored, count, values);
        result = diti_factor_apply(tensor->from, tensor->stored, first, count, values, convert->err);
        for (size_t i = 0; i < count; i++)
            size += (double)values[i] * (double)values[i] * (squares ? squares[(first + i) % columns] : 1);
        for (uint32_t o = 0; o < entry->count; o++) {
            if (entry->options[o].type == tensor->stored->type) continue; /* it is copied */
            encode(entry->options[o].type, values, count, encoded);
            diti_type_to_float(entry->options[o].type, encoded, count, decoded);
            for (size_t i = 0; i < count; i++) {
                const double d = (double)decoded[i] - (double)values[i];
                entry->options[o].error += d * d * (squares ? squares[(first + i) % columns] : 1);
            }
        }
    }
    for (uint32_t o = 0; o < entry->count && size > 0; o++) entry->options[o].error /= size;
    free(squares);
    return result;
}

/* The types that a matrix may have: its class decides (classes.h). */
static void list_options(const converter *convert, fit_entry *entry, const char *component) {
    static const dit_type types[FIT_TYPES] = {DIT_TYPE_F16,  DIT_TYPE_Q8_0,    DIT_TYPE_Q6_K, DIT_TYPE_Q5_1,
                                              DIT_TYPE_Q5_0, DIT_TYPE_Q5_K,    DIT_TYPE_Q4_1, DIT_TYPE_Q4_0,
                                              DIT_TYPE_Q4_K, DIT_TYPE_I4_GROUP};
    const diti_stored_tensor *stored = entry->tensor->stored;
    uint64_t most = UINT64_MAX;
    if (may_stay(convert, stored)) {
        most = bytes_as(stored->type, stored);
        entry->options[entry->count++] = (fit_option){stored->type, padded(most), 0};
    }
    for (size_t i = 0; i < FIT_TYPES; i++) {
        const bool few_bits = types[i] != DIT_TYPE_F16 && types[i] != DIT_TYPE_Q8_0;
        if ((few_bits && is_delicate(stored->name)) || fitting_type(types[i], component, stored) != types[i] ||
            bytes_as(types[i], stored) >= most)
            continue;
        entry->options[entry->count++] = (fit_option){types[i], padded(bytes_as(types[i], stored)), 0};
    }
}

/* Leaves options on the lower convex hull of error over bytes, by falling bytes. */
static void keep_hull(fit_entry *entry) {
    uint32_t kept = 0;
    for (uint32_t i = 1; i < entry->count; i++) { /* by falling bytes, then falling error */
        fit_option option = entry->options[i];
        uint32_t at = i;
        for (;
             at > 0 && (entry->options[at - 1].bytes < option.bytes ||
                        (entry->options[at - 1].bytes == option.bytes && entry->options[at - 1].error < option.error));
             at--)
            entry->options[at] = entry->options[at - 1];
        entry->options[at] = option;
    }
    for (uint32_t i = 0; i < entry->count; i++) {
        const fit_option next = entry->options[i];
        while (kept > 0) {
            const fit_option last = entry->options[kept - 1];
            if (kept > 1) {
                const fit_option before = entry->options[kept - 2];
                const double first = (last.error - before.error) / (double)(before.bytes - last.bytes);
                if (last.bytes > next.bytes && (next.error - last.error) / (double)(last.bytes - next.bytes) > first)
                    break;
            } else if (last.bytes > next.bytes && next.error > last.error) {
                break;
            }
            kept--;
        }
        entry->options[kept++] = next;
    }
    entry->count = kept;
}

static void choose_option(fit_entry *entry, uint32_t option) {
    entry->chosen = option;
    entry->tensor->type = entry->options[option].type;
    entry->tensor->method = ROUND_PLAIN;
    diti_type_bytes(entry->tensor->type, 1, diti_stored_tensor_elements(entry->tensor->stored), &entry->tensor->size);
}

/* Bytes of the file with the types that the tensors have now. */
static dit_result planned_bytes(converter *convert, uint64_t *out) {
    dit_result result = put_header(convert);
    *out = convert->written;
    convert->written = 0;
    for (size_t i = 0; i < convert->tensor_count; i++) *out += padded(convert->tensors[i].size);
    return result;
}

static void tell_fit(const converter *convert, const fit_entry *entries, size_t count, uint64_t bytes) {
    double error = 0;
    for (size_t i = 0; i < count; i++) {
        const fit_entry *entry = &entries[i];
        const fit_option *option = &entry->options[entry->chosen];
        error += option->error;
        if (convert->json) {
            printf("{\"tensor\": ");
            print_json_text(entry->tensor->name);
        } else {
            printf("%-60s", entry->tensor->name);
        }
        printf(convert->json ? ", \"type\": \"%s\", \"bytes\": %llu, \"error\": %.4g}\n" : " %-8s %12llu  %.4g\n",
               diti_type_name(option->type), (unsigned long long)entry->tensor->size, option->error);
    }
    printf(convert->json ? "{\"bytes\": %llu, \"budget\": %llu, \"error\": %.4g}\n"
                         : "%llu bytes of %llu, sum of errors %.4g\n",
           (unsigned long long)bytes, (unsigned long long)convert->budget, error);
}

/* Takes the steps that cost least until the file fits. */
static dit_result shrink_to_fit(converter *convert, fit_entry *entries, size_t count) {
    uint64_t bytes;
    DITI_TRY(planned_bytes(convert, &bytes));
    while (bytes > convert->budget) {
        fit_entry *best = NULL;
        double least = INFINITY;
        for (size_t i = 0; i < count; i++) {
            fit_entry *entry = &entries[i];
            const fit_option *now = &entry->options[entry->chosen];
            double cost;
            if (entry->chosen + 1 >= entry->count) continue;
            cost = (now[1].error - now->error) / (double)(now->bytes - now[1].bytes);
            if (cost < least) least = cost, best = entry;
        }
        if (!best)
            return diti_fail(convert->err, DIT_ERROR_INVALID_ARGUMENT,
                             "%s: takes %llu bytes with the smallest types; the budget of %llu is too small",
                             convert->output, (unsigned long long)bytes, (unsigned long long)convert->budget);
        bytes -= best->options[best->chosen].bytes - best->options[best->chosen + 1].bytes;
        choose_option(best, best->chosen + 1);
        if (bytes <= convert->budget) DITI_TRY(planned_bytes(convert, &bytes)); /* types may add to the header */
    }
    tell_fit(convert, entries, count, bytes);
    return DIT_OK;
}

/* The component's part of a tensor's name. */
static void component_of(const out_tensor *tensor, char *out, size_t size) {
    const size_t length = strlen(tensor->name), rest = strlen(tensor->rest);
    snprintf(out, size, "%.*s", length > rest ? (int)(length - rest - 1) : 0, tensor->name);
}

static bool takes_part(const converter *convert, const out_tensor *tensor, const char *component) {
    if (tensor->is_made || tensor->made_count || !is_weight(tensor->stored) || is_sensitive(tensor->stored->name) ||
        tensor->stored->rank != 2 || strcmp(component, "vae") == 0 || is_table(tensor->stored->name) ||
        diti_type_is_i8(tensor->stored->type))
        return false;
    for (size_t i = 0; i < convert->rule_count; i++)
        if (diti_glob(convert->rules[i].glob, tensor->name)) return false;
    return true;
}

/* The option by which a matrix is judged: of four bits, where it has such ones. */
static const fit_option *tried_option(const fit_entry *entry) {
    for (uint32_t i = 0; i < entry->count; i++)
        if (entry->options[i].type == DIT_TYPE_Q4_K || entry->options[i].type == DIT_TYPE_Q4_0)
            return &entry->options[i];
    return &entry->options[entry->count - 1];
}

/* Multiplies the errors of each matrix, so that they are squares of what the latents are off by. Matrices that no
 * linear layer reads get the mean factor. */
static dit_result weigh_by_trajectory(converter *convert, fit_entry *entries, size_t count) {
    sensed *list = (sensed *)calloc(count + 1, sizeof *list);
    double sum = 0;
    size_t known = 0;
    dit_result result = list ? DIT_OK : no_memory(convert);
    for (size_t i = 0; i < count && list; i++) {
        list[i].tensor = entries[i].tensor;
        list[i].component = entries[i].component;
        list[i].type = tried_option(&entries[i])->type;
    }
    if (result >= 0) result = sense_matrices(convert, list, count);
    for (size_t i = 0; i < count && result >= 0; i++) {
        const double error = tried_option(&entries[i])->error;
        if (!(list[i].size > 0) || !(error > 0)) list[i].size = 0;
        if (!(list[i].size > 0)) continue;
        list[i].off /= list[i].size * error;
        sum += list[i].off;
        known++;
    }
    for (size_t i = 0; i < count && known && result >= 0; i++)
        for (uint32_t o = 0; o < entries[i].count; o++)
            entries[i].options[o].error *= list[i].size > 0 ? list[i].off : sum / (double)known;
    free(list);
    return result;
}

/* The matrices that may have several types, with the errors of each, as large as they can be. */
static dit_result list_fit(converter *convert, fit_entry *entries, size_t *out) {
    size_t count = 0;
    dit_result result = DIT_OK;
    for (size_t i = 0; i < convert->tensor_count && result >= 0; i++) {
        fit_entry *entry = &entries[count];
        component_of(&convert->tensors[i], entry->component, sizeof entry->component);
        if (!takes_part(convert, &convert->tensors[i], entry->component)) continue;
        entry->tensor = &convert->tensors[i];
        list_options(convert, entry, entry->component);
        if (!entry->count) continue;
        result = measure_options(convert, entry);
        count++;
    }
    if (result >= 0 && convert->prompts) result = weigh_by_trajectory(convert, entries, count);
    for (size_t i = 0; i < count; i++) {
        keep_hull(&entries[i]);
        choose_option(&entries[i], 0);
    }
    *out = count;
    return result;
}

static dit_result fit_types(converter *convert) {
    fit_entry *entries;
    size_t count;
    dit_result result;
    if (!convert->budget) return DIT_OK;
    entries = (fit_entry *)calloc(convert->tensor_count, sizeof *entries);
    if (!entries) return no_memory(convert);
    result = list_fit(convert, entries, &count);
    if (result >= 0) result = shrink_to_fit(convert, entries, count);
    free(entries);
    return result;
}

#endif
