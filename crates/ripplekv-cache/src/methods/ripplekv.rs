//! RippleKV: SnapKV's scores under budgets by the final output's sensitivity to each layer (arXiv 2608.08684).

use super::MethodInfo;

pub(super) const INFO: MethodInfo = MethodInfo {
    name: "ripplekv",
    summary: "snapkv scores, more entries where the final output is more sensitive",
    source: "arXiv 2608.08684",
    scorer: Some("snapkv"),
    allocator: Some("ripple"),
};
