// One array in numpy's format (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html): a .npy file, or a member of a .npz.
#pragma once

#include "source.h"

namespace norma::files {

// What the header says. The header is a Python dict; it is read by a parser for exactly the ones numpy writes, never evaluated.
struct NpyHeader {
  std::string descr;                  // as in the file, or "structured"
  char order = '|';                   // <, > or |
  char kind = 'V';                    // numpy's letter
  std::optional<std::uint64_t> size;  // bytes of an element; none for objects and structures, whose data is not looked at
  bool fortran_order = false;
  Shape shape;

  // The format of its elements, if Norma has it.
  [[nodiscard]] std::optional<Format> format() const;
  // The dtype, for `TensorFile::unreadable`.
  [[nodiscard]] std::string dtype() const;
};

Result<NpyHeader> read_npy_header(Source& source);

// All that remains, which must be what the header announces (of an element of known size), in C order and little-endian.
Result<Buffer> read_npy_data(Source& source, const NpyHeader& header);
// The same, thrown away.
Status skip_npy_data(Source& source, const NpyHeader& header);

// The bytes numpy.save writes.
void append_npy(Buffer& to, std::string_view descr, const Shape& shape, Bytes data);
// A tensor, if numpy has its format, or its bits will do.
Status append_npy(Buffer& to, const Tensor& tensor, Foreign foreign);

}  // namespace norma::files
