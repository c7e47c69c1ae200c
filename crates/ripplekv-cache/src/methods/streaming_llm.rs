//! StreamingLLM: sinks and the latest tokens, the same budget in every layer.

use super::MethodInfo;

pub(super) const INFO: MethodInfo = MethodInfo {
    name: "streaming-llm",
    summary: "sinks and the latest tokens, uniform budgets",
    source: "arXiv 2309.17453; kvpress StreamingLLMPress",
    scorer: Some("streaming-llm"),
    allocator: Some("uniform"),
};
