//! Observed attention: mean attention of the queries that see an entry, the same budget in every layer.

use super::MethodInfo;

pub(super) const INFO: MethodInfo = MethodInfo {
    name: "observed-attention",
    summary: "mean attention of all queries, uniform budgets",
    source: "kvpress ObservedAttentionPress",
    scorer: Some("observed-attention"),
    allocator: Some("uniform"),
};
