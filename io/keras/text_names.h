// Keras's names of the settings of TextVectorization.

#ifndef RINGLET_IO_KERAS_TEXT_NAMES_H_
#define RINGLET_IO_KERAS_TEXT_NAMES_H_

#include "name_table.h"
#include "ringlet/dataset.h"

namespace ringlet {

constexpr Named<TextVectorization::Standardize> kStandardize[] = {
    {"lower_and_strip_punctuation",
     TextVectorization::Standardize::kLowerAndStripPunctuation},
    {"lower", TextVectorization::Standardize::kLower},
    {"strip_punctuation", TextVectorization::Standardize::kStripPunctuation},
    {"none", TextVectorization::Standardize::kNone}};

constexpr Named<TextVectorization::Split> kSplit[] = {
    {"whitespace", TextVectorization::Split::kWhitespace},
    {"character", TextVectorization::Split::kCharacter}};

}  // namespace ringlet

#endif  // RINGLET_IO_KERAS_TEXT_NAMES_H_
