/* libFuzzer: any bytes as a safetensors file, or as the index of a sharded one. */
#include "fuzz_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_file(data, size);
    return 0;
}
