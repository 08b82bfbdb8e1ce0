/* The order of the CTAs of CUDA's prepare kernel: each piece of each head is done once, and after the stats that it
 * waits for. Runs on the host and needs no GPU. */
extern "C" { /* which cmocka.h does not say itself */
#include "check.h"
}

#include <string.h>

#include "cuda/prepare/order.cuh"

using namespace sparge::prepare;

enum { HEADS = 13, PIECES = 6, KINDS = 5 };

static int32_t pieces_of_head(const prepare_schedule &s, kind what)
{
    switch (what) {
    case kind::k_stats:
        return s.k_stats;
    case kind::v_stats:
        return s.v_stats;
    case kind::q_tile:
        return s.q_slabs;
    case kind::k_tile:
        return s.k_slabs;
    default:
        return s.v_slabs;
    }
}

static void fail_at(const prepare_schedule &s, int32_t cta, const piece &p, const char *what)
{
    fail_msg(
        "%d heads in groups of %d, %d query heads each; %d K stats, %d V stats, %d Q, %d K and %d V tiles of a head: "
        "CTA %d, piece %d of head %u, kind %d: %s",
        s.heads, s.group_heads, s.q_heads_per_head, s.k_stats, s.v_stats, s.q_slabs, s.k_slabs, s.v_slabs, cta, p.index,
        p.head, static_cast<int>(p.what), what);
}

static void check_order(prepare_schedule s)
{
    uint8_t done[KINDS][2 * HEADS][PIECES];
    int32_t count[KINDS][2 * HEADS];
    memset(done, 0, sizeof done);
    memset(count, 0, sizeof count);
    s.cta_per_head = s.q_heads_per_head * s.q_slabs + s.k_stats + s.v_stats + s.k_slabs + s.v_slabs;
    /* As many CTAs as there are pieces: where none comes twice, none is missing. */
    for (int32_t cta = 0; cta < s.heads * s.cta_per_head; cta++) {
        const piece p = find_piece(s, static_cast<uint32_t>(cta));
        const int what = static_cast<int>(p.what);
        const int32_t heads = s.heads * (p.what == kind::q_tile ? s.q_heads_per_head : 1);
        if (p.head >= static_cast<uint32_t>(heads) || p.index < 0 || p.index >= pieces_of_head(s, p.what))
            fail_at(s, cta, p, "does not exist");
        if (done[what][p.head][p.index]++)
            fail_at(s, cta, p, "is done twice");
        count[what][p.head]++;
        if ((p.what == kind::k_tile && count[static_cast<int>(kind::k_stats)][p.head] < s.k_stats) ||
            (p.what == kind::v_tile && count[static_cast<int>(kind::v_stats)][p.head] < s.v_stats))
            fail_at(s, cta, p, "comes before stats that it waits for");
    }
}

/* Every size of the groups, with a last group of every size; more and fewer Q tiles than K tiles. */
static void every_piece_once(void **state)
{
    (void)state;
    for (int32_t heads = 1; heads <= HEADS; heads++)
        for (int32_t group = 1; group <= heads; group++)
            for (int32_t ratio = 1; ratio <= 2; ratio++)
                for (int32_t q = 1; q <= PIECES; q++)
                    for (int32_t k = 1; k <= PIECES; k++)
                        for (int32_t stats = 1; stats <= k; stats++)
                            for (int smooth = 0; smooth < 2; smooth++)
                                for (int fp8 = 0; fp8 < 2; fp8++)
                                    check_order({heads, ratio, group, smooth ? stats : 0, fp8 ? stats : 0, q, k,
                                                 fp8 ? k : 0, 0});
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_piece_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
