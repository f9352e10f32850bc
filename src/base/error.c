/* Results with their messages, and the log. A message is one line that names the culprit and what to do. */
#include "base/base.h"

static void diti_error_set(dit_error *err, dit_result result, VkResult vk, const char *format, va_list args) {
    if (!err) return;
    err->result = result;
    err->vk = vk;
    err->device = 0;
    vsnprintf(err->message, sizeof err->message, format, args);
    diti_show_text(err->message);
}

DIT_INTERNAL dit_result diti_fail(dit_error *err, dit_result result, const char *format, ...) {
    va_list args;
    va_start(args, format);
    diti_error_set(err, result, VK_SUCCESS, format, args);
    va_end(args);
    return result;
}

DIT_INTERNAL dit_result diti_fail_memory(dit_error *err, const char *format, ...) {
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return diti_fail(err, DIT_ERROR_OUT_OF_HOST_MEMORY, "no host memory for %s", what);
}

static dit_result diti_result_from_vk(VkResult vk) {
    switch (vk) {
    case VK_ERROR_OUT_OF_HOST_MEMORY: return DIT_ERROR_OUT_OF_HOST_MEMORY;
    case VK_ERROR_OUT_OF_DEVICE_MEMORY: return DIT_ERROR_OUT_OF_DEVICE_MEMORY;
    case VK_ERROR_DEVICE_LOST: return DIT_ERROR_DEVICE_LOST;
    default: return DIT_ERROR_VULKAN;
    }
}

DIT_INTERNAL dit_result diti_fail_vk(dit_error *err, VkResult vk, const char *format, ...) {
    dit_result result = diti_result_from_vk(vk);
    va_list args;
    va_start(args, format);
    diti_error_set(err, result, vk, format, args);
    va_end(args);
    return result;
}

DIT_INTERNAL void diti_log(const diti_env *env, diti_log_level level, const char *format, ...) {
    char message[512];
    va_list args;
    if (!env->logger.func || (int)level > env->logger.max_level) return;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    diti_show_text(message);
    env->logger.func((int)level, message, env->logger.user);
}

DIT_API const char *dit_result_string(dit_result r) {
    switch (r) {
    case DIT_OK: return "ok";
    case DIT_WORKING: return "working";
    case DIT_CANCELLED: return "cancelled";
    case DIT_ERROR_INVALID_ARGUMENT: return "invalid argument";
    case DIT_ERROR_OUT_OF_HOST_MEMORY: return "out of host memory";
    case DIT_ERROR_OUT_OF_DEVICE_MEMORY: return "out of device memory";
    case DIT_ERROR_DEVICE_LOST: return "device lost";
    case DIT_ERROR_UNSUPPORTED_DEVICE: return "unsupported device";
    case DIT_ERROR_UNSUPPORTED_MODEL: return "unsupported model";
    case DIT_ERROR_BAD_FILE: return "bad file";
    case DIT_ERROR_IO: return "input/output error";
    case DIT_ERROR_VULKAN: return "Vulkan error";
    case DIT_ERROR_NOT_FINITE: return "not a finite number";
    case DIT_ERROR_TRANSPORT: return "transport error";
    }
    return "unknown result";
}

DIT_API uint32_t dit_version(void) { return DIT_VERSION; }
