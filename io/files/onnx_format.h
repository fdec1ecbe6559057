// Numbers of the fields of an ONNX file (onnx.proto3) that are read or written
// here.

#ifndef RINGLET_IO_FILES_ONNX_FORMAT_H_
#define RINGLET_IO_FILES_ONNX_FORMAT_H_

namespace ringlet {
namespace onnx_format {

// ModelProto, OperatorSetIdProto, StringStringEntryProto
constexpr int kIrVersion = 1, kProducerName = 2, kProducerVersion = 3,
              kGraph = 7, kOpsetImport = 8, kMetadata = 14;
constexpr int kOpsetVersion = 2, kMetadataKey = 1, kMetadataValue = 2;
// GraphProto
constexpr int kNode = 1, kGraphName = 2, kInitializer = 5, kInput = 11,
              kOutput = 12;
// NodeProto
constexpr int kNodeInput = 1, kNodeOutput = 2, kNodeName = 3, kOpType = 4,
              kAttribute = 5;
// AttributeProto
constexpr int kAttributeName = 1, kFloat = 2, kInt = 3, kString = 4,
              kAttributeTensor = 5, kFloats = 7, kInts = 8, kStrings = 9,
              kAttributeType = 20;
// AttributeProto.AttributeType
enum AttributeType : int {
  kTypeFloat = 1,
  kTypeInt = 2,
  kTypeString = 3,
  kTypeFloats = 6,
  kTypeInts = 7,
  kTypeStrings = 8,
};
// TensorProto, and the types of its elements
constexpr int kDims = 1, kDataType = 2, kFloatData = 4, kInt32Data = 5,
              kTensorName = 8, kRawData = 9, kDoubleData = 10, kTensorDoc = 12,
              kExternalData = 13, kDataLocation = 14;
constexpr int kFloat32 = 1, kInt64 = 7, kFloat16 = 10, kFloat64 = 11,
              kBFloat16 = 16;
// ValueInfoProto, TypeProto, TypeProto.Tensor, TensorShapeProto.Dimension
constexpr int kValueName = 1, kValueType = 2, kTensorType = 1, kElemType = 1,
              kShape = 2, kDim = 1, kDimValue = 1, kDimParam = 2;

// Only in ringlet's files: the producer, and the mark of tensors with rows in
// the order of an image with channels first.
constexpr char kRinglet[] = "ringlet", kTransposedMark[] = "channels first";

}  // namespace onnx_format
}  // namespace ringlet

#endif  // RINGLET_IO_FILES_ONNX_FORMAT_H_
