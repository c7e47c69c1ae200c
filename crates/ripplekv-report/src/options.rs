//! What the caller may choose. The task facts come from the caller because this room knows no task table
//! (`../../design.md` 3: report uses runner and metrics only).

/// What tables need to know of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskLabel {
    /// Name of the task, as in the records' folder.
    pub name: String,
    /// Category in tables, such as `single_doc_qa`.
    pub category: String,
    /// True for the sixteen tasks that KV-cache papers average.
    pub in_average: bool,
    /// Name of its metric, as in `ripplekv_metrics::METRICS`; decides what counts as correct and what chance scores.
    pub metric: String,
}

/// Options of a report.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportOptions {
    /// Known tasks in table order; a task that is not listed comes last, in the category `other`.
    pub tasks: Vec<TaskLabel>,
    /// Label of the method that differences are measured against; where `None`, `full`, and `snapkv` for a KL. A table
    /// that has no such method falls back to these and says so.
    pub baseline: Option<String>,
    /// Bootstrap resamples behind every interval.
    pub bootstrap_resamples: usize,
    /// Seed of the bootstrap; the same seed and records give the same report.
    pub seed: u64,
    /// Most prompts of each task that have an HTML page of their own, the worst first.
    pub prompt_pages: usize,
    /// Whether the main table shows the interval of every score, and not of the average alone.
    pub intervals: bool,
    /// Columns of the terminal; a wider main table leaves out its task columns.
    pub terminal_width: usize,
}

impl Default for ReportOptions {
    fn default() -> Self {
        ReportOptions {
            tasks: Vec::new(),
            baseline: None,
            bootstrap_resamples: 10_000,
            seed: 0,
            prompt_pages: 50,
            intervals: false,
            terminal_width: 120,
        }
    }
}

/// Category of tasks that the caller does not know.
pub(crate) const OTHER_CATEGORY: &str = "other";
