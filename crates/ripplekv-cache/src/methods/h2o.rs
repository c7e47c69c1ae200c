//! H2O: attention of the whole prompt, the same budget in every layer.

use super::MethodInfo;

pub(super) const INFO: MethodInfo = MethodInfo {
    name: "h2o",
    summary: "summed attention of all queries, uniform budgets",
    source: "arXiv 2306.14048; KVCache-Factory H2OKVCluster",
    scorer: Some("h2o"),
    allocator: Some("uniform"),
};
