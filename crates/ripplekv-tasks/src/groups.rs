//! Names a user may write for tasks: task names and the groups that expand to several.
//! Groups follow LongBench's categories and the 16-task selection of KV-cache papers.

use crate::table::TASKS;
use crate::task::{Category, Language, Suite, TaskInfo};

/// A name that stands for several tasks.
#[derive(Clone, Copy)]
pub struct TaskGroup {
    /// The name in specs.
    pub name: &'static str,
    /// One line of help.
    pub about: &'static str,
    member: fn(&TaskInfo) -> bool,
}

impl TaskGroup {
    /// Whether a task belongs to the group.
    pub fn contains(&self, task: &TaskInfo) -> bool {
        (self.member)(task)
    }

    /// The members in table order.
    pub fn tasks(&self) -> Vec<&'static TaskInfo> {
        TASKS.iter().filter(|task| self.contains(task)).collect()
    }
}

impl std::fmt::Debug for TaskGroup {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_tuple("TaskGroup")
            .field(&self.name)
            .finish()
    }
}

/// A category never takes in LongBench-E: those files lie beside LongBench's and repeat its tasks.
fn in_category(task: &TaskInfo, category: Category) -> bool {
    task.category == category && task.suite != Suite::LongBenchE
}

/// Every group, in the order they are listed to the user.
pub const GROUPS: &[TaskGroup] = &[
    TaskGroup {
        name: "single_doc_qa",
        about: "questions about one document",
        member: |task| in_category(task, Category::SingleDocQa),
    },
    TaskGroup {
        name: "multi_doc_qa",
        about: "questions about several documents",
        member: |task| in_category(task, Category::MultiDocQa),
    },
    TaskGroup {
        name: "summarization",
        about: "summaries",
        member: |task| in_category(task, Category::Summarization),
    },
    TaskGroup {
        name: "few_shot",
        about: "examples, then one more to answer",
        member: |task| in_category(task, Category::FewShot),
    },
    TaskGroup {
        name: "synthetic",
        about: "made-up retrieval and counting",
        member: |task| in_category(task, Category::Synthetic),
    },
    TaskGroup {
        name: "code",
        about: "the next line of a source file",
        member: |task| in_category(task, Category::Code),
    },
    TaskGroup {
        name: "english16",
        about: "the 16 English and code tasks that KV-cache papers average",
        member: |task| task.in_average,
    },
    TaskGroup {
        name: "all21",
        about: "all of LongBench",
        member: |task| task.suite == Suite::LongBench,
    },
    TaskGroup {
        name: "chinese5",
        about: "LongBench's five Chinese tasks",
        member: |task| task.suite == Suite::LongBench && task.language == Language::Zh,
    },
    TaskGroup {
        name: "longbench_e",
        about: "the 13 length-balanced tasks of LongBench-E",
        member: |task| task.suite == Suite::LongBenchE,
    },
    TaskGroup {
        name: "own6",
        about: "our own six tasks, one a category (quickstart, study and calibration packs)",
        member: |task| task.suite == Suite::Own,
    },
    TaskGroup {
        name: "all",
        about: "every task of the pack but LongBench-E",
        member: |task| task.suite != Suite::LongBenchE,
    },
];

/// A name that is neither a task nor a group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown task `{name}`\nhint: {}", hint(nearest.as_deref()))]
pub struct UnknownTask {
    /// What was written.
    pub name: String,
    /// The valid name that looks most like it, if any is near.
    pub nearest: Option<String>,
}

fn hint(nearest: Option<&str>) -> String {
    match nearest {
        Some(nearest) => format!("did you mean `{nearest}`? `ripplekv ls tasks` lists them all"),
        None => "`ripplekv ls tasks` lists all tasks and groups".to_owned(),
    }
}

impl UnknownTask {
    fn among(name: &str, with_groups: bool) -> Self {
        let groups = GROUPS.iter().map(|group| group.name);
        let valid = TASKS
            .iter()
            .map(|task| task.name)
            .chain(groups.filter(|_| with_groups));
        Self {
            name: name.to_owned(),
            nearest: nearest_name(name, valid).map(str::to_owned),
        }
    }
}

/// The valid name most like `name`, if one is near enough to be what was meant.
fn nearest_name<'a>(name: &str, valid: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const NEAR_ENOUGH: f64 = 0.75;
    let mut best: Option<(f64, &str)> = None;
    for candidate in valid {
        let likeness = strsim::jaro_winkler(&name.to_lowercase(), candidate);
        if likeness >= NEAR_ENOUGH && best.is_none_or(|(most, _)| likeness > most) {
            best = Some((likeness, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// The task of that name.
pub fn find_task(name: &str) -> Result<&'static TaskInfo, UnknownTask> {
    TASKS
        .iter()
        .find(|task| task.name == name)
        .ok_or_else(|| UnknownTask::among(name, false))
}

/// The group of that name, if it is one.
pub fn find_group(name: &str) -> Option<&'static TaskGroup> {
    GROUPS.iter().find(|group| group.name == name)
}

/// Task and group names to tasks: no task twice, in table order.
pub fn expand_tasks<S: AsRef<str>>(names: &[S]) -> Result<Vec<&'static TaskInfo>, UnknownTask> {
    let mut wanted = vec![false; TASKS.len()];
    for name in names {
        let name = name.as_ref();
        let group = find_group(name);
        if group.is_none() && find_task(name).is_err() {
            return Err(UnknownTask::among(name, true));
        }
        for (index, task) in TASKS.iter().enumerate() {
            wanted[index] |= task.name == name || group.is_some_and(|group| group.contains(task));
        }
    }
    Ok(TASKS
        .iter()
        .zip(wanted)
        .filter_map(|(task, wanted)| wanted.then_some(task))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(tasks: &[&TaskInfo]) -> Vec<&'static str> {
        tasks.iter().map(|task| task.name).collect()
    }

    #[test]
    fn groups_have_their_members() {
        let count = |name| find_group(name).unwrap().tasks().len();
        assert_eq!(count("english16"), 16);
        assert_eq!(count("all21"), 21);
        assert_eq!(count("chinese5"), 5);
        assert_eq!(count("longbench_e"), 13);
        assert_eq!(count("own6"), 6);
        assert_eq!(count("all"), 28);
        let categories = Category::ALL.map(|category| count(category.name()));
        assert_eq!(categories, [6, 5, 5, 5, 4, 3]);
    }

    #[test]
    fn no_group_is_named_like_a_task_and_no_two_alike() {
        let all: Vec<_> = GROUPS
            .iter()
            .map(|group| group.name)
            .chain(TASKS.iter().map(|task| task.name))
            .collect();
        let unique: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(unique.len(), all.len());
    }

    #[test]
    fn expansion_is_in_table_order_without_repeats() {
        let tasks = expand_tasks(&["lcc", "synthetic", "passage_count", "qasper"]).unwrap();
        assert_eq!(
            names(&tasks),
            [
                "qasper",
                "passage_count",
                "passage_retrieval_en",
                "passage_retrieval_zh",
                "lcc",
                "paragraph_find"
            ]
        );
        assert!(expand_tasks::<&str>(&[]).unwrap().is_empty());
    }

    #[test]
    fn a_misspelt_name_gets_the_nearest_one() {
        let error = expand_tasks(&["qasper", "hotpot_qa"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown task `hotpot_qa`\nhint: did you mean `hotpotqa`? `ripplekv ls tasks` lists them all"
        );
        let error = expand_tasks(&["fewshot"]).unwrap_err();
        assert_eq!(error.nearest.as_deref(), Some("few_shot"));
        // A group is no answer where a single task is wanted.
        assert_ne!(
            find_task("few_shott").unwrap_err().nearest.as_deref(),
            Some("few_shot")
        );
    }

    #[test]
    fn a_name_like_no_other_gets_the_list() {
        assert_eq!(
            expand_tasks(&["zzz"]).unwrap_err().to_string(),
            "unknown task `zzz`\nhint: `ripplekv ls tasks` lists all tasks and groups"
        );
    }
}
