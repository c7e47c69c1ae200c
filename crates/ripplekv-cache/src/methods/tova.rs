//! TOVA: attention of the last prompt token, the same budget in every layer.

use super::MethodInfo;

pub(super) const INFO: MethodInfo = MethodInfo {
    name: "tova",
    summary: "attention of the last token, uniform budgets",
    source: "arXiv 2401.06104; kvpress TOVAPress",
    scorer: Some("tova"),
    allocator: Some("uniform"),
};
