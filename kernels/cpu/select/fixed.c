/* Selections that do not look at the data: all visible blocks, or a block mask from a file. */
#include "cpu/select/select.h"

#include <string.h>

static sparge_status run_all(sparge_plan *plan)
{
    sparge_block_mask *mask = &cpu_plan_of(plan)->mask;
    const int64_t rows = (int64_t)mask->batch * mask->heads * mask->rows;
    for (int64_t i = 0; i < rows; i++)
        memset(mask->value + i * mask->cols, 1, (size_t)cpu_select_visible_cols(plan, i % mask->rows));
    return cpu_worklist_from_mask(plan);
}

const cpu_selector cpu_select_all = {cpu_select_take_mask, run_all};

/* The file is read when the plan is made; a run has nothing left to do but to list its blocks. A file with one batch or
 * head entry serves them all. */
static sparge_status plan_mask(sparge_plan *plan)
{
    sparge_error *error = &plan->context->error;
    sparge_status status = cpu_select_take_mask(plan);
    if (status != SPARGE_OK)
        return status;
    sparge_block_mask file;
    status = sparge_block_mask_read(&file, plan->recipe.mask.path, plan->recipe.block_q, plan->recipe.block_k, error);
    if (status != SPARGE_OK)
        return status;
    sparge_block_mask *mask = &cpu_plan_of(plan)->mask;
    status = sparge_block_mask_check(&file, &plan->problem, error);
    const int fills = status == SPARGE_OK && !plan->sizing;
    for (int64_t i = 0; fills && i < (int64_t)mask->batch * mask->heads * mask->rows; i++) {
        const int64_t row = i % mask->rows, bh = i / mask->rows;
        const int64_t batch = file.batch == 1 ? 0 : bh / mask->heads, head = file.heads == 1 ? 0 : bh % mask->heads;
        const uint8_t *from = file.value + ((batch * file.heads + head) * file.rows + row) * file.cols;
        /* Blocks without a visible pair are never computed, whatever the file says. */
        const int64_t visible = cpu_select_visible_cols(plan, row);
        for (int64_t col = 0; col < visible; col++)
            mask->value[i * mask->cols + col] = from[col] != 0;
    }
    sparge_block_mask_release(&file);
    return status;
}

const cpu_selector cpu_select_mask = {plan_mask, cpu_worklist_from_mask};
