/* Learns four words of its user on the board, from 20 examples of each: the
   head of a network that was trained on other words. README.md has the
   commands. */
#include "keyword_model.h"

#include <stdio.h>

#include "keyword_examples.h" /* stand-ins for what a board records */

/* The scale and offset of keyword.json. */
static const float* scaled(const unsigned char* bytes) {
  static float x[KEYWORD_IN];
  int i;
  for (i = 0; i < KEYWORD_IN; ++i) x[i] = (float)bytes[i] * 0.0078125f - 1;
  return x;
}

static int recognized(void) {
  int i, k, best, sum = 0;
  for (i = 0; i < 120; ++i) {
    float out[KEYWORD_OUT];
    keyword_predict(scaled(test_x[i]), out);
    for (best = 0, k = 1; k < KEYWORD_OUT; ++k) {
      if (out[k] > out[best]) best = k;
    }
    sum += best == test_y[i];
  }
  return sum;
}

int main(void) {
  int epoch, i;
  printf("before: %d of 120 words\n", recognized());
  for (epoch = 0; epoch < 30; ++epoch) {
    for (i = 0; i < 80; ++i) {
      /* Each KEYWORD_BATCH-th call updates the weights. */
      const int word = train_y[i];
      if (keyword_train(scaled(train_x[i]), &word, NULL) != 0) return 1;
    }
  }
  printf("after:  %d of 120 words\n", recognized());
  return 0;
}
