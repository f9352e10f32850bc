/* The thread that makes pictures. It knows dit and nothing of Godot: nodes hand it requests and look at them in each
   frame. No function here waits for dit's work, but for worker_stop. */
#ifndef WORKER_H
#define WORKER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A model, loaded when the first request needs it, and freed when nobody holds it any more. */
typedef struct weights weights;

typedef struct model_options {
    const char *path;       /* of a file or of a diffusers folder */
    uint64_t weight_budget; /* bytes of weights on the device, the rest is streamed; 0: all of them stay there */
    bool release_encoders;  /* text encoders are there only while a prompt is encoded */
    bool int8;              /* linear layers of the transformer become int8 when it is loaded */
} model_options;

typedef struct wish { /* what a request asks for; strings are copied */
    const char *prompt, *negative_prompt;
    uint64_t seed;
    uint32_t width, height, steps; /* 0: the model's own */
    float guidance;                /* 0: the model's own */
    uint32_t preview_interval;     /* steps from preview to preview; 0: none */
} wish;

typedef enum state { STATE_WAITING, STATE_RUNNING, STATE_FINISHED, STATE_FAILED } state;

typedef struct request request;

typedef struct report { /* how a request is at the moment */
    state state;
    float fraction;         /* 0 to 1 of the picture */
    uint32_t width, height; /* of rgba */
    unsigned char *rgba;    /* a new preview, or the picture; NULL: nothing new. Freed with free by who takes it */
    char message[512];      /* why it failed */
} report;

/* Where dit works. Godot's objects are there when its renderer is on Vulkan; worker_start copies it. */
typedef struct place {
    void *instance;        /* VkInstance of Godot's; NULL: its renderer is none of Vulkan's */
    void *physical_device; /* VkPhysicalDevice, on which dit makes a device of its own */
    void *device;          /* VkDevice; NULL: not asked for */
    void *queue;           /* Godot's main queue, which others must leave alone */
    uint32_t queue_family; /* of queue */
    uint32_t slice_us;     /* longest piece of work on the device */
} place;

typedef struct worker worker;

worker *worker_start(const place *at);
/* Cancels everything and ends the thread, within one slice or the compilation of one kernel. Requests and weights that
   others still hold stay valid. NULL: nothing. */
void worker_stop(worker *w);
/* The newest line about the device, once; false: there is none. */
bool worker_note(worker *w, char *line, size_t size);

weights *weights_new(worker *w, const model_options *options);
void weights_release(weights *m);

/* NULL: no memory. The request holds m until it has ended. */
request *request_new(weights *m, const wish *what);
void request_look(request *r, report *out);
void request_cancel(request *r);  /* it fails with "cancelled", unless it has ended */
void request_release(request *r); /* and cancels it */

/* device.c: a device for dit at a place, and the line that tells which. */
struct dit_vulkan;
typedef struct own_device own_device;
bool own_device_open(own_device **out, const place *at, struct dit_vulkan *vulkan, char *note, size_t note_size,
                     char *message, size_t message_size);
void own_device_close(own_device *d);
#endif
