//! SnapKV: window attention, the same budget in every layer.

use super::MethodInfo;

pub(super) const INFO: MethodInfo = MethodInfo {
    name: "snapkv",
    summary: "window attention, uniform budgets",
    source: "arXiv 2404.14469; kvpress SnapKVPress",
    scorer: Some("snapkv"),
    allocator: Some("uniform"),
};
