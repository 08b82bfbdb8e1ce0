/* NVTX ranges of the domain "sparge-bench", nested as run, point, visit, stage, so that nsys and ncu show the words of the
 * results. Nothing happens where no tool listens (NVTX_INJECTION64_PATH, or a process that nsys or ncu started), and in builds
 * without the CUDA toolkit, which has NVTX's header. */
#ifndef HARNESS_NVTX_H
#define HARNESS_NVTX_H

/* Begins a range of the calling thread; format as of printf, at most 255 characters of it. */
#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
void sb_nvtx_begin(const char *format, ...);

/* Ends the one that was begun last. */
void sb_nvtx_end(void);

#endif
