/* Calls the library that the package has; a device need not be there. */
#include <dit.h>
#include <cstdio>

int main() {
    const char *sampler = nullptr, *schedule = nullptr;
    std::printf("dit %u\n", static_cast<unsigned>(dit_version()));
    if (dit_version() != DIT_VERSION) return 1;
    return dit_find_sampler("DPM++ 2M Karras", &sampler, &schedule, nullptr) == DIT_OK && sampler && schedule ? 0 : 1;
}
