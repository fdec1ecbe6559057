// Layers: the parts of a model, with the names of Keras; initializers,
// regularizers and constraints of their weights.

#ifndef RINGLET_LAYERS_H_
#define RINGLET_LAYERS_H_

#include <bitset>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shape.h"

namespace ringlet {

// --- initializers, regularizers, constraints ---------------------------------

// Initializers give weights, regularizers add penalties to the loss, and
// constraints replace a weight after each update, as Keras 3's
// initializers/random_initializers.py, regularizers.py and
// constraints/constraints.py. The random numbers are ringlet's own (Philox).

struct Initializer {
  enum class Kind : uint8_t {
    kConstant,         // a
    kUniform,          // [a, b)
    kNormal,           // mean a, standard deviation b
    kTruncatedNormal,  // the same, redrawn outside two deviations
    kVarianceScaling,  // scale a
    kOrthogonal,       // gain a
  };
  enum class Mode : uint8_t { kFanIn, kFanOut, kFanAvg };
  enum class Distribution : uint8_t {
    kUniform,
    kTruncatedNormal,
    kUntruncatedNormal,
  };

  Kind kind = Kind::kConstant;
  float a = 0;
  float b = 0;
  Mode mode = Mode::kFanIn;                            // kVarianceScaling
  Distribution distribution = Distribution::kUniform;  // kVarianceScaling
};

Initializer Zeros();
Initializer Ones();
Initializer Constant(float value);
Initializer RandomUniform(float minval = -0.05f, float maxval = 0.05f);
Initializer RandomNormal(float mean = 0, float stddev = 0.05f);
Initializer TruncatedNormal(float mean = 0, float stddev = 0.05f);
Initializer VarianceScaling(float scale, Initializer::Mode mode,
                            Initializer::Distribution distribution);
Initializer GlorotUniform();  // limit sqrt(6 / (fan_in + fan_out))
Initializer GlorotNormal();
Initializer HeUniform();  // limit sqrt(6 / fan_in)
Initializer HeNormal();
Initializer LecunUniform();  // limit sqrt(3 / fan_in)
Initializer LecunNormal();
// A matrix with orthogonal rows or columns, each of length `gain`.
Initializer Orthogonal(float gain = 1);

// L1 adds l1 * sum |w|, L2 adds l2 * sum w^2 (not halved).
struct Regularizer {
  float l1 = 0;
  float l2 = 0;
  bool empty() const { return l1 == 0 && l2 == 0; }
};

inline Regularizer L1(float l1 = 0.01f) { return {l1, 0}; }
inline Regularizer L2(float l2 = 0.01f) { return {0, l2}; }
inline Regularizer L1L2(float l1 = 0, float l2 = 0) { return {l1, l2}; }

// A norm is the square root of a sum of squares over `axis`; -1 is the last
// axis, and an empty list means all. With local updates each worker constrains
// its own weights, and a round's mean may have other norms.
struct Constraint {
  enum class Kind : uint8_t {
    kNone,
    kMaxNorm,   // norms of at most max_value
    kNonNeg,    // max(w, 0)
    kUnitNorm,  // norms of 1
    // Moves norms by `rate` toward [min_value, max_value]; 1 moves into it.
    kMinMaxNorm,
  };

  Kind kind = Kind::kNone;
  float min_value = 0, max_value = 0, rate = 1;
  std::vector<int64_t> axis;
  bool empty() const { return kind == Kind::kNone; }
};

Constraint MaxNorm(float max_value = 2, const std::vector<int64_t>& axis = {0});
Constraint NonNeg();
Constraint UnitNorm(const std::vector<int64_t>& axis = {0});
Constraint MinMaxNorm(float min_value = 0, float max_value = 1, float rate = 1,
                      const std::vector<int64_t>& axis = {0});

// --- a layer -----------------------------------------------------------------

enum Activation : uint8_t {
  kLinear,
  kRelu,
  kSigmoid,
  kTanh,
  kSoftmax,            // over the last axis
  kRelu6,              // min(max(x, 0), 6)
  kElu,                // x, or exp(x) - 1 below 0
  kSelu,               // 1.0507 x, or 1.7581 (exp(x) - 1) below 0
  kLeakyRelu,          // x, or 0.2 x below 0
  kExponential,        // exp(x)
  kHardSigmoid,        // relu6(x + 3) / 6
  kSoftsign,           // x / (1 + |x|)
  kSoftplus,           // log(1 + exp(x))
  kLogSoftmax,         // log(softmax(x))
  kGelu,               // x (1 + erf(x / sqrt 2)) / 2
  kSilu,               // x sigmoid(x)
  kHardSilu,           // x relu6(x + 3) / 6
  kMish,               // x tanh(softplus(x))
  kHardSigmoidKeras2,  // 0.2 x + 0.5, clipped to [0, 1], as in Keras 2
};
// The Keras name: "linear", "relu".
const char* ActivationName(Activation activation);

// kValid: no padding. kSame: output = ceil(input / stride); an odd padding
// pixel is at the bottom or right, as in TensorFlow. kCausal, for Conv1D: all
// padding is in front, so no output depends on later steps.
enum PaddingMode : uint8_t { kValid, kSame, kCausal };

// How a Bidirectional joins the outputs of both directions.
// kMergeNone: both outputs, tensors 0 and 1 for RecurrentOutput.
enum MergeMode : uint8_t {
  kMergeConcat,
  kMergeSum,
  kMergeMul,
  kMergeAve,
  kMergeNone,
};

// The axes of a RandomFlip; it flips both or neither, as in Keras 3.
enum class FlipMode : uint8_t {
  kHorizontal,
  kVertical,
  kHorizontalAndVertical
};

// The pixels outside of an image with the row a b c d: dcba|abcd|dcba,
// abcd|abcd|abcd, fill_value, or aaaa|abcd|dddd.
enum class FillMode : uint8_t { kReflect, kWrap, kConstant, kNearest };

// The numbers of an STFTSpectrogram. r + i m is the transform of a frame, and p
// = max(r^2 + m^2, 1e-7). In order: log(max(sqrt(p), 1e-7)); sqrt(p); r^2 +
// m^2, doubled between the first and the last frequency; r; m; the angle; all r
// and then all m.
enum class SpectrogramMode : uint8_t {
  kLog,
  kMagnitude,
  kPsd,
  kReal,
  kImag,
  kAngle,
  kStft
};
// An STFTSpectrogram's window, and its divisor: the root of the sum of squares,
// or its sum. WindowFunction::kNone is a window of ones without a divisor.
enum class WindowFunction : uint8_t { kHann, kHamming, kNone };
enum class WindowScaling : uint8_t { kDensity, kSpectrum, kNone };

// Numbers from `lower` to `upper`, from which training draws.
struct FloatRange {
  FloatRange() = default;        // none
  FloatRange(float number);      // NOLINT: implicit; from -|number| to |number|
  FloatRange(float a, float b);  // the range from the lesser to the greater
  bool is_none = true;
  float lower = 0, upper = 0;
};

class CustomLayer;
struct NestedModel;

// Keras's policies "float32" and "mixed_bfloat16". With the second a layer's
// output and its gradient are rounded to bfloat16; training keeps the output in
// half the memory. Weights, products and sums are float32.
enum class DTypePolicy : uint8_t { kFloat32, kMixedBFloat16 };

// A plain value of the factories below. Setters have the names of Keras's
// arguments. If a setter does not belong to the layer, adding the layer to a
// model is an error.
struct Layer {
  // The copy functions are not inline: their code is long, and many functions
  // copy a Layer.
  Layer();
  Layer(const Layer&);
  Layer(Layer&&) noexcept;
  Layer& operator=(const Layer&);
  Layer& operator=(Layer&&) noexcept;
  ~Layer();

  // --- setters ---

  // Every layer.
  Layer& Name(std::string n);
  // False freezes the layer: no gradient, slots or regularization. See also
  // Model::SetTrainable.
  Layer& Trainable(bool train);
  Layer& DType(DTypePolicy policy);

  // Dense, convolutions, SimpleRNN, LSTM, GRU, MultiHeadAttention.
  Layer& UseBias(bool use);
  Layer& BiasInitializer(const Initializer& initializer);
  Layer& BiasRegularizer(const Regularizer& regularizer);
  Layer& BiasConstraint(const Constraint& constraint);
  // Dense, Conv, ConvTranspose, recurrent layers, MultiHeadAttention.
  Layer& KernelInitializer(const Initializer& initializer);
  Layer& KernelRegularizer(const Regularizer& regularizer);
  Layer& KernelConstraint(const Constraint& constraint);

  // Convolutions, pooling layers with a window.
  Layer& Strides(int64_t height, int64_t width);
  Layer& Strides(int64_t both) { return Strides(both, both); }
  Layer& Padding(PaddingMode mode);

  // Convolutions: the distance of a window's taps.
  Layer& DilationRate(int64_t height, int64_t width);
  Layer& DilationRate(int64_t both) { return DilationRate(both, both); }
  // Conv1D, Conv2D: groups, of which channels and filters are multiples.
  Layer& Groups(int64_t number);

  // Conv1DTranspose, Conv2DTranspose: less than the strides. By default the
  // output has input * strides pixels with "same", and max(kernel - strides, 0)
  // more with "valid", with the kernel's dilation.
  Layer& OutputPadding(int64_t height, int64_t width);
  Layer& OutputPadding(int64_t both) { return OutputPadding(both, both); }

  // DepthwiseConv, SeparableConv.
  Layer& DepthMultiplier(int64_t filters_per_channel);
  Layer& DepthwiseInitializer(const Initializer& initializer);
  Layer& DepthwiseRegularizer(const Regularizer& regularizer);
  Layer& DepthwiseConstraint(const Constraint& constraint);
  // SeparableConv.
  Layer& PointwiseInitializer(const Initializer& initializer);
  Layer& PointwiseRegularizer(const Regularizer& regularizer);
  Layer& PointwiseConstraint(const Constraint& constraint);

  // Global pooling layers.
  Layer& KeepDims(bool keep);

  // Layers with random numbers. `s` is added to the model's seed.
  Layer& Seed(uint64_t s);
  // Dropout, AlphaDropout: the shape of an example's random numbers. An axis of
  // size 1 shares them: {1, 1, -1} drops whole channels. -1 is the input's
  // size. Only the first axes may have size 1.
  Layer& NoiseShape(const Shape& sizes);

  // RandomTranslation, RandomRotation, RandomZoom; FillValue also Resizing with
  // pad_to_aspect_ratio.
  Layer& FillMode(ringlet::FillMode fill_mode);
  Layer& FillValue(float value);
  // RandomTranslation, RandomRotation, RandomZoom, Resizing.
  Layer& Interpolation(ringlet::Interpolation interpolation);
  // RandomContrast, RandomBrightness: the range of a pixel.
  Layer& ValueRange(float low, float high);
  // Resizing keeps the ratio of height to width, and cuts out the largest
  // middle part with the new ratio, or adds a border.
  Layer& CropToAspectRatio(bool crop);
  Layer& PadToAspectRatio(bool pad);

  // SimpleRNN, LSTM, GRU.
  Layer& RecurrentInitializer(const Initializer& initializer);
  Layer& RecurrentRegularizer(const Regularizer& regularizer);
  Layer& RecurrentConstraint(const Constraint& constraint);
  // The output has the state after each step, not only the last one.
  Layer& ReturnSequences(bool return_sequences);
  // Several tensors, of which a RecurrentOutput takes one.
  Layer& ReturnState(bool return_state);
  // Begins with the last step. The output has the order of the computation.
  Layer& GoBackwards(bool go_backwards);
  // The output of a masked step is zeros, not the output of the previous step.
  Layer& ZeroOutputForMask(bool zero_output_for_mask);
  // Dropped fractions of inputs or attention weights, and of the state before a
  // product. An example has one mask in all steps.
  Layer& Dropout(float fraction);
  Layer& RecurrentDropout(float fraction);
  // LSTM: the bias of the forget gate begins as 1.
  Layer& UnitForgetBias(bool unit_forget_bias);
  // GRU: the reset gate multiplies the product of the state, which has a bias
  // of its own. If false, it multiplies the state before the product.
  Layer& ResetAfter(bool reset_after);

  // Attention, MultiHeadAttention; Dropout is above.
  // A query attends only to its own step and to earlier steps.
  Layer& UseCausalMask(bool use_causal_mask);
  Layer& ValueDim(int64_t size);  // MultiHeadAttention: key_dim if not set
  // Attention: multiplies the scores by a trained factor; by default it has
  // none. AdditiveAttention: multiplies each feature of tanh(query + key) by a
  // trained factor of its own; if false, it adds them as they are.
  Layer& UseScale(bool use_scale);

  // Embedding, PositionEmbedding.
  Layer& EmbeddingsInitializer(const Initializer& initializer);
  // Embedding.
  Layer& EmbeddingsRegularizer(const Regularizer& regularizer);
  Layer& EmbeddingsConstraint(const Constraint& constraint);
  // Steps of number 0 are padding: the layers after it leave them out.
  Layer& MaskZero(bool mask_zero);

  // Dense, Embedding: freezes the kernel or matrix W. The layer computes with W
  // + alpha / rank A B, and trains A (inputs, rank) and B (rank, outputs),
  // which begins as zeros. Alpha is the rank if not set.
  Layer& LoraRank(int64_t rank);
  Layer& LoraAlpha(int64_t alpha);

  // PReLU.
  Layer& AlphaInitializer(const Initializer& initializer);
  Layer& AlphaRegularizer(const Regularizer& regularizer);
  Layer& AlphaConstraint(const Constraint& constraint);

  // BatchNormalization, LayerNormalization.
  Layer& Center(bool center);  // the layer has beta
  Layer& Scale(bool scale);    // the layer has gamma
  Layer& GammaInitializer(const Initializer& initializer);
  Layer& BetaInitializer(const Initializer& initializer);
  Layer& GammaRegularizer(const Regularizer& regularizer);
  Layer& GammaConstraint(const Constraint& constraint);
  Layer& BetaRegularizer(const Regularizer& regularizer);
  Layer& BetaConstraint(const Constraint& constraint);
  // BatchNormalization.
  Layer& MovingMeanInitializer(const Initializer& initializer);
  Layer& MovingVarianceInitializer(const Initializer& initializer);
  // BatchNormalization: in training the statistics of all workers' batches, for
  // which they wait in every such layer.
  Layer& Synchronized(bool synchronized);
  // LayerNormalization, UnitNormalization, Softmax: the axes of a mean, norm or
  // sum. 0 is the batch, -1 the last. Of a mean or norm they are the last.
  Layer& Axes(const std::vector<int64_t>& axes);

  // Normalization: computes the original values from normalized ones.
  Layer& Invert(bool invert);

  // --- fields: what the factories and setters have set ---

  // Every layer.
  enum class Kind : uint8_t;  // core/layers/layer_kind.h
  Kind kind{};                // Input; see ClassName
  std::string name;  // "" is replaced by "dense", then "dense_1", and so on
  bool trainable = true;
  DTypePolicy dtype = DTypePolicy::kFloat32;

  // Input, Reshape (one dimension may be -1), Permute.
  Shape shape;

  // Dense, convolutions. ActivationLayer has an activation too.
  int64_t units = 0;  // Dense units, Conv2D filters
  Activation activation = kLinear;
  bool use_bias = true;
  Initializer kernel_initializer = GlorotUniform();
  Initializer bias_initializer = Zeros();
  Regularizer kernel_regularizer;
  Regularizer bias_regularizer;
  Constraint kernel_constraint, bias_constraint;

  // Convolutions, pooling layers, UpSampling: kernel_size, pool_size or size,
  // as (height, width). One axis has the second number of such pairs.
  int64_t window[2] = {1, 1};
  int64_t strides[2] = {1, 1};
  PaddingMode padding = kValid;

  // Convolutions.
  int64_t dilation[2] = {1, 1};
  // Groups of channels, in convolutions and GroupNormalization.
  int64_t groups = 1;
  int64_t output_padding[2] = {-1, -1};  // transposed; -1 if not set

  // DepthwiseConv, SeparableConv.
  int64_t depth_multiplier = 1;  // filters of each channel
  Initializer depthwise_initializer = GlorotUniform();
  Initializer pointwise_initializer = GlorotUniform();
  Regularizer depthwise_regularizer;
  Regularizer pointwise_regularizer;
  Constraint depthwise_constraint, pointwise_constraint;

  // ZeroPadding, Cropping: at the top, bottom, left and right.
  int64_t borders[4] = {0, 0, 0, 0};

  // Global pooling layers.
  bool keepdims = false;

  // Dropout, SpatialDropout, AlphaDropout, GaussianDropout, GaussianNoise.
  float rate = 0;     // the fraction set to 0, or a deviation
  uint64_t seed = 0;  // added to the model's seed
  Shape noise_shape;  // Dropout, AlphaDropout; -1 means the input's size

  // Layers that change images.
  FlipMode mode = FlipMode::kHorizontalAndVertical;  // RandomFlip
  // RandomRotation, RandomBrightness, RandomContrast (1 - lower to 1 + upper).
  FloatRange factor;
  // RandomTranslation, RandomZoom. width_factor may be none.
  FloatRange height_factor, width_factor;
  ringlet::FillMode fill_mode = ringlet::FillMode::kReflect;
  float fill_value = 0;
  FloatRange value_range = {0, 255};  // RandomContrast, RandomBrightness
  // CenterCrop, Resizing, RandomCrop.
  int64_t height = 1, width = 1;
  ringlet::Interpolation interpolation = ringlet::Interpolation::kBilinear;
  bool crop_to_aspect_ratio = false, pad_to_aspect_ratio = false;  // Resizing

  // ReLU, LeakyReLU, ELU, PReLU.
  float max_value = std::numeric_limits<float>::infinity();  // ReLU
  float negative_slope = 0, threshold = 0;  // ReLU; also LeakyReLU's slope
  float alpha = 1;                          // ELU
  Initializer alpha_initializer = Zeros();  // PReLU
  Regularizer alpha_regularizer;
  Constraint alpha_constraint;
  std::vector<int64_t> shared_axes;  // PReLU: counted from 1, after the batch

  // SimpleRNN, LSTM, GRU; also the fields of Dense.
  Activation recurrent_activation = kSigmoid;  // the gates' activation
  Initializer recurrent_initializer = Orthogonal();
  Regularizer recurrent_regularizer;
  Constraint recurrent_constraint;
  bool unit_forget_bias = true;  // LSTM
  bool reset_after = true;       // GRU
  float dropout = 0;             // the dropped fraction of the inputs
  float recurrent_dropout = 0;   // the dropped fraction of the state
  bool return_sequences = false;
  bool return_state = false;
  bool go_backwards = false;
  bool zero_output_for_mask = false;

  // Bidirectional, TimeDistributed.
  std::shared_ptr<const Layer> layer, backward_layer;
  MergeMode merge_mode = kMergeConcat;

  int64_t tensor = 0;   // RecurrentOutput
  int64_t repeats = 1;  // RepeatVector

  // Embedding; its units are output_dim. PositionEmbedding; input_dim is
  // sequence_length.
  int64_t input_dim = 1;
  Initializer embeddings_initializer = RandomUniform();
  Regularizer embeddings_regularizer;
  Constraint embeddings_constraint;
  bool mask_zero = false;  // Embedding

  float mask_value = 0;  // Masking

  // Dense, Embedding.
  int64_t lora_rank = 0;   // zero means no LoRA
  int64_t lora_alpha = 0;  // zero means lora_rank

  // Attention, MultiHeadAttention; the latter also has the fields of Dense.
  int64_t num_heads = 1, key_dim = 1;
  int64_t value_dim = 0;   // zero means key_dim
  bool use_scale = false;  // Attention, AdditiveAttention
  bool normalize = false;  // Dot: of rows divided by their norm
  bool use_causal_mask = false;

  // BatchNormalization, LayerNormalization.
  float momentum = 0.99f, epsilon = 1e-3f;
  bool center = true, scale = true;  // it has beta, it has gamma
  bool synchronized = false;
  Initializer gamma_initializer = Ones(), beta_initializer = Zeros();
  Initializer moving_mean_initializer = Zeros();
  Initializer moving_variance_initializer = Ones();
  Regularizer gamma_regularizer, beta_regularizer;
  Constraint gamma_constraint, beta_constraint;
  std::vector<int64_t> axes = {-1};  // also UnitNormalization, Softmax, Dot

  // Rescaling, Normalization.
  std::vector<float> scales, offsets;   // Rescaling
  std::vector<float> means, variances;  // Normalization
  bool invert = false;                  // Normalization
  bool adapt = true;  // Normalization: data give means and variances

  // MelSpectrogram, MFCC, STFTSpectrogram, without setters. A field without the
  // name of a layer belongs to MelSpectrogram and MFCC. STFTSpectrogram also
  // has the lengths.
  int64_t sampling_rate = 16000;  // samples per second
  int64_t fft_length = 2048;      // not Mel: zero means the next power of 2
  int64_t sequence_length = 0;    // of a frame; zero means fft_length
  int64_t sequence_stride = 512;  // samples from a frame's start to the next
  int64_t num_mel_bins = 128;
  float min_freq = 20;  // the start of the first mel bin, in Hz
  // Infinity means half of sampling_rate.
  float max_freq = std::numeric_limits<float>::infinity();
  float mag_exp = 2;         // the power of a magnitude
  bool power_to_db = true;   // MFCC: if false, natural logarithms
  float top_db = 80;         // MelSpectrogram: the range below the maximum
  float min_power = 1e-10f;  // MelSpectrogram
  float ref_power = 1;       // MelSpectrogram: the power of 0 dB
  int64_t num_mfcc = 10;     // MFCC; zero gives the logarithms
  float log_offset = 1e-6f;  // MFCC: added before the logarithm
  bool htk = true;           // MFCC: if false, the mel scale of Slaney
  bool centered = true;      // MFCC: with reflected samples at both ends
  // STFTSpectrogram. Its sequence_length is Keras's frame_length, and its
  // sequence_stride frame_step (zero means half of a frame).
  SpectrogramMode spectrogram_mode = SpectrogramMode::kLog;
  WindowFunction window_function = WindowFunction::kHann;
  WindowScaling window_scaling = WindowScaling::kDensity;
  bool periodic = false;     // the value after the last would be the first
  bool expand_dims = false;  // y is (frames, frequencies, channels)

  // Internal.
  std::shared_ptr<const CustomLayer> custom;  // see custom_layer.h
  std::shared_ptr<const NestedModel> model;   // see Model::AsLayer
  // With go_backwards: output step t belongs to input step t.
  bool keeps_order = false;
  // Bit i is set if input i has a mask. The masks are further inputs, after the
  // layer's own.
  unsigned masked_inputs = 0;
  std::bitset<128> settings;  // the setters that were called
};

// --- the layers of Keras -----------------------------------------------------

// Images are (height, width, channels). Shapes do not include the batch.
//
//   Conv2D(32, 3, kRelu).Padding(kSame).KernelRegularizer(L2(1e-5f))

// "Dense", "Conv2D", "InputLayer", or a custom layer's own.
const char* ClassName(const Layer& layer);
Layer Input(const Shape& shape);
Layer Reshape(const Shape& target_shape);
Layer Flatten();
// y = activation(x W + b) over the last axis; W is (inputs, units).
Layer Dense(int64_t units, Activation activation = kLinear);
// Kernel (height, width, channels, filters).
Layer Conv2D(int64_t filters, int64_t kernel_size,
             Activation activation = kLinear);
Layer Conv2D(int64_t filters, int64_t kernel_height, int64_t kernel_width,
             Activation activation = kLinear);
// Input (steps, channels); kernel (steps, channels, filters).
Layer Conv1D(int64_t filters, int64_t kernel_size,
             Activation activation = kLinear);
// Windows over each channel. Kernel (height, width, channels,
// depth_multiplier); channel c gives outputs from c * depth_multiplier on.
Layer DepthwiseConv2D(int64_t kernel_size, Activation activation = kLinear);
Layer DepthwiseConv2D(int64_t kernel_height, int64_t kernel_width,
                      Activation activation = kLinear);
Layer DepthwiseConv1D(int64_t kernel_size, Activation activation = kLinear);
// A depthwise convolution, followed by filters over its channels.
Layer SeparableConv2D(int64_t filters, int64_t kernel_size,
                      Activation activation = kLinear);
Layer SeparableConv2D(int64_t filters, int64_t kernel_height,
                      int64_t kernel_width, Activation activation = kLinear);
Layer SeparableConv1D(int64_t filters, int64_t kernel_size,
                      Activation activation = kLinear);
// Each pixel adds the kernel, times its value, to a window of the output.
// Kernel (height, width, filters, channels).
Layer Conv2DTranspose(int64_t filters, int64_t kernel_size,
                      Activation activation = kLinear);
Layer Conv2DTranspose(int64_t filters, int64_t kernel_height,
                      int64_t kernel_width, Activation activation = kLinear);
Layer Conv1DTranspose(int64_t filters, int64_t kernel_size,
                      Activation activation = kLinear);
Layer ActivationLayer(Activation activation);
// min(x, max_value) above the threshold, negative_slope (x - threshold) below.
Layer ReLU(float max_value = std::numeric_limits<float>::infinity(),
           float negative_slope = 0, float threshold = 0);
Layer LeakyReLU(float negative_slope = 0.3f);  // x, or slope x below 0
Layer ELU(float alpha = 1);                    // x; below 0 alpha (exp(x) - 1)
Layer Sigmoid();
Layer Tanh();
Layer Softmax();  // over the last axis
// Over one axis or several neighbouring ones; 1 is the first after the batch.
Layer Softmax(const std::vector<int64_t>& axes);
// x, or alpha x below 0, with a trained alpha of the input's shape; its size is
// 1 on the shared axes, from 1.
Layer PReLU(const std::vector<int64_t>& shared_axes = {});
// Strides default to the pool size.
Layer MaxPooling2D(int64_t pool_size = 2);
Layer MaxPooling2D(int64_t pool_height, int64_t pool_width);
Layer MaxPooling1D(int64_t pool_size = 2);
// Padding pixels do not count in the average.
Layer AveragePooling2D(int64_t pool_size = 2);
Layer AveragePooling2D(int64_t pool_height, int64_t pool_width);
Layer AveragePooling1D(int64_t pool_size = 2);
// Each channel's mean: (channels), or (1, 1, channels) with KeepDims.
Layer GlobalAveragePooling2D();
Layer GlobalAveragePooling1D();
Layer GlobalMaxPooling2D();
Layer GlobalMaxPooling1D();
// Adds a border of zeros, or removes a border.
Layer ZeroPadding2D(int64_t padding = 1);
Layer ZeroPadding2D(int64_t top, int64_t bottom, int64_t left, int64_t right);
Layer ZeroPadding1D(int64_t padding = 1);
Layer ZeroPadding1D(int64_t before, int64_t after);
Layer Cropping2D(int64_t top, int64_t bottom, int64_t left, int64_t right);
Layer Cropping1D(int64_t before = 1, int64_t after = 1);
// Repeats each pixel `size` times in both directions (nearest).
Layer UpSampling2D(int64_t size = 2);
Layer UpSampling2D(int64_t height, int64_t width);
Layer UpSampling1D(int64_t size = 2);
// Axis i of the output is axis dims[i] of the input, counted from 1.
Layer Permute(const Shape& dims);
// Layers that act only in training. Otherwise the values pass unchanged.
//
// A fraction `rate` becomes 0, and the other values are divided by 1 - rate.
Layer Dropout(float rate);
// Dropout of whole channels of an example.
Layer SpatialDropout2D(float rate);
Layer SpatialDropout1D(float rate);
// Adds normal random numbers with this deviation, from 0 to 1.
Layer GaussianNoise(float stddev);
// Multiplies by normal numbers, mean 1, deviation sqrt(rate / (1 - rate)).
Layer GaussianDropout(float rate);
// Dropout after selu, which keeps mean and variance: a fraction becomes selu's
// least value, and then all values are scaled and shifted.
Layer AlphaDropout(float rate);
// Each image is changed by random numbers of its own.
Layer RandomFlip(FlipMode mode = FlipMode::kHorizontalAndVertical);
// Moves images down and to the right by fractions of height and width.
Layer RandomTranslation(const FloatRange& height_factor,
                        const FloatRange& width_factor);
// Rotates counterclockwise by a fraction of a full turn.
Layer RandomRotation(const FloatRange& factor);
// Makes the image smaller by a fraction of its size. A negative fraction makes
// it larger.
Layer RandomZoom(const FloatRange& height_factor,
                 const FloatRange& width_factor = FloatRange());
// (x - mean) c + mean for each channel, clipped to the value range, with a c
// from 1 - lower to 1 + upper. `lower` is at most 1.
Layer RandomContrast(float lower, float upper);
Layer RandomContrast(float factor);  // RandomContrast(factor, factor)
// Adds a fraction of the value range, and clips to it.
Layer RandomBrightness(const FloatRange& factor);
// A random part of this size in training. Otherwise, or if the image is
// smaller, CenterCrop.
Layer RandomCrop(int64_t height, int64_t width);
// The middle part of this size. A smaller image gives the largest part with
// this ratio, resized.
Layer CenterCrop(int64_t height, int64_t width);
Layer Resizing(int64_t height, int64_t width);
// gamma (x - mean) / sqrt(variance + epsilon) + beta for each channel. Training
// takes mean and variance of the examples of this replica, or with Synchronized
// of all replicas, and updates moving_mean and moving_variance: moving =
// momentum moving + (1 - momentum) batch. Evaluation and prediction use
// moving_mean and moving_variance, and so does a frozen layer.
Layer BatchNormalization(float momentum = 0.99f, float epsilon = 1e-3f);
// As BatchNormalization, with each example's own mean and variance, over the
// last axis or Axes.
Layer LayerNormalization(float epsilon = 1e-3f);
// As BatchNormalization, with the mean and variance of each example and each of
// `groups` groups of neighbouring channels; -1 makes each channel one (instance
// normalization).
Layer GroupNormalization(int64_t groups = 32, float epsilon = 1e-3f);
// x / sqrt(sum of x^2), over the last axis or Axes.
Layer UnitNormalization();
// x scale + offset: one number for all channels, or one for each.
Layer Rescaling(float scale, float offset = 0);
Layer Rescaling(const std::vector<float>& scale,
                const std::vector<float>& offset);
// (x - mean) / sqrt(variance), with one value for all channels or one for each.
Layer Normalization(const std::vector<float>& mean,
                    const std::vector<float>& variance);
// Model::Adapt or the first Fit computes them for each channel. The layer's
// input is an input of the model.
Layer Normalization();
// Inputs of one shape, or of shapes that NumPy broadcasts: (1, 1, channels) or
// (channels) to (height, width, channels).
Layer Add();
Layer Subtract();  // the first of two minus the second
Layer Multiply();
Layer Average();
Layer Maximum();  // if values are equal, the first gets the gradient
Layer Minimum();
Layer Concatenate();  // along the last axis
// The sums of products over an axis of two inputs of shape (features) or
// (steps, features). `axes` has one number for both inputs, or one for each
// input, counted from 1.
Layer Dot(const std::vector<int64_t>& axes, bool normalize = false);
// Over (steps, features). Each step computes the next state from its input and
// the present state: h, and for an LSTM also c. The first state is zeros, or is
// given by further inputs. The output is the last state (units), or all (steps,
// units) with ReturnSequences.
//
// h = activation(x W + h R + b).
Layer SimpleRNN(int64_t units, Activation activation = kTanh);
// Gates input, forget, cell, output: c = f c + i g, h = o activation(c).
Layer LSTM(int64_t units, Activation activation = kTanh,
           Activation recurrent_activation = kSigmoid);
// Gates update, reset, new: h = z h + (1 - z) n, with the update gate z and the
// new values n.
Layer GRU(int64_t units, Activation activation = kTanh,
          Activation recurrent_activation = kSigmoid);
// A tensor of a recurrent layer with ReturnState: 0 is the output, 1 the last
// h, and 2 an LSTM's last c. Add it directly after the layer, in order; its
// name is "lstm_output_1". A Bidirectional has the forward states first:
//
//   auto lstm = model.Add(LSTM(8).ReturnState(true), {x});
//   auto h = model.Add(RecurrentOutput(1), {lstm});
//   auto c = model.Add(RecurrentOutput(2), {lstm});
//   auto y = model.Add(LSTM(8).ReturnSequences(true), {z, h, c});
Layer RecurrentOutput(int64_t tensor);
// Over the steps in both directions, each with its own weights. With
// ReturnSequences both outputs have the input's order.
Layer Bidirectional(const Layer& layer, MergeMode merge_mode = kMergeConcat);
// `backward` goes backwards; both or none of them return sequences.
Layer Bidirectional(const Layer& forward, const Layer& backward,
                    MergeMode merge_mode = kMergeConcat);
// A layer, a Bidirectional or a model (Model::AsLayer) for each step.
Layer TimeDistributed(const Layer& layer);
Layer RepeatVector(int64_t n);  // (features) to (n, features)

// Layers that read sound. They have no weights to train, and no layer before
// them is trained. Keras's MelSpectrogram: (samples) to (num_mel_bins, frames).
// In Keras top_db is below the maximum of the batch, here below the maximum of
// the example.
Layer MelSpectrogram();
// (samples) to (frames, num_mfcc): mel-frequency cepstral coefficients as
// tf.signal.stft, linear_to_mel_weight_matrix and
// mfccs_from_log_mel_spectrograms, with the defaults of MLPerf Tiny's keyword
// spotting. With num_mfcc 0 (frames, num_mel_bins); for librosa's
// melspectrogram and power_to_db: centered, not htk, mag_exp 2, power_to_db,
// min_freq 0.
Layer MFCC();
// Keras's STFTSpectrogram, not trainable: (samples, channels) to (frames,
// channels * frequencies). Padding(kSame) adds zeros at both ends.
Layer STFTSpectrogram();
// Row x of a trained matrix (input_dim, output_dim) for a number x, rounded
// down. A number outside of [0, input_dim) is an error.
Layer Embedding(int64_t input_dim, int64_t output_dim);
// Masks steps (all axes but the last) that are all mask_value: they become
// zeros, and later layers leave them out. A masked step keeps a recurrent
// state, does not count in GlobalAveragePooling1D, and has no loss
// (docs/from-keras.md).
Layer Masking(float mask_value = 0);
// Row t of a trained matrix (sequence_length, features) for step t, as
// KerasHub. Only the input's shape (steps, features) matters.
Layer PositionEmbedding(int64_t sequence_length);
// Inputs are query (steps, size), value and key. Without a key the value is the
// key too. The output is the mean of the values, weighted by softmax(query
// key^T).
Layer Attention();
// Attention with the scores sum(scale tanh(query + key)).
Layer AdditiveAttention();
// Attention in `num_heads` projections of the inputs, with scores /
// sqrt(key_dim). The joined outputs are projected to the query's size.
Layer MultiHeadAttention(int64_t num_heads, int64_t key_dim);

}  // namespace ringlet

#endif  // RINGLET_LAYERS_H_
