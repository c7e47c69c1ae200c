//! PyramidKV: window attention, budgets that fall with depth.

use super::MethodInfo;

pub(super) const INFO: MethodInfo = MethodInfo {
    name: "pyramidkv",
    summary: "window attention, budgets that fall with depth",
    source: "arXiv 2406.02069; kvpress PyramidKVPress",
    scorer: Some("snapkv"),
    allocator: Some("pyramid"),
};
