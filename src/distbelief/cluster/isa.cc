#include "distbelief/cluster/isa.h"

#include "distbelief/base/error.h"

namespace distbelief::cluster {

std::string_view to_string(Isa isa) {
  switch (isa) {
    case Isa::kBaseline: return "baseline";
    case Isa::kAvx2: return "avx2";
    case Isa::kAvx512: return "avx512";
  }
  return "unknown";
}

Isa parse_isa(const std::string& name) {
  for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512})
    if (name == to_string(isa)) return isa;
  throw Error(ErrorCode::kBadInput, "unknown instruction set '" + name + "'; use baseline, avx2 or avx512");
}

Isa detect_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    return Isa::kAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Isa::kAvx2;
#endif
  return Isa::kBaseline;
}

std::vector<Variable> pinned_environment(Isa isa) {
  std::vector<Variable> variables = {{"OMP_NUM_THREADS", "1"},
                                     {"DISTBELIEF_ISA", std::string(to_string(isa))}};
#if defined(__x86_64__)
  switch (isa) {
    case Isa::kBaseline:
      variables.insert(variables.end(), {{"OPENBLAS_CORETYPE", "Prescott"},
                                         {"ONEDNN_MAX_CPU_ISA", "SSE41"},
                                         {"ATEN_CPU_CAPABILITY", "default"}});
      break;
    case Isa::kAvx2:
      variables.insert(variables.end(), {{"OPENBLAS_CORETYPE", "Haswell"},
                                         {"ONEDNN_MAX_CPU_ISA", "AVX2"},
                                         {"ATEN_CPU_CAPABILITY", "avx2"}});
      break;
    case Isa::kAvx512:
      // ATen 1.13 itself prefers its AVX2 kernels on such machines, because they do not lower the clock.
      variables.insert(variables.end(), {{"OPENBLAS_CORETYPE", "SkylakeX"},
                                         {"ONEDNN_MAX_CPU_ISA", "AVX512_CORE"},
                                         {"ATEN_CPU_CAPABILITY", "avx2"}});
      break;
  }
#endif
  return variables;
}

}  // namespace distbelief::cluster
