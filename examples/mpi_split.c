/* One picture, or clip, by several processes, on one machine or many, that MPI connects:
 *
 *     mpirun -n 2 mpi_split MODEL "a prompt" cfg2 [SIZE [STEPS [FRAMES]]] > picture.ppm
 *     mpicc -O2 -I. examples/mpi_split.c -o mpi_split -lm -ldl
 *
 * Every process (rank) has a device of its own and makes the same calls; rank 0 has the picture. MPI's own transfers
 * serve dit_transport; they go on while nobody waits for them. When a rank's device fails, the others make the picture;
 * a clip ends there. Its frames are written one after the other, each a picture.
 */
#define DIT_IMPLEMENTATION
#include "dit.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static void *send_bytes(uint32_t to, const void *data, size_t size, uint64_t tag, void *user) {
    MPI_Request *request = malloc(sizeof *request);
    (void)user;
    if (request && MPI_Isend(data, (int)size, MPI_BYTE, (int)to, (int)tag, MPI_COMM_WORLD, request) == MPI_SUCCESS)
        return request;
    free(request);
    return NULL;
}

static void *receive_bytes(uint32_t from, void *data, size_t size, uint64_t tag, void *user) {
    MPI_Request *request = malloc(sizeof *request);
    (void)user;
    if (request && MPI_Irecv(data, (int)size, MPI_BYTE, (int)from, (int)tag, MPI_COMM_WORLD, request) == MPI_SUCCESS)
        return request;
    free(request);
    return NULL;
}

static int poll_transfer(void *request, void *user) {
    int done = 0, result = MPI_Test(request, &done, MPI_STATUS_IGNORE);
    (void)user;
    if (done || result != MPI_SUCCESS) free(request);
    return result == MPI_SUCCESS ? done : -1;
}

/* Ranks of one machine share its devices. */
static void choose_device(char *out, size_t size) {
    MPI_Comm machine;
    uint32_t count = 0;
    int rank = 0;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    MPI_Comm_rank(machine, &rank);
    MPI_Comm_free(&machine);
    dit_device_list(NULL, &count, NULL);
    snprintf(out, size, "%u", count ? (unsigned)rank % count : 0);
}

static void write_picture(dit_job *job, uint32_t frame, int side, dit_error *err) {
    size_t i, size = (size_t)side * (size_t)side * 4;
    unsigned char *rgba = malloc(size);
    if (rgba && dit_job_read(job, DIT_READ_RGBA8, 0, frame, rgba, size, 0, err) == DIT_OK) {
        printf("P6 %d %d 255\n", side, side);
        for (i = 0; i < size; i += 4) fwrite(rgba + i, 1, 3, stdout);
    }
    free(rgba);
}

/* Rank 0 tells how far the run is. */
static void wait_for(dit_job *job, int rank, dit_error *err) {
    dit_status status = {0};
    uint32_t told = 0;
    while (dit_job_wait(job, 200000000) == DIT_WORKING) {
        dit_job_status(job, &status, NULL);
        if (rank == 0 && status.step > told) fprintf(stderr, "step %u of %u\n", status.step, status.step_count);
        told = status.step;
    }
    dit_job_status(job, NULL, err);
}

int main(int argc, char **argv) {
    dit_context_desc context_desc = {0};
    dit_model_desc model_desc = {0};
    dit_job_desc job_desc = {0};
    dit_context *context = NULL;
    dit_model *model = NULL;
    dit_job *job = NULL;
    dit_error err = {0};
    int rank = 0, ranks = 1, side = argc > 4 ? atoi(argv[4]) : 512, frames = argc > 6 ? atoi(argv[6]) : 0;
    uint32_t frame = 0;
    char device[16];
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 4) {
        if (rank == 0)
            fprintf(stderr, "usage: mpirun -n N mpi_split MODEL PROMPT SPLIT [SIZE [STEPS [FRAMES]]] > picture.ppm\n");
        MPI_Finalize();
        return 2;
    }
    choose_device(device, sizeof device);
    context_desc.devices = device;
    context_desc.transport.rank = (uint32_t)rank;
    context_desc.transport.rank_count = (uint32_t)ranks;
    context_desc.transport.send = send_bytes;
    context_desc.transport.receive = receive_bytes;
    context_desc.transport.poll = poll_transfer;
    model_desc.source.path = argv[1];
    dit_context_create(&context_desc, &context, &err);
    if (context) dit_model_load(context, &model_desc, &model, &err);

    job_desc.model = model;
    job_desc.prompt = argv[2];
    job_desc.split = ranks > 1 ? argv[3] : NULL;
    job_desc.resume_on_loss = ranks > 1 && !frames;
    job_desc.frame_count = (uint32_t)frames;
    job_desc.width = job_desc.height = (uint32_t)side;
    job_desc.steps = argc > 5 ? (uint32_t)atoi(argv[5]) : 0;
    if (model) dit_job_create(context, &job_desc, &job, &err);
    if (job) wait_for(job, rank, &err);
    do {
        if (job && err.result == DIT_OK && rank == 0) write_picture(job, frame, side, &err);
    } while (++frame < (uint32_t)frames);

    if (err.result < 0) {
        fprintf(stderr, "mpi_split, rank %d: %s\n", rank, err.message);
        if (rank == 0 || err.result != DIT_ERROR_DEVICE_LOST)
            MPI_Abort(MPI_COMM_WORLD, 1); /* others wait for this rank */
    }
    dit_job_destroy(job);
    dit_model_destroy(model);
    dit_context_destroy(context);
    MPI_Finalize();
    return 0;
}
