// The smallest counterexamples that norma check found in the subjects that come with the program, and reports in docs/field_report.md.
#include "sources.h"

namespace norma::properties {

std::vector<Vector> found_vectors() {
  struct Found {
    const char* by;
    const char* line;
  };
  static constexpr Found table[] = {
      {"pytorch breaks flat_row_is_beta", "layer_norm f32 x=f32[1,1000]:4b7fffff*1000 epsilon=0x1.4f8b588e368f1p-17"},
      {"pytorch breaks bounded_output", "layer_norm f32 x=f32[1,1]:4e097a69 epsilon=0x1.4f8b588e368f1p-17"},
      {"pytorch breaks flat_row_is_beta", "layer_norm bf16 x=bf16[1,3]:4049*3 epsilon=0x1.4f8b588e368f1p-17"},
      {"pytorch breaks agrees_with_reference", "group_norm f32 x=f32[1,1,2]:53800000*2 beta=f32[1]:3f000000 epsilon=0x1p+0 groups=1"},
      {"onnxruntime breaks flat_row_is_beta", "batch_norm_training f32 x=f32[1,1,1]:52800000 beta=f32[1]:40000000 epsilon=0x1p+0"},
      {"onnxruntime breaks flat_row_is_beta", "instance_norm f32 x=f32[1,1,1]:52800000 beta=f32[1]:40000000 epsilon=0x1p+0"},
      {"pytorch breaks agrees_with_reference",
       "batch_norm_inference f32 x=f32[1,1,1,1]:3e1cc5ff mean=f32[1]:3e1ae49b variance=f32[1]:3f800000 epsilon=0x1p+0"},
      {"onnxruntime breaks agrees_with_reference",
       "batch_norm_inference f32 x=f32[1,1,1,1]:3e1cc5ff mean=f32[1]:3e1ae49b variance=f32[1]:3f000000 epsilon=0x1p+0"},
      {"onednn breaks strides_honoured", "layer_norm f32 x=f32[2,3]:3f800000,40000000,40800000,3f800000,40000000,40800000 epsilon=0x1p+0"},
      {"onednn breaks threads", "batch_norm_training f32 x=f32[1,1,2,2]:00000000,4e800000*2,4ec2017e epsilon=0x1p+0"},
      {"onednn breaks agrees_with_reference", "layer_norm f32 x=f32[1,2]:77000000,00000000 epsilon=0x1p+0"},
      {"pytorch breaks range", "layer_norm f32 x=f32[1,2]:60000000,00000000 epsilon=0x1p+0"},
      {"pytorch breaks empty_and_single", "instance_norm f32 x=f32[2,1,2]:00000000*4 beta=f32[1]:00000000 epsilon=0x1p+0 want=mean,y,rstd"},
      {"pytorch breaks epsilon_zero", "batch_norm_training f32 x=f32[1,1,2]:00000000*2 epsilon=0x0p+0"},
      {"onnxruntime breaks empty_and_single",
       "batch_norm_training f32 x=f32[2,2]:00000000*4 running_mean=f32[2]:3ecbef9f,bed0758f running_variance=f32[2]:40000000,3f000000 "
       "epsilon=0x1p+0 running_biased momentum_of_old want=running_mean,running_variance,y"},
      {"numpy breaks flat_row_finite", "layer_norm f16 x=f16[1,1]:0000 epsilon=0x1.19799812dea11p-40"},
      {"numpy breaks count_exact", "layer_norm f16 x=f16[1,120]:0000*96,5400*24 epsilon=0x1p+0"},
  };
  std::vector<Vector> all;
  for (const Found& found : table) all.push_back({*parse_case(found.line), found.by});
  return all;
}

}  // namespace norma::properties
