#include "launch.h"

namespace pdl {
namespace {

constinit thread_local Recorder* own = nullptr;

}  // namespace

Recorder* recorder() { return own; }

void set_recorder(Recorder* recorder) { own = recorder; }

}  // namespace pdl
