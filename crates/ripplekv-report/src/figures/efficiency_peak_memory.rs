//! Peak resident memory of the process while a cell runs, against prompt length.

use crate::figures::Figure;
use crate::figures::efficiency_lines::{self, Measure};
use crate::group::Group;
use crate::options::ReportOptions;

const MEASURE: Measure = Measure {
    title: "Peak memory",
    axis: "peak resident memory, MB",
    note: "Weights, the prefill and everything kept for decoding, and what the allocator holds back.",
    column: "peak_rss_megabytes",
    of: |cost| (cost.peak_rss_bytes > 0).then_some(cost.peak_rss_bytes as f64 / 1e6),
};

pub(super) fn build(group: &Group, _options: &ReportOptions) -> Vec<Figure> {
    efficiency_lines::build(group, &MEASURE)
}
