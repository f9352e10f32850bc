/* libFuzzer: any bytes as a PyTorch checkpoint; bytes that are no archive become the pickle of one. */
#include "fuzz_files.h"
#include "model_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    archive a = {{0}, {0}, 0};
    bytes file;
    if (size >= 2 && memcmp(data, "PK", 2) == 0) {
        fuzz_file(data, size);
        return 0;
    }
    archive_add(&a, "a/data.pkl", data, size, 0);
    archive_add(&a, "a/data/0", NULL, 64, 0);
    file = archive_end(&a);
    fuzz_file(file.data, file.size);
    bytes_free(&file);
    return 0;
}
