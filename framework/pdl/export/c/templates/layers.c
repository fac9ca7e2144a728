/* == pool == */
/* Windows over x [images, sizes[0], sizes[1], channels], as tables: output cell o of an axis reads the cells
   low[o], low[o] + step, ... below high[o]; share is 1 over the number of cells that count, axis by axis. */
typedef struct {
  int images, channels, sizes[2], outs[2], steps[2];
  const int *low[2], *high[2];
  const float *share;
} Pool;

/* == max_pool : pool == */
static void max_pool(float *y, const float *x, const Pool *p) {
  for (int n = 0; n < p->images; n++)
    for (int i = 0; i < p->outs[0]; i++)
      for (int j = 0; j < p->outs[1]; j++, y += p->channels) {
        for (int c = 0; c < p->channels; c++) y[c] = -INFINITY;
        for (int h = p->low[0][i]; h < p->high[0][i]; h += p->steps[0])
          for (int w = p->low[1][j]; w < p->high[1][j]; w += p->steps[1]) {
            const float *from = x + (((long)n * p->sizes[0] + h) * p->sizes[1] + w) * p->channels;
            for (int c = 0; c < p->channels; c++) y[c] = from[c] > y[c] || from[c] != from[c] ? from[c] : y[c];
          }
      }
}

/* == avg_pool : pool == */
static void avg_pool(float *y, const float *x, const Pool *p) {
  for (int n = 0; n < p->images; n++)
    for (int i = 0; i < p->outs[0]; i++)
      for (int j = 0; j < p->outs[1]; j++, y += p->channels) {
        const float share = p->share[i * p->outs[1] + j];
        for (int c = 0; c < p->channels; c++) y[c] = 0;
        for (int h = p->low[0][i]; h < p->high[0][i]; h++)
          for (int w = p->low[1][j]; w < p->high[1][j]; w++) {
            const float *from = x + (((long)n * p->sizes[0] + h) * p->sizes[1] + w) * p->channels;
            for (int c = 0; c < p->channels; c++) y[c] += from[c];
          }
        for (int c = 0; c < p->channels; c++) y[c] *= share;
      }
}

/* == softmax == */
/* y = softmax(x), or its logarithm, along the middle of [outer, n, inner]; y may be x. */
static void softmax(float *y, const float *x, int outer, int n, int inner, int logarithm) {
  for (int a = 0; a < outer; a++)
    for (int b = 0; b < inner; b++) {
      const long at = (long)a * n * inner + b;
      float most = -INFINITY, sum = 0;
      for (int i = 0; i < n; i++) most = x[at + (long)i * inner] > most ? x[at + (long)i * inner] : most;
      for (int i = 0; i < n; i++) sum += expf(x[at + (long)i * inner] - most);
      const float all = most + logf(sum);
      for (int i = 0; i < n; i++) {
        const long k = at + (long)i * inner;
        y[k] = logarithm ? x[k] - all : expf(x[k] - most) / sum;
      }
    }
}

/* == layer_norm == */
/* y = (x - mean) / sqrt(variance + eps) scale + shift, over each of `rows` rows of n; not centred: without the mean. */
static void layer_norm(float *y, const float *x, const float *scale, const float *shift, int rows, int n, float eps, int centred) {
  for (int r = 0; r < rows; r++, x += n, y += n) {
    float mean = 0, square = 0;
    for (int i = 0; centred && i < n; i++) mean += x[i];
    mean /= n;
    for (int i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean);
    const float factor = 1 / sqrtf(square / n + eps);
    for (int i = 0; i < n; i++) y[i] = (x[i] - mean) * factor * (scale ? scale[i] : 1) + (shift ? shift[i] : 0);
  }
}

/* == group_norm == */
/* y = (x - mean) / sqrt(variance + eps) scale + shift over the cells and the channels of each group. */
static void group_norm(float *y, const float *x, const float *scale, const float *shift, int images, int cells, int channels, int groups, float eps) {
  const int own = channels / groups;
  for (int n = 0; n < images; n++)
    for (int g = 0; g < groups; g++) {
      const long at = (long)n * cells * channels + (long)g * own;
      float mean = 0, square = 0;
      for (int i = 0; i < cells; i++)
        for (int c = 0; c < own; c++) mean += x[at + (long)i * channels + c];
      mean /= (float)cells * own;
      for (int i = 0; i < cells; i++)
        for (int c = 0; c < own; c++) {
          const float d = x[at + (long)i * channels + c] - mean;
          square += d * d;
        }
      const float factor = 1 / sqrtf(square / ((float)cells * own) + eps);
      for (int i = 0; i < cells; i++)
        for (int c = 0; c < own; c++) {
          const int k = g * own + c;
          y[at + (long)i * channels + c] = (x[at + (long)i * channels + c] - mean) * factor * (scale ? scale[k] : 1) + (shift ? shift[k] : 0);
        }
    }
}

/* == mix == */
/* y [outer, rows, inner] = M x [outer, columns, inner], M sparse: row o has the terms start[o] ... start[o + 1]. */
static void mix(float *y, const float *x, const int *start, const int *source, const float *weight, int outer, int rows, int columns, int inner) {
  for (int a = 0; a < outer; a++, x += (long)columns * inner)
    for (int o = 0; o < rows; o++, y += inner) {
      for (int i = 0; i < inner; i++) y[i] = 0;
      for (int t = start[o]; t < start[o + 1]; t++) {
        const float *from = x + (long)source[t] * inner;
        for (int i = 0; i < inner; i++) y[i] += weight[t] * from[i];
      }
    }
}

/* == sigmoid == */
static float sigmoid(float x) { return 1 / (1 + expf(-x)); }

/* == mish == */
static float mish(float x) { return x * tanhf(fmaxf(x, 0) + log1pf(expf(-fabsf(x)))); }

/* == recurrent : sigmoid == */
/* All steps of a recurrent layer of n sequences: gates [n, steps, G h] of the input, w [h, G h]; y [n, steps, h] and the
   last states. cell: 0 tanh (G 1), 1 gru (3), 2 lstm (4); room [G h] floats. */
static void recurrent(float *y, float *state, float *carry, float *room, const float *gates, const float *h0, const float *c0, const float *w, const float *b, int cell, int n, int steps, int h, int reverse) {
  const int all = (cell == 0 ? 1 : cell == 1 ? 3 : 4) * h;
  for (int s = 0; s < n; s++) {
    float *now = state + s * h, *kept = carry ? carry + s * h : 0;
    for (int i = 0; i < h; i++) {
      now[i] = h0 ? h0[s * h + i] : 0;
      if (kept) kept[i] = c0 ? c0[s * h + i] : 0;
    }
    for (int step = 0; step < steps; step++) {
      const long at = (long)s * steps + (reverse ? steps - 1 - step : step);
      const float *x = gates + at * all;
      for (int i = 0; i < all; i++) room[i] = b ? b[i] : 0;
      for (int k = 0; k < h; k++)
        for (int i = 0; i < all; i++) room[i] += now[k] * w[(long)k * all + i];
      for (int i = 0; i < h; i++) {
        if (cell == 0) {
          now[i] = tanhf(x[i] + room[i]);
        } else if (cell == 1) {
          const float r = sigmoid(x[i] + room[i]), z = sigmoid(x[h + i] + room[h + i]);
          const float fresh = tanhf(x[2 * h + i] + r * room[2 * h + i]);
          now[i] = fresh + z * (now[i] - fresh);
        } else {
          const float in = sigmoid(x[i] + room[i]), forget = sigmoid(x[h + i] + room[h + i]);
          kept[i] = forget * kept[i] + in * tanhf(x[2 * h + i] + room[2 * h + i]);
          now[i] = sigmoid(x[3 * h + i] + room[3 * h + i]) * tanhf(kept[i]);
        }
        y[at * h + i] = now[i];
      }
    }
  }
}

/* == attention == */
/* y [rows, heads of width] = softmax(scale q k^T + mask) v, a head at a time; rows of q, k, v lie `dq`, `dk`, `dv`, `dy`
   apart. scores [keys] is room. allowed or added (either may be null): a mask, rows `dm` apart; causal: no later key. */
static void attention(float *y, float *scores, const float *q, const float *k, const float *v, const unsigned char *allowed, const float *added, int rows, int keys, int width, int depth, long dq, long dk, long dv, long dy, long dm, float scale, int causal) {
  for (int r = 0; r < rows; r++) {
    float most = -INFINITY, sum = 0;
    for (int j = 0; j < keys; j++) {
      float s = 0;
      for (int i = 0; i < width; i++) s += q[r * dq + i] * k[j * dk + i];
      s *= scale;
      if (added) s += added[r * dm + j];
      if ((allowed && !allowed[r * dm + j]) || (causal && j > r + keys - rows)) s = -INFINITY;
      scores[j] = s;
      most = s > most ? s : most;
    }
    for (int i = 0; i < depth; i++) y[r * dy + i] = 0;
    for (int j = 0; j < keys; j++) {
      const float e = most == -INFINITY ? 0 : expf(scores[j] - most);
      sum += e;
      for (int i = 0; i < depth; i++) y[r * dy + i] += e * v[j * dv + i];
    }
    for (int i = 0; i < depth && sum > 0; i++) y[r * dy + i] /= sum;
  }
}

/* == rotate == */
/* The halves of each head of x [rows, columns] turned by angles [turns, size / 2], row r by those of r % turns. */
static void rotate(float *y, const float *x, const float *cosine, const float *sine, int rows, int turns, int columns, int heads, int size, float sign) {
  const int half = size / 2;
  for (int r = 0; r < rows; r++, x += columns, y += columns) {
    const float *c = cosine + (long)(r % turns) * half, *s = sine + (long)(r % turns) * half;
    for (int h = 0; h < heads; h++)
      for (int i = 0; i < half; i++) {
        const float a = x[h * size + i], b = x[h * size + half + i];
        y[h * size + i] = a * c[i] - b * (sign * s[i]);
        y[h * size + half + i] = b * c[i] + a * (sign * s[i]);
      }
    for (int i = heads * size; i < columns; i++) y[i] = x[i];
  }
}
