/* == resample == */
/* The share of cell `i` of an image axis in output cell `o`, as means over areas, or straight lines between centres,
   have it; *first and *last are the cells with a share. */
typedef struct {
  int size, out, area, grows;
} Axis;

static void cells_of(const Axis *a, int o, int *first, int *last) {
  const double scale = (double)a->size / a->out;
  if (a->area && !a->grows) {
    *first = (int)floor(o * scale + 1e-3);
    *last = (int)ceil((o + 1) * scale - 1e-3) - 1;
  } else {
    *first = (int)floor(a->area ? o * scale : (o + 0.5) * scale - 0.5);
    *last = *first + 1;
  }
}

static float share_of(const Axis *a, int o, int i) {
  const double scale = (double)a->size / a->out, begin = o * scale, end = begin + scale;
  if (a->area && !a->grows) {
    const double low = i > begin ? i : begin, high = i + 1 < end ? i + 1 : end;
    return (float)((high - low) / scale);
  }
  const double at = (o + 0.5) * scale - 0.5, low = floor(a->area ? begin : at);
  double part = a->area ? (o + 1) - (low + 1) / scale : at - low;
  if (a->area) part = part <= 0 ? 0 : part - floor(part);
  return (float)(i == (int)low ? 1 - part : part);
}

static int held(int i, int size) { return i < 0 ? 0 : i >= size ? size - 1 : i; }

/* Grey level of channel c at (row, column) of an image bytes [height, width, channels] resized to [h, w]. method 0: means
   over areas where it shrinks, straight lines elsewhere; 1 areas; 2 lines; 3 nearest. */
static int resampled(const unsigned char *x, int height, int width, int channels, int h, int w, int row, int column, int c, int method) {
  if (method == 3 || (height == h && width == w)) {
    const int i = held((int)floor(row * ((double)height / h)), height), j = held((int)floor(column * ((double)width / w)), width);
    return x[((long)i * width + j) * channels + c];
  }
  const int area = method == 1 || (method == 0 && (long)h * w < (long)height * width), grows = h > height || w > width;
  const Axis rows = {height, h, area, grows}, columns = {width, w, area, grows};
  int top, bottom, left, right;
  float sum = 0;
  cells_of(&rows, row, &top, &bottom);
  cells_of(&columns, column, &left, &right);
  for (int i = top; i <= bottom; i++) {
    const float share = share_of(&rows, row, i);
    for (int j = left; j <= right; j++)
      sum += share * share_of(&columns, column, j) * x[((long)held(i, height) * width + held(j, width)) * channels + c];
  }
  return held((int)rintf(sum), 256);
}

/* == letterboxed == */
/* Where a picture [height, width] lies in one of [h, w]: the largest size with its proportions that fits, no larger than
   it is unless it is enlarged, with the same rest on both sides if centred, else on the right and below. */
typedef struct {
  int height, width, top, left;
} Place;

static Place letterboxed(int height, int width, int h, int w, int centre, int enlarge) {
  double factor = (double)h / height < (double)w / width ? (double)h / height : (double)w / width;
  if (!enlarge && factor > 1) factor = 1;
  Place at = {(int)rint(height * factor), (int)rint(width * factor), 0, 0};
  at.height = at.height < 1 ? 1 : at.height > h ? h : at.height;
  at.width = at.width < 1 ? 1 : at.width > w ? w : at.width;
  if (centre) at.top = (h - at.height) / 2, at.left = (w - at.width) / 2;
  return at;
}
