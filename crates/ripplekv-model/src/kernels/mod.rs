//! Small CPU kernels that candle lacks. Vectorised by the compiler under `pulp`'s run-time dispatch; no unsafe code.

mod softmax;

pub(crate) use softmax::CausalSoftmax;
