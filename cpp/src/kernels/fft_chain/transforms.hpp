// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv3d/simd.hpp"
#include "kernels/fft_chain/tasks.hpp"

// Transforms of one line of a tile, in registers. A transform of 12 points is one of 3 x 4 points without twiddle factors (the
// prime factor algorithm of Good and Thomas): input 3 a + 4 b, frequency 9 k1 + 4 k2, modulo 12.
namespace floodtide::kernels::fft {
namespace {

constexpr float kHalfSqrt3 = 0.866025403784438646763723170752936183F;

constexpr int inputs_of(Inputs inputs) { return static_cast<int>(inputs == Inputs::windows ? kPoints : kTile); }
constexpr int input_of(int a, int b) { return (3 * a + 4 * b) % 12; }
constexpr int frequency_of(int k1, int k2) { return (9 * k1 + 4 * k2) % 12; }

/// Computes the transform of 12 complex points. With real and imaginary parts exchanged, in input and output, it is the inverse
/// transform without the factor 1/12.
template <class V>
FLOODTIDE_INLINE void transform12(const V (&in_re)[12], const V (&in_im)[12], V (&out_re)[12], V (&out_im)[12]) {
  V re[3][4], im[3][4];
#pragma GCC unroll 4
  for (int a = 0; a < 4; ++a) {
    const V sum_re = in_re[input_of(a, 1)] + in_re[input_of(a, 2)], sum_im = in_im[input_of(a, 1)] + in_im[input_of(a, 2)];
    const V turn_re = kHalfSqrt3 * (in_re[input_of(a, 1)] - in_re[input_of(a, 2)]);
    const V turn_im = kHalfSqrt3 * (in_im[input_of(a, 1)] - in_im[input_of(a, 2)]);
    const V middle_re = in_re[3 * a] - 0.5F * sum_re, middle_im = in_im[3 * a] - 0.5F * sum_im;
    re[0][a] = in_re[3 * a] + sum_re;
    im[0][a] = in_im[3 * a] + sum_im;
    re[1][a] = middle_re + turn_im;
    im[1][a] = middle_im - turn_re;
    re[2][a] = middle_re - turn_im;
    im[2][a] = middle_im + turn_re;
  }
#pragma GCC unroll 3
  for (int k2 = 0; k2 < 3; ++k2) {
    const V even_re = re[k2][0] + re[k2][2], even_im = im[k2][0] + im[k2][2];
    const V odd_re = re[k2][1] + re[k2][3], odd_im = im[k2][1] + im[k2][3];
    const V rest_re = re[k2][0] - re[k2][2], rest_im = im[k2][0] - im[k2][2];
    const V turn_re = re[k2][1] - re[k2][3], turn_im = im[k2][1] - im[k2][3];
    out_re[frequency_of(0, k2)] = even_re + odd_re;
    out_im[frequency_of(0, k2)] = even_im + odd_im;
    out_re[frequency_of(2, k2)] = even_re - odd_re;
    out_im[frequency_of(2, k2)] = even_im - odd_im;
    out_re[frequency_of(1, k2)] = rest_re + turn_im;
    out_im[frequency_of(1, k2)] = rest_im - turn_re;
    out_re[frequency_of(3, k2)] = rest_re - turn_im;
    out_im[frequency_of(3, k2)] = rest_im + turn_re;
  }
}

/// A vector of complex numbers.
template <class V>
struct Complex {
  V re, im;
};

/// Transforms 13 complex inputs to 13 points. read(n) returns a Complex, write(point, Complex) takes a result.
template <class V, Inputs inputs, class Read, class Write>
FLOODTIDE_INLINE void forward_complex(Read read, Write write) {
  V re[12], im[12], out_re[12], out_im[12];
#pragma GCC unroll 12
  for (int n = 0; n < 12; ++n) {
    const Complex<V> value = n < inputs_of(inputs) ? read(n) : Complex<V>{};
    re[n] = value.re;
    im[n] = value.im;
  }
  if constexpr (inputs == Inputs::windows) {
    const Complex<V> last = read(12);
    write(kInfinity, Complex<V>{last.re - re[0], last.im - im[0]});
  } else {
    write(kInfinity, Complex<V>{re[10], im[10]});
  }
  transform12(re, im, out_re, out_im);
#pragma GCC unroll 12
  for (int k = 0; k < 12; ++k) write(k, Complex<V>{out_re[k], out_im[k]});
}

/// Transforms 13 points to 11 complex outputs. The products contain the factor 1/12.
template <class V, class Read, class Write>
FLOODTIDE_INLINE void inverse_complex(Read read, Write write) {
  V re[12], im[12], out_re[12], out_im[12];
#pragma GCC unroll 12
  for (int k = 0; k < 12; ++k) {
    const Complex<V> value = read(k);
    re[k] = value.re;
    im[k] = value.im;
  }
  transform12(im, re, out_im, out_re);
#pragma GCC unroll 10
  for (int n = 0; n < 10; ++n) write(n, Complex<V>{out_re[n], out_im[n]});
  const Complex<V> infinity = read(kInfinity);
  write(10, Complex<V>{out_re[10] + infinity.re, out_im[10] + infinity.im});
}

/// Transforms 13 real inputs. Calls write_real(index in kRealFrequencies, value) and write_complex(index in
/// kComplexFrequencies, imaginary, value).
template <class V, Inputs inputs, class Read, class WriteReal, class WriteComplex>
FLOODTIDE_INLINE void forward_real(Read read, WriteReal write_real, WriteComplex write_complex) {
  V first[4], re[4], im[4];
#pragma GCC unroll 4
  for (int a = 0; a < 4; ++a) {
    const V one = read(3 * a), two = read(input_of(a, 1));
    const V three = input_of(a, 2) < inputs_of(inputs) ? read(input_of(a, 2)) : V{};
    const V sum = two + three;
    if (a == 0) write_real(2, inputs == Inputs::windows ? read(12) - one : read(10));
    first[a] = one + sum;
    re[a] = one - 0.5F * sum;
    im[a] = kHalfSqrt3 * (three - two);
  }
  const V even = first[0] + first[2], odd = first[1] + first[3];
  write_real(0, even + odd);
  write_real(1, even - odd);
  write_complex(4, 0, first[0] - first[2]);
  write_complex(4, 1, first[3] - first[1]);
  const V even_re = re[0] + re[2], even_im = im[0] + im[2], odd_re = re[1] + re[3], odd_im = im[1] + im[3];
  const V rest_re = re[0] - re[2], rest_im = im[0] - im[2], turn_re = re[1] - re[3], turn_im = im[1] - im[3];
  write_complex(0, 0, even_re + odd_re);
  write_complex(0, 1, even_im + odd_im);
  write_complex(2, 0, even_re - odd_re);
  write_complex(2, 1, even_im - odd_im);
  write_complex(1, 0, rest_re + turn_im);
  write_complex(1, 1, rest_im - turn_re);
  write_complex(3, 0, rest_re - turn_im);
  write_complex(3, 1, rest_im + turn_re);
}

/// Transforms the points of a real line to 11 real outputs. The products contain the factor 1/12, and 2 for complex
/// frequencies.
template <class V, class ReadReal, class ReadComplex, class Write>
FLOODTIDE_INLINE void inverse_real(ReadReal read_real, ReadComplex read_complex, Write write) {
  const V zero = read_real(0), six = read_real(1), nine_re = read_complex(4, 0), nine_im = read_complex(4, 1);
  const V even = zero + six, odd = zero - six;
  // Frequency 9 is k1 = 1, and the factor of input a is i to the power a.
  const V first[4] = {even + nine_re, odd - nine_im, even - nine_re, odd + nine_im};
  const V zero_re = read_complex(0, 0) + read_complex(2, 0), zero_im = read_complex(0, 1) + read_complex(2, 1);
  const V two_re = read_complex(0, 0) - read_complex(2, 0), two_im = read_complex(0, 1) - read_complex(2, 1);
  const V sum_re = read_complex(1, 0) + read_complex(3, 0), sum_im = read_complex(1, 1) + read_complex(3, 1);
  const V turn_re = read_complex(1, 0) - read_complex(3, 0), turn_im = read_complex(1, 1) - read_complex(3, 1);
  const V re[4] = {zero_re + sum_re, two_re - turn_im, zero_re - sum_re, two_re + turn_im};
  const V im[4] = {zero_im + sum_im, two_im + turn_re, zero_im - sum_im, two_im - turn_re};
#pragma GCC unroll 4
  for (int a = 0; a < 4; ++a) {
    const V middle = first[a] - 0.5F * re[a], turn = kHalfSqrt3 * im[a];
    const V results[3] = {first[a] + re[a], middle - turn, middle + turn};
#pragma GCC unroll 3
    for (int b = 0; b < 3; ++b) {
      const int n = input_of(a, b);
      if (n < 10) write(n, results[b]);
      if (n == 10) write(n, results[b] + read_real(2));
    }
  }
}

}  // namespace
}  // namespace floodtide::kernels::fft
