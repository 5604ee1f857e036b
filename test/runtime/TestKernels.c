// Kernels of the hand-made model of TrainerTest: each word w has a number W[w],
// the loss of a token is (W[id] - label)^2 / 2. Called in-process and, from a
// shared object, by a packed program.
#include <math.h>
#include <stdint.h>

// buffers: W, gradient, ids, labels, loss, count; scalars: tokens of a row
void t_micro(void *const *b, const int64_t *scalars, int64_t begin, int64_t end) {
  const float *w = b[0];
  float *gradient = b[1], *loss = b[4], *count = b[5];
  const int64_t *ids = b[2], *labels = b[3];
  for (int64_t i = begin * scalars[0]; i < end * scalars[0]; ++i) {
    if (labels[i] == -100)
      continue;
    float error = w[ids[i]] - (float)labels[i];
    gradient[ids[i]] += error;
    *loss += 0.5f * error * error;
    *count += 1.0f;
  }
}

// buffers: gradient, loss, count, norm; scalars: words
void t_finish(void *const *b, const int64_t *scalars, int64_t begin, int64_t end) {
  float *gradient = b[0], *loss = b[1], *count = b[2], *norm = b[3];
  float sum = 0;
  for (int64_t i = 0; i < scalars[0]; ++i) {
    gradient[i] /= *count;
    sum += gradient[i] * gradient[i];
  }
  *loss /= *count;
  *norm = sqrtf(sum);
  (void)begin, (void)end;
}

// buffers: W, gradient, norm, lr, clip; scalars: words
void t_sgd(void *const *b, const int64_t *scalars, int64_t begin, int64_t end) {
  float *w = b[0];
  const float *gradient = b[1], *norm = b[2], *lr = b[3], *clip = b[4];
  float scale = *norm > *clip ? *clip / *norm : 1.0f;
  for (int64_t i = 0; i < scalars[0]; ++i)
    w[i] -= *lr * scale * gradient[i];
  (void)begin, (void)end;
}
