//! Budgets as tables and figures order and name them: percent of the prompt, tokens, or memory.
//! Canonical texts follow `../../design.md` 4 (`10%`, `512`, `64MiB`).

use std::cmp::Ordering;

/// Kind of a budget; kinds never share an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BudgetKind {
    /// Percent of the prompt's tokens.
    Percent,
    /// Tokens per layer and KV head.
    Tokens,
    /// Memory of the whole cache.
    Memory,
    /// A text this program does not know.
    Unknown,
}

impl BudgetKind {
    /// Title of an axis.
    pub(crate) fn axis_title(self) -> &'static str {
        match self {
            BudgetKind::Percent => "KV cache budget (% of the prompt's tokens)",
            BudgetKind::Tokens => "KV cache budget (tokens per layer and KV head)",
            BudgetKind::Memory => "KV cache budget (MiB)",
            BudgetKind::Unknown => "KV cache budget",
        }
    }
}

/// A budget that can be ordered and placed on an axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Budget {
    pub(crate) text: String,
    pub(crate) kind: BudgetKind,
    /// Percent, tokens or MiB.
    pub(crate) value: f64,
}

impl Budget {
    pub(crate) fn parse(text: &str) -> Budget {
        let (kind, number, factor) = if let Some(number) = text.strip_suffix('%') {
            (BudgetKind::Percent, number, 1.0)
        } else if let Some(number) = text.strip_suffix("GiB") {
            (BudgetKind::Memory, number, 1024.0)
        } else if let Some(number) = text.strip_suffix("MiB") {
            (BudgetKind::Memory, number, 1.0)
        } else if let Some(number) = text.strip_suffix("KiB") {
            (BudgetKind::Memory, number, 1.0 / 1024.0)
        } else {
            (BudgetKind::Tokens, text, 1.0)
        };
        match number.trim().parse::<f64>() {
            Ok(value) if value.is_finite() => Budget {
                text: text.to_owned(),
                kind,
                value: value * factor,
            },
            _ => Budget {
                text: text.to_owned(),
                kind: BudgetKind::Unknown,
                value: 0.0,
            },
        }
    }

    pub(crate) fn order(&self, other: &Budget) -> Ordering {
        self.kind
            .cmp(&other.kind)
            .then(self.value.total_cmp(&other.value))
            .then_with(|| self.text.cmp(&other.text))
    }

    /// Safe in a file name.
    pub(crate) fn file_part(&self) -> String {
        crate::files::slug(&self.text.replace('%', "pct"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_order_by_kind_then_size() {
        let mut budgets: Vec<Budget> = ["64MiB", "1024", "20%", "5%", "128", "1GiB", "odd", "2.5%"]
            .iter()
            .map(|text| Budget::parse(text))
            .collect();
        budgets.sort_by(Budget::order);
        let texts: Vec<&str> = budgets.iter().map(|budget| budget.text.as_str()).collect();
        assert_eq!(
            texts,
            ["2.5%", "5%", "20%", "128", "1024", "64MiB", "1GiB", "odd"]
        );
        assert_eq!(Budget::parse("2.5%").file_part(), "2.5pct");
    }
}
