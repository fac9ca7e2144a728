/* == select_boxes == */
/* Which boxes are left of those that overlap one with a higher score. how: 0 hard, 1 linear, 2 gaussian, 3 matrix, 4 all of
   them; each: every class has a box of its own; apart: classes do not meet; sharp: -1 / sigma. */
typedef struct {
  int images, anchors, classes, each, apart, candidates, most, how;
  float overlap, lowest, sharp;
} Selecting;

/* A score at place anchor * classes + class; covered: the square of the largest overlap with a higher one. */
typedef struct {
  float score, covered;
  int at;
} Candidate;

static int stands_before(const Candidate *a, const Candidate *b) { return a->score > b->score || (a->score == b->score && a->at < b->at); }

/* Lets all[i] of a heap of n, with the last in order on top, sink to its place. */
static void sunk(Candidate *all, int i, int n) {
  const Candidate own = all[i];
  for (int child = 2 * i + 1; child < n; child = 2 * i + 1) {
    if (child + 1 < n && stands_before(&all[child], &all[child + 1])) child++;
    if (!stands_before(&own, &all[child])) break;
    all[i] = all[child];
    i = child;
  }
  all[i] = own;
}

/* The best scores of an image above the lowest, in order, at most s->candidates; how many there are. */
static int in_order(Candidate *all, const float *scores, const Selecting *s) {
  const int total = s->anchors * s->classes;
  int n = 0, k = 0;
  for (; k < total && n < s->candidates; k++)
    if (scores[k] > s->lowest) all[n].score = scores[k], all[n].covered = 0, all[n++].at = k;
  for (int i = n / 2 - 1; i >= 0; i--) sunk(all, i, n);
  for (; k < total; k++)
    if (scores[k] > all[0].score) {
      all[0].score = scores[k], all[0].at = k;
      sunk(all, 0, n);
    }
  for (int end = n - 1; end > 0; end--) {
    const Candidate last = all[0];
    all[0] = all[end], all[end] = last;
    sunk(all, 0, end);
  }
  return n;
}

static float area_of(const float *b) {
  const float width = b[2] - b[0], height = b[3] - b[1];
  return (width > 0 ? width : 0) * (height > 0 ? height : 0);
}

/* Intersection over union; 0 where both are empty. */
static float overlap_of(const float *a, const float *b) {
  const float width = (a[2] < b[2] ? a[2] : b[2]) - (a[0] > b[0] ? a[0] : b[0]);
  const float height = (a[3] < b[3] ? a[3] : b[3]) - (a[1] > b[1] ? a[1] : b[1]);
  const float shared = (width > 0 ? width : 0) * (height > 0 ? height : 0);
  return shared > 0 ? shared / (area_of(b) + area_of(a) - shared) : 0;
}

static const float *box_of(const float *boxes, const Candidate *one, const Selecting *s) {
  return boxes + 4 * (long)(s->each ? one->at : one->at / s->classes);
}

/* The overlap of two candidates; 0 where they do not meet. */
static float met(const float *boxes, const Candidate *a, const Candidate *b, const Selecting *s) {
  return s->apart && a->at % s->classes != b->at % s->classes ? 0 : overlap_of(box_of(boxes, a, s), box_of(boxes, b, s));
}

/* Scores lowered by what overlaps them, less where that is itself overlapped (Wang et al., arXiv 2003.10152). */
static void lowered_at_once(Candidate *all, int n, const float *boxes, const Selecting *s) {
  for (int k = 0; k < n; k++) {
    float worst = 0;
    for (int i = 0; i < k; i++) {
      const float overlap = met(boxes, &all[k], &all[i], s), square = overlap * overlap;
      if (square > all[k].covered) all[k].covered = square;
      if (square - all[i].covered > worst) worst = square - all[i].covered;
    }
    all[k].score *= expf(worst * s->sharp);
  }
}

/* The place of the best of n scores above the lowest, the first of equal ones; -1: none is left. */
static int best_left(const Candidate *all, int n, const Selecting *s) {
  int best = -1;
  for (int i = 0; i < n; i++)
    if (all[i].score > (best < 0 ? s->lowest : all[best].score)) best = i;
  return best;
}

/* Of boxes [images, anchors, 4 or classes, 4] and scores [images, anchors, classes] the boxes y, scores, labels and anchors
   that are left, `most` for each image, the best first, -1 behind the last; all: room for s->candidates. */
static void select_boxes(float *y, float *score, int64_t *label, int64_t *anchor, const float *boxes, const float *scores, Candidate *all, const Selecting *s) {
  for (int image = 0; image < s->images; image++) {
    const int n = in_order(all, scores, s), in_turn = s->how > 0 && s->how < 4;
    int count = 0;
    if (s->how == 3) lowered_at_once(all, n, boxes, s);
    for (int k = 0; k < n && count < s->most; k++) {
      const int best = in_turn ? best_left(all, n, s) : k;
      if (best < 0) break;
      const Candidate one = all[best];
      const float *box = box_of(boxes, &one, s);
      int left = 1;
      for (int i = 0; s->how == 0 && left && i < count; i++)
        left = (s->apart && label[i] != one.at % s->classes) || !(overlap_of(box, y + 4 * i) > s->overlap);
      if (!left) continue;
      memcpy(y + 4 * count, box, 4 * sizeof(float));
      score[count] = one.score, label[count] = one.at % s->classes, anchor[count++] = one.at / s->classes;
      if (in_turn) all[best].score = s->lowest;
      for (int i = 0; (s->how == 1 || s->how == 2) && i < n; i++) {
        const float overlap = all[i].score > s->lowest ? met(boxes, &one, &all[i], s) : 0;
        if (overlap > 0) all[i].score *= s->how == 2 ? expf(overlap * overlap * s->sharp) : overlap > s->overlap ? 1 - overlap : 1;
      }
    }
    for (int k = count; k < s->most; k++) {
      memset(y + 4 * k, 0, 4 * sizeof(float));
      score[k] = 0, label[k] = anchor[k] = -1;
    }
    y += 4 * (long)s->most, score += s->most, label += s->most, anchor += s->most;
    boxes += 4 * (long)s->anchors * (s->each ? s->classes : 1), scores += (long)s->anchors * s->classes;
  }
}
