/* libFuzzer: any bytes as a start picture. A decoded picture is scaled to the size that dit would make of it. */
#include "library.h"
#define PICTURE_PIXELS 65536u /* so that no input is slow */
#include "examples/cli/files.h"
#include "examples/cli/pictures.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *file = (uint8_t *)malloc(size + 1); /* of its exact size but for one byte, as read_file makes it */
    uint32_t width = 48, height = 48;
    const char *why;
    picture p;
    if (!file) return 0;
    if (size) memcpy(file, data, size);
    why = decode_picture(file, size, &p);
    if (!why) {
        if (!p.width || !p.height || (uint64_t)p.width * p.height > PICTURE_PIXELS) abort();
        fit_size(&p, 16, 256, &width, &height);
        if (width < 16 || width > 256 || height < 16 || height > 256) abort();
        why = scale_picture(&p, width, height);
        if (!why && (p.width != width || p.height != height)) abort();
    } else if (p.rgba || !*why || strchr(why, '\n')) {
        abort();
    }
    free(p.rgba);
    free(file);
    return 0;
}
