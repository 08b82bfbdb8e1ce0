/* attend_int8_fp8.cuh: the rows of a consumer's thread, from scores to weights to sums. */
#ifndef SPARGE_SM90_INT8_FP8_ROWS_CUH
#define SPARGE_SM90_INT8_FP8_ROWS_CUH

#include "methods/recipe.h"
#include "int8_scores.cuh"
#include "packed_exp.cuh"

namespace sparge::sm90
{

/* P is 2^(score - m + p_exponent), m the row's reference, and at most 2^(p_exponent + p_headroom): then m is raised. */
constexpr float p_exponent = 6, p_headroom = 2.8f;

/* The exponent that references are adjusted to give a row's largest P: more as the row block goes on, since scores that pass
 * all before them get rare, and since weights that matter by being many may be the smaller the more they are. */
__device__ __forceinline__ float wanted_exponent(int turn)
{
    return turn < 64 ? 6 : turn < 128 ? 7 : 8;
}

/* Turns in front of which references are adjusted: when most of what a row's largest score will grow by has been seen, and
 * then now and again. */
constexpr int first_adjusted = 8;
__device__ __forceinline__ int next_adjusted(int turn)
{
    return turn == first_adjusted ? 32 : turn / 64 * 64 + 64;
}

constexpr float e4m3_most = 448, f16_most = 65504;

/* Turns that T adds up before O takes it over. Sums in f16 are cut off: eight turns add a hundredth to the error of O. */
template <exponential Form> constexpr int turns_of_t = Form == exponential::fast ? 8 : 4;

/* What a consumer's thread holds: rows `row` and row + 8 of S, O and T as wgmma lays them out. */
template <typename S, exponential Form, bool Lse> struct consumer_state {
    int32_t s[S::s_registers];
    float o[S::o_registers], quarter[2]; /* column D: a quarter of the sum of P, the first lane's of each four */
    uint32_t t[S::t_registers], p[2][S::p_words]; /* P of turn j is in p[j % 2] */
    float m[2], l[2];                             /* reference in log2 units; sum of P, of kernels that store the LSE */
    uint32_t moved;    /* references of the warp, so that O and T are still to be multiplied by alpha */
    uint32_t in_pairs; /* exponentials may be, at the warp's references */
    float alpha[2];    /* of its rows, if so */
    /* The thread's largest P since m was set: as word() has it, of packed turns alone; of the exact form the exponent's
     * bits. */
    uint32_t largest[2];

    __device__ __forceinline__ void clear()
    {
#pragma unroll
        for (int i = 0; i < S::o_registers; i++)
            o[i] = 0;
        clear_t();
        moved = in_pairs = 0;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            m[h] = -CUDART_INF_F;
            alpha[h] = 1;
            l[h] = quarter[h] = 0;
            largest[h] = none();
        }
    }

    __device__ __forceinline__ void clear_t()
    {
#pragma unroll
        for (int i = 0; i < S::t_registers; i++)
            t[i] = 0;
    }

    /* O += T. What is in T has been counted. */
    __device__ __forceinline__ void flush()
    {
#pragma unroll
        for (int i = 0; i < S::o_registers / 2; i++) {
            const float2 two = halves(t[i]);
            o[2 * i] += two.x;
            o[2 * i + 1] += two.y;
        }
#pragma unroll
        for (int h = 0; h < 2; h++)
            quarter[h] += halves(t[S::o_registers / 2 + h]).x;
    }

    static __device__ __forceinline__ float2 halves(uint32_t word)
    {
        __half2 pair;
        memcpy(&pair, &word, sizeof pair);
        return __half22float2(pair);
    }

    static __device__ __forceinline__ uint32_t none()
    {
        return Form == exponential::exact ? __float_as_uint(-CUDART_INF_F) : f16_ones;
    }

    /* The exponent of `largest`. */
    __device__ __forceinline__ float largest_exponent(int h) const
    {
        if constexpr (Form == exponential::exact)
            return __uint_as_float(largest[h]);
        else
            return packed_turn<Form, S::scales>::exponent_of(largest[h]);
    }

    /* New references for P that is made from now on. */
    __device__ __forceinline__ void set_references(const float (&to)[2])
    {
        moved = 1;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float factor = m[h] == to[h] ? 1 : exp2_approx(m[h] - to[h]); /* both may be -inf */
            m[h] = to[h];
            alpha[h] *= factor;
            l[h] *= factor;
            largest[h] = none();
        }
        if constexpr (Form != exponential::exact)
            in_pairs = packed_turn<Form, S::scales>::holds(m, p_exponent);
    }

    /* When the product that ran is done, and all warps of the group have waited for it: not where references are set, for the
     * wait is the group's. T must have been counted. */
    __device__ __forceinline__ void rescale()
    {
        scale_rows(o, alpha);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            quarter[h] *= alpha[h];
            alpha[h] = 1;
        }
        moved = 0;
    }

    /* If a turn's largest scores, top of the thread's own columns, have left references behind, raises all those of the warp
     * that are lower. The other warps of the group wait for the one that does: it must be rare. */
    __device__ __forceinline__ void raise(const float (&top)[2], float wanted)
    {
        if (!__any_sync(~0u, top[0] > m[0] + p_headroom || top[1] > m[1] + p_headroom))
            return;
        const float to[2] = {fmaxf(m[0], quad_max(top[0]) + p_exponent - wanted),
                             fmaxf(m[1], quad_max(top[1]) + p_exponent - wanted)};
        set_references(to);
    }

    /* Before the scores of a turn: raises references to where the largest P since the last time has the exponent `wanted`, and
     * lowers all by `lower`. */
    __device__ __forceinline__ void adjust(float wanted, float lower)
    {
        float to[2];
        bool any = false;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float by = fmaxf(quad_max(largest_exponent(h)) - wanted, -lower);
            any = any || by > 0.25f || lower != 0;
            to[h] = m[h] + by;
        }
        if (__any_sync(~0u, any))
            set_references(to);
    }

    /* Scores -> P. scale: to log2 units, of each tile, or of all. seen[t][h]: keys of tile t that row h sees. */
    template <bool Masked>
    __device__ __forceinline__ void softmax(uint32_t (&next_p)[S::p_words], const float (&scale)[S::scales],
                                            const int (&seen)[S::tiles][2], float wanted)
    {
        const int lane_key = thread_anew() % 4 * 2;
        float top[2];
        largest_scores<Masked>(s, scale, seen, lane_key, top);
        raise(top, wanted);
        float shift[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            shift[h] = p_exponent - (m[h] == -CUDART_INF_F ? 0 : m[h]);
            if constexpr (Form == exponential::exact)
                largest[h] = __float_as_uint(fmaxf(__uint_as_float(largest[h]), top[h] + shift[h]));
        }
        each_word([&](int word, int x, int h, int a) {
            float value[4];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int at = a + e % 2 + e / 2 * 4;
                value[e] = exp2_approx(fmaf(static_cast<float>(s[at]), scale[x % S::scales], shift[h]));
                if constexpr (Masked) /* a tiny scale could bring INT_MIN back to life */
                    value[e] = at / 4 % 8 * 8 + e % 2 + lane_key < seen[x][h] ? value[e] : 0;
                if constexpr (Lse)
                    l[h] += value[e];
            }
            next_p[word] = pack_e4m3(value[0], value[1], value[2], value[3]);
        });
    }

    /* The same in pairs, of a turn whose keys are all seen. False: a weight is too large. */
    __device__ __forceinline__ bool softmax(uint32_t (&next_p)[S::p_words], const packed_turn<Form, S::scales> &turn)
    {
        each_word([&](int word, int x, int h, int a) {
            const int32_t scores[4] = {s[a], s[a + 1], s[a + 4], s[a + 5]};
            next_p[word] = turn.word(x % S::scales, h, scores, largest[h]);
        });
        if (!turn.above(largest[0], largest[1]))
            return true;
#pragma unroll
        for (int h = 0; h < 2; h++)
            largest[h] = turn.bounded(largest[h]);
        return false;
    }

    /* Of P in e4m3, as words: of k step k, word h + 2 g is row h of the columns 2q, 2q + 1 of the eight keys 4k + 2g, and of
     * the next. f(word, its tile, row, its first score). */
    template <typename F> static __device__ __forceinline__ void each_word(F &&f)
    {
#pragma unroll
        for (int k = 0; k < S::p_words / 4; k++)
#pragma unroll
            for (int g = 0; g < 2; g++)
#pragma unroll
                for (int h = 0; h < 2; h++)
                    f(4 * k + h + 2 * g, k / 2, h, 4 * (4 * k + 2 * g) + 2 * h);
    }

    /* Could T not hold two more turns? The same in a warp. Column D, the first lane's of each four, has a quarter of the sum
     * of P, so |T| is at most four times V's largest of it; what two turns add at most must leave it finite. */
    __device__ __forceinline__ bool t_is_full() const
    {
        constexpr int most_quarter = 4000; /* between 2^11 and 2^12 */
        static_assert((4 * most_quarter + 2 * S::keys * e4m3_most) * SPARGE_FP8_V_MAX <= f16_most, "T overflows");
        const uint32_t largest = most_quarter / 2 - 1024 + (11 + 15 << 10); /* in f16 */
        return __any_sync(~0u, max(t[S::D / 4], t[S::D / 4 + 1]) > largest);
    }
};

} // namespace sparge::sm90

#endif
