/* == vector == */
/* Vectors of LANES floats, and the tile that fits the registers: ROWS pixels by WIDE vectors. */
#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define LANES 8
#define ROWS 6
#define WIDE 2
#define LONG 4
typedef __m256 Floats;
#define load(p) _mm256_loadu_ps(p)
#define store(p, v) _mm256_storeu_ps(p, v)
#define every(s) _mm256_set1_ps(s)
#define plus(a, b) _mm256_add_ps(a, b)
#define fused(a, b, c) _mm256_fmadd_ps(a, b, c)
#define between(v, low, high) _mm256_min_ps(_mm256_max_ps(v, low), high)
#elif defined(__SSE2__)
#include <emmintrin.h>
#define LANES 4
#define ROWS 6
#define WIDE 2
#define LONG 4
typedef __m128 Floats;
#define load(p) _mm_loadu_ps(p)
#define store(p, v) _mm_storeu_ps(p, v)
#define every(s) _mm_set1_ps(s)
#define plus(a, b) _mm_add_ps(a, b)
#define fused(a, b, c) _mm_add_ps(_mm_mul_ps(a, b), c)
#define between(v, low, high) _mm_min_ps(_mm_max_ps(v, low), high)
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#define LANES 4
#define ROWS 6
#define WIDE 2
#define LONG 4
typedef float32x4_t Floats;
#define load(p) vld1q_f32(p)
#define store(p, v) vst1q_f32(p, v)
#define every(s) vdupq_n_f32(s)
#define plus(a, b) vaddq_f32(a, b)
#if defined(__aarch64__)
#define fused(a, b, c) vfmaq_f32(c, a, b)
#else
#define fused(a, b, c) vmlaq_f32(c, a, b)
#endif
#define between(v, low, high) vminq_f32(vmaxq_f32(v, low), high)
#elif defined(__wasm_simd128__)
#include <wasm_simd128.h>
#define LANES 4
#define ROWS 4
#define WIDE 2
#define LONG 4
typedef v128_t Floats;
#define load(p) wasm_v128_load(p)
#define store(p, v) wasm_v128_store(p, v)
#define every(s) wasm_f32x4_splat(s)
#define plus(a, b) wasm_f32x4_add(a, b)
#define fused(a, b, c) wasm_f32x4_add(wasm_f32x4_mul(a, b), c)
#define between(v, low, high) wasm_f32x4_pmin(high, wasm_f32x4_pmax(low, v))
#else
#define LANES 1
#define ROWS 3
#define WIDE 8
#define LONG 8
typedef float Floats;
#define load(p) (*(p))
#define store(p, v) (*(p) = (v))
#define every(s) (s)
#define plus(a, b) ((a) + (b))
#define fused(a, b, c) ((a) * (b) + (c))
#define between(v, low, high) ((v) < (low) ? (low) : (v) > (high) ? (high) : (v))
#endif
#define PANEL 8 /* outputs whose weights lie together: [outputs / PANEL][taps][inputs][PANEL] */
#define NARROW (PANEL / LANES)
/* A copy of a kernel for each window, as constants, is about a tenth faster; without vectors, or with -Os, bytes of code are
   worth more. */
#if LANES > 1 && defined(__GNUC__) && !defined(__OPTIMIZE_SIZE__)
#define COPIED static inline __attribute__((always_inline))
#define COPY static __attribute__((noinline))
#else
#define COPIED static
#define COPY static
#endif

/* == window == */
/* A window over x [images, height, width, channels] and y [images, out_height, out_width, out_channels]; of these, a
   group reads `inputs` channels and makes `outputs`. Values end between low and high. */
typedef struct {
  int images, height, width, channels, out_height, out_width, out_channels, inputs, outputs;
  int kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  float low, high;
} Window;

/* == place : window == */
/* Where the window of output `pixel` begins. */
static void place(const Window *g, int pixel, int *image, int *top, int *left) {
  const int column = pixel % g->out_width, row = pixel / g->out_width % g->out_height;
  *image = pixel / g->out_width / g->out_height;
  *top = row * g->stride_h - g->pad_h;
  *left = column * g->stride_w - g->pad_w;
}

/* == inside : window == */
/* Whether all cells of a window lie inside of its image. */
static int inside(const Window *g, int top, int left) {
  return top >= 0 && left >= 0 && top + (g->kernel_h - 1) * g->dilation_h < g->height &&
         left + (g->kernel_w - 1) * g->dilation_w < g->width;
}

/* == run : vector == */
/* sum[r][v] += the products of n inputs of each pixel with their weights */
#define RUN(R, V) \
  for (int i = 0; i < n; i++, w += PANEL) { \
    Floats weight[V]; \
    for (int v = 0; v < V; v++) weight[v] = load(w + v * LANES / PANEL * panel + v * LANES % PANEL); \
    for (int r = 0; r < R; r++) { \
      const Floats input = every(x[r][i]); \
      for (int v = 0; v < V; v++) sum[r][v] = fused(input, weight[v], sum[r][v]); \
    } \
  }

/* == leave : vector == */
/* y = sums + residual between low and high, n of them */
static void leave(float *y, const float *sums, const float *residual, int n, float low, float high) {
  int i = 0;
  for (; i + LANES <= n; i += LANES) {
    Floats v = load(sums + i);
    if (residual) v = plus(v, load(residual + i));
    store(y + i, between(v, every(low), every(high)));
  }
  for (; i < n; i++) {
    const float v = residual ? sums[i] + residual[i] : sums[i];
    y[i] = v < low ? low : v > high ? high : v;
  }
}

/* == conv : run leave place inside zeros == */
typedef struct {
  const float *image;
  int top, left;
} Pixel;

/* Sums of R pixels and V vectors of outputs, then `rows` of them to y. Cells outside of the image read zeros; a row of
   cells that lies outside for all pixels is left out. */
#define TILE(name, R, V) \
  COPIED void name(float *y, const float *residual, int rows, int outputs, const Window *g, const Pixel *at, int whole, const float *w, const float *b, long panel) { \
    Floats sum[R][V]; \
    const float *x[R]; \
    const long row = (long)g->width * g->channels; \
    for (int r = 0; r < R; r++) \
      for (int v = 0; v < V; v++) sum[r][v] = load(b + v * LANES); \
    if (whole) { \
      const int joined = g->dilation_w == 1 && g->channels == g->inputs; \
      const int n = joined ? g->kernel_w * g->inputs : g->inputs; \
      for (int h = 0; h < g->kernel_h; h++) \
        for (int k = 0; k < (joined ? 1 : g->kernel_w); k++) { \
          for (int r = 0; r < R; r++) \
            x[r] = at[r].image + (at[r].top + h * g->dilation_h) * row + (long)(at[r].left + k * g->dilation_w) * g->channels; \
          RUN(R, V) \
        } \
    } else { \
      const int n = g->inputs; \
      for (int h = 0; h < g->kernel_h; h++) { \
        const float *line[R]; \
        int any = 0; \
        for (int r = 0; r < R; r++) { \
          const int i = at[r].top + h * g->dilation_h, real = i >= 0 && i < g->height; \
          line[r] = real ? at[r].image + i * row : 0; \
          any |= real; \
        } \
        if (!any) { \
          w += (long)g->kernel_w * n * PANEL; \
          continue; \
        } \
        for (int k = 0; k < g->kernel_w; k++) { \
          for (int r = 0; r < R; r++) { \
            const int j = at[r].left + k * g->dilation_w; \
            x[r] = line[r] && j >= 0 && j < g->width ? line[r] + (long)j * g->channels : zeros; \
          } \
          RUN(R, V) \
        } \
      } \
    } \
    if (outputs == V * LANES) { \
      for (int r = 0; r < R; r++) \
        if (r < rows) \
          for (int v = 0; v < V; v++) { \
            const long to = (long)r * g->out_channels + v * LANES; \
            Floats s = sum[r][v]; \
            if (residual) s = plus(s, load(residual + to)); \
            store(y + to, between(s, every(g->low), every(g->high))); \
          } \
      return; \
    } \
    float sums[R * V * LANES]; \
    for (int r = 0; r < R; r++) \
      for (int v = 0; v < V; v++) store(sums + (r * V + v) * LANES, sum[r][v]); \
    for (int r = 0; r < rows; r++) { \
      const long to = (long)r * g->out_channels; \
      leave(y + to, sums + r * V * LANES, residual ? residual + to : 0, outputs, g->low, g->high); \
    } \
  }
TILE(tile_wide, ROWS, WIDE)
TILE(tile_narrow, ROWS, NARROW)
TILE(tile_long, 1, LONG)
TILE(tile_short, 1, NARROW)

/* y = conv(x, w) + b (+ residual), of one group. w in panels, b padded to whole ones. */
COPIED void conv(float *y, const float *x, const float *w, const float *b, const float *residual, const Window *g) {
  const int pixels = g->images * g->out_height * g->out_width, many = pixels > 1 ? ROWS : 1;
  const long panel = (long)g->kernel_h * g->kernel_w * g->inputs * PANEL;
  for (int first = 0; first < pixels; first += many) {
    const int rows = pixels - first < many ? pixels - first : many;
    Pixel at[ROWS];
    int whole = 1;
    for (int r = 0; r < many; r++) {
      int image;
      place(g, first + (r < rows ? r : rows - 1), &image, &at[r].top, &at[r].left);
      at[r].image = x + (long)image * g->height * g->width * g->channels;
      whole = whole && inside(g, at[r].top, at[r].left);
    }
    for (int o = 0, step; o < g->outputs; o += step) {
      const int wide = many > 1 ? WIDE : LONG, fits = (g->outputs - o + PANEL - 1) / PANEL * PANEL >= wide * LANES;
      const float *from = w + o / PANEL * panel;
      const long to = (long)first * g->out_channels + o;
      const float *more = residual ? residual + to : 0;
      step = fits ? wide * LANES : PANEL;
      const int n = g->outputs - o < step ? g->outputs - o : step;
      if (many > 1 && fits) tile_wide(y + to, more, rows, n, g, at, whole, from, b + o, panel);
      else if (many > 1) tile_narrow(y + to, more, rows, n, g, at, whole, from, b + o, panel);
      else if (fits) tile_long(y + to, more, rows, n, g, at, whole, from, b + o, panel);
      else tile_short(y + to, more, rows, n, g, at, whole, from, b + o, panel);
    }
  }
}

/* == depthwise : vector place == */
/* y = conv(x, w) + b (+ residual) where each channel is a group of its own: w [kernel_h, kernel_w, channels]. */
#define CHANNELS(V) \
  for (; c + V * LANES <= g->channels; c += V * LANES) { \
    Floats sum[V]; \
    for (int v = 0; v < V; v++) sum[v] = load(b + c + v * LANES); \
    for (int h = 0; h < g->kernel_h; h++) { \
      const int i = top + h * g->dilation_h; \
      if (i < 0 || i >= g->height) continue; \
      for (int k = 0; k < g->kernel_w; k++) { \
        const int j = left + k * g->dilation_w; \
        if (j < 0 || j >= g->width) continue; \
        const float *from = image + ((long)i * g->width + j) * g->channels + c; \
        const float *weight = w + (h * g->kernel_w + k) * g->channels + c; \
        for (int v = 0; v < V; v++) sum[v] = fused(load(from + v * LANES), load(weight + v * LANES), sum[v]); \
      } \
    } \
    for (int v = 0; v < V; v++) { \
      if (residual) sum[v] = plus(sum[v], load(residual + to + c + v * LANES)); \
      store(y + to + c + v * LANES, between(sum[v], every(g->low), every(g->high))); \
    } \
  }
static void depthwise(float *y, const float *x, const float *w, const float *b, const float *residual, const Window *g) {
  const int pixels = g->images * g->out_height * g->out_width;
  for (int pixel = 0; pixel < pixels; pixel++) {
    int number, top, left, c = 0;
    place(g, pixel, &number, &top, &left);
    const float *image = x + (long)number * g->height * g->width * g->channels;
    const long to = (long)pixel * g->channels;
    CHANNELS(4)
    CHANNELS(1)
    for (; c < g->channels; c++) {
      float sum = b[c];
      for (int h = 0; h < g->kernel_h; h++)
        for (int k = 0; k < g->kernel_w; k++) {
          const int i = top + h * g->dilation_h, j = left + k * g->dilation_w;
          if (i < 0 || i >= g->height || j < 0 || j >= g->width) continue;
          sum += image[((long)i * g->width + j) * g->channels + c] * w[(h * g->kernel_w + k) * g->channels + c];
        }
      if (residual) sum += residual[to + c];
      y[to + c] = sum < g->low ? g->low : sum > g->high ? g->high : sum;
    }
  }
}

/* == winograd : run window == */
/* Winograd's filters F(4x4, 3x3) (Lavin and Gray, arXiv 1509.09308): y as `conv` computes it for 3x3 taps of stride 1, by
   36 products for each tile of 4 x 4 pixels. w [36][outputs / PANEL][inputs][PANEL], already transformed; channels in
   multiples of PANEL; room [36][ROWS][inputs + outputs]. */
#define scaled(a, s) fused(a, every(s), every(0.0f))

/* Six numbers, `step` apart, times B^T. */
static void six_in(Floats *v, int step) {
  const Floats a = v[0], b = v[step], c = v[2 * step], d = v[3 * step], e = v[4 * step], f = v[5 * step];
  const Floats even = fused(c, every(-4.0f), e), odd = fused(b, every(-4.0f), d);
  const Floats near = fused(c, every(-1.0f), e), far = scaled(fused(b, every(-1.0f), d), 2.0f);
  v[0] = fused(a, every(4.0f), fused(c, every(-5.0f), e));
  v[step] = plus(even, odd);
  v[2 * step] = fused(odd, every(-1.0f), even);
  v[3 * step] = plus(near, far);
  v[4 * step] = fused(far, every(-1.0f), near);
  v[5 * step] = fused(b, every(4.0f), fused(d, every(-5.0f), f));
}

/* Six numbers, `step` apart, to the first four: times A^T. */
static void four_out(Floats *v, int step) {
  const Floats p = plus(v[step], v[2 * step]), m = fused(v[2 * step], every(-1.0f), v[step]);
  const Floats q = plus(v[3 * step], v[4 * step]), n = fused(v[4 * step], every(-1.0f), v[3 * step]);
  const Floats last = v[5 * step];
  v[0] = plus(plus(v[0], p), q);
  v[step] = fused(n, every(2.0f), m);
  v[2 * step] = fused(q, every(4.0f), p);
  v[3 * step] = plus(fused(n, every(8.0f), m), last);
}

#define SOME(R, V) \
  for (; outputs - o >= V * LANES; o += V * LANES) { \
    Floats sum[R][V]; \
    const float *x[R], *w = weights + o / PANEL * panel; \
    for (int r = 0; r < R; r++) { \
      x[r] = from + (long)r * n; \
      for (int v = 0; v < V; v++) sum[r][v] = every(0.0f); \
    } \
    RUN(R, V) \
    for (int r = 0; r < R; r++) \
      for (int v = 0; v < V; v++) store(to + (long)r * outputs + o + v * LANES, sum[r][v]); \
  }
/* to [rows][outputs] = from [rows][n] times weights in panels, of as many rows as FEW, or ROWS */
#define FEW (ROWS * 2 / 3)
#define PRODUCT(name, R) \
  static void name(float *to, const float *from, const float *weights, int n, int outputs) { \
    const long panel = (long)n * PANEL; \
    int o = 0; \
    SOME(R, WIDE) \
    SOME(R, NARROW) \
  }
PRODUCT(product, ROWS)
PRODUCT(product_few, FEW)

static void winograd(float *y, float *room, const float *x, const float *w, const float *b, const float *residual, const Window *g) {
  const int down = (g->out_height + 3) / 4, across = (g->out_width + 3) / 4, tiles = g->images * down * across;
  const int inputs = g->inputs, outputs = g->outputs;
  float *parts = room, *made = room + (long)36 * ROWS * inputs;
  for (int first = 0; first < tiles; first += ROWS) {
    const int rows = tiles - first < ROWS ? tiles - first : ROWS;
    for (int r = 0; r < rows; r++) {
      const int tile = first + r, image = tile / (down * across);
      const int top = tile / across % down * 4 - g->pad_h, left = tile % across * 4 - g->pad_w;
      for (int c = 0; c < inputs; c += LANES) {
        Floats v[36];
        for (int i = 0; i < 6; i++)
          for (int j = 0; j < 6; j++) {
            const int h = top + i, k = left + j, real = h >= 0 && h < g->height && k >= 0 && k < g->width;
            v[i * 6 + j] = real ? load(x + (((long)image * g->height + h) * g->width + k) * g->channels + c) : every(0.0f);
          }
        for (int i = 0; i < 6; i++) six_in(v + i, 6);
        for (int i = 0; i < 6; i++) six_in(v + i * 6, 1);
        for (int i = 0; i < 36; i++) store(parts + ((long)i * ROWS + r) * inputs + c, v[i]);
      }
    }
    for (int i = 0; i < 36; i++) {
      const float *from = parts + (long)i * ROWS * inputs, *weights = w + i * (long)inputs * outputs;
      float *to = made + (long)i * ROWS * outputs;
      if (rows > FEW) product(to, from, weights, inputs, outputs);
      else product_few(to, from, weights, inputs, outputs);
    }
    for (int r = 0; r < rows; r++) {
      const int tile = first + r, image = tile / (down * across), top = tile / across % down * 4, left = tile % across * 4;
      for (int o = 0; o < outputs; o += LANES) {
        Floats v[36];
        for (int i = 0; i < 36; i++) v[i] = load(made + ((long)i * ROWS + r) * outputs + o);
        for (int i = 0; i < 6; i++) four_out(v + i, 6);
        for (int i = 0; i < 4; i++) four_out(v + i * 6, 1);
        for (int i = 0; i < 4 && top + i < g->out_height; i++)
          for (int j = 0; j < 4 && left + j < g->out_width; j++) {
            const long to = (((long)image * g->out_height + top + i) * g->out_width + left + j) * g->out_channels + o;
            Floats sum = plus(v[i * 6 + j], load(b + o));
            if (residual) sum = plus(sum, load(residual + to));
            store(y + to, between(sum, every(g->low), every(g->high)));
          }
      }
    }
  }
}

/* == transposed : window == */
/* The gradient of a convolution's input: y [images, height, width, channels] of x [images, out_height, out_width,
   out_channels], a group of it; w [kernel_h, kernel_w, inputs, outputs]. */
static void transposed(float *y, const float *x, const float *w, const Window *g) {
  for (int n = 0; n < g->images; n++)
    for (int i = 0; i < g->height; i++)
      for (int j = 0; j < g->width; j++)
        for (int c = 0; c < g->inputs; c++) {
          float sum = 0;
          for (int h = 0; h < g->kernel_h; h++)
            for (int k = 0; k < g->kernel_w; k++) {
              const int a = i + g->pad_h - h * g->dilation_h, b = j + g->pad_w - k * g->dilation_w;
              const int row = a / g->stride_h, column = b / g->stride_w;
              if (a < 0 || b < 0 || a % g->stride_h || b % g->stride_w || row >= g->out_height || column >= g->out_width)
                continue;
              const float *from = x + (((long)n * g->out_height + row) * g->out_width + column) * g->out_channels;
              const float *weight = w + ((h * g->kernel_w + k) * (long)g->inputs + c) * g->outputs;
              for (int o = 0; o < g->outputs; o++) sum += from[o] * weight[o];
            }
          y[(((long)n * g->height + i) * g->width + j) * g->channels + c] = sum;
        }
}

/* == matmul == */
/* y [m, n] = a [m, k] @ b [k, n] */
static void matmul(float *y, const float *a, const float *b, int m, int k, int n) {
  for (int i = 0; i < m; i++) {
    float *row = y + (long)i * n;
    for (int j = 0; j < n; j++) row[j] = 0;
    for (int l = 0; l < k; l++) {
      const float f = a[(long)i * k + l];
      const float *from = b + (long)l * n;
      for (int j = 0; j < n; j++) row[j] += f * from[j];
    }
  }
}
