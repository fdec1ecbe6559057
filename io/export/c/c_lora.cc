// LoRA in a C file that trains: y = activation(x W + (s x A) B + b), as in
// core/layers/basic/lora.cc. Other files have the sum W + s A B as a constant.

#include "../../../core/base/text.h"
#include "../../../core/layers/basic/lora.h"
#include "c_model.h"

namespace ringlet {

bool CModel::IsLora(const Primitive& p) {
  return p.kind == Primitive::Kind::kMatMul && p.steps == 0 &&
         p.layer->lora_rank > 0;
}

const Variable* CModel::LoraMatrix(const Primitive& p, const char* name) const {
  return FindWeight(model_, *p.layer, std::string("lora_kernel_") + name);
}

// The numbers of x, of y and of x A in a row, and the rows.
std::string CModel::LoraNumbers() {
  const int64_t width = YShape().back();
  return Numbers({XShape().back(), width, p_->layer->lora_rank,
                  YShape().elements() / width});
}

std::string CModel::LoraKernel() {
  const Variable& w = *p_->kernel;
  return AddConstant({model_.weights() + w.offset, {}, w.size()});
}

void CModel::Lora() {
  helpers_.Add("lora");
  const int64_t rank = p_->layer->lora_rank;
  std::string& xa = lora_products_[index_];
  xa = "b" + std::to_string(slots_->AddBuffer(
                 XShape().elements() / XShape().back() * rank, index_,
                 IsTrained(*p_) ? slots_->GradientTime(index_) : index_));
  const std::string numbers = LoraNumbers();
  Call("lora(%s, %s, %s, %s, %s, %s, %s, %s, %s)", X().c_str(), Y().c_str(),
       xa.c_str(), LoraKernel().c_str(), Weight(LoraMatrix(*p_, "a")).c_str(),
       Weight(LoraMatrix(*p_, "b")).c_str(), Weight(p_->bias).c_str(),
       CNumber(LoraScale(*p_->layer)).c_str(), numbers.c_str());
  ApplyActivation(p_->activation);
}

void CModel::LoraGradient() {
  ApplySlope(p_->activation);
  helpers_.Add("lora_gradient");
  const int64_t rank = p_->layer->lora_rank, width = YShape().back(),
                rows = YShape().elements() / width;
  const Variable *const a = LoraMatrix(*p_, "a"), *const b =
                                                      LoraMatrix(*p_, "b");
  const int time = slots_->GradientTime(index_);
  const std::string d_xa =
      "b" + std::to_string(slots_->AddBuffer(rows * rank, time, time));
  const std::string numbers = LoraNumbers();
  Call("lora_gradient(%s, %s, %s, %s, %s, %s, %s, %s)", d_.c_str(),
       d_xa.c_str(), PassesGradient() ? dx_.c_str() : "0", LoraKernel().c_str(),
       Weight(a).c_str(), Weight(b).c_str(),
       CNumber(LoraScale(*p_->layer)).c_str(), numbers.c_str());
  RowGradient(a, X(), XShape().back(), d_xa, rank, kCBlock);
  RowGradient(b, lora_products_[index_], rank, d_, width, kCBlock);
  RowGradient(p_->bias, "0", 1, d_, width, INT32_MAX);
}

}  // namespace ringlet
