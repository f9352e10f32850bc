/* Calls the library that the package has; a device need not be there. It is C: C++ would link libm by itself. */
#include <dit.h>
#include <stdio.h>

int main(void) {
    const char *sampler = NULL, *schedule = NULL;
    printf("dit %u\n", (unsigned)dit_version());
    if (dit_version() != DIT_VERSION) return 1;
    return dit_find_sampler("DPM++ 2M Karras", &sampler, &schedule, NULL) == DIT_OK && sampler && schedule ? 0 : 1;
}
