//! Small CPU kernels that candle lacks. Vectorised by the compiler under `pulp`'s run-time dispatch; no unsafe code.

mod exponential;
mod linear;
mod softmax;
mod swiglu;

pub(crate) use linear::Linear;
pub(crate) use softmax::CausalSoftmax;
pub(crate) use swiglu::swiglu;
