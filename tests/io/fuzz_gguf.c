/* libFuzzer: any bytes as what follows a GGUF file's magic. */
#include "fuzz_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t *file = (uint8_t *)malloc(size + 4); /* of its exact size, for AddressSanitizer */
    if (!file) return 0;
    memcpy(file, "GGUF", 4);
    if (size) memcpy(file + 4, data, size);
    fuzz_file(file, size + 4);
    free(file);
    return 0;
}
