/* Float vectors of the instruction set this file is compiled for: VEC_LANES floats (`vec`), as many 32-bit integers
 * (`ivec`) and comparison results (`vmask`).
 *
 * Three implementations of the same small set of functions: AVX-512, AVX2 with FMA and F16C, and GCC's vector
 * extension (4 lanes: SSE2 on x86-64, NEON on aarch64). Everything built on top is written once. vec_fma is a fused
 * multiply-add where the instruction exists and a multiply and an add where it does not. */
#ifndef SPARGE_CPU_VECTOR_H
#define SPARGE_CPU_VECTOR_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)

#include <immintrin.h>

enum { VEC_LANES = 16 };
#define VEC_LANES_ARE_16 1
typedef __m512 vec;
typedef __m512i ivec;
typedef __mmask16 vmask;

static inline vec vec_set(float x)
{
    return _mm512_set1_ps(x);
}
static inline vec vec_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
static inline void vec_store(float *p, vec x)
{
    _mm512_storeu_ps(p, x);
}
static inline vec vec_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}
static inline vec vec_sub(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}
static inline vec vec_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}
static inline vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}
static inline vec vec_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}
static inline vmask vec_lt(vec a, vec b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
static inline vec vec_select(vmask m, vec a, vec b)
{
    return _mm512_mask_blend_ps(m, b, a);
}

static inline ivec ivec_set(int32_t x)
{
    return _mm512_set1_epi32(x);
}
static inline ivec ivec_load(const int32_t *p)
{
    return _mm512_loadu_si512(p);
}
static inline ivec ivec_add(ivec a, ivec b)
{
    return _mm512_add_epi32(a, b);
}
static inline ivec ivec_and(ivec a, ivec b)
{
    return _mm512_and_si512(a, b);
}
static inline ivec ivec_or(ivec a, ivec b)
{
    return _mm512_or_si512(a, b);
}
static inline ivec ivec_shl(ivec a, int n)
{
    return _mm512_slli_epi32(a, (unsigned)n);
}
static inline ivec ivec_shr(ivec a, int n)
{
    return _mm512_srli_epi32(a, (unsigned)n);
}
static inline vmask ivec_gt(ivec a, ivec b)
{
    return _mm512_cmpgt_epi32_mask(a, b);
}
static inline ivec ivec_select(vmask m, ivec a, ivec b)
{
    return _mm512_mask_blend_epi32(m, b, a);
}

static inline vmask mask_and(vmask a, vmask b)
{
    return (vmask)(a & b);
}
static inline vmask mask_or(vmask a, vmask b)
{
    return (vmask)(a | b);
}
static inline vmask mask_andnot(vmask a, vmask b)
{
    return (vmask)(a & ~b);
}

static inline ivec vec_bits(vec x)
{
    return _mm512_castps_si512(x);
}
static inline vec vec_from_bits(ivec x)
{
    return _mm512_castsi512_ps(x);
}
static inline vec vec_from_ivec(ivec x)
{
    return _mm512_cvtepi32_ps(x);
}

static inline ivec ivec_load_u16(const uint16_t *p)
{
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
static inline ivec ivec_load_u8(const uint8_t *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
static inline ivec ivec_load_i8(const int8_t *p)
{
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
static inline void ivec_store_u16(uint16_t *p, ivec x) /* values 0..65535 */
{
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16(x));
}

#define VEC_HAS_F16 1
static inline vec vec_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
/* The mask form, because GCC's plain one warns about its own -1 where it is a macro (without optimisation). */
static inline __m256i vec_f16_bits(vec x)
{
    return _mm512_maskz_cvtps_ph((__mmask16)0xffff, x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline void vec_store_f16(uint16_t *p, vec x)
{
    _mm256_storeu_si256((__m256i *)(void *)p, vec_f16_bits(x));
}
static inline vec vec_round_f16(vec x)
{
    return _mm512_cvtph_ps(vec_f16_bits(x));
}

#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

#include <immintrin.h>

enum { VEC_LANES = 8 };
#define VEC_LANES_ARE_16 0
typedef __m256 vec;
typedef __m256i ivec;
typedef __m256i vmask; /* all bits of a lane equal */

static inline vec vec_set(float x)
{
    return _mm256_set1_ps(x);
}
static inline vec vec_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
static inline void vec_store(float *p, vec x)
{
    _mm256_storeu_ps(p, x);
}
static inline vec vec_add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}
static inline vec vec_sub(vec a, vec b)
{
    return _mm256_sub_ps(a, b);
}
static inline vec vec_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}
static inline vec vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}
static inline vec vec_max(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}
static inline vmask vec_lt(vec a, vec b)
{
    return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
static inline vec vec_select(vmask m, vec a, vec b)
{
    return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(m));
}

static inline ivec ivec_set(int32_t x)
{
    return _mm256_set1_epi32(x);
}
static inline ivec ivec_load(const int32_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}
static inline ivec ivec_add(ivec a, ivec b)
{
    return _mm256_add_epi32(a, b);
}
static inline ivec ivec_and(ivec a, ivec b)
{
    return _mm256_and_si256(a, b);
}
static inline ivec ivec_or(ivec a, ivec b)
{
    return _mm256_or_si256(a, b);
}
static inline ivec ivec_shl(ivec a, int n)
{
    return _mm256_slli_epi32(a, n);
}
static inline ivec ivec_shr(ivec a, int n)
{
    return _mm256_srli_epi32(a, n);
}
static inline vmask ivec_gt(ivec a, ivec b)
{
    return _mm256_cmpgt_epi32(a, b);
}
static inline ivec ivec_select(vmask m, ivec a, ivec b)
{
    return _mm256_blendv_epi8(b, a, m);
}

static inline vmask mask_and(vmask a, vmask b)
{
    return _mm256_and_si256(a, b);
}
static inline vmask mask_or(vmask a, vmask b)
{
    return _mm256_or_si256(a, b);
}
static inline vmask mask_andnot(vmask a, vmask b)
{
    return _mm256_andnot_si256(b, a);
}

static inline ivec vec_bits(vec x)
{
    return _mm256_castps_si256(x);
}
static inline vec vec_from_bits(ivec x)
{
    return _mm256_castsi256_ps(x);
}
static inline vec vec_from_ivec(ivec x)
{
    return _mm256_cvtepi32_ps(x);
}

static inline ivec ivec_load_u16(const uint16_t *p)
{
    return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
static inline ivec ivec_load_u8(const uint8_t *p)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
}
static inline ivec ivec_load_i8(const int8_t *p)
{
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
}
static inline void ivec_store_u16(uint16_t *p, ivec x) /* values 0..65535 */
{
    const __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    _mm_storeu_si128((__m128i *)(void *)p, packed);
}

#define VEC_HAS_F16 1
static inline vec vec_load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
static inline void vec_store_f16(uint16_t *p, vec x)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
static inline vec vec_round_f16(vec x)
{
    return _mm256_cvtph_ps(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

#else

enum { VEC_LANES = 4 };
#define VEC_LANES_ARE_16 0
typedef float vec __attribute__((vector_size(16)));
typedef int32_t ivec __attribute__((vector_size(16)));
typedef uint32_t uvec __attribute__((vector_size(16)));
typedef ivec vmask; /* 0 or -1 per lane */

static inline vec vec_set(float x)
{
    return (vec){x, x, x, x};
}
static inline vec vec_load(const float *p)
{
    vec x;
    memcpy(&x, p, sizeof x);
    return x;
}
static inline void vec_store(float *p, vec x)
{
    memcpy(p, &x, sizeof x);
}
static inline ivec vec_bits(vec x)
{
    return (ivec)x;
}
static inline vec vec_from_bits(ivec x)
{
    return (vec)x;
}
static inline vec vec_select(vmask m, vec a, vec b)
{
    return (vec)((m & (ivec)a) | (~m & (ivec)b));
}
static inline vec vec_add(vec a, vec b)
{
    return a + b;
}
static inline vec vec_sub(vec a, vec b)
{
    return a - b;
}
static inline vec vec_mul(vec a, vec b)
{
    return a * b;
}
static inline vec vec_fma(vec a, vec b, vec c)
{
    return a * b + c;
}
static inline vmask vec_lt(vec a, vec b)
{
    return (vmask)(a < b);
}
static inline vec vec_max(vec a, vec b)
{
    return vec_select((vmask)(a > b), a, b);
} /* b if either is NaN */

static inline ivec ivec_set(int32_t x)
{
    return (ivec){x, x, x, x};
}
static inline ivec ivec_load(const int32_t *p)
{
    ivec x;
    memcpy(&x, p, sizeof x);
    return x;
}
static inline ivec ivec_add(ivec a, ivec b)
{
    return (ivec)((uvec)a + (uvec)b);
}
static inline ivec ivec_and(ivec a, ivec b)
{
    return a & b;
}
static inline ivec ivec_or(ivec a, ivec b)
{
    return a | b;
}
static inline ivec ivec_shl(ivec a, int n)
{
    return (ivec)((uvec)a << (uint32_t)n);
}
static inline ivec ivec_shr(ivec a, int n)
{
    return (ivec)((uvec)a >> (uint32_t)n);
}
static inline vmask ivec_gt(ivec a, ivec b)
{
    return (vmask)(a > b);
}
static inline ivec ivec_select(vmask m, ivec a, ivec b)
{
    return (m & a) | (~m & b);
}

static inline vmask mask_and(vmask a, vmask b)
{
    return a & b;
}
static inline vmask mask_or(vmask a, vmask b)
{
    return a | b;
}
static inline vmask mask_andnot(vmask a, vmask b)
{
    return a & ~b;
}

static inline vec vec_from_ivec(ivec x)
{
    return __builtin_convertvector(x, vec);
}

static inline ivec ivec_load_u16(const uint16_t *p)
{
    return (ivec){p[0], p[1], p[2], p[3]};
}
static inline ivec ivec_load_u8(const uint8_t *p)
{
    return (ivec){p[0], p[1], p[2], p[3]};
}
static inline ivec ivec_load_i8(const int8_t *p)
{
    return (ivec){p[0], p[1], p[2], p[3]};
}
static inline void ivec_store_u16(uint16_t *p, ivec x) /* values 0..65535 */
{
    for (int i = 0; i < VEC_LANES; i++)
        p[i] = (uint16_t)x[i];
}

#define VEC_HAS_F16 0

#endif

#endif
