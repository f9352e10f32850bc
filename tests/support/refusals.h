/* Damaged files: each must end in an error that names the culprit, in one line, with nothing leaked. Include it after
 * model_files.h. */
#ifndef REFUSALS_H
#define REFUSALS_H

static test_memory memory;
static diti_env env;

static inline void check_refusal(dit_result result, const dit_error *err, const char *culprit) {
    CHECK_MESSAGE(result < 0 && err->result == result && strstr(err->message, culprit) &&
                      !strpbrk(err->message, "\n\r"),
                  "expected '%s', got '%s' (%d)", culprit, err->message, (int)result);
    CHECK_MESSAGE(memory.alive == 0, "%ld blocks leaked after '%s'", memory.alive, err->message);
}

static inline dit_result open_and_close(const dit_source *source, dit_error *err) {
    diti_checkpoint *checkpoint;
    dit_result result = diti_checkpoint_open(&env, source, &checkpoint, err);
    diti_checkpoint_close(checkpoint);
    return result;
}

/* Opens a damaged file from memory of exactly its size, and through callbacks. */
static inline void refuses_part(const bytes *file, size_t size, const char *culprit) {
    bytes exact = {0};
    dit_source source;
    dit_error err = {0};
    exact.data = malloc(size ? size : 1), exact.size = size;
    if (size) memcpy(exact.data, file->data, size);
    source = memory_source(&exact);
    check_refusal(open_and_close(&source, &err), &err, culprit);
    source = callback_source(&exact);
    memset(&err, 0, sizeof err);
    check_refusal(open_and_close(&source, &err), &err, culprit);
    bytes_free(&exact);
}

static inline void refuses(bytes file, const char *culprit) {
    refuses_part(&file, file.size, culprit);
    bytes_free(&file);
}

/* Every byte replaced: each file opens and is read, or is refused; neither leaks nor reads past its end. */
static inline void change_bytes(bytes file) {
    static const unsigned char changes[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    size_t opened = 0, refused = 0;
    for (size_t at = 0; at < file.size; at++) {
        unsigned char was = file.data[at];
        for (size_t i = 0; i < DITI_COUNT(changes); i++) {
            dit_source source = memory_source(&file);
            diti_checkpoint *checkpoint;
            dit_error err = {0};
            float values[64];
            file.data[at] = changes[i];
            if (diti_checkpoint_open(&env, &source, &checkpoint, &err) < 0) {
                refused++;
                continue;
            }
            opened++;
            for (uint32_t t = 0; t < diti_checkpoint_count(checkpoint); t++) {
                const diti_stored_tensor *tensor = diti_checkpoint_tensor(checkpoint, t);
                uint64_t elements = diti_stored_tensor_elements(tensor);
                if (elements <= DITI_COUNT(values))
                    diti_checkpoint_read_float(checkpoint, tensor, values, elements, &err);
            }
            diti_checkpoint_close(checkpoint);
        }
        file.data[at] = was;
    }
    CHECK_MESSAGE(opened > 100 && refused > 100 && memory.alive == 0, "%zu opened, %zu refused", opened, refused);
    bytes_free(&file);
}
#endif
