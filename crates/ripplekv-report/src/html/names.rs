//! File names of a group's pages: safe on every system, unique whatever cells, tasks and samples are called.

use std::collections::{BTreeMap, BTreeSet};

use ripplekv_runner::cell::CellKey;

use crate::files::slug;
use crate::group::Group;
use crate::html::Site;
use crate::html::rank::paged;
use crate::shown::TaskRows;

/// Most characters of a file name that come from data.
const LONGEST: usize = 80;

/// Names of the pages of one group, from the report's folder.
pub(super) struct GroupNames {
    /// The list of prompts.
    pub(super) list: String,
    cells: BTreeMap<CellKey, String>,
    prompts: BTreeMap<(String, String), String>,
}

impl GroupNames {
    pub(super) fn new(group: &Group, site: &Site<'_>) -> GroupNames {
        let mut used = BTreeSet::new();
        let mut cells = BTreeMap::new();
        for cell in group.ordered_cells() {
            let budget = cell.cell.budget.as_deref().unwrap_or_default();
            let name = format!("{} {} {budget}", cell.cell.task, cell.label);
            let file = unique(&format!("{}/cells", group.slug), &name, &mut used);
            cells.insert(cell.cell.key.clone(), file);
        }
        let mut prompts = BTreeMap::new();
        for task in &group.tasks {
            let rows = TaskRows::new(group, &task.name, site.results);
            for prompt in paged(&rows, site.options.prompt_pages) {
                let name = format!("{} {}", task.name, prompt.sample);
                let file = unique(&format!("{}/prompts", group.slug), &name, &mut used);
                prompts.insert((task.name.clone(), prompt.sample.to_owned()), file);
            }
        }
        GroupNames {
            list: format!("{}/prompts.html", group.slug),
            cells,
            prompts,
        }
    }

    /// Page of a cell of the group.
    pub(super) fn cell(&self, key: &CellKey) -> &str {
        self.cells.get(key).map_or("index.html", String::as_str)
    }

    /// Page of a prompt; the list of prompts where it has none.
    pub(super) fn prompt(&self, task: &str, sample: &str) -> &str {
        self.own_prompt(task, sample).unwrap_or(&self.list)
    }

    /// Page of a prompt, where it has one.
    pub(super) fn own_prompt(&self, task: &str, sample: &str) -> Option<&str> {
        let key = (task.to_owned(), sample.to_owned());
        self.prompts.get(&key).map(String::as_str)
    }
}

fn unique(folder: &str, name: &str, used: &mut BTreeSet<String>) -> String {
    let short: String = slug(name).chars().take(LONGEST).collect();
    let short = short.trim_end_matches(['-', '.']);
    let mut file = format!("{folder}/{short}.html");
    let mut number = 2;
    while !used.insert(file.clone()) {
        file = format!("{folder}/{short}-{number}.html");
        number += 1;
    }
    file
}
