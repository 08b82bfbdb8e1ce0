/* Contexts: one device of one backend, its stream, its memory and the text of its last error.
 *
 * A context may be used by one thread at a time. There is no global state; two contexts never share anything. */
#ifndef SPARGE_CONTEXT_H
#define SPARGE_CONTEXT_H

#include "sparge/generate.h"
#include "sparge/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sparge_context sparge_context;

typedef struct sparge_device_info {
    char backend[16]; /* "cpu", "cuda", "fake" */
    char name[128];   /* the product's name */
    char uuid[64];    /* GPU UUID; for a CPU the machine's name */
    char arch[64];    /* "sm_90", "x86-64 avx2", ... */
    char driver[64];  /* version of the device's driver, "580.159.04"; "" if there is none or it does not tell */
    char runtime[32]; /* version of the CUDA runtime in this build, "13.0"; "" elsewhere */
    int32_t units;    /* SMs, or the threads that will be used */
    uint64_t memory_bytes;
    uint64_t l2_bytes; /* last-level cache, 0 if unknown */
    char details[512]; /* more "key: value" lines for `info` */
} sparge_device_info;

size_t sparge_backend_count(void);
const char *sparge_backend_name(size_t index); /* NULL past the end; in order of preference */
const char *sparge_backend_summary(size_t index);
int sparge_backend_device_count(const char *backend); /* 0 if the backend is absent or has no device */

/* The backend that a context of this name would be on: the name itself, for "auto" the one chosen. NULL, with the reason
 * in *error, if there is none. */
const char *sparge_backend_choose(const char *backend, sparge_error *error);

/* backend: a name as above, or "auto": the first that has a device, "fake" excepted. threads: CPU threads, 0 = all. */
sparge_status sparge_context_create(const char *backend, int device, int threads, sparge_context **context,
                                    sparge_error *error);
void sparge_context_destroy(sparge_context *context); /* NULL is fine */

const char *sparge_error_string(const sparge_context *context); /* "" if nothing failed yet */
sparge_status sparge_device_get_info(sparge_context *context, sparge_device_info *info);

/* The same of a device that need have no context; also of one that none can be made on. Takes nothing on the device. */
sparge_status sparge_device_describe(const char *backend, int device, sparge_device_info *info, sparge_error *error);

/* Memory of the context's device: what can be taken now, and all there is. Both are UINT64_MAX where the backend computes
 * in the host's memory, of which the system tells. */
sparge_status sparge_device_get_memory(sparge_context *context, uint64_t *free_bytes, uint64_t *total_bytes);

/* Why a device's clocks may be lower than they could be. */
enum {
    SPARGE_SLOWDOWN_POWER_CAP = 0,    /* at its power limit */
    SPARGE_SLOWDOWN_SOFTWARE_THERMAL, /* near its temperature limit */
    SPARGE_SLOWDOWN_HARDWARE_THERMAL,
    SPARGE_SLOWDOWN_POWER_BRAKE, /* asked to by the machine's power supply */
    SPARGE_SLOWDOWNS
};

/* What a device tells of itself while it works; -1 is what it does not tell. energy_mj and slowed_ns count up since the driver
 * was loaded: differences are of what ran in between. */
typedef struct sparge_telemetry {
    int32_t sm_clock_mhz, memory_clock_mhz; /* now */
    int32_t temperature_c;
    int64_t power_mw, power_limit_mw; /* power: of NVIDIA GPUs from Ampere on an average of about a second */
    int64_t energy_mj;
    int64_t slowed_ns[SPARGE_SLOWDOWNS]; /* for which clocks were held down, by reason */
} sparge_telemetry;

/* SPARGE_ERROR_UNSUPPORTED, with the reason, if the device tells nothing at all; all fields are -1 then. */
sparge_status sparge_device_get_telemetry(sparge_context *context, sparge_telemetry *telemetry);

/* How a device is set up, and how many use it; -1 and "" is what it does not tell. */
typedef struct sparge_device_state {
    int32_t ecc, persistence, mig; /* 0 or 1: memory with error correction, driver kept loaded, partitioned */
    int32_t max_sm_clock_mhz;
    int32_t processes; /* that compute on it now, this one among them once it has a context there */
    char vbios[32];
    char pci[32]; /* "00000000:1b:00.0": domain, bus, device */
} sparge_device_state;

/* SPARGE_ERROR_UNSUPPORTED, with the reason, if the device tells nothing at all; all fields are unknown then. */
sparge_status sparge_device_get_state(sparge_context *context, sparge_device_state *state);

/* Backend memory. A successful allocation is aligned to 256 bytes. */
sparge_status sparge_alloc(sparge_context *context, size_t bytes, void **memory);
void sparge_free(sparge_context *context, void *memory); /* NULL is fine */
/* Both wait for the work that the context was given before, and return when the copy is done. */
sparge_status sparge_upload(sparge_context *context, void *memory, const void *host, size_t bytes);
sparge_status sparge_download(sparge_context *context, void *host, const void *memory, size_t bytes);
/* 0xff makes NaN of every floating dtype. */
sparge_status sparge_fill(sparge_context *context, void *memory, int byte, size_t bytes);

/* Fills a densely packed HND tensor (shape [B,H,L,D], F16, BF16 or F32; B and H at most 65536, D at most
 * SPARGE_MAX_HEAD_DIM) with the generator's numbers for `role`. */
sparge_status sparge_generate(sparge_context *context, const sparge_generator *generator, sparge_tensor_role role,
                              const sparge_tensor *tensor);

/* to[.., i, :] = from[.., source[i], :] for every token i. `source` is host memory, a permutation of the tokens.
 * Tensors of equal shape and 16- or 32-bit dtype, not overlapping. */
sparge_status sparge_permute_tokens(sparge_context *context, const sparge_tensor *from, const sparge_tensor *to,
                                    const int64_t *source);

/* Waits until all work of the context is done. */
sparge_status sparge_synchronize(sparge_context *context);

/* From sparge_hold on, the device does not begin what the context is given until sparge_release: launches queue up, and
 * the host's time for each launch stays out of what events measure. At most SPARGE_HOLD_RUNS plan runs and twice as many
 * events may be given in between (a device's queue is finite); a hold ends by itself after ten seconds. Backends that
 * run at once, on the host, have nothing to hold. */
enum { SPARGE_HOLD_RUNS = 64 };
sparge_status sparge_hold(sparge_context *context);
sparge_status sparge_release(sparge_context *context);

/* Time stamps on the context's stream: what the harness times with. The CPU's are taken from CLOCK_MONOTONIC_RAW. */
typedef struct sparge_event sparge_event;
sparge_status sparge_event_create(sparge_context *context, sparge_event **event);
void sparge_event_destroy(sparge_event *event);
sparge_status sparge_event_record(sparge_event *event);
/* Nanoseconds from `begin` to `end`; waits for both. */
sparge_status sparge_event_elapsed_ns(const sparge_event *begin, const sparge_event *end, int64_t *ns);

/* Exact attention in float64 of selected query rows, without any block structure: the reference of the error columns.
 * rows[n_rows] are query indices, used for every (batch, head); NULL means all, n_rows = Lq.
 * o: host memory, double[batch][heads_q][n_rows][head_dim]; lse: the same without head_dim, natural log, or NULL. */
sparge_status sparge_exact(sparge_context *context, const sparge_problem *problem, const sparge_tensor *q,
                           const sparge_tensor *k, const sparge_tensor *v, const int64_t *rows, int64_t n_rows,
                           double *o, double *lse);

#ifdef __cplusplus
}
#endif
#endif
