// Which library multiplies matrices on the CPU. Torch-free.
//
// libtorch gives products of float32 to MKL, which has no AVX-512 kernels for processors of AMD:
// oneDNN, which libtorch has for convolutions, is about twice as fast there. On Intel's they are
// equal (pytorch/pytorch#91763).
#pragma once

namespace ddprun {

// An AMD processor with AVX-512, and a libtorch that has oneDNN.
bool OneDnnIsFaster();

// From then on oneDNN computes the large products of at::mm and at::addmm in this process,
// autograd's too. Sums may be in another order than MKL's. It keeps kernels and memory for each
// shape, hundreds of MB where shapes vary without end.
void MultiplyWithOneDnn();

}  // namespace ddprun
