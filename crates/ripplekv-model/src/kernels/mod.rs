//! Small CPU kernels that candle lacks, in explicit SIMD under `pulp`'s run-time dispatch; unsafe code only in [`product`].

mod attention;
mod exponential;
mod linear;
mod product;
mod swiglu;

pub(crate) use attention::{Seen, attend};
pub(crate) use linear::Linear;
pub(crate) use swiglu::swiglu;
