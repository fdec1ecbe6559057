#include "keras_names.h"

#include <algorithm>

#include "../../core/base/text.h"
#include "name_table.h"

namespace ringlet {
namespace {

struct Category {
  const char* what;
  const char* names;  // a blank between two
};

constexpr Category kCategories[] = {
    {"layer",
     "Activation ActivityRegularization Add AdaptiveAveragePooling1D "
     "AdaptiveAveragePooling2D AdaptiveAveragePooling3D AdaptiveMaxPooling1D "
     "AdaptiveMaxPooling2D AdaptiveMaxPooling3D AdditiveAttention AlphaDropout "
     "Attention AugMix AutoContrast Average AveragePooling1D AveragePooling2D "
     "AveragePooling3D BatchNormalization Bidirectional CategoryEncoding "
     "CenterCrop Concatenate Conv1D Conv1DTranspose Conv2D Conv2DTranspose "
     "Conv3D Conv3DTranspose ConvLSTM1D ConvLSTM2D ConvLSTM3D Cropping1D "
     "Cropping2D Cropping3D CutMix Dense DepthwiseConv1D DepthwiseConv2D "
     "Discretization Dot Dropout ELU EinsumDense Embedding Equalization "
     "Flatten FlaxLayer GRU GRUCell GaussianDropout GaussianNoise "
     "GlobalAveragePooling1D GlobalAveragePooling2D GlobalAveragePooling3D "
     "GlobalMaxPooling1D GlobalMaxPooling2D GlobalMaxPooling3D "
     "GroupNormalization GroupQueryAttention GroupedQueryAttention "
     "HashedCrossing Hashing Identity InputLayer IntegerLookup JaxLayer LSTM "
     "LSTMCell Lambda LayerNormalization LeakyReLU Masking MaxNumBoundingBoxes "
     "MaxPooling1D MaxPooling2D MaxPooling3D Maximum MelSpectrogram Minimum "
     "MixUp MultiHeadAttention Multiply Normalization PReLU Permute Pipeline "
     "RMSNormalization RNN RandAugment RandomBrightness "
     "RandomColorDegeneration RandomColorJitter RandomContrast RandomCrop "
     "RandomElasticTransform RandomErasing RandomFlip RandomGaussianBlur "
     "RandomGrayscale RandomHeight RandomHue RandomInvert RandomPerspective "
     "RandomPosterization RandomRotation RandomSaturation RandomSharpness "
     "RandomShear RandomTranslation RandomWidth RandomZoom ReLU RepeatVector "
     "Rescaling Reshape Resizing ReversibleEmbedding STFTSpectrogram "
     "SeparableConv1D SeparableConv2D SimpleRNN SimpleRNNCell Softmax "
     "Solarization SpatialDropout1D SpatialDropout2D SpatialDropout3D "
     "SpectralNormalization StackedRNNCells StringLookup Subtract TFSMLayer "
     "TextVectorization TimeDistributed TorchModuleWrapper UnitNormalization "
     "UpSampling1D UpSampling2D UpSampling3D Wrapper ZeroPadding1D "
     "ZeroPadding2D ZeroPadding3D"},
    {"activation",
     "celu elu exponential gelu glu hard_shrink hard_sigmoid hard_silu "
     "hard_tanh leaky_relu linear log_sigmoid log_softmax mish relu relu6 "
     "selu sigmoid silu soft_shrink softmax softplus softsign sparse_plus "
     "sparse_sigmoid sparsemax squareplus swish tanh tanh_shrink threshold"},
    {"initializer",
     "Constant GlorotNormal GlorotUniform HeNormal HeUniform Identity "
     "LecunNormal LecunUniform Ones Orthogonal RandomNormal RandomUniform "
     "STFT TruncatedNormal VarianceScaling Zeros"},
    {"regularizer", "L1 L1L2 L2 OrthogonalRegularizer"},
    {"constraint", "MaxNorm MinMaxNorm NonNeg UnitNorm"},
    {"loss",
     "BinaryCrossentropy BinaryFocalCrossentropy CTC CategoricalCrossentropy "
     "CategoricalFocalCrossentropy CategoricalGeneralizedCrossEntropy "
     "CategoricalHinge Circle CosineSimilarity Dice Hinge Huber KLDivergence "
     "LogCosh MeanAbsoluteError MeanAbsolutePercentageError MeanSquaredError "
     "MeanSquaredLogarithmicError Poisson SparseCategoricalCrossentropy "
     "SquaredHinge Tversky"},
    {"metric",
     "AUC Accuracy BinaryAccuracy BinaryCrossentropy BinaryIoU "
     "CategoricalAccuracy CategoricalCrossentropy CategoricalHinge "
     "ConcordanceCorrelation CosineSimilarity F1Score FBetaScore "
     "FalseNegatives FalsePositives Hinge IoU KLDivergence LogCoshError Mean "
     "MeanAbsoluteError MeanAbsolutePercentageError MeanIoU "
     "MeanMetricWrapper MeanSquaredError MeanSquaredLogarithmicError "
     "OneHotIoU OneHotMeanIoU PearsonCorrelation Poisson Precision "
     "PrecisionAtRecall R2Score Recall RecallAtPrecision "
     "RootMeanSquaredError SensitivityAtSpecificity SparseCategoricalAccuracy "
     "SparseCategoricalCrossentropy SparseTopKCategoricalAccuracy "
     "SpecificityAtSensitivity SquaredHinge Sum TopKCategoricalAccuracy "
     "TrueNegatives TruePositives"},
    {"optimizer",
     "Adadelta Adafactor Adagrad Adam AdamW Adamax Ftrl Lamb Lion "
     "LossScaleOptimizer Muon Nadam RMSprop SGD"},
    {"learning rate schedule",
     "CosineDecay CosineDecayRestarts ExponentialDecay InverseTimeDecay "
     "PiecewiseConstantDecay PolynomialDecay"},
    {"interpolation",
     "area bicubic bilinear gaussian lanczos3 lanczos5 mitchellcubic nearest"},
    {"callback",
     "BackupAndRestore CSVLogger EarlyStopping History LambdaCallback "
     "LearningRateScheduler ModelCheckpoint OrbaxCheckpoint ProgbarLogger "
     "ReduceLROnPlateau RemoteMonitor SwapEMAWeights TensorBoard "
     "TerminateOnNaN"},
};

std::string Letters(const std::string& name) {
  std::string letters = LowerAscii(name);
  letters.erase(std::remove(letters.begin(), letters.end(), '_'),
                letters.end());
  return letters;
}

}  // namespace

std::vector<std::string> KerasNames(const std::string& category) {
  for (const auto& entry : kCategories) {
    if (category == entry.what) return Words(entry.names);
  }
  return {};
}

std::string KerasName(const std::string& category, const std::string& word) {
  const std::string letters = Letters(word);
  for (const std::string& name : KerasNames(category)) {
    if (Letters(name) == letters) return name;
  }
  return "";
}

}  // namespace ringlet
