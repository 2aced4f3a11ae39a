// Whether a training batch counts, decided on the device: its memory was whole and its loss is finite. The first batch
// that does not stops every later step, since the host reads the verdict later.
#pragma once

#include "intrinsics.cuh"

// The numbers that the device keeps, float64 each, by their places. A reading is a copy of them.
constexpr unsigned int UVA_VERDICT_STATE = 0;     // one of UVA_VERDICT_GOOD…; that of the first bad batch stays
constexpr unsigned int UVA_VERDICT_BATCHES = 1;   // good batches so far
constexpr unsigned int UVA_VERDICT_LOSS = 2;      // the last judged batch's mean loss; 0 if no seed of it has a label
constexpr unsigned int UVA_VERDICT_LOSSES = 3;    // since the last reading: the sum of the losses of labels,
constexpr unsigned int UVA_VERDICT_CORRECT = 4;   // right answers,
constexpr unsigned int UVA_VERDICT_LABELLED = 5;  // and labels
constexpr unsigned int UVA_VERDICT_NUMBERS = 6;

// States. All numbers are 0 before the first batch.
constexpr unsigned int UVA_VERDICT_GOOD = 0;
constexpr unsigned int UVA_VERDICT_DIVERGED = 1;
constexpr unsigned int UVA_VERDICT_NOT_WHOLE = 2;

struct VerdictArguments {
  const void* loss;               // the mean loss; null where the batch has no seed
  const long long* correct;       // right answers; null with `loss`
  const long long* labelled;      // labels; null with `loss`
  unsigned long long wide;        // 0: the loss is float32, 1: float64
  const long long* words;         // the batch's report; null for memory that cannot be taken away
  unsigned long long places[2];   // words that show whether the batch was whole,
  long long expected[2];          // and their values if it was
  unsigned long long first;       // 1: the first batch of a reading
  double* numbers;                // UVA_VERDICT_NUMBERS
  double* reading;                // as many, in pinned host memory
  float* skipped;                 // 1 where the batch's step is to be skipped, else 0: libtorch's `found_inf`
};

namespace uva {

__device__ __forceinline__ void judge(const VerdictArguments& arguments) {
  double numbers[UVA_VERDICT_NUMBERS];
#pragma unroll
  for (u32 place = 0; place < UVA_VERDICT_NUMBERS; ++place) {
    const bool sum = place >= UVA_VERDICT_LOSSES;
    numbers[place] = sum && arguments.first ? 0.0 : arguments.numbers[place];
  }
  const bool seeds = arguments.loss != nullptr;
  const double labelled = seeds ? (double)*arguments.labelled : 0.0;
  // The mean over no label is NaN, and no failure.
  double loss = 0.0;
  if (labelled > 0.0)
    loss = arguments.wide ? *static_cast<const double*>(arguments.loss) : (double)*static_cast<const float*>(arguments.loss);
  u32 state = loss - loss == 0.0 ? UVA_VERDICT_GOOD : UVA_VERDICT_DIVERGED;
  // Unfinished data is reported as unfinished, whatever it contains.
  if (arguments.words != nullptr)
    for (u32 which = 0; which < 2; ++which)
      if (arguments.words[arguments.places[which]] != arguments.expected[which]) state = UVA_VERDICT_NOT_WHOLE;
  // The first bad batch stays the last that is written down.
  if (numbers[UVA_VERDICT_STATE] == (double)UVA_VERDICT_GOOD) {
    numbers[UVA_VERDICT_STATE] = (double)state;
    numbers[UVA_VERDICT_LOSS] = loss;
  }
  const bool good = numbers[UVA_VERDICT_STATE] == (double)UVA_VERDICT_GOOD;
  if (good) {
    numbers[UVA_VERDICT_BATCHES] += 1.0;
    numbers[UVA_VERDICT_LOSSES] += loss * labelled;
    numbers[UVA_VERDICT_CORRECT] += seeds ? (double)*arguments.correct : 0.0;
    numbers[UVA_VERDICT_LABELLED] += labelled;
  }
  *arguments.skipped = good && labelled > 0.0 ? 0.0f : 1.0f;
#pragma unroll
  for (u32 place = 0; place < UVA_VERDICT_NUMBERS; ++place) {
    arguments.numbers[place] = numbers[place];
    arguments.reading[place] = numbers[place];
  }
}

}  // namespace uva
