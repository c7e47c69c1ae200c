//! One side of a comparison, as the command line writes it: `FOLDER`, `FOLDER:METHOD` or `FOLDER:METHOD@BUDGET`.

use std::path::{Path, PathBuf};

use ripplekv_runner::cell::Query;

/// One side of a comparison: a results folder, and which of its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The results folder.
    pub folder: PathBuf,
    /// Label of a method; `None` takes every method.
    pub method: Option<String>,
    /// Budget; `None` takes every budget.
    pub budget: Option<String>,
}

impl Selection {
    /// Reads `FOLDER`, `FOLDER:METHOD` or `FOLDER:METHOD@BUDGET`, such as `results/quickstart:snapkv@10%`.
    pub fn parse(text: &str) -> Selection {
        // A drive letter or a folder with a colon is kept whole where it exists as it stands.
        let whole = PathBuf::from(text);
        if whole.is_dir() {
            return Selection {
                folder: whole,
                method: None,
                budget: None,
            };
        }
        let (folder, row) = match text.rsplit_once(':') {
            Some((folder, row)) => (folder, Some(row)),
            None => (text, None),
        };
        let (method, budget) = match row.and_then(|row| row.rsplit_once('@')) {
            Some((method, budget)) => (Some(method), Some(budget)),
            None => (row, None),
        };
        let filled = |part: Option<&str>| part.filter(|part| !part.is_empty()).map(str::to_owned);
        Selection {
            folder: PathBuf::from(folder),
            method: filled(method),
            budget: filled(budget),
        }
    }

    /// As [`Selection::parse`]; without a folder (`:snapkv`) it takes that of the other side.
    pub fn parse_beside(text: &str, other: &Path) -> Selection {
        let mut selection = Selection::parse(text);
        if selection.folder.as_os_str().is_empty() {
            selection.folder = other.to_owned();
        }
        selection
    }
}

impl std::fmt::Display for Selection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.folder.display())?;
        if self.method.is_some() || self.budget.is_some() {
            write!(formatter, ":{}", self.method.as_deref().unwrap_or_default())?;
        }
        if let Some(budget) = &self.budget {
            write!(formatter, "@{budget}")?;
        }
        Ok(())
    }
}

/// Which rows of both sides count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompareFilter {
    /// Budgets; empty takes all. Methods without a budget always pass.
    pub budgets: Vec<String>,
    /// Query mode; `None` takes both.
    pub query: Option<Query>,
}

impl CompareFilter {
    pub(super) fn passes(&self, budget: Option<&str>) -> bool {
        let Some(budget) = budget else {
            return true;
        };
        self.budgets.is_empty() || self.budgets.iter().any(|wanted| wanted == budget)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selections_read_as_they_print() {
        for text in [
            "results/a",
            "results/a:snapkv",
            "results/a:snapkv@10%",
            "results/a:@10%",
            "results/a:ripplekv(r=2,gamma=4)@512",
        ] {
            assert_eq!(Selection::parse(text).to_string(), text);
        }
        let selection = Selection::parse("results/a:snapkv@10%");
        assert_eq!(selection.folder, PathBuf::from("results/a"));
        assert_eq!(selection.method.as_deref(), Some("snapkv"));
        assert_eq!(selection.budget.as_deref(), Some("10%"));
    }

    #[test]
    fn the_second_side_may_leave_its_folder_out() {
        let selection = Selection::parse_beside(":snapkv@10%", Path::new("results/a"));
        assert_eq!(selection.to_string(), "results/a:snapkv@10%");
        let selection = Selection::parse_beside("results/b:snapkv", Path::new("results/a"));
        assert_eq!(selection.to_string(), "results/b:snapkv");
    }
}
