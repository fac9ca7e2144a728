/* == nearest == */
/* The integer nearest to v, halves to even, of |v| < 2^22: the last bit of the sum is worth 1. */
static int nearest(float v) {
  union { float number; int32_t bits; } sum;
  sum.number = v + 12582912.0f;
  return (int)(sum.bits - 0x4b400000);
}

/* == then : nearest == */
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

/* == leave_sum : then == */
static float scaled_sum(int32_t sum, float scale, const uint8_t *residual, const Then *t) {
  float v = (float)sum * scale;
  if (residual) {
    const float more = (float)(*residual - t->residual_zero) * t->residual_scale;
    v = v + more;
  }
  return finished(v, t);
}

/* == qconv : vector place inside leave_sum padding == */
/* Sums of bytes times weights of 8 bits, in pairs: w [outputs / PANEL][taps][inputs / 2][PANEL][2]. */
#if LANES == 8
typedef __m256i Ints, Pairs;
#define INTS 8
#define QROWS 4
#define ints_of(p) _mm256_loadu_si256((const __m256i *)(p))
#define keep_ints(p, v) _mm256_storeu_si256((__m256i *)(p), v)
#define pair_weights(p) _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(p)))
#define every_pair(s) _mm256_set1_epi32(s)
#define dot(sum, a, b) _mm256_add_epi32(sum, _mm256_madd_epi16(a, b))
typedef __m256i Octet;
#define octet(p) _mm256_cvtepu8_epi16(_mm_set1_epi64x(eight(p)))
#define pair_of(o, i) _mm256_shuffle_epi32(o, (i) * 0x55)
static long long eight(const uint8_t *p) {
  long long v;
  memcpy(&v, p, 8);
  return v;
}
#elif defined(__SSE2__) && LANES == 4
typedef __m128i Ints, Pairs;
#define INTS 4
#define QROWS 4
#define ints_of(p) _mm_loadu_si128((const __m128i *)(p))
#define keep_ints(p, v) _mm_storeu_si128((__m128i *)(p), v)
static __m128i pair_weights(const int8_t *p) {
  const __m128i v = _mm_loadl_epi64((const __m128i *)p);
  return _mm_srai_epi16(_mm_unpacklo_epi8(v, v), 8);
}
#define every_pair(s) _mm_set1_epi32(s)
#define dot(sum, a, b) _mm_add_epi32(sum, _mm_madd_epi16(a, b))
typedef __m128i Octet;
#define octet(p) _mm_unpacklo_epi8(_mm_loadl_epi64((const __m128i *)(p)), _mm_setzero_si128())
#define pair_of(o, i) _mm_shuffle_epi32(o, (i) * 0x55)
#elif defined(__aarch64__) && defined(__ARM_NEON)
typedef int32x4_t Ints;
typedef int16x8_t Pairs;
#define INTS 4
#define QROWS 4
#define ints_of(p) vld1q_s32(p)
#define keep_ints(p, v) vst1q_s32(p, v)
#define pair_weights(p) vmovl_s8(vld1_s8(p))
#define every_pair(s) vreinterpretq_s16_s32(vdupq_n_s32(s))
static int32x4_t dot(int32x4_t sum, int16x8_t a, int16x8_t b) {
  return vaddq_s32(sum, vpaddq_s32(vmull_s16(vget_low_s16(a), vget_low_s16(b)), vmull_high_s16(a, b)));
}
typedef int32x4_t Octet;
#define octet(p) vreinterpretq_s32_u16(vmovl_u8(vld1_u8(p)))
#define pair_of(o, i) vreinterpretq_s16_s32(vdupq_laneq_s32(o, i))
#elif defined(__wasm_simd128__)
typedef v128_t Ints, Pairs;
#define INTS 4
#define QROWS 4
#define ints_of(p) wasm_v128_load(p)
#define keep_ints(p, v) wasm_v128_store(p, v)
#define pair_weights(p) wasm_i16x8_load8x8(p)
#define every_pair(s) wasm_i32x4_splat(s)
#define dot(sum, a, b) wasm_i32x4_add(sum, wasm_i32x4_dot_i16x8(a, b))
typedef v128_t Octet;
#define octet(p) wasm_u16x8_load8x8(p)
#define pair_of(o, i) wasm_i32x4_shuffle(o, o, i, i, i, i)
#else
#define INTS 1
#define QROWS 2
#define ints_of(p) (*(p))
#define keep_ints(p, v) (*(p) = (v))
typedef int32_t Ints;
#if defined(__ARM_FEATURE_DSP)
#include <arm_acle.h>
/* As CMSIS-NN has it: two products of 16 bits and their sums in one instruction. Weights of two outputs, of two inputs each,
   as pairs of 16 bits. */
#define dot(sum, a, b) __smlad(a, b, sum)
#define WEIGHTS_OF_TWO(p, u, v) \
  int32_t four; \
  memcpy(&four, p, 4); \
  const uint32_t even = (uint32_t)__sxtb16(four), odd = (uint32_t)__sxtb16((int32_t)((uint32_t)four >> 8)); \
  const int32_t u = (int32_t)((even & 0xffff) | odd << 16), v = (int32_t)(even >> 16 | (odd & 0xffff0000));
#else
#define dot(sum, a, b) ((sum) + ((a) & 0xffff) * (b)[0] + ((a) >> 16) * (b)[1])
#define WEIGHTS_OF_TWO(p, u, v) const int8_t *u = p, *v = p + 2;
#endif
#endif
#define QWIDE (PANEL / INTS)

typedef struct {
  const uint8_t *image;
  int top, left;
} Byte;

/* Two inputs as a pair of 16 bits. */
static int32_t two(uint8_t a, uint8_t b) { return (int32_t)((uint32_t)a | (uint32_t)b << 16); }

#if INTS > 1
#define PAIRS(p) \
  { \
    for (int v = 0; v < QWIDE; v++) { \
      const Pairs weight = pair_weights(w + v * 2 * INTS); \
      for (int r = 0; r < QROWS; r++) sum[r][v] = dot(sum[r][v], p, weight); \
    } \
    w += 2 * PANEL; \
  }
#endif

/* sum [QROWS][PANEL] += the products of n inputs of each pixel */
static void qrun(Ints sum[QROWS][QWIDE], const uint8_t *const *x, const int8_t *w, int n) {
  int i = 0;
#if INTS > 1
  for (; i + 8 <= n; i += 8) {
    Octet o[QROWS];
    for (int r = 0; r < QROWS; r++) o[r] = octet(x[r] + i);
    PAIRS(pair_of(o[r], 0))
    PAIRS(pair_of(o[r], 1))
    PAIRS(pair_of(o[r], 2))
    PAIRS(pair_of(o[r], 3))
  }
  for (; i < n; i += 2) PAIRS(every_pair(two(x[r][i], i + 1 < n ? x[r][i + 1] : 0)))
#else
#define ONE(p, more) \
  const int32_t first = two(p[i], more ? p[i + 1] : 0); \
  WEIGHTS_OF_TWO(from, left, right) \
  a = dot(a, first, left); \
  b = dot(b, first, right);
#define BOTH(more) \
  ONE(p, more) \
  const int32_t second = two(q[i], more ? q[i + 1] : 0); \
  c = dot(c, second, left); \
  d = dot(d, second, right);
  const uint8_t *p = x[0], *q = x[1];
  for (int v = 0; v < PANEL; v += 2, w += 4) { /* two outputs at a time: as many sums as registers hold */
    int32_t a = sum[0][v], b = sum[0][v + 1], c = sum[1][v], d = sum[1][v + 1];
    const int8_t *from = w;
    if (p == q) { /* the last pixel of an odd number, or padding */
      c -= a;
      d -= b;
      for (i = 0; i + 1 < n; i += 2, from += 2 * PANEL) { ONE(p, 1) }
      if (i < n) { ONE(p, 0) }
      c += a;
      d += b;
    } else {
      for (i = 0; i + 1 < n; i += 2, from += 2 * PANEL) { BOTH(1) }
      if (i < n) { BOTH(0) }
    }
    sum[0][v] = a;
    sum[0][v + 1] = b;
    sum[1][v] = c;
    sum[1][v + 1] = d;
  }
#endif
}

/* y, or wide, = conv(x, w) + b and what follows, of one group. Cells outside of the image are the zero point of x. */
static void qconv(uint8_t *y, float *wide, const uint8_t *x, const int8_t *w, const int32_t *b, const float *scale, const uint8_t *residual, int x_zero, const Window *g, const Then *t) {
  const int pixels = g->images * g->out_height * g->out_width, odd = (g->inputs + 1) / 2 * 2;
  const long tap = (long)odd * PANEL, row = (long)g->width * g->channels;
  memset(padding, x_zero, (size_t)g->inputs);
  for (int first = 0; first < pixels; first += QROWS) {
    const int rows = pixels - first < QROWS ? pixels - first : QROWS;
    Byte at[QROWS];
    int whole = g->dilation_w == 1 && g->channels == g->inputs && g->inputs % 2 == 0;
    for (int r = 0; r < QROWS; r++) {
      int image;
      place(g, first + (r < rows ? r : rows - 1), &image, &at[r].top, &at[r].left);
      at[r].image = x + (long)image * g->height * row;
      whole = whole && inside(g, at[r].top, at[r].left);
    }
    for (int o = 0; o < g->outputs; o += PANEL) {
      const int8_t *from = w + o / PANEL * g->kernel_h * g->kernel_w * tap;
      Ints sum[QROWS][QWIDE];
      const uint8_t *cells[QROWS];
      int32_t sums[QROWS][PANEL];
      for (int r = 0; r < QROWS; r++)
        for (int v = 0; v < QWIDE; v++) sum[r][v] = ints_of(b + o + v * INTS);
      for (int h = 0; h < g->kernel_h; h++) {
        if (whole) {
          for (int r = 0; r < QROWS; r++)
            cells[r] = at[r].image + (at[r].top + h * g->dilation_h) * row + (long)at[r].left * g->channels;
          qrun(sum, cells, from + h * g->kernel_w * tap, g->kernel_w * g->inputs);
          continue;
        }
        for (int k = 0; k < g->kernel_w; k++) {
          for (int r = 0; r < QROWS; r++) {
            const int i = at[r].top + h * g->dilation_h, j = at[r].left + k * g->dilation_w;
            const int real = i >= 0 && i < g->height && j >= 0 && j < g->width;
            cells[r] = real ? at[r].image + i * row + (long)j * g->channels : padding;
          }
          qrun(sum, cells, from + (h * g->kernel_w + k) * tap, g->inputs);
        }
      }
      for (int r = 0; r < QROWS; r++)
        for (int v = 0; v < QWIDE; v++) keep_ints(sums[r] + v * INTS, sum[r][v]);
      for (int r = 0; r < rows; r++)
        for (int i = 0; i < PANEL && o + i < g->outputs; i++) {
          const long to = (long)(first + r) * g->out_channels + o + i;
          const float v = scaled_sum(sums[r][i], scale[o + i], residual ? residual + to : 0, t);
          if (y) y[to] = (uint8_t)(nearest(v) + t->zero);
          else wide[to] = v;
        }
    }
  }
}

/* == qdepthwise : place leave_sum == */
/* `qconv` where each channel is a group of its own: w [kernel_h, kernel_w, channels]; sums [channels] is room. */
static void qdepthwise(uint8_t *y, float *wide, const uint8_t *x, const int8_t *w, const int32_t *b, const float *scale, const uint8_t *residual, int x_zero, int32_t *sums, const Window *g, const Then *t) {
  const int pixels = g->images * g->out_height * g->out_width, channels = g->channels;
  for (int pixel = 0; pixel < pixels; pixel++) {
    int image, top, left;
    place(g, pixel, &image, &top, &left);
    for (int c = 0; c < channels; c++) sums[c] = b[c];
    for (int h = 0; h < g->kernel_h; h++)
      for (int k = 0; k < g->kernel_w; k++) {
        const int i = top + h * g->dilation_h, j = left + k * g->dilation_w;
        const int8_t *weight = w + (h * g->kernel_w + k) * channels;
        if (i >= 0 && i < g->height && j >= 0 && j < g->width) {
          const uint8_t *from = x + (((long)image * g->height + i) * g->width + j) * channels;
          for (int c = 0; c < channels; c++) sums[c] += from[c] * weight[c];
        } else {
          for (int c = 0; c < channels; c++) sums[c] += x_zero * weight[c];
        }
      }
    for (int c = 0; c < channels; c++) {
      const long to = (long)pixel * channels + c;
      const float v = scaled_sum(sums[c], scale[c], residual ? residual + to : 0, t);
      if (y) y[to] = (uint8_t)(nearest(v) + t->zero);
      else wide[to] = v;
    }
  }
}

/* == qadd : then == */
static void qadd(uint8_t *y, const uint8_t *a, const uint8_t *b, long n, int a_zero, float a_scale, int b_zero, float b_scale, const Then *t) {
  for (long i = 0; i < n; i++) {
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

/* == qavg_pool : pool leave_sum == */
static void qavg_pool(uint8_t *y, float *wide, const uint8_t *x, int x_zero, const Pool *p, const Then *t) {
  for (long cell = 0; cell < (long)p->images * p->outs[0] * p->outs[1]; cell++) {
    const int j = (int)(cell % p->outs[1]), i = (int)(cell / p->outs[1] % p->outs[0]);
    const long n = cell / p->outs[1] / p->outs[0];
    for (int c = 0; c < p->channels; c++) {
      int32_t sum = 0;
      for (int h = p->low[0][i]; h < p->high[0][i]; h++)
        for (int w = p->low[1][j]; w < p->high[1][j]; w++)
          sum += x[((n * p->sizes[0] + h) * p->sizes[1] + w) * p->channels + c] - x_zero;
      const float v = scaled_sum(sum, p->share[i * p->outs[1] + j], 0, t);
      if (y) y[cell * p->channels + c] = (uint8_t)(nearest(v) + t->zero);
      else wide[cell * p->channels + c] = v;
    }
  }
}

/* == quantise : nearest == */
/* y [outer, n, inner] = round(x / scale) + zero between low and high; a scale and a zero for each of n. */
static void quantise(uint8_t *y, const float *x, const float *scale, const int *zero, int outer, int n, long inner, int low, int high) {
  for (long a = 0; a < (long)outer * n; a++, x += inner, y += inner) {
    const float unit = scale[a % n], least = (float)(low - zero[a % n]), most = (float)(high - zero[a % n]);
    for (long i = 0; i < inner; i++) {
      float v = x[i] / unit;
      v = v > least ? v : least;
      v = v < most ? v : most;
      y[i] = (uint8_t)(nearest(v) + zero[a % n]);
    }
  }
}
