/* The backend vtable (internal): what `cpu`, `cuda` and `fake` provide to everything above them.
 *
 * kernels/context.c and kernels/plan.c check arguments once, for every backend, and then call through here; a backend
 * may rely on checked arguments. All functions report through sparge_context_fail. */
#ifndef SPARGE_BACKEND_H
#define SPARGE_BACKEND_H

#include "methods/recipe.h"
#include "sparge/sparge.h"

typedef struct sparge_backend {
    const char *name;
    const char *summary;
    int hidden; /* non-zero: never chosen by "auto" */

    int (*device_count)(void);
    /* Of a device without a context; NULL: a context is made for it. *info is zero. */
    sparge_status (*describe)(int device, sparge_device_info *info, sparge_error *error);
    sparge_status (*open)(sparge_context *context); /* sets context->state */
    void (*close)(sparge_context *context);
    sparge_status (*info)(sparge_context *context, sparge_device_info *info);
    /* NULL for backends that compute in the host's memory. */
    sparge_status (*memory)(sparge_context *context, uint64_t *free_bytes, uint64_t *total_bytes);

    /* NULL for backends without any; *telemetry is all -1. */
    sparge_status (*telemetry)(sparge_context *context, sparge_telemetry *telemetry);
    /* The same; *state is all unknown. */
    sparge_status (*state)(sparge_context *context, sparge_device_state *state);

    sparge_status (*alloc)(sparge_context *context, size_t bytes, void **memory);
    void (*free)(sparge_context *context, void *memory);
    sparge_status (*upload)(sparge_context *context, void *memory, const void *host, size_t bytes);
    sparge_status (*download)(sparge_context *context, void *host, const void *memory, size_t bytes);
    sparge_status (*fill)(sparge_context *context, void *memory, int byte, size_t bytes);
    sparge_status (*generate)(sparge_context *context, const sparge_generator *generator, sparge_tensor_role role,
                              const sparge_tensor *tensor);
    sparge_status (*permute)(sparge_context *context, const sparge_tensor *from, const sparge_tensor *to,
                             const int64_t *source);
    sparge_status (*synchronize)(sparge_context *context);

    /* NULL for backends that run at once. release also ends a hold that never began. */
    sparge_status (*hold)(sparge_context *context);
    sparge_status (*release)(sparge_context *context);

    /* event->state is the backend's; event->context is set. */
    sparge_status (*event_create)(sparge_event *event);
    void (*event_destroy)(sparge_event *event);
    sparge_status (*event_record)(sparge_event *event);
    sparge_status (*event_elapsed)(const sparge_event *begin, const sparge_event *end, int64_t *ns);

    sparge_status (*exact)(sparge_context *context, const sparge_problem *problem, const sparge_tensor *q,
                           const sparge_tensor *k, const sparge_tensor *v, const int64_t *rows, int64_t n_rows,
                           double *o, double *lse);

    /* plan->recipe and plan->problem are set; sets plan->state and plan->workspace_bytes. With plan->sizing, only counts
     * workspace_bytes: it takes no device memory, touches no more of the host's than it must, and launches nothing; the
     * plan is destroyed without a run. */
    sparge_status (*plan_create)(sparge_plan *plan);
    void (*plan_destroy)(sparge_plan *plan);
    sparge_status (*plan_run)(sparge_plan *plan, int stages, const sparge_io *io);
    sparge_status (*plan_stats)(sparge_plan *plan, sparge_stats *stats); /* the counts; plan.c derives the ratios */
    sparge_status (*plan_block_mask)(sparge_plan *plan, sparge_block_mask *mask); /* mask is allocated and zero */
    sparge_status (*plan_pairs)(sparge_plan *plan, int32_t batch, int32_t head, uint8_t *kept);
    sparge_status (*plan_similarity)(sparge_plan *plan, double *sim_q, double *sim_k);
} sparge_backend;

struct sparge_context {
    const sparge_backend *backend;
    int device;
    int threads; /* requested CPU threads, 0 = all */
    void *state;
    sparge_error error; /* of the last failure */
};

struct sparge_event {
    sparge_context *context;
    void *state;
    int64_t ns;   /* for backends whose event is just a time stamp */
    int recorded; /* at least once; set by context.c */
};

struct sparge_plan {
    sparge_context *context;
    sparge_problem problem;
    sparge_recipe recipe;
    size_t workspace_bytes;
    int sizing;     /* non-zero: made to learn workspace_bytes alone */
    int stages_run; /* union of the stages that ran so far */
    void *state;
};

#ifdef __cplusplus
extern "C" {
#endif

extern const sparge_backend sparge_backend_cpu;
extern const sparge_backend sparge_backend_cuda; /* in builds with CUDA */
extern const sparge_backend sparge_backend_fake;

/* Formats into context->error and returns status. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
sparge_status
sparge_context_fail(sparge_context *context, sparge_status status, const char *format, ...);

#ifdef __cplusplus
}
#endif

#endif
