/* Learns the gestures of its user at the first start, and saves what it learnt.
   Later starts load it. README.md has the commands. */
#include "gesture_model.h"

#include <stdio.h>

#include "gesture_examples.h" /* stand-ins for what a board records */

static unsigned char state[GESTURE_STATE];

/* A file in place of a page of flash. */
static int load(void) {
  FILE* file = fopen("gesture.state", "rb");
  size_t bytes = 0;
  if (file != NULL) {
    bytes = fread(state, 1, sizeof state, file);
    fclose(file);
  }
  return gesture_load(state, (int)bytes); /* 0, or it was not such a state */
}

static int save(void) {
  FILE* file = fopen("gesture.state", "wb");
  gesture_save(state);
  if (file == NULL) return 1;
  return fwrite(state, sizeof state, 1, file) != 1 || fclose(file) != 0;
}

/* The scale and offset of gesture.json. */
static const float* scaled(const unsigned char* bytes) {
  static float x[GESTURE_IN];
  int i;
  for (i = 0; i < GESTURE_IN; ++i) x[i] = (float)bytes[i] * 0.0078125f - 1;
  return x;
}

static int recognized(void) {
  int i, k, best, sum = 0;
  for (i = 0; i < 120; ++i) {
    float out[GESTURE_OUT];
    gesture_predict(scaled(test_x[i]), out);
    for (best = 0, k = 1; k < GESTURE_OUT; ++k) {
      if (out[k] > out[best]) best = k;
    }
    sum += best == test_y[i];
  }
  return sum;
}

int main(void) {
  int epoch, i;
  const int loaded = load() == 0;
  printf("%s: %d of 120 gestures\n", loaded ? "loaded" : "before",
         recognized());
  if (loaded) return 0;
  for (epoch = 0; epoch < 30; ++epoch) {
    for (i = 0; i < 80; ++i) {
      const int gesture = train_y[i];
      if (gesture_train(scaled(train_x[i]), &gesture, NULL) != 0) return 1;
    }
  }
  printf("after:  %d of 120 gestures\n", recognized());
  return save();
}
