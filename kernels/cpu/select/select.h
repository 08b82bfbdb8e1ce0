/* Selection from the inside: one pair of functions per kind, and what several kinds share.
 *
 * plan: called once; takes all memory (mask, worklist, scratch), checks what only shows with the problem's data (a mask
 * file). run: fills mask and worklist and sets stats visible, qk, extra and basis; allocates nothing. */
#ifndef SPARGE_CPU_SELECT_H
#define SPARGE_CPU_SELECT_H

#include "cpu/cpu.h"

typedef struct cpu_selector {
    sparge_status (*plan)(sparge_plan *plan);
    sparge_status (*run)(sparge_plan *plan);
} cpu_selector;

extern const cpu_selector cpu_select_all;
extern const cpu_selector cpu_select_mask;
extern const cpu_selector cpu_select_meansim;
extern const cpu_selector cpu_select_pooled;
extern const cpu_selector cpu_select_vertical_slash;
extern const cpu_selector cpu_select_vertical_slash_grid;
extern const cpu_selector cpu_select_band;
extern const cpu_selector cpu_select_flex;
extern const cpu_selector cpu_select_sta;
extern const cpu_selector cpu_select_antidiagonal;

/* Takes plan->mask on the recipe's BQ x BK grid and a worklist that holds every visible block. */
sparge_status cpu_select_take_mask(sparge_plan *plan);

/* Takes per_thread bytes of scratch for each thread (rounded up to whole cache lines). */
sparge_status cpu_select_take_scratch(sparge_plan *plan, size_t per_thread);

/* The calling thread's scratch, inside an OpenMP region of cpu_threads() threads. */
void *cpu_select_scratch(const sparge_plan *plan);

/* Keys [begin, end) as segments cut at the multiples of block_k; returns their number, and writes them if out is not
 * NULL. */
int64_t cpu_select_cut(int64_t begin, int64_t end, int64_t block_k, cpu_segment *out);

/* Counts the pairs of the worklist into stats (basis PAIR): all visible ones, and those on the lists. */
void cpu_select_count_pairs(sparge_plan *plan);

/* a * b of values >= 0, or -1 if it does not fit in int64_t or a factor is -1. */
int64_t cpu_select_product(int64_t a, int64_t b);

/* Key blocks of width block_k that query block `row` sees: a prefix of all. */
int64_t cpu_select_visible_cols(const sparge_plan *plan, int64_t row);

#endif
