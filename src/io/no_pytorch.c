/* DIT_NO_PYTORCH: what stands in place of the reader of PyTorch files. It opens none, so nothing is there to check or
   to free. */
#include "io/io.h"

DIT_INTERNAL dit_result diti_zip_open(const diti_env *env, const diti_file *file, diti_zip *out, dit_error *err) {
    (void)env, (void)file;
    memset(out, 0, sizeof *out);
    return diti_fail(err, DIT_ERROR_UNSUPPORTED_MODEL, "this build was made without PyTorch files (DIT_NO_PYTORCH)");
}

DIT_INTERNAL dit_result diti_zip_check(const diti_env *env, const diti_file *file, const diti_zip_entry *entry,
                                       dit_error *err) {
    (void)env, (void)file, (void)entry, (void)err;
    return DIT_OK;
}

DIT_INTERNAL void diti_zip_free(const diti_env *env, diti_zip *zip) { (void)env, (void)zip; }

DIT_INTERNAL dit_result diti_pytorch_parse(diti_checkpoint *checkpoint, dit_error *err) {
    return diti_fail(
        err, DIT_ERROR_UNSUPPORTED_MODEL,
        "%s: this build was made without PyTorch files (DIT_NO_PYTORCH); convert the model to safetensors, or to GGUF with dit-convert",
        diti_checkpoint_name(checkpoint));
}
