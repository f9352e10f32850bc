/* libFuzzer: any bytes as a PNG, JPEG or WebP whose text --repeat-from reads, and as that text itself. Options that are
   read are written again, and read back as the same. */
#include "examples/cli/stills.h"

static void read_text(char *text) {
    parameter_text unknown = {0};
    options o, again;
    char *written, *twice;
    if (read_parameters(text, &o, &unknown)) {
        written = write_parameters(&o);
        if (!written) abort();
        free(unknown.at);
        memset(&unknown, 0, sizeof unknown);
        twice = strdup(written);
        if (o.steps && o.seed && o.model && o.width && strlen(o.width) < 9 &&
            strlen(o.height) < 9) { /* as dit writes */
            char *rewritten;
            if (!read_parameters(twice, &again, &unknown)) abort();
            rewritten = write_parameters(&again);
            if (!rewritten || unknown.length || strcmp(written, rewritten) != 0) abort();
            free(rewritten);
        }
        free(twice);
        free(written);
    }
    free(unknown.at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *wrong = NULL;
    char *text = find_picture_text(data, size, &wrong);
    if (!text && !wrong) abort();
    if (text) read_text(text);
    free(text);
    text = malloc(size + 1);
    if (!text) return 0;
    memcpy(text, data, size);
    text[size] = 0;
    read_text(text);
    free(text);
    return 0;
}
