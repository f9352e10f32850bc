/* The validation layers are on and their messages are counted: a wrong call must be seen, a right one must not. */
#include "vulkan_test.h"

static VkDevice make_device(VkInstance *instance) {
    VkApplicationInfo app = {VK_STRUCTURE_TYPE_APPLICATION_INFO, NULL, NULL, 0, NULL, 0, VK_API_VERSION_1_2};
    VkInstanceCreateInfo info = {VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, NULL, 0, &app, 0, NULL, 0, NULL};
    float priority = 1;
    VkDeviceQueueCreateInfo queue = {VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, NULL, 0, 0, 1, &priority};
    VkDeviceCreateInfo device_info = {VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, NULL, 0, 1, &queue, 0, NULL, 0, NULL, NULL};
    VkPhysicalDevice physical = NULL;
    VkDevice device = NULL;
    uint32_t count = 1;
    if (!CHECK(((PFN_vkCreateInstance)test_vulkan_function(NULL, "vkCreateInstance"))(&info, NULL, instance) == 0))
        return NULL;
    ((PFN_vkEnumeratePhysicalDevices)test_vulkan_function(*instance, "vkEnumeratePhysicalDevices"))(*instance, &count,
                                                                                                    &physical);
    if (!CHECK_MESSAGE(physical, "no Vulkan device: is VK_ICD_FILENAMES right?")) return NULL;
    CHECK(((PFN_vkCreateDevice)test_vulkan_function(*instance, "vkCreateDevice"))(physical, &device_info, NULL,
                                                                                  &device) == 0);
    return device;
}

/* Makes a buffer of this size and destroys it again; size 0 is against the specification. */
static void make_buffer(VkDeviceSize size) {
    VkInstance instance = NULL;
    VkBufferCreateInfo info = {VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                               NULL,
                               0,
                               size,
                               VK_BUFFER_USAGE_TRANSFER_SRC_BIT,
                               VK_SHARING_MODE_EXCLUSIVE,
                               0,
                               NULL};
    VkBuffer buffer = VK_NULL_HANDLE;
    VkDevice device = make_device(&instance);
    if (device) {
        ((PFN_vkCreateBuffer)test_vulkan_function(instance, "vkCreateBuffer"))(device, &info, NULL, &buffer);
        if (buffer) ((PFN_vkDestroyBuffer)test_vulkan_function(instance, "vkDestroyBuffer"))(device, buffer, NULL);
        ((PFN_vkDestroyDevice)test_vulkan_function(instance, "vkDestroyDevice"))(device, NULL);
    }
    if (instance) ((PFN_vkDestroyInstance)test_vulkan_function(instance, "vkDestroyInstance"))(instance, NULL);
}

static void wrong_call_is_seen(void) {
    test_vulkan_begin();
    make_buffer(0);
    CHECK_MESSAGE(test_layer_messages(0) > 0, "the layers did not object to a buffer of size 0");
    test_layer_clean();
}

int main(void) {
    wrong_call_is_seen();
    test_vulkan_begin();
    make_buffer(64);
    test_vulkan_end();
    return TEST_END("layers");
}
