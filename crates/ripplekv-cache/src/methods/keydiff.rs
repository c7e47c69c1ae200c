//! KeyDiff: keys unlike the mean key direction, the same budget in every layer.

use super::MethodInfo;

pub(super) const INFO: MethodInfo = MethodInfo {
    name: "keydiff",
    summary: "keys unlike the mean key direction, uniform budgets",
    source: "arXiv 2504.15364; kvpress KeyDiffPress",
    scorer: Some("keydiff"),
    allocator: Some("uniform"),
};
