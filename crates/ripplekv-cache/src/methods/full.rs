//! Full: the whole cache, the reference of every comparison.

use super::MethodInfo;

pub(super) const INFO: MethodInfo = MethodInfo {
    name: "full",
    summary: "the whole cache, nothing evicted",
    source: "transformers DynamicCache",
    scorer: None,
    allocator: None,
};
