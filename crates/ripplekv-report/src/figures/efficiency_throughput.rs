//! Decoded tokens a second, against prompt length.

use crate::figures::Figure;
use crate::figures::efficiency_lines::{self, Measure};
use crate::group::Group;
use crate::options::ReportOptions;
use crate::summary::SampleCost;

const MEASURE: Measure = Measure {
    title: "Decoding speed",
    axis: "tokens/s",
    note: "Tokens after the first, which comes from the prefill, by the time of the decoding steps.",
    column: "tokens_per_second",
    of: SampleCost::decode_tokens_per_second,
};

pub(super) fn build(group: &Group, _options: &ReportOptions) -> Vec<Figure> {
    efficiency_lines::build(group, &MEASURE)
}
