/* == spectrum == */
/* How frames lie in a signal of `samples`, and what is made of them: see `spectrum`. mode: 0 zeros, 1 reflect,
   2 symmetric, 3 edge. */
typedef struct {
  int samples, frames, size, points, hop, before, mode, remove_mean, bands, power;
  float preemphasis, floor, scale;
} Frames;

static float sample(const float *x, int i, const Frames *f) {
  const int n = f->samples;
  if (i < 0) {
    if (f->mode == 0) return 0;
    i = f->mode == 1 ? -i : f->mode == 2 ? -1 - i : 0;
  } else if (i >= n) {
    if (f->mode == 0) return 0;
    i = f->mode == 1 ? 2 * n - 2 - i : f->mode == 2 ? 2 * n - 1 - i : n - 1;
  }
  return x[i];
}

/* The discrete Fourier transform of [points] (real, imaginary) in place: by halves where points is a power of 2.
   turns [points][2] are cosines and sines of 2 pi i / points. */
static void fourier(float *re, float *im, float *room, const float *turns, int points) {
  if (points & (points - 1)) {
    for (int k = 0; k < points; k++) {
      float a = 0, b = 0;
      for (int i = 0; i < points; i++) {
        const float *t = turns + 2 * (long)((long long)i * k % points);
        a += re[i] * t[0] + im[i] * t[1];
        b += im[i] * t[0] - re[i] * t[1];
      }
      room[2 * k] = a;
      room[2 * k + 1] = b;
    }
    for (int k = 0; k < points; k++) {
      re[k] = room[2 * k];
      im[k] = room[2 * k + 1];
    }
    return;
  }
  for (int i = 1, j = 0; i < points; i++) {
    int bit = points >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) {
      const float a = re[i], b = im[i];
      re[i] = re[j];
      im[i] = im[j];
      re[j] = a;
      im[j] = b;
    }
  }
  for (int half = 1; half < points; half *= 2)
    for (int start = 0; start < points; start += 2 * half)
      for (int i = 0; i < half; i++) {
        const float *t = turns + 2 * (long)i * (points / (2 * half));
        const int p = start + i, q = p + half;
        const float a = re[q] * t[0] + im[q] * t[1], b = im[q] * t[0] - re[q] * t[1];
        re[q] = re[p] - a;
        im[q] = im[p] - b;
        re[p] += a;
        im[p] += b;
      }
}

/* y [signals, frames, bands] of x [signals, samples]: |X|^power of each windowed frame, times a bank [points / 2 + 1,
   bands] whose columns are not 0 from first to last (without a bank: the bins themselves), and scale log(max(., floor))
   where floor is above 0. room [4 points]. */
static void spectrum(float *y, float *room, const float *x, const float *window, const float *turns, const float *bank, const int *first, const int *last, int signals, const Frames *f) {
  float *re = room, *im = room + f->points;
  for (int s = 0; s < signals; s++, x += f->samples)
    for (int frame = 0; frame < f->frames; frame++, y += f->bands) {
      const int start = frame * f->hop - f->before;
      float mean = 0;
      for (int i = 0; i < f->size; i++) re[i] = sample(x, start + i, f);
      if (f->remove_mean) {
        for (int i = 0; i < f->size; i++) mean += re[i];
        mean /= f->size;
        for (int i = 0; i < f->size; i++) re[i] -= mean;
      }
      if (f->preemphasis != 0) {
        for (int i = f->size - 1; i > 0; i--) re[i] -= f->preemphasis * re[i - 1];
        re[0] -= f->preemphasis * re[0];
      }
      for (int i = 0; i < f->points; i++) {
        re[i] = i < f->size ? re[i] * window[i] : 0;
        im[i] = 0;
      }
      fourier(re, im, room + 2 * f->points, turns, f->points);
      for (int i = 0; i <= f->points / 2; i++) {
        const float square = re[i] * re[i] + im[i] * im[i];
        re[i] = f->power == 2 ? square : sqrtf(square);
      }
      for (int b = 0; b < f->bands; b++) {
        float sum = 0;
        if (bank)
          for (int i = first[b]; i < last[b]; i++) sum += re[i] * bank[(long)i * f->bands + b];
        else sum = re[b];
        if (f->floor > 0) sum = f->scale * logf(sum > f->floor ? sum : f->floor);
        y[b] = sum;
      }
    }
}
