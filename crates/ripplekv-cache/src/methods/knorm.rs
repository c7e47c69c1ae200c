//! Knorm: keys of small norm, the same budget in every layer.

use super::MethodInfo;

pub(super) const INFO: MethodInfo = MethodInfo {
    name: "knorm",
    summary: "keys of small norm, uniform budgets",
    source: "arXiv 2406.11430; kvpress KnormPress",
    scorer: Some("knorm"),
    allocator: Some("uniform"),
};
