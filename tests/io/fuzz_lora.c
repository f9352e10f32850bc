/* libFuzzer: any bytes as an adapter; what opens is read, row by row and as thin matrices. */
#include "library.h"
#include "files.h"

static void fuzz_module(const diti_lora_file *file, diti_lora_module *module) {
    uint32_t thin = diti_lora_thin(module);
    uint64_t size = ((uint64_t)module->rows + module->columns) * (thin ? thin : 1);
    dit_error err;
    float *out;
    if (size > 1u << 20 || (uint64_t)module->rows * module->columns > 1u << 20) return;
    if (diti_lora_read(file, module, &err) < 0) return;
    out = calloc((size_t)size + module->columns, sizeof *out);
    diti_lora_add_row(module, module->rows - 1, 0.5, out);
    if (thin) diti_lora_up(module, 0, module->rows, thin, out);
    if (thin) diti_lora_down(module, out);
    free(out);
    diti_lora_forget(file, module);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    diti_env env = test_env(NULL);
    diti_lora_file *file = NULL;
    dit_source source = {0};
    dit_error err;
    size_t i;
    source.data = data;
    source.size = size;
    if (diti_lora_open(&env, &source, &file, &err) != DIT_OK) return 0;
    for (i = 0; i < file->module_count; i++) fuzz_module(file, &file->modules[i]);
    diti_lora_close(file);
    return 0;
}
