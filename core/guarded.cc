#include "guarded.h"

#include <exception>
#include <new>

namespace ringlet {
namespace {

// Of the exception being handled.
Status Thrown() {
  try {
    throw;
  } catch (const std::bad_alloc& e) {
    return ResourceExhausted("an exception: %s", e.what());
  } catch (const std::exception& e) {
    return Error(Code::kInternal, "an exception: %s", e.what());
  } catch (...) {
    return Error(Code::kInternal, "an exception that is no std::exception");
  }
}

}  // namespace

template <typename... Parameters>
Status Guarded(Callback* callback,
               Status (Callback::*method)(FitState&, Parameters...),
               FitState& fit, Parameters... parameters) {
  try {
    return (callback->*method)(fit, parameters...);
  } catch (...) {
    return Thrown();
  }
}
template Status Guarded(Callback*, Status (Callback::*)(FitState&), FitState&);
template Status Guarded(Callback*, Status (Callback::*)(FitState&, bool),
                        FitState&, bool);
template Status Guarded(Callback*, Status (Callback::*)(FitState&, Logs*),
                        FitState&, Logs*);
template Status Guarded(Callback*, Status (Callback::*)(FitState&, const Logs&),
                        FitState&, const Logs&);

Status GuardedFitReturn(Callback* callback, FitState& fit,
                        const Status& status) {
  try {
    callback->OnFitReturn(fit, status);
    return Status();
  } catch (...) {
    return Thrown();
  }
}

Status GuardedRead(Source* source, const int64_t* index, int count, void* x,
                   void* y) {
  try {
    return source->Read(index, count, x, y);
  } catch (...) {
    return Thrown().Annotate("%s", source->name().c_str());
  }
}

}  // namespace ringlet
