//! From everything read to cells with their samples: the last spec's cells, the last selection's samples.

use std::collections::{BTreeMap, BTreeSet};

use ripplekv_runner::cell::CellKey;

use super::cells::row_name;
use super::{CellSamples, Reader, Results, Sample};

impl Reader {
    pub(super) fn finish(mut self) -> Results {
        self.warn_of_conflicts();
        let mut samples: BTreeMap<CellKey, Vec<Sample>> = BTreeMap::new();
        for ((cell, id), stored) in std::mem::take(&mut self.records) {
            if stored.conflicting {
                continue;
            }
            let timing = self.timings.remove(&(cell.clone(), id));
            samples.entry(cell).or_default().push(Sample {
                record: stored.record,
                timing,
            });
        }
        for (key, cell) in &self.cells {
            let mixed = samples.get_mut(key).filter(|samples| {
                let hashes: BTreeSet<_> = samples
                    .iter()
                    .filter_map(|sample| sample.record.profile_hash.as_deref())
                    .collect();
                hashes.len() > 1
            });
            if let Some(samples) = mixed {
                samples.clear();
                self.warnings.push(format!(
                    "{} on {}: left out: its records were made with different contents of the profile, which are never mixed",
                    row_name(cell),
                    cell.task
                ));
            }
        }
        let mut cells = Vec::new();
        let mut earlier = 0_usize;
        let mut outside = 0_usize;
        for (key, cell) in std::mem::take(&mut self.cells) {
            let mut samples = samples.remove(&key).unwrap_or_default();
            if !self.all_current && !self.current.contains(&key) {
                earlier += usize::from(!samples.is_empty());
                continue;
            }
            let selected = self
                .selected
                .remove(&key)
                .filter(|_| !self.unlimited.contains(&key));
            if let Some(selected) = &selected {
                let stored = samples.len();
                samples.retain(|sample| selected.contains(&sample.record.sample));
                outside += stored - samples.len();
            }
            samples.sort_by(|left, right| {
                (left.record.index, &left.record.sample)
                    .cmp(&(right.record.index, &right.record.sample))
            });
            cells.push(CellSamples {
                cell,
                samples,
                selected,
            });
        }
        if outside > 0 {
            self.warn(format!(
                "{outside} stored records outside the last selection are left out"
            ));
        }
        if earlier > 0 {
            self.warn(format!(
                "{earlier} cells of earlier specs have records and are left out: the last run's spec does not name them"
            ));
        }
        let evidence = self.evidence.finish(&mut self.warnings);
        Results {
            cells,
            manifests: self.manifests,
            evidence,
            warnings: self.warnings,
        }
    }
}
