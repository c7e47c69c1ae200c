//! Bytes of the compressed prompt cache, against prompt length.

use crate::figures::Figure;
use crate::figures::efficiency_lines::{self, Measure};
use crate::group::Group;
use crate::options::ReportOptions;

const MEASURE: Measure = Measure {
    title: "Prompt cache",
    axis: "keys and values kept, MB",
    note: "Measured on the tensors that are decoded from.",
    column: "cache_megabytes",
    of: |cost| Some(cost.cache_bytes as f64 / 1e6),
};

pub(super) fn build(group: &Group, _options: &ReportOptions) -> Vec<Figure> {
    efficiency_lines::build(group, &MEASURE)
}
