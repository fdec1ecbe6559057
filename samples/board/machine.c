/* Learns the normal hum of one machine on the board: an autoencoder that was
   trained on other machines. README.md has the commands. */
#include "machine_model.h"

#include <stdio.h>

#include "machine_examples.h" /* stand-ins for what a board records */

static const float* scaled(const unsigned char* bytes) {
  static float x[MACHINE_IN];
  int i;
  for (i = 0; i < MACHINE_IN; ++i) x[i] = (float)bytes[i] / 256;
  return x;
}

/* The error of the reconstruction: the score of an anomaly. */
static float score(const unsigned char* bytes) {
  const float* x = scaled(bytes);
  float out[MACHINE_OUT], sum = 0;
  int i;
  machine_predict(x, out);
  for (i = 0; i < MACHINE_OUT; ++i) sum += (x[i] - out[i]) * (x[i] - out[i]);
  return sum / MACHINE_OUT;
}

/* What is above the score of all examples but two is an anomaly. */
static void report(const char* when) {
  float first = 0, second = 0, third = 0;
  int i, normal = 0, faulty = 0;
  for (i = 0; i < 100; ++i) {
    const float s = score(train_x[i]);
    if (s > first)
      third = second, second = first, first = s;
    else if (s > second)
      third = second, second = s;
    else if (s > third)
      third = s;
  }
  for (i = 0; i < 120; ++i) {
    normal += score(normal_x[i]) > third;
    faulty += score(faulty_x[i]) > third;
  }
  printf("%s: %d of 120 faulty hums are found, %d of 120 normal ones\n", when,
         faulty, normal);
}

int main(void) {
  int epoch, i;
  report("before");
  for (epoch = 0; epoch < 40; ++epoch) {
    for (i = 0; i < 100; ++i) {
      const float* x = scaled(train_x[i]);
      if (machine_train(x, x, NULL) != 0) return 1;
    }
  }
  report("after");
  return 0;
}
