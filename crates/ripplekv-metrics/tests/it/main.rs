//! The crate against the reference packages' own results: committed fixtures made by
//! `tools/make_metric_fixtures.py`, and the shared LongBench predictions where they are there.

#[cfg(test)]
mod aggregates;
#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod python_text;
#[cfg(test)]
mod resampling;
#[cfg(test)]
mod segmentation;
#[cfg(test)]
mod shared;
#[cfg(test)]
mod statistics;
#[cfg(test)]
mod support;
