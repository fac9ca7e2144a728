/* == nearest == */
/* The integer nearest to v, halves to even, of |v| < 2^22: the last bit of the sum is worth 1. */
static int nearest(float v) {
  union { float number; int32_t bits; } sum;
  sum.number = v + 12582912.0f;
  return (int)(sum.bits - 0x4b400000);
}

/* == ints : vector == */
#if defined(__GNUC__)
#define HELPER static inline __attribute__((unused)) /* not every program needs it */
#else
#define HELPER static
#endif
/* Four bytes in a row. */
HELPER int32_t quad(const uint8_t *p) {
  int32_t v;
  memcpy(&v, p, 4);
  return v;
}
/* Vectors of LANES ints, as floats and as bytes. */
#if LANES == 8
typedef __m256i Ints;
#define ints_at(p) _mm256_loadu_si256((const __m256i *)(p))
#define keep_ints(p, v) _mm256_storeu_si256((__m256i *)(p), v)
#define every_int(s) _mm256_set1_epi32(s)
#define add_ints(a, b) _mm256_add_epi32(a, b)
#define floats_of(v) _mm256_cvtepi32_ps(v)
#define bits_of(v) _mm256_castps_si256(v)
#define times(a, b) _mm256_mul_ps(a, b)
#define over(a, b) _mm256_div_ps(a, b)
#define bytes_at(p) _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(p)))
HELPER void keep_bytes(uint8_t *p, Ints v) {
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(words, words));
}
#elif LANES == 4
#if defined(__SSE2__)
typedef __m128i Ints;
#define ints_at(p) _mm_loadu_si128((const __m128i *)(p))
#define keep_ints(p, v) _mm_storeu_si128((__m128i *)(p), v)
#define every_int(s) _mm_set1_epi32(s)
#define add_ints(a, b) _mm_add_epi32(a, b)
#define floats_of(v) _mm_cvtepi32_ps(v)
#define bits_of(v) _mm_castps_si128(v)
#define times(a, b) _mm_mul_ps(a, b)
#define over(a, b) _mm_div_ps(a, b)
HELPER Ints bytes_at(const uint8_t *p) {
  const __m128i zero = _mm_setzero_si128();
  return _mm_unpacklo_epi16(_mm_unpacklo_epi8(_mm_cvtsi32_si128(quad(p)), zero), zero);
}
HELPER void keep_bytes(uint8_t *p, Ints v) {
  const __m128i words = _mm_packs_epi32(v, v);
  const int32_t four = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
  memcpy(p, &four, 4);
}
#elif defined(__ARM_NEON)
typedef int32x4_t Ints;
#define ints_at(p) vld1q_s32(p)
#define keep_ints(p, v) vst1q_s32(p, v)
#define every_int(s) vdupq_n_s32(s)
#define add_ints(a, b) vaddq_s32(a, b)
#define floats_of(v) vcvtq_f32_s32(v)
#define bits_of(v) vreinterpretq_s32_f32(v)
#define times(a, b) vmulq_f32(a, b)
#define over(a, b) ((a) / (b))
HELPER Ints bytes_at(const uint8_t *p) {
  return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_s32(vdup_n_s32(quad(p)))))));
}
HELPER void keep_bytes(uint8_t *p, Ints v) {
  const int16x4_t words = vqmovn_s32(v);
  const int32_t four = vget_lane_s32(vreinterpret_s32_u8(vqmovun_s16(vcombine_s16(words, words))), 0);
  memcpy(p, &four, 4);
}
#else
typedef v128_t Ints;
#define ints_at(p) wasm_v128_load(p)
#define keep_ints(p, v) wasm_v128_store(p, v)
#define every_int(s) wasm_i32x4_splat(s)
#define add_ints(a, b) wasm_i32x4_add(a, b)
#define floats_of(v) wasm_f32x4_convert_i32x4(v)
#define bits_of(v) (v)
#define times(a, b) wasm_f32x4_mul(a, b)
#define over(a, b) wasm_f32x4_div(a, b)
HELPER Ints bytes_at(const uint8_t *p) {
  return wasm_u32x4_extend_low_u16x8(wasm_u16x8_extend_low_u8x16(wasm_i32x4_splat(quad(p))));
}
HELPER void keep_bytes(uint8_t *p, Ints v) {
  const v128_t words = wasm_i16x8_narrow_i32x4(v, v);
  const int32_t four = wasm_i32x4_extract_lane(wasm_u8x16_narrow_i16x8(words, words), 0);
  memcpy(p, &four, 4);
}
#endif
#endif
#if LANES > 1
/* `nearest`, and a zero point */
#define all_rounded(v, zero) add_ints(bits_of(plus(v, every(12582912.0f))), every_int((zero) - 0x4b400000))
#endif
/* == then : nearest ints == */
/* How a sum of products of bytes becomes a byte, or a float: scaled, added to a residual, rounded half to even, clamped;
   hardswish where after is not 0. Each number is rounded where the runtime rounds it, so no product may be fused with a
   sum here. */
typedef struct {
  int zero, residual_zero;
  float residual_scale, low, high, after;
} Then;

static float finished(float v, const Then *t) {
  if (t->after != 0) {
    float gate = v * (1.0f / 6.0f);
    gate = gate + 0.5f;
    gate = gate > 0 ? gate : 0;
    gate = gate < 1 ? gate : 1;
    v = v * gate;
    v = v * t->after;
  }
  v = v > t->low ? v : t->low;
  return v < t->high ? v : t->high;
}
#if LANES > 1
/* (x - zero) scale */
#define all_less(x, zero, scale) times(floats_of(add_ints(bytes_at(x), every_int(-(zero)))), every(scale))
HELPER Floats all_finished(Floats v, const Then *t) {
  if (t->after != 0) {
    Floats gate = plus(times(v, every(1.0f / 6.0f)), every(0.5f));
    gate = between(gate, every(0.0f), every(1.0f));
    v = times(times(v, gate), every(t->after));
  }
  return between(v, every(t->low), every(t->high));
}
#endif

/* == leave_sums : then == */
#if LANES > 1
COPIED void leave_some(uint8_t *y, float *wide, Ints sum, const float *scale, const uint8_t *residual, const Then *t) {
  Floats v = times(floats_of(sum), load(scale));
  if (residual) v = plus(v, all_less(residual, t->residual_zero, t->residual_scale));
  v = all_finished(v, t);
  if (y) keep_bytes(y, all_rounded(v, t->zero));
  else store(wide, v);
}
#endif
/* y, or wide, = what follows of n sums + b */
static void leave_sums(uint8_t *y, float *wide, const int32_t *sums, const int32_t *b, const float *scale, const uint8_t *residual, int n, const Then *t) {
  int i = 0;
#if LANES > 1
  for (; i + LANES <= n; i += LANES)
    leave_some(y ? y + i : 0, y ? 0 : wide + i, add_ints(ints_at(sums + i), ints_at(b + i)), scale + i, residual ? residual + i : 0, t);
#endif
  for (; i < n; i++) {
    float v = (float)(sums[i] + b[i]) * scale[i];
    if (residual) {
      const float more = (float)(residual[i] - t->residual_zero) * t->residual_scale;
      v = v + more;
    }
    v = finished(v, t);
    if (y) y[i] = (uint8_t)(nearest(v) + t->zero);
    else wide[i] = v;
  }
}

/* == dots : ints == */
/* Sums in 32 bits of products of bytes with weights of 8 bits. A lane of `dot` takes two inputs, of 16 bits, or four bytes
   where there is an instruction for these: then PARTS is 1, elsewhere those of four at even and those at odd places are two
   parts. `pair_dot` takes two everywhere. */
#if LANES == 8
#define pairs_at(p, q) _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(_mm_loadl_epi64((const __m128i *)(p)), _mm_loadl_epi64((const __m128i *)(q))))
#define pair_weights(p) _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(p)))
#if defined(__AVXVNNI__)
#define QROWS 6
#define PARTS 1
#define dot(sum, a, b) _mm256_dpbusd_avx_epi32(sum, a, b)
#define pair_dot(sum, a, b) _mm256_dpwssd_avx_epi32(sum, a, b)
#elif defined(__AVX512VNNI__) && defined(__AVX512VL__)
#define QROWS 6
#define PARTS 1
#define dot(sum, a, b) _mm256_dpbusd_epi32(sum, a, b)
#define pair_dot(sum, a, b) _mm256_dpwssd_epi32(sum, a, b)
#else
#define QROWS 4
#define PARTS 2
#define dot(sum, a, b) _mm256_add_epi32(sum, _mm256_madd_epi16(a, b))
#define inputs_of(v, odd) ((odd) ? _mm256_srli_epi16(v, 8) : _mm256_and_si256(v, _mm256_set1_epi16(255)))
#define weights_of(v, odd) _mm256_srai_epi16((odd) ? v : _mm256_slli_epi16(v, 8), 8)
#endif
#elif LANES == 4 && defined(__SSE2__)
#define QROWS 4
#define PARTS 2
#define dot(sum, a, b) _mm_add_epi32(sum, _mm_madd_epi16(a, b))
#define inputs_of(v, odd) ((odd) ? _mm_srli_epi16(v, 8) : _mm_and_si128(v, _mm_set1_epi16(255)))
#define weights_of(v, odd) _mm_srai_epi16((odd) ? v : _mm_slli_epi16(v, 8), 8)
#define pairs_at(p, q) _mm_unpacklo_epi8(_mm_unpacklo_epi8(_mm_cvtsi32_si128(quad(p)), _mm_cvtsi32_si128(quad(q))), _mm_setzero_si128())
HELPER Ints pair_weights(const int8_t *p) {
  const Ints v = _mm_loadl_epi64((const __m128i *)p);
  return _mm_srai_epi16(_mm_unpacklo_epi8(v, v), 8);
}
#elif LANES == 4 && defined(__ARM_NEON)
#if defined(__aarch64__)
#define QROWS 4
#define ints_of(s) vpaddq_s32((s).low, (s).high)
#else
#define QROWS 2
#define both(v) vpadd_s32(vget_low_s32(v), vget_high_s32(v))
#define ints_of(s) vcombine_s32(both((s).low), both((s).high))
#endif
#define PARTS 2
typedef struct {
  int32x4_t low, high; /* two sums for each output */
} Sums;
HELPER Sums no_sums(void) {
  const Sums s = {vdupq_n_s32(0), vdupq_n_s32(0)};
  return s;
}
HELPER Sums dot(Sums s, Ints a, Ints b) {
  const int16x8_t x = vreinterpretq_s16_s32(a), w = vreinterpretq_s16_s32(b);
  s.low = vmlal_s16(s.low, vget_low_s16(x), vget_low_s16(w));
  s.high = vmlal_s16(s.high, vget_high_s16(x), vget_high_s16(w));
  return s;
}
HELPER Ints inputs_of(Ints v, int odd) {
  const uint16x8_t u = vreinterpretq_u16_s32(v);
  return vreinterpretq_s32_u16(odd ? vshrq_n_u16(u, 8) : vandq_u16(u, vdupq_n_u16(255)));
}
HELPER Ints weights_of(Ints v, int odd) {
  const int16x8_t s = vreinterpretq_s16_s32(v);
  return vreinterpretq_s32_s16(vshrq_n_s16(odd ? s : vshlq_n_s16(s, 8), 8));
}
HELPER Ints pairs_at(const uint8_t *p, const uint8_t *q) {
  const uint8x8_t a = vreinterpret_u8_s32(vdup_n_s32(quad(p))), b = vreinterpret_u8_s32(vdup_n_s32(quad(q)));
  return vreinterpretq_s32_u16(vmovl_u8(vzip_u8(a, b).val[0]));
}
#define pair_weights(p) vreinterpretq_s32_s16(vmovl_s8(vld1_s8(p)))
#define weights_at(p) vreinterpretq_s32_s8(vld1q_s8(p))
#elif LANES == 4
#define QROWS 4
#define PARTS 2
#define dot(sum, a, b) wasm_i32x4_add(sum, wasm_i32x4_dot_i16x8(a, b))
#define inputs_of(v, odd) ((odd) ? wasm_u16x8_shr(v, 8) : wasm_v128_and(v, wasm_i16x8_splat(255)))
#define weights_of(v, odd) wasm_i16x8_shr((odd) ? v : wasm_i16x8_shl(v, 8), 8)
#define pair_weights(p) wasm_i16x8_load8x8(p)
HELPER Ints pairs_at(const uint8_t *p, const uint8_t *q) {
  const Ints a = wasm_i32x4_splat(quad(p)), b = wasm_i32x4_splat(quad(q));
  return wasm_u16x8_extend_low_u8x16(wasm_i8x16_shuffle(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 0, 16, 1, 17, 2, 18, 3, 19));
}
#else
#define QROWS 2
#endif
#if PARTS == 1
#define inputs_of(v, odd) (v)
#define weights_of(v, odd) (v)
#else
#define pair_dot(sum, a, b) dot(sum, a, b)
#endif
#if LANES > 1 && !defined(weights_at)
#define weights_at(p) ints_at(p)
#endif
#if LANES > 1 && !defined(ints_of)
typedef Ints Sums;
#define no_sums() every_int(0)
#define ints_of(s) (s)
#endif

/* == qconv : dots inside leave_sums == */
/* y, or wide, = a convolution of bytes. w [outputs / PANEL][kernel_h][kernel_w * inputs / 4][PANEL][4], zeros behind the last
   input of a row of taps. */

/* Where the bytes under a window lie: kernel_h rows of kernel_w * inputs. */
typedef struct {
  const uint8_t *first;
  long step;
} Cells;

#if LANES > 1
/* The first n of four bytes. */
static int32_t some(const uint8_t *p, int n) {
  uint32_t v = p[0];
  if (n > 1) v |= (uint32_t)p[1] << 8;
  if (n > 2) v |= (uint32_t)p[2] << 16;
  return (int32_t)v;
}

#define FOURS(R, V, four) \
  { \
    Ints weight[V][PARTS]; \
    for (int v = 0; v < V; v++) { \
      const Ints all = weights_at(w + v * LANES / PANEL * panel + v * LANES % PANEL * 4); \
      for (int k = 0; k < PARTS; k++) weight[v][k] = weights_of(all, k); \
    } \
    for (int r = 0; r < R; r++) { \
      const Ints all = every_int(four); \
      for (int k = 0; k < PARTS; k++) { \
        const Ints input = inputs_of(all, k); \
        for (int v = 0; v < V; v++) sum[r][v] = dot(sum[r][v], input, weight[v][k]); \
      } \
    } \
    w += 4 * PANEL; \
  }
/* What follows of the sums of R pixels and V vectors of outputs, `rows` pixels and `outputs` of them. */
#define QTILE(name, R, V) \
  static void name(uint8_t *y, float *wide, const Cells *x, const int8_t *w, const int32_t *b, const float *scale, const uint8_t *residual, int rows, int outputs, long panel, const Window *g, const Then *t) { \
    Sums sum[R][V]; \
    const int n = g->kernel_w * g->inputs; \
    for (int r = 0; r < R; r++) \
      for (int v = 0; v < V; v++) sum[r][v] = no_sums(); \
    for (int h = 0; h < g->kernel_h; h++) { \
      const uint8_t *from[R]; \
      int i = 0; \
      for (int r = 0; r < R; r++) from[r] = x[r].first + h * x[r].step; \
      for (; i + 4 <= n; i += 4) FOURS(R, V, quad(from[r] + i)) \
      if (i < n) FOURS(R, V, some(from[r] + i, n - i)) \
    } \
    const Then own = *t; /* no byte that is written may change it */ \
    for (int r = 0; r < R; r++) { \
      if (r >= rows) break; \
      const long to = (long)r * g->out_channels; \
      if (outputs == V * LANES) { \
        for (int v = 0; v < V; v++) \
          leave_some(y ? y + to + v * LANES : 0, y ? 0 : wide + to + v * LANES, add_ints(ints_of(sum[r][v]), ints_at(b + v * LANES)), scale + v * LANES, residual ? residual + to + v * LANES : 0, &own); \
      } else { \
        int32_t sums[V * LANES]; \
        for (int v = 0; v < V; v++) keep_ints(sums + v * LANES, ints_of(sum[r][v])); \
        leave_sums(y ? y + to : 0, y ? 0 : wide + to, sums, b, scale, residual ? residual + to : 0, outputs, &own); \
      } \
    } \
  }
QTILE(qtile_wide, QROWS, WIDE)
QTILE(qtile_narrow, QROWS, NARROW)
QTILE(qtile_long, 1, LONG)
QTILE(qtile_short, 1, NARROW)
#else
#if defined(__ARM_FEATURE_DSP)
#include <arm_acle.h>
/* As CMSIS-NN has it: two products of 16 bits and their sums in one instruction, of bytes at even and at odd places. */
#define FOUR(sum, x, weights) sum = __smlad(x##_odd, weights##_odd, __smlad(x##_even, weights##_even, sum));
#define INPUTS(x, p) \
  const uint32_t x = (uint32_t)quad(p), x##_even = __uxtb16(x), x##_odd = __uxtb16(x >> 8);
#define WEIGHTS_OF(x, p) \
  const uint32_t x = (uint32_t)quad((const uint8_t *)(p)), x##_even = (uint32_t)__sxtb16(x), x##_odd = (uint32_t)__sxtb16(x >> 8);
#else
#define FOUR(sum, x, weights) sum += x[0] * weights[0] + x[1] * weights[1] + x[2] * weights[2] + x[3] * weights[3];
#define INPUTS(x, p) const uint8_t *x = p;
#define WEIGHTS_OF(x, p) const int8_t *x = p;
#endif

#define BOTH_WEIGHTS \
  WEIGHTS_OF(left, from) \
  WEIGHTS_OF(right, from + 4)
#define ONE(x, u, v) \
  INPUTS(x, x##_at + i) \
  FOUR(u, x, left) \
  FOUR(v, x, right)
#define ALONE(x, u, v) \
  u += x##_at[i] * from[0]; \
  v += x##_at[i] * from[4];
/* sums [2][PANEL] += the products of n inputs of two pixels; of the first alone where both are the same */
static void qrun(int32_t *sums, const uint8_t *p_at, const uint8_t *q_at, const int8_t *w, int n) {
  for (int k = 0; k < PANEL; k += 2, w += 8) { /* two outputs at a time: as many sums as registers hold */
    int32_t a = sums[k], b = sums[k + 1], c = 0, d = 0;
    const int8_t *from = w;
    int i = 0;
    if (p_at == q_at) {
      for (; i + 4 <= n; i += 4, from += 4 * PANEL) { BOTH_WEIGHTS ONE(p, a, b) }
      for (; i < n; i++, from++) { ALONE(p, a, b) }
    } else {
      for (; i + 4 <= n; i += 4, from += 4 * PANEL) { BOTH_WEIGHTS ONE(p, a, b) ONE(q, c, d) }
      for (; i < n; i++, from++) { ALONE(p, a, b) ALONE(q, c, d) }
    }
    sums[k] = a;
    sums[k + 1] = b;
    sums[PANEL + k] += c;
    sums[PANEL + k + 1] += d;
  }
}

static void qtile(uint8_t *y, float *wide, const Cells *x, const int8_t *w, const int32_t *b, const float *scale, const uint8_t *residual, int rows, int outputs, long panel, const Window *g, const Then *t) {
  const int n = g->kernel_w * g->inputs;
  int32_t sums[QROWS * PANEL];
  memset(sums, 0, sizeof sums);
  for (int h = 0; h < g->kernel_h; h++)
    qrun(sums, x[0].first + h * x[0].step, x[1].first + h * x[1].step, w + panel / g->kernel_h * h, n);
  for (int r = 0; r < rows; r++) {
    const long to = (long)r * g->out_channels;
    leave_sums(y ? y + to : 0, y ? 0 : wide + to, sums + r * PANEL, b, scale, residual ? residual + to : 0, outputs, t);
  }
}
#endif

/* A copy of the bytes under a window; those outside of the image are zero. */
static void gather(uint8_t *to, const uint8_t *image, int top, int left, int zero, long step, const Window *g) {
  for (int h = 0; h < g->kernel_h; h++, to += step)
    for (int k = 0; k < g->kernel_w; k++) {
      const int i = top + h * g->dilation_h, j = left + k * g->dilation_w;
      const int real = i >= 0 && i < g->height && j >= 0 && j < g->width;
      if (real) memcpy(to + k * g->inputs, image + ((long)i * g->width + j) * g->channels, (size_t)g->inputs);
      else memset(to + k * g->inputs, zero, (size_t)g->inputs);
    }
}

/* y, or wide, = conv(x, w) + b and what follows, of one group. Cells outside of the image are the zero point of x; room
   [QROWS][kernel_h][kernel_w * inputs] is for windows whose bytes do not lie in rows. */
static void qconv(uint8_t *y, float *wide, const uint8_t *x, const int8_t *w, const int32_t *b, const float *scale, const uint8_t *residual, uint8_t *room, int x_zero, const Window *g, const Then *t) {
  const int pixels = g->images * g->out_height * g->out_width, many = pixels > 1 ? QROWS : 1;
  const long n = (long)g->kernel_w * g->inputs, panel = g->kernel_h * ((n + 3) / 4 * 4) * PANEL, row = (long)g->width * g->channels;
  const int joined = g->kernel_w == 1 || (g->dilation_w == 1 && g->channels == g->inputs);
  int top = -g->pad_h, column = 0, line = 0;
  for (int first = 0; first < pixels; first += many) {
    const int rows = pixels - first < many ? pixels - first : many;
    Cells cells[QROWS];
    for (int r = 0; r < QROWS; r++) {
      if (r >= rows) {
        cells[r] = cells[rows - 1];
        continue;
      }
      const int left = column * g->stride_w - g->pad_w;
      if (joined && inside(g, top, left)) {
        cells[r].first = x + top * row + (long)left * g->channels;
        cells[r].step = g->dilation_h * row;
      } else {
        uint8_t *own = room + r * g->kernel_h * n;
        gather(own, x, top, left, x_zero, n, g);
        cells[r].first = own;
        cells[r].step = n;
      }
      if (++column < g->out_width) continue;
      column = 0;
      top += g->stride_h;
      if (++line < g->out_height) continue;
      line = 0;
      top = -g->pad_h;
      x += g->height * row;
    }
    for (int o = 0, step; o < g->outputs; o += step) {
      const long to = (long)first * g->out_channels + o;
      uint8_t *into = y ? y + to : 0;
      float *floats = y ? 0 : wide + to;
      const uint8_t *more = residual ? residual + to : 0;
      const int8_t *from = w + o / PANEL * panel;
#if LANES > 1
      const int most = many > 1 ? WIDE : LONG, fits = (g->outputs - o + PANEL - 1) / PANEL * PANEL >= most * LANES;
      step = fits ? most * LANES : PANEL;
      const int left = g->outputs - o < step ? g->outputs - o : step;
      if (many > 1 && fits) qtile_wide(into, floats, cells, from, b + o, scale + o, more, rows, left, panel, g, t);
      else if (many > 1) qtile_narrow(into, floats, cells, from, b + o, scale + o, more, rows, left, panel, g, t);
      else if (fits) qtile_long(into, floats, cells, from, b + o, scale + o, more, rows, left, panel, g, t);
      else qtile_short(into, floats, cells, from, b + o, scale + o, more, rows, left, panel, g, t);
#else
      step = PANEL;
      qtile(into, floats, cells, from, b + o, scale + o, more, rows, g->outputs - o < step ? g->outputs - o : step, panel, g, t);
#endif
    }
  }
}

/* == qdepthwise : dots inside leave_sums == */
#define QCHANNELS(V) \
  for (; c + V * LANES <= channels; c += V * LANES) { \
    Sums sum[V]; \
    for (int v = 0; v < V; v++) sum[v] = no_sums(); \
    for (int k = 0; k < taps; k += 2) \
      for (int v = 0; v < V; v++) { \
        const Ints pair = pairs_at(from[k] + c + v * LANES, from[k + 1] + c + v * LANES); \
        sum[v] = pair_dot(sum[v], pair, pair_weights(w + (long)k * channels + 2 * (c + v * LANES))); \
      } \
    for (int v = 0; v < V; v++) { \
      const int at = c + v * LANES; \
      leave_some(y ? y + to + at : 0, y ? 0 : wide + to + at, add_ints(ints_of(sum[v]), ints_at(b + at)), scale + at, residual ? residual + to + at : 0, &own); \
    } \
  }
/* `qconv` where each channel is a group of its own: w [taps / 2][channels][2], a zero behind the last of an odd number; from
   [taps + 1] and edge [channels] are room. */
static void qdepthwise(uint8_t *y, float *wide, const uint8_t *x, const int8_t *w, const int32_t *b, const float *scale, const uint8_t *residual, int x_zero, const uint8_t **from, uint8_t *edge, const Window *g, const Then *t) {
  const int pixels = g->images * g->out_height * g->out_width, channels = g->channels, taps = g->kernel_h * g->kernel_w;
  const Then own = *t;
  int top = -g->pad_h, column = 0, line = 0, was = 0;
  memset(edge, x_zero, (size_t)channels);
  from[taps] = edge;
  for (int pixel = 0; pixel < pixels; pixel++) {
    const long to = (long)pixel * channels;
    const int left = column * g->stride_w - g->pad_w, whole = inside(g, top, left);
    int c = 0;
    if (was && whole && column > 0) {
      for (int k = 0; k < taps; k++) from[k] += g->stride_w * channels;
    } else {
      for (int k = 0; k < taps; k++) {
        const int i = top + k / g->kernel_w * g->dilation_h, j = left + k % g->kernel_w * g->dilation_w;
        from[k] = i >= 0 && i < g->height && j >= 0 && j < g->width ? x + ((long)i * g->width + j) * channels : edge;
      }
    }
    was = whole;
#if LANES > 1
    QCHANNELS(4)
    QCHANNELS(1)
#endif
    for (; c < channels; c++) {
      int32_t sum = 0;
      for (int k = 0; k < taps; k++) sum += from[k][c] * w[((long)(k / 2) * channels + c) * 2 + k % 2];
      leave_sums(y ? y + to + c : 0, y ? 0 : wide + to + c, &sum, b + c, scale + c, residual ? residual + to + c : 0, 1, &own);
    }
    if (++column < g->out_width) continue;
    column = 0;
    top += g->stride_h;
    if (++line < g->out_height) continue;
    line = 0;
    top = -g->pad_h;
    x += (long)g->height * g->width * channels;
  }
}

/* == qadd : then == */
static void qadd(uint8_t *y, const uint8_t *a, const uint8_t *b, long n, int a_zero, float a_scale, int b_zero, float b_scale, const Then *t) {
  long i = 0;
#if LANES > 1
  for (; i + LANES <= n; i += LANES) {
    const Floats v = all_finished(plus(all_less(a + i, a_zero, a_scale), all_less(b + i, b_zero, b_scale)), t);
    keep_bytes(y + i, all_rounded(v, t->zero));
  }
#endif
  for (; i < n; i++) {
    const float left = (float)(a[i] - a_zero) * a_scale, right = (float)(b[i] - b_zero) * b_scale;
    y[i] = (uint8_t)(nearest(finished(left + right, t)) + t->zero);
  }
}

/* == qmax_pool : pool == */
static void qmax_pool(uint8_t *y, const uint8_t *x, const Pool *p) {
  for (int n = 0; n < p->images; n++)
    for (int i = 0; i < p->outs[0]; i++)
      for (int j = 0; j < p->outs[1]; j++, y += p->channels) {
        memset(y, 0, (size_t)p->channels);
        for (int h = p->low[0][i]; h < p->high[0][i]; h += p->steps[0])
          for (int w = p->low[1][j]; w < p->high[1][j]; w += p->steps[1]) {
            const uint8_t *from = x + (((long)n * p->sizes[0] + h) * p->sizes[1] + w) * p->channels;
            for (int c = 0; c < p->channels; c++) y[c] = from[c] > y[c] ? from[c] : y[c];
          }
      }
}

/* == qavg_pool : pool then == */
static void qavg_pool(uint8_t *y, float *wide, const uint8_t *x, int x_zero, const Pool *p, const Then *t) {
  for (long cell = 0; cell < (long)p->images * p->outs[0] * p->outs[1]; cell++) {
    const int j = (int)(cell % p->outs[1]), i = (int)(cell / p->outs[1] % p->outs[0]);
    const long n = cell / p->outs[1] / p->outs[0];
    for (int c = 0; c < p->channels; c++) {
      int32_t sum = 0;
      for (int h = p->low[0][i]; h < p->high[0][i]; h++)
        for (int w = p->low[1][j]; w < p->high[1][j]; w++)
          sum += x[((n * p->sizes[0] + h) * p->sizes[1] + w) * p->channels + c] - x_zero;
      const float v = finished((float)sum * p->share[i * p->outs[1] + j], t);
      if (y) y[cell * p->channels + c] = (uint8_t)(nearest(v) + t->zero);
      else wide[cell * p->channels + c] = v;
    }
  }
}

/* == quantise : nearest ints == */
/* y [outer, n, inner] = round(x / scale) + zero between low and high; a scale and a zero for each of n. */
static void quantise(uint8_t *y, const float *x, const float *scale, const int *zero, int outer, int n, long inner, int low, int high) {
  for (long a = 0; a < (long)outer * n; a++, x += inner, y += inner) {
    const float unit = scale[a % n], least = (float)(low - zero[a % n]), most = (float)(high - zero[a % n]);
    long whole = 0;
#if LANES > 1
    whole = low == 0 ? inner / LANES * LANES : 0;
    for (long i = 0; i < whole; i += LANES)
      keep_bytes(y + i, all_rounded(between(over(load(x + i), every(unit)), every(least), every(most)), zero[a % n]));
#endif
    for (long i = whole; i < inner; i++) {
      float v = x[i] / unit;
      v = v > least ? v : least;
      v = v < most ? v : most;
      y[i] = (uint8_t)(nearest(v) + zero[a % n]);
    }
  }
}
